"""Blocks on a systolic array as (batched) matrix products."""

from __future__ import annotations

from simaccel.hardware import PLACES, Accelerator, ArraySpec, Stationarity
from simaccel.hardware.fold_grid import spatial
from simaccel.program.program import (
    Compute,
    DoesNotFitError,
    Folds,
    Program,
    ProgramError,
    commands,
)
from simaccel.workload.roles import part_of


def folded_shape(command: Compute) -> tuple[int, int, int, int]:
    """Return (g, m, k, n) of a block that is ``g`` products of m x k by k x n.

    Ranks of size 1 may be in any tensors.

    Raises:
        ProgramError: there are not two inputs, or a rank plays none of these roles.

    """
    if len(command.inputs) != 2:  # noqa: PLR2004 - a product has two factors
        raise ProgramError(
            f"{command.out.name}: folds multiply two inputs, this command has {len(command.inputs)}"
        )
    tensors = [tile.view.names for tile in (*command.inputs, command.out)]
    sizes = dict.fromkeys("gmkn", 1)
    for rank, size in zip(command.ranks, command.shape, strict=True):
        if size == 1:
            continue
        part = part_of(rank, tensors)
        if part is None:
            names = [tile.name for tile in (*command.inputs, command.out)]
            raise ProgramError(
                f"rank {rank} of size {size} can't be folded: it has to be in two of "
                f"{', '.join(names)}, or in all three"
            )
        sizes[part] *= size
    return sizes["g"], sizes["m"], sizes["k"], sizes["n"]


def streamed_run(command: Compute, stationarity: Stationarity) -> int:
    """Return the size of the innermost streaming rank."""
    tensors = [tile.view.names for tile in (*command.inputs, command.out)]
    streams = PLACES[stationarity][2]
    found = [
        size
        for rank, size in zip(command.ranks, command.shape, strict=True)
        if part_of(rank, tensors) == streams
    ]
    return found[-1] if found else 1


def require_sums_fit(program: Program, accelerator: Accelerator) -> None:
    """Refuse a program with a block whose sums exceed the array's accumulator.

    Raises:
        DoesNotFitError: the message names the first such block and the bytes that it needs.

    """
    array = accelerator.array
    if not isinstance(array, ArraySpec) or array.accumulator is None:
        return
    capacity = array.accumulator.capacity_bytes
    for command in commands(program.body):
        if not isinstance(command, Compute) or not isinstance(command.on, Folds):
            continue
        folds, (g, m, k, n) = command.on, folded_shape(command)
        high, wide, stream = spatial(m, k, n, folds.stationarity)
        sides = folds.rows or array.rows, folds.cols or array.cols
        pace = array.pace(tile.view.element for tile in command.inputs)
        sizes, held = (high, wide, stream), folds.stationarity
        grid = array.grid(sizes, sides, pace, held, g, diagonal=folds.diagonal)
        accumulator = array.accumulates(folds.stationarity)
        need = 0 if accumulator is None else accumulator.n_bytes(grid)
        if capacity is not None and need > capacity:
            cols = min(grid.wide, grid.cols)
            width = array.accumulator.bytes_per_element
            raise DoesNotFitError(
                f"{command.out.name}: {grid.steps} x {cols} sums of {width} B need {need} B, "
                f"array.accumulator.capacity_bytes is {capacity} B; allowed: at most "
                f"{capacity // (cols * width)} {folds.stationarity} steps in a block, a larger "
                "accumulator, or os"
            )
