"""Tables, JSON and CSV of a bound: the DRAM traffic that mappings can attain with a buffer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from simaccel.analytic.native import least_array_cycles
from simaccel.hardware import Accelerator
from simaccel.mapping.documents import mapping_document
from simaccel.papers.orojenesis.single import Mapspace
from simaccel.papers.orojenesis.whole import WorkloadBound, WorkloadPoint
from simaccel.report.tables import Column, Row, Table, pick, tabulate
from simaccel.report.units import bytes_text, cycles_text
from simaccel.run.memories import least_memory_cycles

_ROWS = 16
"""Most points of a table."""


@dataclass(frozen=True, kw_only=True)
class BoundReport:
    """A bound, and what it is compared with: compulsory bytes, an accelerator, one buffer."""

    found: WorkloadBound
    mapspace: Mapspace
    fuse: str
    compulsory_bytes: int
    accelerator: Accelerator | None = None
    room: int | None = None

    @property
    def chosen(self) -> WorkloadPoint | None:
        """The point for the given buffer."""
        number = None if self.room is None else self.found.front.find_point(self.room)
        return None if number is None else self.found.point(number)

    def intensity(self, dram_bytes: int) -> float:
        """Return operations per byte."""
        return self.found.operations / dram_bytes

    def performance(self, dram_bytes: int) -> float | None:
        """Return the operations per second that the array and the memory bandwidths allow.

        Memories beside the DRAM transfer as much as they can at the same time, and at least what
        only they hold.
        """
        if self.accelerator is None:
            return None
        on, operations = self.accelerator, self.found.operations
        backing = on.every_backing
        rates = [memory.dram.bandwidth_bytes_per_second for memory in backing.values()]
        cycles = least_array_cycles(self.found.workload, on)
        limits = [float(2 * self.found.workload.macs / cycles) * on.clock_hz] if cycles else []
        if None not in rates:
            limits.append(self.intensity(dram_bytes) * sum(n or 0 for n in rates))
        alone = least_memory_cycles(self.found.workload, on) if len(backing) > 1 else {}
        limits += [operations / n * on.clock_hz for at, n in alone.items() if n]
        return min(limits)


def bound_parts(report: BoundReport) -> list[Table | str]:
    """Return a bound as text: that of the given buffer, the front's end, its points, their counts.

    The table has the points of the front; of many, evenly spaced ones.
    """
    bound, (room, moved) = report.found, report.found.front.largest
    effectual = f"maximal effectual buffer {bytes_text(room)} ({cycles_text(room)} B)"
    gap = f"{moved / report.compulsory_bytes:.3f} x the compulsory "
    parts: list[Table | str] = [
        *_chosen_lines(report),
        f"{effectual}: a larger one saves nothing",
        f"there {bytes_text(moved)}, {gap}{bytes_text(report.compulsory_bytes)}",
        _front_table(report),
        f"{len(bound.front)} points over {cycles_text(bound.mappings)} mappings",
    ]
    if not bound.all_sizes:
        parts.append(
            "not all sizes were tried (of windows, or second cuts of more than three tensors: too "
            "many), so lower may be possible"
        )
    return parts


def _front_table(report: BoundReport) -> Table:
    rows, compulsory, digits = bound_rows(report), report.compulsory_bytes, "{:.3g}".format
    shown = {round(n * (len(rows) - 1) / (_ROWS - 1)) for n in range(_ROWS)}
    columns = [
        Column("buffer", "buffer_bytes", "B"),
        Column("DRAM", "dram_bytes", "B"),
        Column("of compulsory", "dram_bytes", lambda moved: f"{moved / compulsory:.2f} x"),
        Column("ops/B", "operations_per_byte", digits),
        Column("ops/s", "operations_per_second", digits),
    ]
    return tabulate([rows[at] for at in sorted(shown)], columns[: 5 if report.accelerator else 4])


def _chosen_lines(report: BoundReport) -> Iterator[str]:
    bound, chosen = report.found, report.chosen
    if report.room is None:
        return
    room = bytes_text(report.room)
    if chosen is None:
        smallest = bytes_text(bound.front.smallest)
        yield f"with {room}: no mapping fits; the smallest buffer is {smallest}"
        return
    gap = f"{chosen.dram_bytes / report.compulsory_bytes:.2f} x compulsory"
    least = f"{bytes_text(chosen.dram_bytes)} ({gap})"
    attained = f"attained with {cycles_text(chosen.buffer_bytes)} B"
    yield f"bound of any mapping with {room}: {least}, {attained}"
    if chosen.moved_bytes != chosen.dram_bytes:
        why = "whose windows slide in their innermost loop only (--halo machine bounds that)"
        if bound.workload.packed:
            why = "which rounds each tile of elements of 4 bits up to bytes"
        moved = bytes_text(chosen.moved_bytes)
        yield f"its mapping moves {moved} on simaccel's machine, {why}"


def bound_json(report: BoundReport) -> dict[str, Any]:
    """Return a bound as one JSON object (the format of ``simaccel bound --json``)."""
    bound, (room, moved), rows = report.found, report.found.front.largest, bound_rows(report)
    document: dict[str, Any] = {
        **pick(bound.workload, workload="name", fingerprint="fingerprint"),
        "mapspace": {**vars(report.mapspace), "fuse": report.fuse},
        **pick(bound, "mappings", "all_sizes"),
        "macs": bound.workload.macs,
        "operations": bound.operations,
        "compulsory_bytes": report.compulsory_bytes,
        "max_effectual_buffer_bytes": room,
        "least_dram_bytes": moved,
        "gap": moved / report.compulsory_bytes,
        "points": [[row["buffer_bytes"], row["dram_bytes"]] for row in rows],
        "operations_per_byte": [row["operations_per_byte"] for row in rows],
    }
    if report.accelerator is not None:
        document["accelerator"] = report.accelerator.name
        document["operations_per_second"] = [row["operations_per_second"] for row in rows]
    if report.room is not None:
        document["at"] = _chosen_json(report)
    return document


def _chosen_json(report: BoundReport) -> dict[str, Any]:
    chosen = report.chosen
    buffer: dict[str, Any] = {"asked_bytes": report.room}
    if chosen is None:
        return {**buffer, "smallest_buffer_bytes": report.found.front.smallest, "dram_bytes": None}
    mapping = report.found.mapping(chosen)
    return {
        **buffer,
        **pick(chosen, "buffer_bytes", "dram_bytes", machine_dram_bytes="moved_bytes"),
        "gap": chosen.dram_bytes / report.compulsory_bytes,
        "segments": [list(segment.operators) for segment, _ in chosen.parts],
        "mapping": None if mapping is None else mapping_document(mapping),
    }


def bound_rows(report: BoundReport) -> list[Row]:
    """Return the points as plain rows; with an accelerator also its performance."""
    rows = []
    for room, moved in report.found.front.points():
        row: Row = {
            "buffer_bytes": room,
            "dram_bytes": moved,
            "operations_per_byte": report.intensity(moved),
        }
        if report.accelerator is not None:
            row["operations_per_second"] = report.performance(moved)
        rows.append(row)
    return rows
