"""Bytes of transfers, and of blocks that PEs process in steps, by resource and tensor."""

from __future__ import annotations

from collections import Counter

from simaccel.hardware import Accelerator
from simaccel.hardware.memory import way_outside
from simaccel.machine.instructions import Amounts
from simaccel.program.program import (
    BUFFER,
    STREAM,
    Compute,
    Load,
    Steps,
    Store,
    Tile,
    TransferTraffic,
    transfer_of,
)


def bytes_of_transfer(command: Load | Store, accelerator: Accelerator) -> Amounts:
    """Return the bytes of a transfer: at the outer memory, on the pipe, and in buffer or PEs."""
    view, moved = transfer_of(command)
    reads = isinstance(command, Load)
    far = command.source if isinstance(command, Load) else command.target
    way = "read" if reads else "write"
    outside = way_outside(way, view.kind) if far is None else f"{BUFFER}_{way}"
    carried: Counter[tuple[str, str]] = Counter()
    carried[outside, view.name] += moved.outer
    place = command.tile.place
    if place != BUFFER:
        pipe = "noc_distribution" if reads else "noc_collection"
        carried[pipe, view.name] += _on_pipe(moved, accelerator) if reads else moved.outer
    if place != STREAM:
        carried[f"{place}_{'write' if reads else 'read'}", view.name] += moved.inner
    return tuple(carried.items())


def bytes_of_pass(command: Compute, steps: Steps, accelerator: Accelerator) -> Amounts:
    """Return the bytes of a pass: in the PEs' memories, and in the buffer for other operands."""
    carried: Counter[tuple[str, str]] = Counter()
    for tile, moved in zip((*command.inputs, command.out), steps.reads, strict=True):
        _access(carried, tile, moved, _on_pipe(moved, accelerator), reads=True)
    _access(carried, command.out, steps.writes, steps.writes.outer, reads=False)
    return tuple(carried.items())


def _access(
    found: Counter[tuple[str, str]], tile: Tile, moved: TransferTraffic, piped: int, *, reads: bool
) -> None:
    name = tile.view.name
    if tile.place == BUFFER:
        found[f"{BUFFER}_{'read' if reads else 'write'}", name] += moved.outer
        found["noc_distribution" if reads else "noc_collection", name] += piped
    elif tile.place != STREAM:
        found[f"{tile.place}_{'read' if reads else 'write'}", name] += moved.inner


def _on_pipe(moved: TransferTraffic, accelerator: Accelerator) -> int:
    """Return the bytes on the distribution pipe: once for all PEs, or once for each."""
    return moved.outer if accelerator.noc.distribution.multicasts else moved.inner
