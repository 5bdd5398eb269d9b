"""`compare`: runs side by side, and their tables and figures in a notebook."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from simaccel.errors import Fault, InputError, gather, name_arguments, require_none, suggest
from simaccel.hardware import Accelerator
from simaccel.hardware.presets import Settings
from simaccel.importers.scalesim.topology import load_estimates
from simaccel.plugins import PluginError, plugins
from simaccel.report import comparison
from simaccel.report.comparison import varied_names
from simaccel.report.tables import Table
from simaccel.report.titles import experiment_title, number_words, phase_words, workload_title
from simaccel.report.units import count_text
from simaccel.schedulers import DATAFLOWS, MAPSPACES, Options, compared_dataflows
from simaccel.search.effort import Objective
from simaccel.study.figure_table import Figure as Metric
from simaccel.study.parallel import most_workers, open_workers
from simaccel.study.points import (
    ACCELERATOR,
    Axis,
    Point,
    Setting,
    StudyRow,
    WeightedWorkload,
    base_point,
)
from simaccel.study.runs import run_rows
from simaccel.study.store import ROWS, open_store, store_in
from simaccel.verbs.inputs import (
    AcceleratorLike,
    WorkloadLike,
    as_accelerator,
    as_list,
    as_options,
    as_workload,
    check_types,
)
from simaccel.verbs.showing import Rows, ShownResult
from simaccel.workload import Workload
from simaccel.workload.documents import einsums_document

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from simaccel.report.figures.sweep import Slope

EACH: Final = ("operator",)
"""Allowed values of ``each``."""


@dataclass(frozen=True, repr=False)
class Comparison(ShownResult):
    """Runs side by side: one row each, in order; one that doesn't run has the reason.

    ``metrics``: further columns; figures have the first. ``points``: those of the rows, for bounds.
    """

    title: str
    rows: tuple[StudyRow, ...]
    metrics: Sequence[Metric] = ()
    points: Sequence[Point] = ()

    def __repr__(self) -> str:
        ran = [row for row in self.rows if row.result is not None]
        best = min(ran, key=lambda row: row.result["cycles"] if row.result else 0, default=None)
        fastest = "none of them runs" if best is None else f"{best.dataflow} is the fastest"
        if best is not None and best.lead is not None:
            fastest = f"{len(ran)} of them run"
        return f"<Comparison {self.title}: {count_text(len(self.rows), 'run')}, {fastest}>"

    def _parts(self) -> Iterator[Table | str]:
        yield comparison.comparison_table(self.rows, self.metrics)
        for lines_of in (comparison.area_lines, comparison.note_lines, comparison.problem_lines):
            yield from lines_of(self.rows)

    def __iter__(self) -> Iterator[StudyRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the rows as plain data (the format of ``simaccel compare --json``)."""
        return comparison.comparison_json(self.rows)

    def _rows(self) -> Rows:
        return comparison.comparison_rows(self.rows, self.metrics)

    def _draw(self) -> Figure:
        from simaccel.report import figures

        lead = self.rows[0].lead
        if self.metrics:
            return figures.draw_metric(self.rows, self.title, self.metrics[0])
        if lead is None or lead.axis.named or self.rows[0].others:
            return figures.draw_comparison(self.rows, self.title)
        slopes = dram_bounds(self.points) if lead.axis.name == "buffer" else None
        return figures.draw_sweep(self.rows, self.title, slopes)


@name_arguments()
@check_types("workload", "accelerator")
def compare(  # noqa: PLR0913 - one keyword an option of the command
    workload: WorkloadLike | Sequence[WorkloadLike],
    accelerator: AcceleratorLike | Sequence[AcceleratorLike],
    dataflows: Sequence[str] | str | None = None,
    *,
    each: str | None = None,
    objective: Objective | None = None,
    settings: Settings = (),
    options: Options | None = None,
    fast_forward: bool = True,
    store: str | Path | None = None,
    jobs: int = 1,
) -> Comparison:
    """Run workloads on accelerators with several dataflows, at most ``jobs`` runs at a time.

    Names or objects, as for ``simulate``, one or several of each. ``dataflows`` may also be
    mapspaces; None takes the default one or, if nothing else differs, several
    (`simaccel.schedulers.compared_dataflows`). With ``each="operator"`` every operator runs
    alone. If a workload is a CSV file of layers with a column ``Estimate``, the rows have these
    estimates and their errors. ``objective`` and ``settings`` as for ``simulate``. ``store``: a
    folder that keeps the rows, so that nothing runs twice.

    Raises:
        InputError: what can't be read. A run that fails is a row that says why.
    """
    points = _points(as_list(workload), as_list(accelerator), each, settings)
    options = as_options(options, objective)
    points = [
        replace(point, dataflow=name, options=options, fast_forward=fast_forward).place_workloads()
        for point in points
        for name in _dataflows(dataflows, point)
    ]
    if not points:
        what = "workload, accelerator, dataflows"
        raise InputError([Fault("compare", what, "nothing", "at least one of each")])
    kept = store_in(store, ROWS)
    open_store(kept, "simaccel.compare(...)", 0)
    with open_workers(min(jobs, most_workers())) as team:
        rows, _ = run_rows(points, team, store=kept, whole=True)
    return Comparison(comparison_title(points), tuple(rows))


def comparison_title(points: Sequence[Point]) -> str:
    """Return a title of what all points have in common."""
    first = points[0]
    lead = next(iter(first.settings), None)
    if lead is not None and lead.axis == _OPERATOR:
        lengths = {point.seq_len for point in points} - {None}
        title = experiment_title(first.whole or first.workload, first.accelerator, varied=_LENGTH)
        return title + (f", seq-len {lengths.pop()}" if len(lengths) == 1 else "")
    if lead is not None and lead.axis in (_RUN, _WORKLOAD):
        return "several workloads" if lead.axis == _WORKLOAD else "several runs"
    columns = varied_names([point.row for point in points])
    names = {name.removeprefix("workload.") for name in (*columns, *(() if lead else _LENGTH))}
    phases = phase_words((point.workload for point in points), names) if "phase" in names else []
    names = {*names, "prompt", "kv-len"} if "phase" in names else names
    numbers = {", ".join(number_words(point.workload)): None for point in points}
    names = {*names, "precision"} if len(numbers) > 1 else names
    title = experiment_title(first.workload, first.accelerator, varied=names, also=phases)
    if ACCELERATOR in (setting.axis for setting in first.settings):
        title = title.replace(f" on {first.accelerator.name}", "", 1)
        title += f", {' or '.join(numbers)} by accelerator" if len(numbers) > 1 else ""
    return title


def dram_bounds(points: Sequence[Point]) -> dict[int | None, tuple[Slope, ...]]:
    """Return, by sequence length, bounds of the DRAM bytes by buffer size: unfused, and fused.

    No bounds if weights or caches have memories of their own, which the bound doesn't distinguish,
    or if the bound of an operator is unknown. One that fails is left out.
    """
    found: dict[int | None, tuple[Slope, ...]] = {}
    for point in points:
        if point.seq_len not in found and not point.accelerator.memories.by_class():
            found[point.seq_len] = tuple(_bounds_of(point.workload))
    return found


def _bounds_of(workload: Workload) -> Iterator[Slope]:
    """Yield the curves of all that bounds DRAM bytes, with a warning for what fails."""
    for plugged in chain(*plugins("simaccel.dram_bounds").values()):
        try:
            with plugged.running("bounding"):
                slopes = [
                    (str(label), [(int(kept), int(moved)) for kept, moved in curve])
                    for label, curve in plugged.load()(workload)
                ]
        except PluginError as error:
            warnings.warn(f"{error}; its curve is left out", stacklevel=2)
        else:
            yield from slopes


def _axis(name: str) -> Axis:
    return Axis(name, name, name, named=True)


_LENGTH = ("seq-len",)
_RUN, _WORKLOAD = _axis("run"), _axis("workload")
_OPERATOR = _axis("operator")


def _points(
    workloads: Sequence[WorkloadLike],
    accelerators: Sequence[AcceleratorLike],
    each: str | None,
    settings: Settings,
) -> list[Point]:
    """Read the inputs; return a point, as yet without a dataflow, for each pair or operator."""
    single = len(workloads) * len(accelerators) == 1
    if each is not None and not single:
        allowed = "nothing with several workloads or accelerators"
        raise InputError([Fault("simaccel", "each", each, allowed)])
    wrong = [] if each in (None, *EACH) else [Fault("simaccel", "each", each, suggest(each, EACH))]
    _, *inputs = gather(
        lambda: require_none(wrong),
        *(lambda like=like: as_workload(like) for like in workloads),
        *(lambda like=like: as_accelerator(like, settings) for like in accelerators),
    )
    read: list[Accelerator] = inputs[len(workloads) :]
    if not workloads or not read:
        raise InputError([Fault("simaccel", "compare", "nothing", "a workload, an accelerator")])
    pairs = list(product(inputs[: len(workloads)], read))
    if single:
        ((workload, accelerator),) = pairs
        sheet = str(workloads[0]) if isinstance(workloads[0], str | Path) else ""
        estimates = load_estimates(sheet) if sheet.lower().endswith(".csv") else {}
        return operator_points(workload, accelerator, each, estimates)
    axis = ACCELERATOR if len(workloads) == 1 else _WORKLOAD if len(read) == 1 else _RUN
    return [
        base_point(a, b, Setting(axis, _name(axis, a, b), _name(axis, a, b), place=at))
        for at, (a, b) in enumerate(pairs)
    ]


def operator_points(
    workload: Workload, accelerator: Accelerator, each: str | None, estimates: Mapping[str, float]
) -> list[Point]:
    """Return the point of a workload, or one for each operator, with the user's estimates."""
    point = base_point(workload, accelerator)
    if each is None:
        complete = all(operator.name in estimates for operator in workload.operators)
        whole = sum(estimates.values()) if complete else None
        return [replace(point, estimate_cycles=whole)]
    points = []
    for at, name in enumerate(workload.by_name):
        single = workload.select_operators([name])  # a workload of its own, which runs once
        document = einsums_document(single.name, single.operators, single.tensors.values())
        settings = (Setting(_OPERATOR, name, name, place=at),)
        loads = (WeightedWorkload(replace(single, parameters=document)),)
        own = replace(point, loads=loads, settings=settings, whole=workload)
        points.append(replace(own, estimate_cycles=estimates.get(name)))
    return points


def _name(axis: Axis, workload: Workload, accelerator: Accelerator) -> str:
    if axis == ACCELERATOR:
        return accelerator.name
    title = workload_title(workload)
    return title if axis == _WORKLOAD else f"{title} on {accelerator.name}"


def _dataflows(given: Sequence[str] | str | None, point: Point) -> Sequence[str]:
    if given is None:
        return compared_dataflows(point.accelerator, point.workload, varied=bool(point.settings))
    names = [given] if isinstance(given, str) else given
    known = (*DATAFLOWS, *MAPSPACES)
    require_none(
        Fault("compare", "dataflows", name, suggest(name, known))
        for name in names
        if name not in known
    )
    return names
