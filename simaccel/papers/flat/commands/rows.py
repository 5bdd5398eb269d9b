"""FLAT's figures 5, 9, 15 and 17 for any model and accelerator, as rows of a study.

Kao et al., FLAT: An Optimized Dataflow for Mitigating Attention Bottlenecks, ASPLOS 2023. All rows
of an exhibit have the same columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from simaccel.analytic.floor.compulsory import group_bytes
from simaccel.analytic.native import mac_share
from simaccel.hardware import Accelerator
from simaccel.hardware.load import with_values
from simaccel.hardware.quantity import LARGEST
from simaccel.numbers import BYTE
from simaccel.report.tables import Column, Row, Table, figure_columns, tabulate, texts
from simaccel.report.units import rate_text
from simaccel.schedulers import Options
from simaccel.study.experiment import simulate
from simaccel.study.figure_table import total_of
from simaccel.study.placement import compile_for
from simaccel.study.points import Point, Record, StudyRow
from simaccel.units import ARRAY, LIMITS, LINK
from simaccel.workload import Vector, Workload
from simaccel.workload.roles import attention_operators, operators_of

ATTENTION: Final = "attention"
LINKS: Final = "links"
PARTS: Final = ("projections", ATTENTION, "other einsums", "vector operators", LINKS)
"""The parts of a model: einsums directly before and after an attention are its projections."""
TARGET: Final = 0.95
"""The utilisation of FLAT's figure 17."""


def _of_runs(
    parts: Callable[[Record, Workload, Accelerator], Iterable[Record]],
    points: Sequence[Point],
    rows: Sequence[StudyRow],
) -> list[Record]:
    """Return the rows of the parts of each run."""
    return [
        {"seq_len": row.seq_len, "dataflow": row.dataflow, **part}
        for point, row in zip(points, rows, strict=True)
        if row.result is not None
        for part in parts(row.result, _workload_of(point), point.accelerator)
    ]


def _workload_of(point: Point) -> Workload:
    """Return the workload as the dataflow of the run has it."""
    return compile_for(point.workload, point.accelerator, point.dataflow, point.options)


def roofline(points: Sequence[Point], rows: Sequence[StudyRow]) -> list[Record]:
    """Return the groups of each run below their rooflines (Fig. 5)."""
    return _of_runs(roofline_points, points, rows)


def roofline_points(
    result: Record, workload: Workload, accelerator: Accelerator
) -> Iterator[Record]:
    """Yield the operational intensity of each group, its roofline, and the result (Fig. 5).

    ``workload``: as the dataflow of the run has it (`simaccel.study.placement.compile_for`).
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


def granularity(points: Sequence[Point], rows: Sequence[StudyRow]) -> list[Record]:
    """Return the utilisation of the attentions of each run (Fig. 9)."""
    pairs = zip(points, rows, strict=True)
    return [_granularity(row, _workload_of(point)) for point, row in pairs]


def _granularity(row: StudyRow, workload: Workload) -> Record:
    """Return the utilisation of the attentions by dataflow and buffer size (Fig. 9).

    For a workload without attention, it is that of all operators.
    """
    swept = {} if row.lead is None else {row.lead.axis.column: row.lead.value}
    figures: Record = {**swept, "seq_len": row.seq_len, "dataflow": row.dataflow}
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


def breakdown(points: Sequence[Point], rows: Sequence[StudyRow]) -> list[Record]:
    """Return the cycles of each part of a model (Fig. 15)."""
    return _of_runs(_parts_of, points, rows)


def _parts_of(result: Record, workload: Workload, _: Accelerator) -> Iterator[Record]:
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


def bandwidth(_: Sequence[Point], rows: Sequence[StudyRow]) -> list[Record]:
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


_ONE_PLACE: Final = "{:,.1f}".format
_COLUMNS: Final = (
    Column("seq-len", "seq_len"),
    Column("buffer", "buffer_bytes", "B"),
    *texts("dataflow", "operator", "part"),
    Column("limit", "limit", LIMITS.__getitem__, "text"),
    *figure_columns("cycles", "utilisation", "dram_bytes", "footprint_bytes"),
    Column("MACs/B", "macs_per_byte", _ONE_PLACE),
    Column("at most", "most_macs_per_byte", _ONE_PLACE),
    Column("roof", "roof_macs_per_cycle", _ONE_PLACE),
    Column("array roof", "array_macs_per_cycle", _ONE_PLACE),
    Column("MACs/cycle", "macs_per_cycle", _ONE_PLACE),
    Column("share", "share", "share"),
    Column("x ideal", "normalised", "{:.2f}".format),
    Column("bandwidth", "bytes_per_second", lambda value: rate_text(round(value))),
    Column("less than first", "saved", "share"),
)
_KNOWN: Final = {column.value: column for column in _COLUMNS}


def exhibit_table(rows: Sequence[Row]) -> Table:
    """Return an exhibit as a table, without columns that are constant."""
    hidden = {"macs", *["seq_len"] * (len({row["seq_len"] for row in rows}) == 1)}
    shown = [_KNOWN.get(name, Column(name, name)) for name in rows[0] if name not in hidden]

    def key(row: Row) -> tuple[object, ...]:
        return row["seq_len"], row["dataflow"]

    several = len(rows) > len({*map(key, rows)})
    return tabulate(rows, shown, apart=key if several else bool)


def bandwidth_notes(rows: Sequence[Row]) -> list[str]:
    """Return a line on dashes, if there are any."""
    unreached = any(row["bytes_per_second"] is None and row["utilisation"] for row in rows)
    return ["-: no bandwidth is enough; the utilisation is that with the largest"] * unreached
