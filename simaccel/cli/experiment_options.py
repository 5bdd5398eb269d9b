"""The options of an experiment, and the objects that they describe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import click

from simaccel.cli.choices import DIRECTIVES, STATIONARITIES, STRATEGIES
from simaccel.cli.search_options import SearchOptions
from simaccel.cli.settings import fault, listed_values
from simaccel.cli.workload_options import WorkloadOptions
from simaccel.dataflows import COMPARED, DATAFLOWS, DEPLOYED, SEARCHING
from simaccel.errors import InputError, require_none
from simaccel.plugins import plugins

if TYPE_CHECKING:
    from simaccel.hardware import Accelerator
    from simaccel.hardware.dataflow import Constraints
    from simaccel.mapping.tree import Mapping
    from simaccel.schedulers import Options
    from simaccel.search.effort import Objective, Strategy
    from simaccel.workload import Workload

    Inputs = tuple[Workload, Accelerator, str | Mapping]
    """The inputs of an experiment; the last is a dataflow's name or a mapping."""
    NestInputs = tuple[Workload, Accelerator, Strategy, Constraints]
    """The inputs of the search of a mapspace."""

DATAFLOW = "flat"
"""The default dataflow."""


@dataclass(frozen=True)
class ExperimentOptions:
    """The options that choose an experiment."""

    hw: str
    overrides: tuple[str, ...]
    workload: WorkloadOptions
    dataflow: str | None = None
    pipeline: bool = False
    mapping: str | None = None
    allow_overflow: bool = False
    search: SearchOptions = field(default_factory=SearchOptions)

    @property
    def options(self) -> Options:
        """Options of the scheduler."""
        return self.search.options(pipeline=self.pipeline, allow_overflow=self.allow_overflow)

    @property
    def objective(self) -> Objective:
        """The objective of the search; mapspaces have another default than dataflows."""
        from simaccel.schedulers import settle_options

        options = settle_options(self.options, self.accelerator())
        return options.effort.aim if self.searches() else options.objective

    def accelerator(self) -> Accelerator:
        """Load the accelerator, once."""
        return self._accelerator

    @cached_property
    def _accelerator(self) -> Accelerator:
        allowed = self.workload.allow_unmodelled
        found = read_accelerator(self.hw, self.overrides, allow_unmodelled=allowed)
        if not (self.workload.precision or self.workload.bytes_per_element):
            warn_of_default_formats(found, self.hw)
        return found

    def inputs(self) -> list[Path]:
        """Return the files that are read, which no output may replace."""
        files = [self.mapping] if self.mapping else []
        files += [self.workload.name] if self.workload.is_file() else []
        return [*map(Path, files), *accelerator_paths(self.hw)]

    def read(self) -> Inputs:
        """Return the workload, the accelerator, and the name of a scheduler or a mapping.

        Raises:
            InputError: the faults of all of them together.
            NotThisWorkloadError: the mapping is for another workload.
        """
        from simaccel.study.placement import compile_for, gather_placed

        workload, accelerator, name = gather_placed(
            self.workload.read, self.accelerator, lambda: self.names(several=False)[0]
        )
        if self.overrides:
            warn_of_unused_fields(self.overrides, [accelerator])
        if self.mapping is None:
            dataflow = self.choose_dataflow(name, workload, accelerator)
            return compile_for(workload, accelerator, dataflow, self.options), accelerator, dataflow
        from simaccel.mapping.checks import require_mapping
        from simaccel.mapping.files import load_mapping

        mapping = load_mapping(
            Path(self.mapping), workload, lambda made: compile_for(workload, accelerator, made)
        )
        workload = compile_for(workload, accelerator, mapping)
        require_mapping(workload, mapping, accelerator, self.mapping)
        return workload, accelerator, mapping

    def choose_dataflow(self, name: str, workload: Workload, accelerator: Accelerator) -> str:
        """Return the dataflow that the user names, else the default of the workload."""
        if not self.is_default:
            return name
        from simaccel.schedulers import default_dataflow

        return default_dataflow(accelerator, workload)

    @property
    def is_default(self) -> bool:
        """Whether a systolic array runs the default dataflow of the workload."""
        return self.names_nothing and not self.is_spatial()

    def described_reason(self) -> str:
        """Return how the file's own directives run, if it has some and a search is the default."""
        from simaccel.importers.workloads import kind_of_file

        if not self.names_nothing or kind_of_file(self.workload.name) != "description":
            return ""
        return f" (default: searched; --dataflow {DIRECTIVES} runs those of the file)"

    @property
    def names_nothing(self) -> bool:
        """Whether neither a dataflow, a mapspace nor a mapping is given."""
        return self.dataflow is None and self.mapping is None and self.search.mapspace is None

    def read_mapping(self) -> tuple[Workload, Accelerator, Mapping]:
        """Return the workload, the accelerator, and the mapping: the given one or a scheduler's."""
        workload, accelerator, dataflow = self.read()
        if isinstance(dataflow, str):
            from simaccel.study.scheduling import schedule_workload

            dataflow = schedule_workload(workload, accelerator, dataflow, self.options)
        return workload, accelerator, dataflow

    def names(self, *, several: bool) -> list[str]:
        """Return the names of the schedulers: dataflows or mapspaces; one unless ``several``.

        Raises:
            InputError: an unknown name, or an option that these schedulers don't take.
        """
        if self.search.constraints:
            self.search.require_constraints()
        if self.searches():
            beside = several and self.search.mapspace is not None
            beside = beside and (self._is_plugged() or not self.is_spatial())
            self._refuse_dataflow(beside=beside)
            first = self._dataflows(several=True) if beside and self.dataflow else []
            search = self.search
            strategies = search.strategies(STRATEGIES) if several else [search.strategy()]
            return [*read_dataflows(first), *strategies]
        if self.search.constraints:
            from simaccel.hardware.dataflow import tree_constraints

            tree_constraints(self.search.constraints)
        names = read_dataflows(self._dataflows(several=several))
        options = dict(self.search.given_options())
        ends = ["--patience", "--budget-seconds", "--within"]
        ends += ["--objective"] * ({*names} == {DEPLOYED})  # others take it beside `deployed`
        if ending := {option: options[option] for option in ends if option in options}:
            _refuse_unsearched(names, ending)
        if "--seed" in options and all(name in DATAFLOWS for name in names):
            allowed = "nothing without --mapspace: no dataflow searches at random"
            require_none([fault("--seed", options["--seed"], allowed)])
        return names

    def _dataflows(self, *, several: bool) -> list[str]:
        if self.dataflow is None:
            return [*COMPARED] if several else [DATAFLOW]
        names = self.dataflow.split(",") if several else [self.dataflow]
        return [name.strip() for name in names]

    def require_search(self, given: dict[str, object]) -> None:
        """Refuse options on the report of a search (``given``: values) if nothing is searched."""
        if self.mapping is None and not self.searches():
            _refuse_unsearched(self._dataflows(several=False), given)

    def searches(self) -> bool:
        """Return whether a mapspace is searched: if one is given, and on spatial arrays."""
        if self.mapping is not None:
            return False
        if self.search.mapspace is not None:
            return True
        return self.is_spatial() and not self._is_plugged()

    def _is_plugged(self) -> bool:
        """Return whether all dataflows are those of plug-ins, which may take spatial arrays."""
        plugged = {*dataflow_names()} - {*DATAFLOWS}
        return self.dataflow is not None and plugged.issuperset(self._dataflows(several=True))

    def is_spatial(self) -> bool:
        """Return whether the accelerator has a spatial array; False if it can't be read."""
        from simaccel.hardware.spatial import SpatialArraySpec

        try:
            return isinstance(self.accelerator().array, SpatialArraySpec)
        except InputError:
            return False

    def _refuse_dataflow(self, *, beside: bool) -> None:
        """Refuse dataflows if a mapspace is searched, unless both are allowed (``beside``)."""
        allowed = "nothing if a mapspace is searched (--mapspace, and on spatial arrays)"
        given = {
            "--dataflow": None if beside else self.dataflow,
            "--pipeline": self.pipeline or None,
        }
        if self.is_spatial():
            given["--stationarity"] = self.search.stationarity
        require_none(fault(o, v, allowed) for o, v in given.items() if v is not None)


def _refuse_unsearched(names: Sequence[str], given: dict[str, object]) -> None:
    if any(name in SEARCHING or name not in DATAFLOWS for name in names):
        return
    allowed = f"nothing with --dataflow {','.join(names)}, which searches nothing; these search: "
    allowed += ", ".join(SEARCHING)
    require_none(fault(option, value, allowed) for option, value in given.items())


def dataflow_names() -> list[str]:
    """Return the names of the dataflows: simaccel's own, then those of plug-ins."""
    return [*DATAFLOWS, *(name for name in plugins("simaccel.dataflows") if name not in DATAFLOWS)]


def read_dataflows(names: Sequence[str]) -> list[str]:
    """Return names of dataflows; refuse others, and those that are given twice."""
    held = "a dataflow; what the array holds is said by --stationarity"
    hints = {name: f"{held}={name}" for name in STATIONARITIES}
    hints |= {name: f"a dataflow; a mapspace is said by --mapspace={name}" for name in STRATEGIES}
    own = {*DATAFLOWS}.issuperset(names)  # looking for plug-ins takes time
    return listed_values("--dataflow", names, DATAFLOWS if own else dataflow_names(), hints)


def accelerator_paths(*names: str) -> list[Path]:
    """Return the files of accelerators."""
    from simaccel.importers.accelerators import accelerator_path

    paths = []
    for name in names:
        with suppress(InputError):  # which reading the accelerator reports
            paths.append(accelerator_path(name))
    return paths


def read_accelerator(
    name: str, overrides: Sequence[str] = (), *, allow_unmodelled: bool = False
) -> Accelerator:
    """Load an accelerator; refuse one with parts that aren't modelled, unless this is allowed."""
    from simaccel.importers.accelerators import load_accelerator

    accelerator = load_accelerator(name, overrides, allow_unmodelled=allow_unmodelled)
    accelerator.account.require_modelled()
    return accelerator


def warn_of_default_formats(accelerator: Accelerator, name: str) -> None:
    """Warn once about a user's accelerator without default number formats."""
    from simaccel.hardware.presets import accelerator_files

    context = click.get_current_context(silent=True)
    if context is None or accelerator.precision.by_class or name in accelerator_files():
        return
    warned = context.meta.setdefault("simaccel.asked_for_precision", set())
    if name not in warned:
        warned.add(name)
        click.echo(
            f"warning: {name}: precision: got nothing; elements have 2 bytes where the workload "
            "doesn't say it: add a line such as precision: {weights: int8, activations: int8, "
            "cache: int8}, or ask for --precision",
            err=True,
        )


def warn_of_unused_fields(texts: Iterable[str], accelerators: Sequence[Accelerator]) -> None:
    """Warn of fields that were set and change nothing of any accelerator.

    ``texts``: what was set, each a field, or FIELD=VALUES.
    """
    for path in dict.fromkeys(text.partition("=")[0].strip() for text in texts):
        effects = dict.fromkeys(_missing_effect(path, one) for one in accelerators)
        if "" not in effects:
            click.echo(f"warning: {path} changes {'; '.join(effects)}", err=True)


def _missing_effect(path: str, accelerator: Accelerator) -> str:
    """Return what little a field changes of an accelerator, with the reason; empty: it does."""
    from simaccel.hardware import DramSpec

    section, _, name = path.rpartition(".")
    if section == "links" and accelerator.pod.count == 1:
        return "nothing, as there is one chip"
    if path in ("energy.node", "energy.number") and accelerator.energy.are_given:
        return f"no energy, as those of {accelerator.name} are given; areas follow it"
    memories = {"dram": accelerator.dram}
    memories |= {f"memories.{c}": of for c, of in accelerator.memories.by_class().items()}
    memory, model = memories.get(section), DramSpec.MODEL_OF.get(name)
    if memory is None or model in (None, memory.model):
        return ""
    return f"nothing, as {section}.model is {memory.model}; only {model} uses it"
