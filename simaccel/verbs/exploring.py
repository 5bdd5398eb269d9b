"""`explore`: a design space, and what it shows in a notebook."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from simaccel.errors import Fault, InputError, gather, require_none, suggest
from simaccel.experiment.exploration.degrees import DEGREES, STAGES, Value
from simaccel.experiment.exploration.explore import ExplorationObjective
from simaccel.experiment.exploration.explore import ExploredDesigns as Points
from simaccel.experiment.exploration.explore import explore as explored
from simaccel.experiment.exploration.figures import OBJECTIVES
from simaccel.experiment.exploration.limits import read_limit
from simaccel.experiment.exploration.manifest import open_store, store_in
from simaccel.experiment.exploration.space import (
    DIRECTIVES,
    AxisSetting,
    DesignAxis,
    DesignSpace,
    Draw,
    WeightedWorkload,
    description_of,
    draw,
    require_described,
    require_sizes,
)
from simaccel.experiment.parallel import open_workers
from simaccel.files.schema import leaf_fields
from simaccel.hardware import Accelerator
from simaccel.schedulers import DATAFLOWS, MAPSPACES, Options
from simaccel.verbs.inputs import AcceleratorLike, WorkloadLike, as_accelerator, as_workload
from simaccel.verbs.showing import Plot, frame

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_COUNTS: Final = ("patience", *DEGREES, *STAGES)
_MAPPING: Final = ("stationarity", "pipeline", "sequence_parallel", *_COUNTS)
_WORKLOAD: Final = "workload."
_PICTURES: Final = ("frontier", "pairs", "sensitivity")
Axes = Mapping[str, Sequence[Value]]
"""Values by field: a path of the accelerator (several with commas), ``workload.FIELD``, or what the
scheduler is asked (stationarity, pipeline, patience, degrees of parallelism such as
tensor_parallel and pipeline_parallel)."""


@dataclass(frozen=True, repr=False)
class Exploration:
    """All designs of a space in their order, and what is known of each."""

    space: DesignSpace
    points: Points

    @property
    def title(self) -> str:
        """The title: what was explored."""
        from simaccel.report.exploration import exploration_title

        return exploration_title(self.points, self.space)

    def __repr__(self) -> str:
        from simaccel.report.exploration import counted_lines

        return f"<Exploration {self.title}; {'; '.join(counted_lines(self.points))}>"

    def _repr_html_(self) -> str:
        from simaccel.report.exploration import counted_lines, exploration_table
        from simaccel.report.html import parts_html

        return parts_html(self.title, (exploration_table(self.points), *counted_lines(self.points)))

    def to_dict(self) -> dict[str, Any]:
        """Return the exploration as plain data (the format of ``simaccel explore --json``)."""
        from simaccel.report.exploration import exploration_json

        return exploration_json(self.points)

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with a row for each design, and the columns of ``explore --csv``.

        Raises:
            ImportError: pandas is not installed.

        """
        from simaccel.report.exploration import rows

        return frame(rows(self.points))

    def plot(self, kind: str = "frontier") -> Plot:
        """Draw the frontier, all pairs of figures, or the sensitivity to each axis.

        Raises:
            InputError: there is no such picture.

        """
        if kind not in _PICTURES:
            raise InputError([Fault("plot", "kind", kind, suggest(kind, _PICTURES))])
        return Plot(partial(self._draw, kind))

    def _draw(self, kind: str) -> Figure:
        from simaccel.report.figures import exploration as figures

        drawn = {
            "frontier": figures.draw_frontier,
            "pairs": figures.draw_pairs,
            "sensitivity": figures.draw_sensitivity,
        }
        return drawn[kind](self.points, self.title)


def explore(  # noqa: PLR0913 - one keyword an option of the command
    workloads: WorkloadLike | Sequence[WorkloadLike] | Mapping[str, float],
    accelerators: AcceleratorLike | Sequence[AcceleratorLike],
    axes: Axes | None = None,
    dataflows: Sequence[str] | str = (),
    *,
    where: Sequence[str] = (),
    objective: str = "edp",
    sample: int | None = None,
    drawn: Draw = "latin",
    seed: int = 0,
    options: Options | None = None,
    store: str | Path | None = None,
    jobs: int = 1,
) -> Exploration:
    """Explore the product of accelerators, dataflows and ``axes``, or a ``sample`` of it.

    Each design is mapped, and run on the machine. ``workloads`` may have weights:
    ``{"bert": 3, "alexnet": 1}``. ``where``: limits, such as ``area_mm2<=16``. ``store``: a folder
    that keeps what was run; nothing in it is run again.

    Raises:
        InputError: all that can't be read. A design that can't be is a point that says why.

    """
    loads, hardware = _loads(workloads), _as_list(accelerators)
    names = (dataflows,) if isinstance(dataflows, str) else tuple(dataflows)
    read = gather(
        lambda: _require_known(names, objective),
        *(partial(read_limit, text) for text in where),
        *(partial(as_accelerator, source) for source in hardware),
        *(partial(_load, source, weight) for source, weight in loads),
        *(partial(_dimension, name, values) for name, values in (axes or {}).items()),
    )[1:]
    limits, read = read[: len(where)], read[len(where) :]
    there, read = read[: len(hardware)], read[len(hardware) :]
    made, dimensions = read[: len(loads)], read[len(loads) :]
    asked = options or Options()
    space = DesignSpace(tuple(there), tuple(made), tuple(dimensions), names, asked)
    space.require_energies(objective)
    require_sizes(space.axes, space.loads)
    require_described(space.dataflows, space.loads)
    numbers = draw(space, sample, drawn, seed)
    kept = store_in(store)
    open_store(kept, "simaccel.explore(...)", seed)
    plan = ExplorationObjective(tuple(limits), objective)
    with open_workers(min(jobs, len(numbers), 2 * (os.cpu_count() or 1))) as team:
        points = explored(space.dimensions, space.designs(numbers), plan, team, store=kept)
    return Exploration(space, points)


def _loads(given: Any) -> list[tuple[WorkloadLike, float]]:  # noqa: ANN401 - as `explore` takes
    if isinstance(given, Mapping):
        return list(given.items())
    return [(one, 1.0) for one in _as_list(given)]


def _as_list(given: Any) -> list[Any]:  # noqa: ANN401 - one or several of anything
    found = list(given) if isinstance(given, list | tuple) else [given]
    if not found:
        raise InputError([Fault("explore", "workload, accelerator", "nothing", "at least one")])
    return found


def _load(workload: WorkloadLike, weight: float) -> WeightedWorkload:
    if not 0 < weight < 10**12:
        allowed = "a number above 0 and below 10^12"
        raise InputError([Fault("explore", "weight", weight, allowed)])
    text = description_of(str(workload)) if isinstance(workload, str | Path) else ""
    return WeightedWorkload(as_workload(workload), weight, text, str(workload) if text else "")


def _require_known(dataflows: Sequence[str], objective: str) -> None:
    faults = [] if objective in OBJECTIVES else [("objective", objective, [*OBJECTIVES])]
    for name in dataflows:
        known = [*DATAFLOWS, *MAPSPACES, DIRECTIVES]
        if name not in known:
            faults.append(("dataflow", name, known))
    require_none(Fault("explore", field, got, suggest(got, known)) for field, got, known in faults)


def _dimension(name: str, values: Sequence[Value]) -> DesignAxis:
    """Read an axis: the fields that it sets, and its values."""
    fields = [part.strip() for part in name.split(",")]
    known = leaf_fields(Accelerator)
    if name.startswith(_WORKLOAD):
        fields = [name.removeprefix(_WORKLOAD)]
    elif name not in _MAPPING:
        choices = (*known, *_MAPPING)
        require_none(
            Fault(
                "explore", "axes", field, f"workload.FIELD, or a field; {suggest(field, choices)}"
            )
            for field in fields
            if field not in known
        )
    if isinstance(values, str) or not len(values) or len(set(values)) < len(values):
        raise InputError([Fault("explore", f"axes.{name}", values, "a list of different values")])
    if name in _COUNTS and not all(type(value) is int and value > 0 for value in values):
        raise InputError([Fault("explore", f"axes.{name}", values, "whole numbers of at least 1")])
    of = "workload" if name.startswith(_WORKLOAD) else "mapping" if name in _MAPPING else None
    settings = tuple(
        AxisSetting(value, str(value), dict.fromkeys(fields, value)) for value in values
    )
    return DesignAxis(name, name, name, of or "accelerator", settings)  # type: ignore[arg-type]
