"""The inputs of `simaccel explore`: accelerators, workloads, axes and limits."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from simaccel.cli.experiment_options import (
    accelerator_paths,
    read_accelerator,
    read_dataflows,
    warn_of_unused_fields,
)
from simaccel.cli.search_options import SearchOptions
from simaccel.cli.settings import fault, take_fields
from simaccel.cli.several_runs import SeveralRuns
from simaccel.cli.workload_options import WorkloadOptions
from simaccel.errors import InputError, gather, require_none, suggest

if TYPE_CHECKING:
    from simaccel.hardware import Accelerator
    from simaccel.schedulers import Options
    from simaccel.study.figure_table import FigureLimit
    from simaccel.study.space import DesignSpace, Settings
    from simaccel.workload import Workload

MOST_DESIGNS: Final = 100_000
"""Most designs without --sample; more are probably a mistake."""


@dataclass(frozen=True)
class WantedSpace:
    """The options that describe a design space, as text."""

    hw: tuple[str, ...]
    overrides: tuple[str, ...]
    workloads: tuple[str, ...]
    sizes: WorkloadOptions
    axes: tuple[str, ...]
    dataflow: str | None
    pipeline: bool
    search: SearchOptions
    counts: dict[str, int | None]
    objective: str
    where: tuple[str, ...]

    @classmethod
    def take_options(cls, given: dict[str, Any]) -> WantedSpace:
        """Remove the options of a design space from ``given``, click's values; return them."""
        names = ("hw", "overrides", "workloads", "axes", "dataflow", "pipeline", "objective")
        others = {name: given.pop(name) for name in names}
        search = take_fields(SearchOptions, given)
        where = (*given.pop("where"), *given.pop("limits"))
        sizes = given.pop("options").for_experts(search.expert_parallel, others["axes"])
        counts = take_fields(SeveralRuns, given).counts
        return cls(**others, sizes=sizes, search=search, counts=counts, where=where)

    def accelerators(self) -> tuple[Accelerator, ...]:
        """Return the accelerators, with overrides of their fields; refuse two of one name."""
        every: list[Accelerator] = gather(
            *(partial(read_accelerator, name, self.overrides) for name in self.hw)
        )
        known = [accelerator.name for accelerator in every]
        repeated = [name for at, name in enumerate(known) if name in known[:at]]
        require_none(fault("--hw", name, "accelerators of different names") for name in repeated)
        return tuple(every)

    def read(self) -> list[Any]:
        """Return the accelerators, axes and dataflows, and the texts of the workloads."""
        inputs = gather(
            self.accelerators,
            partial(_axes, self.axes),
            self._dataflows,
            self.search.require_constraints,
            *(partial(read_load, text, self.sizes) for text in self.workloads),
        )
        return [*inputs[:3], inputs[4:]]

    def space(
        self,
        hardware: tuple[Accelerator, ...],
        axes: tuple[Settings, ...],
        dataflows: tuple[str, ...],
        texts: Sequence[Any],
    ) -> DesignSpace:
        """Return the design space of what `read` returned."""
        from simaccel.cli.sweep import require_once
        from simaccel.study.points import WeightedWorkload
        from simaccel.study.space import DesignSpace, require_sizes

        loads = [WeightedWorkload(*text) for text in texts]
        options = {**vars(self.sizes), **vars(self.search), **self.counts}
        options |= {"dataflow": self.dataflow, "pipeline": self.pipeline}
        options |= {"pipeline_parallel": options.pop("stages")}
        gather(
            partial(require_sizes, "--axis", axes, loads),
            partial(require_once, "--axis", self.axes, options, self.overrides, self.workloads),
        )
        if not any(
            text.partition("=")[0].endswith((".model", "dram", "chips")) for text in self.axes
        ):
            warn_of_unused_fields([*self.overrides, *self.axes], hardware)
        return DesignSpace(hardware, tuple(loads), axes, dataflows, self._options(), **self.counts)

    def limits(self) -> tuple[FigureLimit, ...]:
        """Return the limits of figures."""
        from simaccel.study.figure_table import read_limit

        return tuple(gather(*(partial(read_limit, text) for text in self.where)))

    def inputs(self) -> list[Path]:
        """Return the input files, which no output may replace."""
        words = [text.split()[:1] for text in self.workloads]
        files = [Path(one) for (one,) in words if Path(one).is_file()]
        return [*files, *accelerator_paths(*self.hw)]

    def _options(self) -> Options:
        from simaccel.study.figures import searched_objective

        search = replace(self.search, objective=searched_objective(self.objective))
        return search.options(pipeline=self.pipeline)

    def _dataflows(self) -> tuple[str, ...]:
        dataflows, mapspaces = gather(
            lambda: read_dataflows(self.dataflow.split(",") if self.dataflow else []),
            lambda: self.search.strategies(()),
        )
        return (*dataflows, *mapspaces)


def _axes(texts: Sequence[str]) -> tuple[Settings, ...]:
    if not texts:
        return ()
    from simaccel.study.parameters import read_axis

    read = partial(read_axis, "--axis", most=MOST_DESIGNS)
    return tuple(gather(*(partial(read, text) for text in texts)))


def read_load(text: str, sizes: WorkloadOptions) -> tuple[Workload, float]:
    """Return the workload and weight of ``NAME [OPTION=VALUE ...]``.

    Raises:
        InputError: the text has another form, or an option or value is wrong.
    """
    try:
        name, *words = shlex.split(text)
    except ValueError as error:
        raise InputError([fault("--workload", text, f"NAME OPTION=VALUE ...: {error}")]) from None
    known = {field.name.replace("_", "-"): field.name for field in fields(WorkloadOptions)[1:-2]}
    known |= {"weight": "weight", "dim": "dims"}
    options: dict[str, Any] = {}
    for word in words:
        option, equals, value = word.partition("=")
        if not equals or option not in known:
            allowed = f"OPTION=VALUE after {name}; {suggest(option, known)}"
            raise InputError([fault("--workload", word, allowed)])
        field = known[option]
        many = isinstance(getattr(sizes, field, None), tuple)
        options[field] = (*options.get(field, ()), value) if many else value
    weight = _weight(options.pop("weight", "1"))
    return replace(sizes, name=name, **options).read(), weight


def _weight(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 10**12:
        raise InputError([fault("--workload weight", text, "a number above 0 and below 10^12")])
    return int(value) if value == int(value) else value
