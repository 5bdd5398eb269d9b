"""`explore`: a design space, and its tables and figures in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from simaccel.errors import Fault, InputError, gather, name_arguments, require_none, suggest
from simaccel.hardware.presets import Settings as FieldSettings
from simaccel.report import exploration
from simaccel.report.tables import Table
from simaccel.report.units import count_text
from simaccel.schedulers import DATAFLOWS, MAPSPACES, Options
from simaccel.study.explore import ExplorationObjective, ExploredDesigns
from simaccel.study.explore import explore as explore_designs
from simaccel.study.figure_table import read_limit
from simaccel.study.figures import OBJECTIVES, searched_objective
from simaccel.study.parallel import most_workers, open_workers
from simaccel.study.parameters import AxisReader, Parameter, parameter_of, suggest_parameter
from simaccel.study.points import Axis, Value, WeightedWorkload
from simaccel.study.space import DesignSpace, Draw, Settings, draw, require_sizes
from simaccel.study.store import open_store, store_in
from simaccel.verbs.inputs import (
    AcceleratorLike,
    WorkloadLike,
    as_accelerator,
    as_list,
    as_options,
    as_workload,
    check_types,
)
from simaccel.verbs.showing import Plot, Rows, ShownResult

_PICTURES: Final = ("frontier", "pairs", "sensitivity")
Axes = Mapping[str, Sequence[Value]]
"""Values by axis, named as for ``simaccel explore --axis``: buffer, dram-bandwidth, array and so
on; a field of the accelerator by its path (or several, comma-separated); ``workload.FIELD``; or an
option of the scheduler (stationarity, pipeline, patience, degrees of parallelism such as
tensor_parallel and pipeline_parallel).
"""


@dataclass(frozen=True, repr=False)
class Exploration(ShownResult):
    """All designs of a space in order, with their figures; ``top``: rows of its table."""

    space: DesignSpace
    points: ExploredDesigns
    top: int | None = exploration.MOST_ROWS

    @property
    def title(self) -> str:
        """The title: what was explored."""
        loads = ", ".join(
            load.workload.name + (f" x {load.weight:g}" if load.weight != 1 else "")
            for load in self.space.loads
        )
        hardware = ", ".join(one.name for one in self.space.accelerators)
        count = len(self.points.rows)
        part = "" if count == self.space.size else f"{count:,} of "
        return f"{loads} on {hardware}: {part}{count_text(self.space.size, 'design')}"

    def __repr__(self) -> str:
        counted = exploration.counted_lines(self.points)
        return f"<Exploration {self.title}; {'; '.join(counted)}>"

    def _parts(self) -> Iterable[Table | str]:
        table = exploration.exploration_table(self.points, self.top)
        return (table, *exploration.counted_lines(self.points, self.top))

    def to_dict(self) -> dict[str, Any]:
        """Return the exploration as plain data (the format of ``simaccel explore --json``)."""
        return exploration.exploration_json(self.points)

    def _rows(self) -> Rows:
        return exploration.rows(self.points)

    def plot(self, kind: str = "frontier") -> Plot:
        """Draw the frontier, all pairs of figures, or the sensitivity to each axis.

        Raises:
            InputError: there is no such picture.
        """
        from simaccel.report.figures import exploration as figures

        if kind not in _PICTURES:
            raise InputError([Fault("plot", "kind", kind, suggest(kind, _PICTURES))])
        draw = getattr(figures, f"draw_{kind}")
        return Plot(lambda: draw(self.points, self.title))


@name_arguments()
@check_types("workloads", "accelerators", "axes")
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
    settings: FieldSettings = (),
    options: Options | None = None,
    store: str | Path | None = None,
    jobs: int = 1,
) -> Exploration:
    """Explore the product of accelerators, dataflows and ``axes``, or ``sample`` designs of it.

    Each design is mapped, and runs on the machine, at most ``jobs`` at a time. ``workloads`` may
    have weights: ``{"bert": 3, "alexnet": 1}``. ``where``: limits, such as ``area_mm2<=16``.
    ``objective``: the figure to minimise, also in searches for mappings where these know it.
    ``drawn``, ``seed``: how a sample is drawn (`draw`). ``settings``: values for fields of all
    accelerators. ``store``: a folder that keeps the results, so that nothing runs twice.

    Raises:
        InputError: the faults of all arguments. An impossible design is a row with the reason.
    """
    loads, hardware = _loads(workloads), _as_sources(accelerators)
    names = (dataflows,) if isinstance(dataflows, str) else tuple(dataflows)
    read = gather(
        lambda: _require_known(names, objective),
        *(partial(read_limit, text) for text in where),
        *(partial(as_accelerator, source, settings) for source in hardware),
        *(partial(_load, source, weight) for source, weight in loads),
        *(partial(_dimension, name, values) for name, values in _by_name(axes).items()),
    )[1:]
    limits, read = read[: len(where)], read[len(where) :]
    loaded, read = read[: len(hardware)], read[len(hardware) :]
    weighted, dimensions = read[: len(loads)], read[len(loads) :]
    options = as_options(options, searched_objective(objective))
    space = DesignSpace(tuple(loaded), tuple(weighted), tuple(dimensions), names, options)
    space.require_energies(objective)
    require_sizes("--axis", space.axes, space.loads)
    numbers = draw(space, sample, drawn, seed)
    kept = store_in(store)
    open_store(kept, "simaccel.explore(...)", seed)
    plan = ExplorationObjective(tuple(limits), objective)
    with open_workers(min(jobs, most_workers())) as team:
        points = explore_designs(space.dimensions, space.designs(numbers), plan, team, store=kept)
    return Exploration(space, points)


def _by_name(axes: Any) -> Axes:  # noqa: ANN401 - as `explore` takes
    if axes is None or isinstance(axes, Mapping):
        return axes or {}
    allowed = "values by name, such as {'buffer': ['64 KiB', '128 KiB']}"
    raise InputError([Fault("explore", "axes", axes, allowed)])


def _loads(given: Any) -> list[tuple[WorkloadLike, float]]:  # noqa: ANN401 - as `explore` takes
    if isinstance(given, Mapping) and given:
        return list(given.items())
    return [(one, 1.0) for one in _as_sources(given)]


def _as_sources(given: Any) -> list[Any]:  # noqa: ANN401 - one or several of anything
    found = list(given) if isinstance(given, Mapping) else as_list(given)
    if not found:
        raise InputError([Fault("explore", "workload, accelerator", "nothing", "at least one")])
    return found


def _load(workload: WorkloadLike, weight: float) -> WeightedWorkload:
    if not 0 < weight < 10**12:
        raise InputError([Fault("explore", "weight", weight, "a number above 0 and below 10^12")])
    return WeightedWorkload(as_workload(workload), weight)


def _require_known(dataflows: Sequence[str], objective: str) -> None:
    faults = [] if objective in OBJECTIVES else [("objective", objective, [*OBJECTIVES])]
    for name in dataflows:
        known = [*DATAFLOWS, *MAPSPACES]
        if name not in known:
            faults.append(("dataflow", name, known))
    require_none(Fault("explore", field, got, suggest(got, known)) for field, got, known in faults)


def _dimension(name: str, axis_values: Any) -> Settings:  # noqa: ANN401 - as `explore` takes
    """Return the settings of an axis, one per value, read as the command reads them."""
    parameter = _parameter(name)
    listed = isinstance(axis_values, Iterable) and not isinstance(axis_values, str | Mapping)
    values = tuple(axis_values) if listed else ()
    if not values or len({str(value) for value in values}) < len(values):
        raise InputError(
            [Fault("explore", f"axes.{name}", axis_values, "a list of different values")]
        )
    return AxisReader(parameter, "explore", f"axes.{name}").read_list(values, len(values))


def _parameter(name: str) -> Parameter:
    """Return the parameter of an axis; of several fields with commas all get the same value."""
    parts = [part.strip() for part in name.split(",")]
    parameters: list[Parameter] = []
    faults = []
    for part in parts:
        parameter = parameter_of(part) or parameter_of(part.replace("_", "-"))
        if parameter is None:
            allowed = suggest_parameter(part)
            faults.append(Fault("explore", "axes", part, allowed))
        elif parameters and parameter.axis.of != parameters[0].axis.of:
            allowed = f"fields of the {parameters[0].axis.of}, as {parts[0]}"
            faults.append(Fault("explore", f"axes.{name}", part, allowed))
        else:
            parameters.append(parameter)
    require_none(faults)
    first, *others = parameters
    if not others:
        return first
    fields = tuple(field for parameter in parameters for field in parameter.fields)
    return replace(first, axis=Axis(name, name, name, first.axis.of), fields=fields, apart=False)
