"""`bound` in Python: the least DRAM traffic of any mapping."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from simaccel.analytic.floor.compulsory import compulsory_bytes
from simaccel.analytic.floor.problem import NoBoundError
from simaccel.errors import Fault, InputError, name_arguments, require_none, suggest
from simaccel.hardware import Accelerator
from simaccel.hardware.quantity import parse_quantity
from simaccel.papers.orojenesis.commands.tables import Bound
from simaccel.papers.orojenesis.halo import HALOS
from simaccel.papers.orojenesis.single import Mapspace
from simaccel.papers.orojenesis.whole import FUSIONS, UNFUSED, workload_bound
from simaccel.study.placement import gather_placed
from simaccel.verbs.inputs import (
    AcceleratorLike,
    WorkloadLike,
    as_accelerator,
    as_workload,
    check_types,
)
from simaccel.workload import Workload, operands_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_FEW_OPERATORS: Final = 4
"""Operators up to which fused bounds of every tile size take about a second."""
_MANY_OPERATORS: Final = 12
"""Operators beyond which figures have no fused bound, as it would take minutes."""


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
        return parse_quantity(buffer, "B") if isinstance(buffer, str) else buffer
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
