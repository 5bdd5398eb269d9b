"""Fronts, and FLAT's figures 5, 9, 15 and 17 for any model and accelerator, as rows of a study.

Kao et al., FLAT: An Optimized Dataflow for Mitigating Attention Bottlenecks, ASPLOS 2023. All rows
of an exhibit have the same columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

import numpy as np

from simaccel.analytic.floor.compulsory import group_bytes
from simaccel.analytic.native import mac_share
from simaccel.hardware import Accelerator
from simaccel.hardware.load import with_values
from simaccel.hardware.quantity import LARGEST
from simaccel.mapping.documents import mapping_document
from simaccel.numbers import BYTE
from simaccel.pareto import pick_evenly, undominated_rows
from simaccel.run.limits import attention_operators, operators_of
from simaccel.schedulers import Options, settle_options
from simaccel.schedulers.fronts import front
from simaccel.search.effort import require_energies
from simaccel.search.front import FIGURES, Figure, FrontFigures
from simaccel.search.judge import mapping_of
from simaccel.study.experiment import ExperimentResult, simulate
from simaccel.study.figure_table import METRICS, total_of
from simaccel.study.figures import run_figures
from simaccel.study.points import Figures, Point, Record, StudyRow
from simaccel.study.precision import compile_for
from simaccel.units import ARRAY, LINK
from simaccel.workload import Vector, Workload

Exhibit = Literal["roofline", "granularity", "breakdown", "bandwidth"]
EXHIBITS: Final[tuple[Exhibit, ...]] = ("roofline", "granularity", "breakdown", "bandwidth")
ATTENTION: Final = "attention"
LINKS: Final = "links"
PARTS: Final = ("projections", ATTENTION, "other einsums", "vector operators", LINKS)
"""The parts of a model: einsums directly before and after an attention are its projections."""
TARGET: Final = 0.95
"""The utilisation of FLAT's figure 17."""


def exhibit_rows(
    exhibit: Exhibit, points: Sequence[Point], rows: Sequence[StudyRow]
) -> list[Record]:
    """Return the rows of an exhibit: of runs of points, or of what `find_bandwidth` found."""
    if exhibit == "bandwidth":
        return _bandwidth_rows(rows)
    every: list[Record] = []
    for point, row in zip(points, rows, strict=True):
        place = {"seq_len": row.seq_len, "dataflow": row.dataflow}
        workload = compile_for(point.workload, point.accelerator, point.dataflow, point.options)
        if exhibit == "granularity":
            every.append(_granularity(place, row, workload))
        elif row.result is not None:
            if exhibit == "roofline":
                parts = roofline_points(row.result, workload, point.accelerator)
            else:
                parts = _breakdown(row.result, workload)
            every += [{**place, **each} for each in parts]
    return every


def roofline_points(
    result: Record, workload: Workload, accelerator: Accelerator
) -> Iterator[Record]:
    """Yield the operational intensity of each group, its roofline, and the result (Fig. 5).

    ``workload``: as the dataflow of the run has it (`simaccel.study.precision.compile_for`).
    ``macs_per_byte`` is relative to the bytes moved; ``most_macs_per_byte`` to the bytes that have
    to move if all inputs and outputs of a group are in DRAM before and after it (of single
    operators in `flex`, whose S may stay on chip, so that it moves less; of L, softmax and A
    together in `flat`). ``array_macs_per_cycle`` is the second roof: the rate of the array with
    these tiles, limited by loading it, part-filled folds and skew. On several chips these are of
    one chip; ``most_macs_per_byte`` is that of the whole group, which no chip exceeds.
    """
    for operator in result["operators"]:
        done = operator["macs"]
        if not done:
            continue
        moved = total_of(operator["bytes"]["dram"])
        names = operators_of(workload, operator["name"])
        least = group_bytes(workload, names) * workload.times(names[0])
        intensity = done / moved if moved else float("inf")
        macs = sum(workload.operator(name).macs * workload.times(name) for name in names)
        native = operator["native_macs"] * float(mac_share(workload, accelerator, names))
        peak = accelerator.pes * done / max(1, native)
        yield {
            "operator": operator["name"],
            "macs": done,
            "dram_bytes": moved,
            "macs_per_byte": intensity,
            "most_macs_per_byte": macs / least if least else float("inf"),
            "roof_macs_per_cycle": min(peak, intensity * _peak_of(operator, workload, accelerator)),
            "array_macs_per_cycle": done / max(1, operator["work_cycles"].get(ARRAY, 0)),
            "macs_per_cycle": done / operator["busy_cycles"],
            "limit": operator["limit"]["name"],
        }


def _peak_of(operator: Record, workload: Workload, accelerator: Accelerator) -> float:
    """Return the bytes per cycle of all memories of a group, in the proportions of its bytes."""
    moved: Counter[str] = Counter()
    for tensors in operator["bytes"]["dram"].values():
        for name, n_bytes in tensors.items():
            kind = workload.tensors[name].kind if name in workload.tensors else "intermediate"
            moved[accelerator.memory(kind)] += n_bytes
    backing = accelerator.every_backing
    rates = {at: backing[at].bytes_per_cycle() for at in moved}
    able = (rate * moved.total() / moved[at] for at, rate in rates.items() if rate and moved[at])
    return float(min(able, default=float("inf")))


def _granularity(place: Record, row: StudyRow, workload: Workload) -> Record:
    """Return the utilisation of the attentions by dataflow and buffer size (Fig. 9).

    For a workload without attention, it is that of all operators.
    """
    swept = {} if row.lead is None else {row.lead.axis.column: row.lead.value}
    figures = {**swept, **place}
    result = row.result
    if result is None:
        return {**figures, **dict.fromkeys(("cycles", "utilisation", "footprint_bytes"))}
    inside = attention_operators(workload)
    covered = [
        each
        for each in result["operators"]
        if not inside or {*operators_of(workload, each["name"])} <= inside
    ]
    cycles = sum(each["cycles"] for each in covered)
    useful = sum(each["utilisation"] * each["cycles"] for each in covered)
    return {
        **figures,
        "cycles": cycles,
        "utilisation": useful / cycles if cycles else None,
        "footprint_bytes": result["footprint_bytes"],
    }


def _breakdown(result: Record, workload: Workload) -> Iterator[Record]:
    """Yield the cycles of each part of a model (Fig. 15).

    ``normalised`` divides them by the ideal cycles of all (MACs by peak MACs per cycle).
    """
    cycles: Counter[str] = Counter()
    for operator in result["operators"]:
        cycles[part_of(workload, operator)] += operator["cycles"]
    ideal = result["ideal_cycles"]
    for name in (name for name in PARTS if name in cycles):
        n = cycles[name]
        share = {"cycles": n, "share": n / result["cycles"]}
        yield {"part": name, **share, "normalised": n / ideal if ideal else None}


def find_bandwidth(target: float, point: Point) -> Record:
    """Return, as ``figures``, the DRAM bandwidth that a point needs for a utilisation (Fig. 17)."""
    needed = needed_bandwidth(
        point.workload, point.accelerator, str(point.dataflow), target, point.options
    )
    return {"figures": dict(zip(("bytes_per_second", "utilisation"), needed, strict=True))}


def _bandwidth_rows(rows: Sequence[StudyRow]) -> list[Record]:
    """Return the bandwidth of each row, and how much less than the first at its length needs."""
    unknown = dict.fromkeys(("bytes_per_second", "utilisation"))
    first: dict[int | None, float | None] = {}
    every: list[Record] = []
    for row in rows:
        figures = row.figures or unknown
        own = figures["bytes_per_second"]
        least = first.setdefault(row.seq_len, own)
        saved = 1 - own / least if own and least else None
        place = {"seq_len": row.seq_len, "dataflow": row.dataflow}
        every.append({**place, **figures, "saved": saved})
    return every


def part_of(workload: Workload, operator: Record) -> str:
    """Return the part of a model to which an operator of a result belongs.

    Collectives and messages between chips are ``links``.
    """
    if LINK in operator["bytes"]:
        return LINKS
    operators, attentions = operators_of(workload, operator["name"]), attention_operators(workload)
    if {*operators} & attentions:
        return ATTENTION
    einsums = [name for name in operators if not isinstance(workload.operator(name), Vector)]
    if not einsums:
        return "vector operators"
    beside = _projections_of(workload, attentions)
    return "projections" if {*einsums} & beside else "other einsums"


def _projections_of(workload: Workload, attentions: set[str]) -> set[str]:
    """Return the einsums whose results an attention reads, or which read its results.

    Vector operators in between, such as a rotary embedding, are passed over.
    """
    made = {operator.output.tensor: operator for operator in workload.operators}
    beside: set[str] = set()
    waiting = [
        made[read.tensor]
        for name in attentions
        for read in workload.operator(name).inputs
        if read.tensor in made
    ]
    while waiting:
        operator = waiting.pop()
        if operator.name in attentions or operator.name in beside:
            continue
        if isinstance(operator, Vector):
            waiting += [made[read.tensor] for read in operator.inputs if read.tensor in made]
        else:
            beside.add(operator.name)
    outputs = {workload.operator(name).output.tensor for name in attentions}
    for operator in workload.operators:
        reads = {read.tensor for read in operator.inputs} & outputs
        if reads and operator.name not in attentions:
            if isinstance(operator, Vector):
                outputs.add(operator.output.tensor)
            else:
                beside.add(operator.name)
    return beside


_BANDWIDTH: Final = "dram.bandwidth_bytes_per_second"
_STEP: Final = 1.05
"""Precision of the bandwidth, as a ratio."""
_STRIDE: Final = 4
"""Ratio of consecutive bandwidths that are tried first."""
_WIDEST: Final = 64
"""The widest bandwidth that is tried, in multiples of what the array can use per cycle."""
_LEAST: Final = 256
"""The narrowest bandwidth that is tried is one byte in this many cycles."""


def needed_bandwidth(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str,
    target: float,
    options: Options | None = None,
) -> tuple[int | None, float]:
    """Return the smallest DRAM bandwidth, to 5%, with which a dataflow reaches a utilisation.

    In bytes per second, with the utilisation; None if no bandwidth is enough, with that of the
    widest. It is found by bisection, from the accelerator's own bandwidth or, if that is unlimited,
    from 1 B per cycle; more bandwidth is assumed to be no worse.

    Raises:
        SimaccelError: the dataflow doesn't take the workload, or nothing fits.
    """
    reached: dict[int, float] = {}

    def suffices(bandwidth: int) -> bool:
        on = with_values(accelerator, {_BANDWIDTH: bandwidth}, f"bandwidth {bandwidth} B/s")
        reached[bandwidth] = simulate(workload, on, dataflow, options=options).utilisation
        return reached[bandwidth] >= target

    width = max(2, *(-(-tensor.bits // BYTE) for tensor in workload.tensors.values()))
    clock = accelerator.clock_hz
    least, widest = max(1, clock // _LEAST), min(LARGEST, _WIDEST * width * accelerator.pes * clock)
    if not suffices(widest):
        return None, reached[widest]
    low = min(accelerator.dram.bandwidth_bytes_per_second or clock, widest // _STRIDE)
    if suffices(low):
        high = low
        while high > least and suffices(low := max(least, high // _STRIDE)):
            high = low
        low = low if high > least else 0
    else:
        while low * _STRIDE < widest and not suffices(low * _STRIDE):
            low *= _STRIDE
        high = min(low * _STRIDE, widest)
    while low and high > low * _STEP:
        middle = round((low * high) ** 0.5)
        if suffices(middle):
            high = middle
        else:
            low = middle
    return high, reached[high]


_MOST_OF_FRONT: Final = 64
"""Most points of a front that run; of more, evenly spaced ones."""
FRONT_COLUMNS: Final[Mapping[Figure, str]] = {name: METRICS[name].column for name in FIGURES}
"""The columns of the figures that a front may have."""


def pareto(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str,
    options: Options,
    figures: FrontFigures,
) -> Record:
    """Return the front of the mappings that a scheduler considers, each run on the machine.

    As JSON: ``points`` with their figures and ``mapping``, the first figure's best first; ``seen``:
    the mappings considered; ``points_in_all``: of the front, also those that didn't run;
    ``proved``: no mapping considered beats one of the points.

    Raises:
        NothingFitsError: no mapping fits the buffer.
        SimaccelError: as of ``make_mapping``.
    """
    options = settle_options(options, accelerator)
    for figure in (figures.x, figures.y):
        require_energies(accelerator, figure)
    frontier = front(workload, accelerator, dataflow, options, figures)
    chosen = [
        frontier.points[int(at)]
        for at in pick_evenly(np.arange(len(frontier.points)), _MOST_OF_FRONT)
    ]
    results = [
        simulate(workload, accelerator, mapping_of(workload, dataflow, tree.body))
        for tree in chosen
    ]
    added_up = frontier.seen == len(frontier.points) or all(
        (tree.cycles, tree.buffer_bytes) == (result.run.cycles, result.prediction.buffer_bytes)
        for tree, result in zip(chosen, results, strict=True)
    )
    points: list[Record] = [
        {**front_figures(result), "mapping": mapping_document(result.mapping)} for result in results
    ]
    signs = {
        FRONT_COLUMNS[name]: -1 if name == "utilisation" else 1 for name in (figures.x, figures.y)
    }
    rows = np.array(
        [[sign * (point[name] or 0) for name, sign in signs.items()] for point in points]
    )
    kept = undominated_rows(rows).tolist()
    left_out = len(frontier.points) - len(chosen)
    return {
        "seen": frontier.seen,
        "points_in_all": len(kept) + left_out,
        "proved": frontier.proved and added_up and not left_out,
        "points": [points[at] for at in kept],
    }


def front_figures(result: ExperimentResult) -> Figures:
    """Return the figures of a run for fronts; the footprint is what the mapping reserves."""
    found = run_figures(result) | {"footprint_bytes": result.prediction.buffer_bytes}
    return {column: found[column] for column in FRONT_COLUMNS.values()}
