"""Blocks on a systolic array: as matrix products, and their folds as a small tree of loops."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import lru_cache

from simaccel.hardware import PLACES, Accelerator, ArraySpec, FoldGrid, Stationarity
from simaccel.hardware.fold_grid import spatial
from simaccel.numbers import Element
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
        block = _block_of(command, command.on, array)
        grid, accumulator = block.grid(array), array.accumulates(block.stationarity)
        need = 0 if accumulator is None else accumulator.n_bytes(grid)
        if capacity is not None and need > capacity:
            cols = min(grid.wide, grid.cols)
            width = array.accumulator.bytes_per_element
            raise DoesNotFitError(
                f"{command.out.name}: {grid.steps} x {cols} sums of {width} B need {need} B, "
                f"array.accumulator.capacity_bytes is {capacity} B; allowed: at most "
                f"{capacity // (cols * width)} {block.stationarity} steps in a block, a larger "
                "accumulator, or os"
            )


@dataclass(frozen=True)
class Fold:
    """One pass over the array, or over several at once: its cycles and the bytes that it moves."""

    cycles: int
    macs: int
    native_macs: int
    """MACs in units of the multipliers' native width; a MAC of wide operands is several."""
    a_bytes: int
    b_bytes: int
    sums_bytes: int
    """Bytes of partial sums that are read before they are added to."""
    out_bytes: int
    a_sent_bytes: int
    """Bytes of A through the distribution pipes; ``b_sent_bytes``: those of B."""
    b_sent_bytes: int
    pipe_in_bytes: int
    """Bytes through the distribution pipe of the array with most."""
    pipe_out_bytes: int
    """Bytes through the collection pipe of the array with most."""
    held_read_bytes: int = 0
    """Bytes of the accumulator for sums that the fold adds to."""
    held_write_bytes: int = 0


@dataclass(frozen=True)
class FoldLoop:
    """The same folds, ``trips`` times."""

    trips: int
    body: tuple[Fold | FoldLoop, ...]


@dataclass(frozen=True)
class _FoldedBlock:
    """The parameters of a block that determine its folds: (g, m, k, n), elements of A, B and C.

    ``run``: positions of the innermost streaming rank. ``rows``, ``cols``: of a full fold.
    ``sums``: it adds to sums of earlier blocks. ``diagonal``: products may share an array.
    """

    shape: tuple[int, int, int, int]
    run: int
    elements: tuple[Element, Element, Element]
    rows: int
    cols: int
    stationarity: Stationarity
    sums: bool
    diagonal: bool

    def grid(self, array: ArraySpec) -> FoldGrid[int]:
        """Return the grid of folds into which an array cuts it."""
        g, m, k, n = self.shape
        sizes, sides = spatial(m, k, n, self.stationarity), (self.rows, self.cols)
        how = array.pace(self.elements[:2]), self.stationarity, g, self.run
        return array.grid(sizes, sides, *how, diagonal=self.diagonal)


@dataclass(frozen=True)
class _PlacedBlock:
    """A block on the array, cut into folds by ``grid``."""

    block: _FoldedBlock
    accelerator: Accelerator
    grid: FoldGrid[int]
    products: int = 1
    """Products that run at once, each on arrays or on a part of a diagonal of its own."""

    def fold(
        self, rows: int, cols: int, *, sums: bool, adds: bool = False, leaves: bool = True
    ) -> Fold:
        """Return the costs of a fold of ``rows`` x ``cols`` PEs, or of folds on several arrays.

        ``sums``: it adds to sums in the buffer; ``adds``: to sums in the accumulator. Its results
        go to the buffer if ``leaves``, and stay in the accumulator otherwise.
        """
        array, stationarity = self.accelerator.systolic, self.block.stationarity
        (a_bits, _), (b_bits, _), (out_bits, _) = self.block.elements
        grid = self.grid
        moved = array.fold_bytes(
            grid,
            (rows, cols),
            stationarity,
            (a_bits, b_bits, out_bits),
            multicasts=self.accelerator.noc.distribution.multicasts,
            products=self.products,
            together=min(self.products, grid.beside),
        )
        # sums that stay beside an array leave it with the last fold, whichever array that is on
        adding = (
            moved.adding if not adds else grid.arrays(min(grid.high, grid.round_rows), cols).down
        )
        accumulator = array.accumulates(stationarity)
        width = 0 if accumulator is None else accumulator.bytes_per_element
        macs = rows * cols * grid.stream * self.products
        return Fold(
            cycles=array.cycles_in(grid, min(rows, grid.rows), min(cols, grid.cols), stationarity),
            macs=macs,
            native_macs=macs * grid.cycles_per_mac,
            a_bytes=moved.a,
            b_bytes=moved.b,
            sums_bytes=moved.out * (sums + (adding - 1) * leaves),
            out_bytes=moved.out * adding * leaves,
            a_sent_bytes=moved.a_sent,
            b_sent_bytes=moved.b_sent,
            pipe_in_bytes=moved.pipe_in,
            pipe_out_bytes=moved.pipe_out * leaves,
            held_read_bytes=self.products * cols * grid.stream * width * adding * adds,
            held_write_bytes=self.products
            * cols
            * grid.stream
            * width
            * moved.adding
            * (not leaves),
        )


@dataclass(frozen=True)
class BlockFolds:
    """A command on the array: its fill, the folds of all products, and its drain.

    ``hidden``: last cycles of the folds in which the next stationary operand may shift in.
    ``leaving``: cycles after the folds for which leaving sums hold up those of the next block.
    """

    lead: int
    folds: FoldLoop
    tail: int
    hidden: int
    leaving: int


@dataclass(frozen=True, slots=True)
class FoldEdge:
    """The beginning or the end of a block's folds.

    ``cycles``: for shifting in its stationary operand, or for results to leave.
    ``latency_cycles``: of the NoC. ``held``, ``streamed``: its input tiles; ``made``: its output.
    """

    cycles: int
    latency_cycles: int
    held: tuple[str, ...] = ()
    streamed: tuple[str, ...] = ()
    made: str = ""
    hidden: int = 0
    """Last cycles of its folds in which the next stationary operand, or sums, may shift."""
    leaving: int = 0
    """Cycles after its folds for which its leaving sums hold up those of the next block."""


def folds_of(command: Compute, folds: Folds, accelerator: Accelerator) -> BlockFolds:
    """Return the folds of a command.

    Columns are the outer loop, rows the inner one: if rows hold the reduction (ws, is), the folds
    that add to the same outputs follow one another.

    Raises:
        ProgramError: the block can't be folded, or a fold is larger than the array.
    """
    return _fold_block(_block_of(command, folds, accelerator.systolic), accelerator)


def _block_of(command: Compute, folds: Folds, array: ArraySpec) -> _FoldedBlock:
    shape = folded_shape(command)
    a, b, out = (tile.view.element for tile in (*command.inputs, command.out))
    return _FoldedBlock(
        shape=shape,
        run=streamed_run(command, folds.stationarity),
        elements=(a, b, out),
        rows=_side(command, folds.rows, array.rows, "rows"),
        cols=_side(command, folds.cols, array.cols, "cols"),
        stationarity=folds.stationarity,
        sums=command.accumulate,
        diagonal=folds.diagonal,
    )


@lru_cache(1 << 14)
def _fold_block(block: _FoldedBlock, accelerator: Accelerator) -> BlockFolds:
    array, g = accelerator.systolic, block.shape[0]
    grid = block.grid(array)
    at_once = 1 if grid.gang is None else grid.gang.products
    place = _PlacedBlock(block, accelerator, grid, at_once)
    rounds = FoldLoop(g // at_once, _columns(place))
    if g % at_once:
        last = FoldLoop(1, _columns(replace(place, products=g % at_once)))
        rounds = FoldLoop(1, (rounds, last) if g >= at_once else (last,))
    return BlockFolds(
        lead=array.lead_cycles(grid, block.stationarity),
        folds=rounds,
        tail=array.tail_cycles(grid, block.stationarity),
        hidden=array.hidden_cycles(grid, block.stationarity),
        leaving=array.leaving_cycles(grid, block.stationarity),
    )


def _columns(place: _PlacedBlock) -> tuple[Fold | FoldLoop, ...]:
    """Return the folds of one product, or of several at once, strip of columns by strip."""
    grid = place.grid
    full, edge = divmod(grid.wide, grid.round_cols)
    columns: list[Fold | FoldLoop] = []
    if full:
        columns.append(FoldLoop(full, _column(place, grid.high, grid.round_cols)))
    if edge:
        columns.extend(_column(place, grid.high, edge))
    return tuple(columns)


def edges_of(
    command: Compute,
    folds: Folds,
    folding: BlockFolds,
    accelerator: Accelerator,
    before: Collection[str] = (),
) -> tuple[FoldEdge, FoldEdge]:
    """Return a block's fill (operands needed first) and drain (results still leaving).

    Output-stationary sums that are added to are an operand, too. ``before``: tiles that the command
    uses from the previous iteration.
    """
    first, second, made = (
        name_before(tile.name) if tile.name in before else tile.name
        for tile in (*command.inputs, command.out)
    )
    held, streamed = {"ws": ((second,), (first,)), "is": ((first,), (second,))}.get(
        folds.stationarity, ((), (first, second))
    )
    if folds.stationarity == "os" and command.accumulate:
        streamed = (*streamed, made)
    latency = accelerator.lead_latency_cycles
    begins = FoldEdge(folding.lead, latency, held, streamed, hidden=folding.hidden)
    latency, leaving = accelerator.tail_latency_cycles, folding.leaving
    ends = FoldEdge(folding.tail, latency, made=made, hidden=folding.hidden, leaving=leaving)
    return begins, ends


def name_before(tile: str) -> str:
    """Return the name of a tile of the previous iteration, in a pipelined loop."""
    return f"{tile} before"


def _side(command: Compute, side: int | None, there: int, name: str) -> int:
    if side is None:
        return there
    if not 1 <= side <= there:
        raise ProgramError(
            f"{command.out.name}: folds of {side} {name}; allowed: 1 to {there}, the array's"
        )
    return side


def _column(place: _PlacedBlock, high: int, cols: int) -> tuple[Fold | FoldLoop, ...]:
    """Return the folds down one strip of columns."""
    if place.accelerator.systolic.accumulates(place.block.stationarity) is not None:
        return _held_column(place, cols)
    side = place.grid.round_rows
    full, edge = divmod(high, side)
    body: list[Fold | FoldLoop] = []
    sums = place.block.sums
    if place.block.stationarity != "os" and not sums:
        body.append(place.fold(side if full else edge, cols, sums=False))
        full, edge, sums = (full - 1, edge, True) if full else (0, 0, True)
    if full:
        body.append(FoldLoop(full, (place.fold(side, cols, sums=sums),)))
    if edge:
        body.append(place.fold(edge, cols, sums=sums))
    return tuple(body)


def _held_column(place: _PlacedBlock, cols: int) -> tuple[Fold | FoldLoop, ...]:
    """Return the folds down one strip whose sums stay in the accumulator until the last fold."""
    grid, sums = place.grid, place.block.sums
    count, side = grid.row_rounds, grid.round_rows
    if count == 1:
        return (place.fold(grid.high, cols, sums=sums),)
    middle = place.fold(side, cols, sums=False, adds=True, leaves=False)
    return (
        place.fold(side, cols, sums=sums, leaves=False),
        *([FoldLoop(count - 2, (middle,))] if count > 2 else ()),  # noqa: PLR2004 - first and last
        place.fold((grid.high - 1) % side + 1, cols, sums=False, adds=True),
    )
