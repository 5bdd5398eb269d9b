"""FLAT's figures 5, 9, 15 and 17 for any model and accelerator: rows, tables, CSV and JSON.

Kao et al., FLAT: An Optimized Dataflow for Mitigating Attention Bottlenecks, ASPLOS 2023. Each
exhibit is a list of rows with the same columns; figures are drawn from the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from simaccel.analytic.floor.compulsory import group_bytes
from simaccel.analytic.native import mac_share
from simaccel.hardware import Accelerator
from simaccel.report.tables import Column, Row, Table, figure_columns, tabulate, texts
from simaccel.report.units import rate_text
from simaccel.run.limits import operators_of
from simaccel.study.figure_table import total_of
from simaccel.study.points import StudyRow
from simaccel.units import ARRAY, LIMITS, LINK
from simaccel.workload import Vector, Workload

Exhibit = Literal["roofline", "granularity", "breakdown", "bandwidth"]
EXHIBITS: Final[tuple[Exhibit, ...]] = ("roofline", "granularity", "breakdown", "bandwidth")
ATTENTION: Final = "attention"
LINKS: Final = "links"
TARGET: Final = 0.95
"""The utilisation of FLAT's figure 17."""


def peak_bytes_per_cycle(accelerator: Accelerator) -> float | None:
    """Return the DRAM bandwidth in bytes per cycle; None if it is unlimited."""
    rate = accelerator.channel_rate
    if rate.unlimited:
        return None
    return rate.n_bytes / rate.n_cycles * accelerator.dram.channels


def roofline_rows(
    rows: Sequence[StudyRow],
    workloads: Sequence[Workload],
    accelerator: Accelerator,
) -> list[Row]:
    """Return the operational intensity of each group, its roofline, and the result (Fig. 5).

    ``workloads``: of each row, as its dataflow has it (`simaccel.study.precision.compile_for`).
    ``macs_per_byte`` is relative to the bytes moved; ``most_macs_per_byte`` to the bytes that have
    to move if all inputs and outputs of a group are in DRAM before and after it (of single
    operators in `flex`, whose S may stay on chip, so that it moves less; of L, softmax and A
    together in `flat`). ``array_macs_per_cycle`` is the second roof: the rate of the array with
    these tiles, limited by loading it, part-filled folds and skew. On several chips these are of
    one chip; ``most_macs_per_byte`` is that of the whole group, which no chip exceeds.
    """
    points: list[Row] = []
    for row, workload in zip(rows, workloads, strict=True):
        for operator in (row.result or {}).get("operators", ()):
            if not operator["macs"]:
                continue
            moved = total_of(operator["bytes"]["dram"])
            names = operators_of(workload, operator["name"])
            least = group_bytes(workload, names) * workload.times(names[0])
            intensity = operator["macs"] / moved if moved else float("inf")
            macs = sum(workload.operator(name).macs * workload.times(name) for name in names)
            most = macs / least if least else float("inf")
            share = mac_share(workload, accelerator, names)
            native = operator["native_macs"] * float(share)
            peak = accelerator.pes * operator["macs"] / max(1, native)
            roof = min(peak, intensity * _peak_of(operator, workload, accelerator))
            array = operator["macs"] / max(1, operator["work_cycles"].get(ARRAY, 0))
            points.append(
                {
                    "seq_len": row.seq_len,
                    "dataflow": row.dataflow,
                    "operator": operator["name"],
                    "macs": operator["macs"],
                    "dram_bytes": moved,
                    "macs_per_byte": intensity,
                    "most_macs_per_byte": most,
                    "roof_macs_per_cycle": roof,
                    "array_macs_per_cycle": array,
                    "macs_per_cycle": operator["macs"] / operator["busy_cycles"],
                    "limit": operator["limit"]["name"],
                }
            )
    return points


def _peak_of(operator: Mapping[str, Any], workload: Workload, accelerator: Accelerator) -> float:
    """Return the bytes per cycle of all memories of a group, in the proportions of its bytes."""
    moved: dict[str, int] = {}
    for tensors in operator["bytes"]["dram"].values():
        for name, n_bytes in tensors.items():
            kind = workload.tensors[name].kind if name in workload.tensors else "intermediate"
            at = accelerator.memory(kind)
            moved[at] = moved.get(at, 0) + n_bytes
    total, backing = sum(moved.values()), accelerator.every_backing
    rates = {at: peak_bytes_per_cycle(backing[at]) for at in moved}
    return min(
        (rate * total / moved[at] for at, rate in rates.items() if rate and moved[at]),
        default=float("inf"),
    )


def granularity_rows(rows: Sequence[StudyRow], workloads: Sequence[Workload]) -> list[Row]:
    """Return the utilisation of the attentions by dataflow and buffer size (Fig. 9).

    For a workload without attention, it is that of all operators.
    """
    figures: list[Row] = []
    for row, workload in zip(rows, workloads, strict=True):
        inside = _attentions(workload)
        row_figures: Row = {"seq_len": row.seq_len, "dataflow": row.dataflow}
        if row.lead is not None:
            row_figures = {row.lead.axis.column: row.lead.value, **row_figures}
        row_figures |= dict.fromkeys(("cycles", "utilisation", "footprint_bytes"))
        figures.append(row_figures)
        result = row.result
        if result is None:
            continue
        covered = [
            each
            for each in result["operators"]
            if not inside or {*operators_of(workload, each["name"])} <= inside
        ]
        cycles = sum(each["cycles"] for each in covered)
        pes = result["ideal_cycles"] and result["macs"] / result["utilisation"] / result["cycles"]
        row_figures |= {
            "cycles": cycles,
            "utilisation": sum(each["macs"] for each in covered) / pes / cycles,
            "footprint_bytes": result["footprint_bytes"],
        }
    return figures


def breakdown_rows(rows: Sequence[StudyRow], workloads: Sequence[Workload]) -> list[Row]:
    """Return the cycles of each part of a model by dataflow and length (Fig. 15).

    ``normalised`` divides them by the ideal cycles of all (MACs by peak MACs per cycle).
    """
    parts_rows: list[Row] = []
    for row, workload in zip(rows, workloads, strict=True):
        if row.result is None:
            continue
        cycles = dict[str, int]()
        for operator in row.result["operators"]:
            name = part_of(workload, operator)
            cycles[name] = cycles.get(name, 0) + operator["cycles"]
        ideal = row.result["ideal_cycles"]
        for name, n in sorted(cycles.items(), key=lambda pair: PARTS.index(pair[0])):
            parts_rows.append(
                {
                    "seq_len": row.seq_len,
                    "dataflow": row.dataflow,
                    "part": name,
                    "cycles": n,
                    "share": n / row.result["cycles"],
                    "normalised": n / ideal if ideal else None,
                }
            )
    return parts_rows


PARTS: Final = ("projections", ATTENTION, "other einsums", "vector operators", LINKS)
"""The parts of a model: einsums directly before and after an attention are its projections."""


def part_of(workload: Workload, operator: Mapping[str, Any]) -> str:
    """Return the part of a model to which an operator of a result belongs.

    Collectives and messages between chips are ``links``.
    """
    if LINK in operator["bytes"]:
        return LINKS
    operators, attentions = operators_of(workload, operator["name"]), _attentions(workload)
    if {*operators} & attentions:
        return ATTENTION
    einsums = [name for name in operators if not isinstance(workload.operator(name), Vector)]
    if not einsums:
        return "vector operators"
    beside = _projections_of(workload, attentions)
    return "projections" if {*einsums} & beside else "other einsums"


def _attentions(workload: Workload) -> set[str]:
    """Return the softmaxes between two einsums, with these."""
    made = {operator.output.tensor: operator for operator in workload.operators}
    attentions: set[str] = set()
    for softmax in workload.operators:
        if isinstance(softmax, Vector) and softmax.kind == "softmax":
            einsums = [
                each
                for each in workload.operators
                if each is made.get(softmax.input.tensor)
                or softmax.output.tensor in {read.tensor for read in each.inputs}
            ]
            if len(einsums) > 1 and not any(isinstance(each, Vector) for each in einsums):
                attentions |= {softmax.name, *(each.name for each in einsums)}
    return attentions


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
_KNOWN: Final = {column.path: column for column in _COLUMNS}


def exhibit_table(rows: Sequence[Row]) -> Table:
    """Return an exhibit as a table, without columns that are constant."""
    hidden = {"macs", *["seq_len"] * (len({row["seq_len"] for row in rows}) == 1)}
    shown = [_KNOWN.get(name, Column(name, name)) for name in rows[0] if name not in hidden]

    def key(row: Row) -> tuple[object, ...]:
        return row["seq_len"], row["dataflow"]

    several = len(rows) > len({*map(key, rows)})
    return tabulate(rows, shown, apart=key if several else bool)


def exhibit_json(name: Exhibit, rows: Sequence[Row]) -> dict[str, Any]:
    """Return an exhibit as one JSON object; infinite values (no traffic) are null."""
    plain = [{k: None if v == float("inf") else v for k, v in row.items()} for row in rows]
    return {"exhibit": name, "rows": plain}
