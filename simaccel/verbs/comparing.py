"""`compare`: runs side by side, and what they show in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from simaccel.analytic.orojenesis.problem import NoBoundError
from simaccel.analytic.orojenesis.single import Mapspace
from simaccel.analytic.orojenesis.whole import UNFUSED, workload_bound
from simaccel.dataflows import COMPARED
from simaccel.errors import Fault, InputError, SimaccelError, gather, name_arguments, suggest
from simaccel.experiment.pipeline import run_pipeline
from simaccel.experiment.pipeline_row import pipeline_row
from simaccel.experiment.precision import place_on
from simaccel.experiment.run import result_json
from simaccel.experiment.run import simulate as simulated
from simaccel.experiment.tokens import tokens_of
from simaccel.hardware import Accelerator, ArraySpec
from simaccel.hardware.settings import Settings
from simaccel.importers.scalesim.topology import load_estimates
from simaccel.mapping.tree import Mapping as Tree
from simaccel.report.comparison import ACCELERATOR, Axis, ComparisonRow, SweepPoint, varied_names
from simaccel.report.figures.slope import SlopeSeries
from simaccel.report.objective_losses import given_up_json, given_up_lines
from simaccel.report.titles import experiment_title, phase_words, workload_title
from simaccel.report.units import count_text
from simaccel.schedulers import Options
from simaccel.search.accounts import ObjectiveLosses
from simaccel.search.effort import STRATEGIES, Objective
from simaccel.verbs.inputs import (
    AcceleratorLike,
    WorkloadLike,
    as_accelerator,
    as_options,
    as_workload,
)
from simaccel.verbs.showing import Plot, frame
from simaccel.workload import Workload, operands_of
from simaccel.workload.documents import einsums_document

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

EACH: Final = ("operator",)
"""What ``each`` may be."""
_FEW_OPERATORS: Final = 4
"""Operators of which fused bounds over every tile size take a second."""
_MANY_OPERATORS: Final = 12
"""More operators have no fused bound in a figure, which would take minutes."""
Each = Callable[
    [Callable[["ComparisonTask"], ComparisonRow], Sequence["ComparisonTask"]],
    Iterable[ComparisonRow],
]


@dataclass(frozen=True)
class ComparisonTask:
    """One run, as it may be sent to another process.

    ``point``: its place among runs that differ in something beside the dataflow. ``given``: an
    estimate of one's own, in cycles. ``title``: what it is a part of, without the length. ``also``:
    what else differs from run to run. ``label``: what tables call the dataflow, if not its name.
    ``stages``: of a pipeline of layers, with ``micro_batches`` (None: as many).
    """

    workload: Workload
    accelerator: Accelerator
    point: SweepPoint | None
    dataflow: str | Tree
    options: Options = field(default_factory=Options)
    fast_forward: bool = True
    seq_len: int | None = None
    given: float | None = None
    title: str = ""
    also: tuple[SweepPoint, ...] = ()
    label: str = ""
    stages: int | None = None
    micro_batches: int | None = None

    def __post_init__(self) -> None:
        """Place the workload on the accelerator."""
        placed = place_on(self.workload, self.accelerator, self.dataflow)
        object.__setattr__(self, "workload", placed)

    @property
    def _name(self) -> str:
        return self.dataflow if isinstance(self.dataflow, str) else self.dataflow.dataflow

    @property
    def row(self) -> ComparisonRow:
        """Its row, without a result."""
        return ComparisonRow(
            self.label or self._name,
            self.seq_len,
            point=self.point,
            given_cycles=self.given,
            also=self.also,
            tokens=tokens_of(self.workload),
        )


def run_task(task: ComparisonTask) -> ComparisonRow:
    """Run one task; what the user can cause becomes a row with its reason."""
    gave: list[ObjectiveLosses] = []
    try:
        if task.stages is not None:
            pipeline = run_pipeline(
                task.workload,
                task.accelerator,
                task.dataflow,
                stages=task.stages,
                micro_batches=task.micro_batches,
                options=task.options,
                fast_forward=task.fast_forward,
            )
            return replace(task.row, result=pipeline_row(pipeline))
        result = simulated(
            task.workload,
            task.accelerator,
            task.dataflow,
            options=replace(task.options, gave=gave.append),
            fast_forward=task.fast_forward,
        )
    except SimaccelError as error:
        return replace(task.row, problem=str(error), exit_code=error.exit_code)
    searched = (
        task.options.effort.aim if task.row.dataflow in STRATEGIES else task.options.objective
    )
    return replace(
        task.row,
        result={**result_json(result), **given_up_json(gave, searched)},
        given_up="".join(given_up_lines(gave, result, searched, task.options.tolerance)),
    )


@dataclass(frozen=True, repr=False)
class Comparison:
    """Runs side by side: a row each, in order; one that does not run has its reason."""

    title: str
    rows: tuple[ComparisonRow, ...]

    def __repr__(self) -> str:
        ran = [row for row in self.rows if row.result is not None]
        best = min(ran, key=lambda row: row.result["cycles"] if row.result else 0, default=None)
        fastest = "none of them runs" if best is None else f"{best.dataflow} is the fastest"
        if best is not None and best.point is not None:
            fastest = f"{len(ran)} of them run"
        return f"<Comparison {self.title}: {count_text(len(self.rows), 'run')}, {fastest}>"

    def _repr_html_(self) -> str:
        from simaccel.report import comparison
        from simaccel.report.html import parts_html

        every = (comparison.terms_lines, comparison.given_up_lines, comparison.problem_lines)
        lines = (line for lines_of in every for line in lines_of(self.rows))
        return parts_html(self.title, (comparison.comparison_table(self.rows), *lines))

    def __iter__(self) -> Iterator[ComparisonRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the rows as plain data (the format of ``simaccel compare --json``)."""
        from simaccel.report.comparison import comparison_json

        return comparison_json(self.rows)

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with a row for each run, and the columns of ``compare --csv``.

        Raises:
            ImportError: pandas is not installed.

        """
        from simaccel.report.comparison_csv import comparison_rows

        return frame(comparison_rows(self.rows))

    def plot(self) -> Plot:
        """Draw utilisation and where the cycles of the array went, a bar for each run."""
        return Plot(self._draw)

    def _draw(self) -> Figure:
        from simaccel.report.figures.comparison import draw_comparison

        return draw_comparison(self.rows, self.title)


@name_arguments()
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
    run_all: Each = map,
) -> Comparison:
    """Run workloads on accelerators with several dataflows, one after the other.

    Names or objects, as for ``simulate``, one or several of each. ``dataflows`` may be mapspaces,
    too; None takes naive, flex, flat and flash, on a spatial array the mapspaces. With
    ``each="operator"`` every operator runs alone. A CSV file of layers with a column ``Estimate``
    has estimates of one's own, whose errors stand beside. ``objective`` and ``settings`` as for
    ``simulate``. ``run_all`` may run tasks in parallel.

    Raises:
        InputError: what can't be read. A run that fails is a row that says why.

    """
    places = _places(_as_list(workload), _as_list(accelerator), each, settings)
    asked = as_options(options, objective)
    tasks = [
        replace(task, dataflow=name, options=asked, fast_forward=fast_forward)
        for task in places
        for name in _dataflows(dataflows, task.accelerator)
    ]
    return Comparison(title_of(tasks), tuple(run_all(run_task, tasks)))


def title_of(tasks: Sequence[ComparisonTask]) -> str:
    """Return what all tasks have in common."""
    rows = [task.row for task in tasks]
    point = rows[0].point
    if tasks[0].title:
        lengths = {task.seq_len for task in tasks} - {None}
        return tasks[0].title + (f", seq-len {lengths.pop()}" if len(lengths) == 1 else "")
    if point is not None and point.axis in (_RUN, _WORKLOAD):
        return "several workloads" if point.axis == _WORKLOAD else "several runs"
    names = {*varied_names(rows), *({"seq-len"} if point is None else ())}
    phases = phase_words((task.workload for task in tasks), names) if "phase" in names else []
    names = {*names, "prompt", "kv-len"} if "phase" in names else names
    title = experiment_title(tasks[0].workload, tasks[0].accelerator, varied=names, also=phases)
    if ACCELERATOR in (axis_point.axis for axis_point in rows[0].points):
        title = title.replace(f" on {tasks[0].accelerator.name}", "", 1)
    return title


def slopes_of(tasks: Sequence[ComparisonTask]) -> dict[int | None, tuple[SlopeSeries, ...]]:
    """Return the bounds of the DRAM bytes of each length: of operators alone, and fused.

    None if weights or caches have memories of their own, which a bound doesn't distinguish, and for
    operators whose bound isn't known.
    """
    found: dict[int | None, tuple[SlopeSeries, ...]] = {}
    for task in tasks:
        if task.seq_len not in found and not task.accelerator.memories.by_class():
            found[task.seq_len] = tuple(_slopes(task.workload))
    return found


def _slopes(workload: Workload) -> Iterator[SlopeSeries]:
    """Yield bounds of operators alone, then fused; over every tile size where that is quick."""
    windows = any(
        len(dim.terms) > 1
        for operator in workload.operators
        for _, operand in operands_of(operator)
        for dim in operand.projection
    )
    count = len(workload.operators)
    sizes = {UNFUSED: not windows, "best": not windows and count <= _FEW_OPERATORS}
    labels = {UNFUSED: "bound,\noperators alone", "best": "bound,\nfused"}
    if count == 1 or count > _MANY_OPERATORS:
        del sizes["best"]
    for fuse, every in sizes.items():
        mapspace = Mapspace(uneven=True, imperfect=every)
        label = labels[fuse] + ("" if every else ",\ntiles that divide")
        try:
            yield SlopeSeries(label, tuple(workload_bound(workload, mapspace, fuse).front.points()))
        except NoBoundError:
            return


def operators_alone(workload: Workload) -> Iterator[tuple[SweepPoint, Workload]]:
    """Return each operator of a workload as a workload of its own, that runs once."""
    for at, operator in enumerate(workload.operators):
        alone = workload.select_operators([operator.name])
        document = einsums_document(alone.name, alone.operators, alone.tensors.values())
        point = SweepPoint(_OPERATOR, operator.name, operator.name, at)
        yield point, replace(alone, parameters=document)


def require_each(each: str | None) -> None:
    """Refuse what ``each`` can't be.

    Raises:
        InputError: says what it may be.

    """
    if each is not None and each not in EACH:
        raise InputError([Fault("simaccel", "each", each, suggest(each, EACH))])


def _axis(name: str) -> Axis:
    return Axis(name, name, name, named=True)


_RUN, _WORKLOAD = _axis("run"), _axis("workload")
_OPERATOR = _axis("operator")


def _as_list(given: Any) -> list[Any]:  # noqa: ANN401 - one or several of anything
    return list(given) if isinstance(given, list | tuple) else [given]


def _places(
    workloads: Sequence[WorkloadLike],
    accelerators: Sequence[AcceleratorLike],
    each: str | None,
    settings: Settings,
) -> list[ComparisonTask]:
    """Read everything; give a task without a dataflow for each workload on each accelerator."""
    single = len(workloads) * len(accelerators) == 1
    if each is not None and not single:
        allowed = "nothing with several workloads or accelerators"
        raise InputError([Fault("simaccel", "each", each, allowed)])
    _, *inputs = gather(
        lambda: require_each(each),
        *(lambda like=like: as_workload(like) for like in workloads),
        *(lambda like=like: as_accelerator(like, settings) for like in accelerators),
    )
    there: list[Accelerator] = inputs[len(workloads) :]
    if not inputs or not there or len(inputs) == len(there):
        raise InputError([Fault("simaccel", "compare", "nothing", "a workload, an accelerator")])
    pairs = list(product(inputs[: len(workloads)], there))
    if single:
        ((workload, accelerator),) = pairs
        estimates = _estimates(workloads[0])
        return alone_tasks(workload, accelerator, each, estimates)
    axis = ACCELERATOR if len(workloads) == 1 else _WORKLOAD if len(there) == 1 else _RUN
    return [
        ComparisonTask(
            a,
            b,
            SweepPoint(axis, _name(axis, a, b), _name(axis, a, b), at),
            "",
            seq_len=seq_len_of(a),
        )
        for at, (a, b) in enumerate(pairs)
    ]


def alone_tasks(
    workload: Workload, accelerator: Accelerator, each: str | None, estimates: Mapping[str, float]
) -> list[ComparisonTask]:
    """Return a task without a dataflow, or one for each operator, with its own estimate."""
    length = seq_len_of(workload)
    if each is None:
        complete = all(operator.name in estimates for operator in workload.operators)
        whole = sum(estimates.values()) if complete else None
        return [ComparisonTask(workload, accelerator, None, "", seq_len=length, given=whole)]
    title = experiment_title(workload, accelerator, varied=("seq-len",))
    return [
        ComparisonTask(
            alone,
            accelerator,
            point,
            "",
            seq_len=length,
            given=estimates.get(point.text),
            title=title,
        )
        for point, alone in operators_alone(workload)
    ]


def seq_len_of(workload: Workload) -> int | None:
    """Return the sequence length of a model."""
    length = workload.parameters.get("seq_len")
    return None if length is None else int(length)


def _estimates(given: WorkloadLike) -> Mapping[str, float]:
    """Read estimates of one's own where the workload is a file that may have them."""
    is_sheet = isinstance(given, str | Path) and str(given).lower().endswith(".csv")
    return load_estimates(str(given)) if is_sheet else {}


def _name(axis: Axis, workload: Workload, accelerator: Accelerator) -> str:
    if axis == ACCELERATOR:
        return accelerator.name
    title = workload_title(workload)
    return title if axis == _WORKLOAD else f"{title} on {accelerator.name}"


def _dataflows(given: Sequence[str] | str | None, accelerator: Accelerator) -> Sequence[str]:
    if given is None:
        return COMPARED if isinstance(accelerator.array, ArraySpec) else STRATEGIES
    return [given] if isinstance(given, str) else given
