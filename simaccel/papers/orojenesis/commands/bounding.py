"""`bound` in Python: the DRAM traffic that mappings attain with a buffer; tables, JSON, figure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from simaccel.analytic.floor.compulsory import compulsory_bytes
from simaccel.analytic.floor.problem import NoBoundError
from simaccel.analytic.native import least_array_cycles, least_memory_cycles
from simaccel.errors import Fault, InputError, name_arguments, require_none, suggest
from simaccel.hardware import Accelerator
from simaccel.hardware.quantity import parse_quantity
from simaccel.mapping.documents import mapping_document
from simaccel.mapping.tree import Mapping
from simaccel.papers.orojenesis.halo import HALOS
from simaccel.papers.orojenesis.single import Mapspace
from simaccel.papers.orojenesis.whole import (
    FUSIONS,
    UNFUSED,
    WorkloadBound,
    WorkloadPoint,
    workload_bound,
)
from simaccel.report.tables import Column, Row, Table, pick, tabulate
from simaccel.report.titles import workload_title
from simaccel.report.units import bytes_text
from simaccel.study.placement import gather_placed
from simaccel.verbs.inputs import (
    AcceleratorLike,
    WorkloadLike,
    as_accelerator,
    as_workload,
    check_types,
)
from simaccel.verbs.showing import ShownResult
from simaccel.workload import Workload, operands_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FEW_OPERATORS: Final = 4
"""Operators up to which fused bounds of every tile size take about a second."""
_MANY_OPERATORS: Final = 12
"""Operators beyond which figures have no fused bound, as it would take minutes."""
_ROWS = 16
"""Most points of a table."""
_DIGITS = "{:.3g}".format
_TIMES = "{:.2f} x".format


@dataclass(frozen=True, kw_only=True, repr=False)
class Bound(ShownResult):
    """Points (bytes kept on chip, bytes moved) that no mapping of the mapspace beats in both.

    They are compared with the compulsory bytes, and with an accelerator and one buffer (``room``).
    """

    found: WorkloadBound
    mapspace: Mapspace
    fuse: str
    compulsory_bytes: int
    accelerator: Accelerator | None = None
    room: int | None = None

    @property
    def title(self) -> str:
        """The title, with the workload; several chips are treated as one that does everything."""
        on = self.accelerator
        alone = f", all of it on one of {on.pod.count} chips" if on and on.pod.count > 1 else ""
        return f"{workload_title(self.found.workload)}: least DRAM traffic{alone}"

    def __repr__(self) -> str:
        room, moved = self.found.front.largest
        least = f"{bytes_text(moved)} with {bytes_text(room)} or more"
        return f"<Bound {self.title}: {least}, {len(self.points)} points>"

    @property
    def points(self) -> list[tuple[int, int]]:
        """Pairs of buffer bytes and least bytes moved."""
        return [(room, moved) for room, moved in self.found.front.points()]

    @property
    def mapping(self) -> Mapping | None:
        """The mapping that attains the bound for ``buffer``; None if there is none."""
        return None if self.chosen is None else self.found.mapping(self.chosen)

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

    def _parts(self) -> list[Table | str]:
        """Return the bound for the buffer, the front's end, its points, their counts.

        The table has the points of the front; of many, evenly spaced ones.
        """
        bound, (room, moved), rows = self.found, self.found.front.largest, self._rows()
        exact = f" ({room:,} B)".replace(f" ({bytes_text(room)})", "")
        effectual = f"maximal effectual buffer {bytes_text(room)}{exact}"
        gap = f"{moved / self.compulsory_bytes:.3f} x the compulsory "
        shown = sorted({round(n * (len(rows) - 1) / (_ROWS - 1)) for n in range(_ROWS)})
        columns = [
            Column("buffer", "buffer_bytes", "B"),
            Column("DRAM", "dram_bytes", "B"),
            Column("of compulsory", lambda row: row["dram_bytes"] / self.compulsory_bytes, _TIMES),
            Column("ops/B", "operations_per_byte", _DIGITS),
            Column("ops/s", "operations_per_second", _DIGITS),
        ]
        parts: list[Table | str] = [
            *self._chosen_lines(),
            f"{effectual}: a larger one saves nothing",
            f"there {bytes_text(moved)}, {gap}{bytes_text(self.compulsory_bytes)}",
            tabulate([rows[at] for at in shown], columns[: 5 if self.accelerator else 4]),
            f"{len(bound.front)} points over {bound.mappings:,} mappings",
        ]
        if not bound.all_sizes:
            parts.append(
                "not all sizes were tried (of windows, or second cuts of more than three tensors: "
                "too many), so lower may be possible"
            )
        return parts

    def _chosen_lines(self) -> Iterator[str]:
        bound, chosen = self.found, self.chosen
        if self.room is None:
            return
        room = bytes_text(self.room)
        if chosen is None:
            smallest = bytes_text(bound.front.smallest)
            yield f"with {room}: no mapping fits; the smallest buffer is {smallest}"
            return
        gap = f"{chosen.dram_bytes / self.compulsory_bytes:.2f} x compulsory"
        least = f"{bytes_text(chosen.dram_bytes)} ({gap})"
        attained = f"attained with {chosen.buffer_bytes:,} B"
        yield f"bound of any mapping with {room}: {least}, {attained}"
        if chosen.moved_bytes != chosen.dram_bytes:
            why = "whose windows slide in their innermost loop only (--halo machine bounds that)"
            if bound.workload.packed:
                why = "which rounds each tile of elements of 4 bits up to bytes"
            moved = bytes_text(chosen.moved_bytes)
            yield f"its mapping moves {moved} on simaccel's machine, {why}"

    def to_dict(self) -> dict[str, Any]:
        """Return the bound as plain data (the format of ``simaccel bound --json``)."""
        bound, (room, moved), rows = self.found, self.found.front.largest, self._rows()
        document: dict[str, Any] = {
            **pick(bound.workload, workload="name", fingerprint="fingerprint"),
            "mapspace": {**vars(self.mapspace), "fuse": self.fuse},
            **pick(bound, "mappings", "all_sizes", macs="workload.macs", operations="operations"),
            "compulsory_bytes": self.compulsory_bytes,
            "max_effectual_buffer_bytes": room,
            "least_dram_bytes": moved,
            "gap": moved / self.compulsory_bytes,
            "points": [[row["buffer_bytes"], row["dram_bytes"]] for row in rows],
            "operations_per_byte": [row["operations_per_byte"] for row in rows],
        }
        if self.accelerator is not None:
            document["accelerator"] = self.accelerator.name
            document["operations_per_second"] = [row["operations_per_second"] for row in rows]
        if self.room is not None:
            document["at"] = {"asked_bytes": self.room, **self._chosen_document()}
        return document

    def _chosen_document(self) -> dict[str, Any]:
        chosen, mapping = self.chosen, self.mapping
        if chosen is None:
            return {"smallest_buffer_bytes": self.found.front.smallest, "dram_bytes": None}
        return {
            **pick(chosen, "buffer_bytes", "dram_bytes", machine_dram_bytes="moved_bytes"),
            "gap": chosen.dram_bytes / self.compulsory_bytes,
            "segments": [list(segment.operators) for segment, _ in chosen.parts],
            "mapping": None if mapping is None else mapping_document(mapping),
        }

    def _rows(self) -> list[Row]:
        """Return the points as plain rows; with an accelerator also its performance."""
        rows = []
        for room, moved in self.points:
            row: Row = {"buffer_bytes": room, "dram_bytes": moved}
            row["operations_per_byte"] = self.intensity(moved)
            if self.accelerator is not None:
                row["operations_per_second"] = self.performance(moved)
            rows.append(row)
        return rows

    def _draw(self) -> Figure:
        from simaccel.papers.orojenesis.commands.figures import draw_bound
        from simaccel.report.figures.facets import FigureAxis

        curves: dict[FigureAxis, Callable[[int], float]] = {
            FigureAxis("bytes to and from DRAM", "B", log=True): float,
            FigureAxis("operations per byte", log=True): self.intensity,
        }
        if self.accelerator is not None:
            label = FigureAxis(f"TOPS on {self.accelerator.name}", log=True)
            curves[label] = lambda n: (self.performance(n) or 0.0) / 1e12
        return draw_bound(self.title, self.points, curves, self.compulsory_bytes, self.room)


@name_arguments()
@check_types("workload", "accelerator")
def bound(
    workload: WorkloadLike,
    accelerator: AcceleratorLike | None = None,
    *,
    buffer: int | str | None = None,
    mapspace: Mapspace | None = None,
    fuse: str = UNFUSED,
) -> Bound:
    """Bound the DRAM traffic of any mapping, for every size of the buffer (Orojenesis).

    ``buffer``: bytes (or text, ``64 KiB``) for which point and mapping are returned; by default
    those of the accelerator, if there is one. ``mapspace`` is the set of mappings, ``fuse`` the
    way in which operators are fused.

    Raises:
        SimaccelError: an input can't be read, or the bound of an operator isn't known.
    """
    checked, loaded, room, _ = gather_placed(
        lambda: as_workload(workload),
        lambda: None if accelerator is None else as_accelerator(accelerator),
        lambda: _bytes(buffer),
        lambda: _require_known(mapspace or Mapspace(), fuse),
    )
    return bound_of(checked, mapspace or Mapspace(), fuse, loaded, room)


def bound_of(
    workload: Workload,
    mapspace: Mapspace,
    fuse: str,
    accelerator: Accelerator | None,
    room: int | None,
) -> Bound:
    """Return the bound of a workload; ``room``: bytes of the buffer for point and mapping."""
    if accelerator is not None and room is None:
        room = accelerator.buffer.capacity_bytes
    names = [operator.name for operator in workload.operators]
    runs = [list(run) for _, run in groupby(names, workload.times)]
    parts = [[name] for name in names] if fuse == UNFUSED else runs
    return Bound(
        found=workload_bound(workload, mapspace, fuse),
        mapspace=mapspace,
        fuse=fuse,
        compulsory_bytes=compulsory_bytes(workload, parts),
        accelerator=accelerator,
        room=room,
    )


def _bytes(buffer: int | str | None) -> int | None:
    try:
        return None if buffer is None else parse_quantity(buffer, "B")
    except ValueError as error:
        raise InputError([Fault("bound", "buffer", buffer, str(error))]) from None


def _require_known(mapspace: Mapspace, fuse: str) -> None:
    """Refuse unknown values, and options that don't go together.

    Raises:
        InputError: all faults.
    """
    faults = []
    if fuse not in FUSIONS:
        faults.append(Fault("bound", "fuse", fuse, suggest(fuse, FUSIONS)))
    if mapspace.halo not in HALOS:
        faults.append(Fault("bound", "mapspace.halo", mapspace.halo, suggest(mapspace.halo, HALOS)))
    if mapspace.bypass and (mapspace.uneven or mapspace.array or fuse != UNFUSED):
        faults.append(Fault("bound", "mapspace.bypass", "True", "False with uneven, array or fuse"))
    require_none(faults)


def bounds_by_buffer(workload: Workload) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """Yield a name and the points (bytes of the buffer, least DRAM bytes) of each bound.

    The bound unfused comes first, then fused; over all tile sizes where that is quick. None follows
    one that is unknown.
    """
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
            yield label, [*workload_bound(workload, mapspace, fuse).front.points()]
        except NoBoundError:
            return
