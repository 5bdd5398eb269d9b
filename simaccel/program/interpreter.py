"""The interpreter: it executes a program on numpy tensors, in program order.

It checks what the machine assumes: commands read only values that were written, inside the bounds
of living tiles, and every element of an output is computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.lib.stride_tricks import as_strided

from simaccel.mapping.view import TensorView
from simaccel.numbers import in_bytes
from simaccel.program.program import (
    Command,
    Compute,
    Load,
    Node,
    Operator,
    Program,
    ProgramError,
    ProgramLoop,
    Sfu,
    Store,
    Tile,
    UnitCommand,
)
from simaccel.program.shared_tensors import DramTensor, SharedTensors
from simaccel.workload.vectors import MAKES_STATISTICS, NEEDS_STATISTICS, RankOrder, Statistics
from simaccel.workload.vectors.kind import Array

Coordinates = dict[str, int]


@dataclass
class _LivingTile:
    """A living tile: the start of its block, and its values (NaN: not yet written).

    ``tensor``: name of a tensor that is kept whole around operators, in its own dimensions.
    """

    start: tuple[int, ...]
    values: Array
    tensor: str = ""


@dataclass
class _Rows:
    """Statistics of a vector operator's rows, by the start of their block in ``ranks``."""

    ranks: tuple[str, ...]
    blocks: dict[tuple[int, ...], Statistics] = field(default_factory=dict)


@dataclass
class _State:
    """The values of DRAM tensors and of the tiles that are in slots."""

    dram: Mapping[str, DramTensor]
    surroundings: SharedTensors | None = None
    slots: dict[str, _LivingTile] = field(default_factory=dict)
    past: dict[str, _LivingTile] = field(default_factory=dict)
    """The last tile of each name, for windows that slide."""
    derived: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()
    statistics: dict[str, _Rows] = field(default_factory=dict)
    """Statistics of the current rows of vector operators, by operator."""
    outside: bool = True
    """Whether execution is outside of all operators."""


def interpret(program: Program, tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Execute a program whose operators view each tensor in one shape; return all tensors."""
    found = dict(tensors)
    _body(program.body, {}, _State(found), ())
    return found


def interpret_within(program: Program, surroundings: SharedTensors) -> None:
    """Execute a program; tiles around its operators stay alive between them.

    Raises:
        ProgramError: a read of values that were not written, or outside of a living tile.
    """
    _body(program.body, {}, _State({}, surroundings), ())


def _body(body: Sequence[Node], at: Coordinates, state: _State, tiles: Sequence[Tile]) -> None:
    _open(tiles, at, state)
    for node in body:
        _node(node, at, state)
    _close(tiles, state)


def _open(tiles: Sequence[Tile], at: Coordinates, state: _State) -> None:
    for tile in tiles:
        if tile.name in state.slots:
            raise ProgramError(f"tile {tile.name} is declared while it is alive")
        origin = tile.origin or (0,) * len(tile.shape)
        start = tuple(s + o for s, o in zip(tile.view.start(at), origin, strict=True))
        whole = tile.view.name if state.outside and not tile.origin else ""
        state.slots[tile.name] = _LivingTile(start, np.full(tile.shape, np.nan), whole)


def _close(tiles: Sequence[Tile], state: _State) -> None:
    for tile in tiles:
        state.past[tile.name] = state.slots.pop(tile.name)


def _node(node: Node, at: Coordinates, state: _State) -> None:
    if isinstance(node, Operator):
        state.outside = False
        _operator(node, at, state)
        state.outside = True
    elif isinstance(node, ProgramLoop):
        _loop(node, at, state)
    else:
        _command(node, at, state)


def _operator(operator: Operator, at: Coordinates, state: _State) -> None:
    state.derived = operator.derived
    if state.surroundings is None:
        _body(operator.body, at, state, operator.tiles)
        return
    state.dram = state.surroundings.enter(operator.name)
    state.statistics.clear()
    around = _slots_around(operator, state, state.surroundings)
    state.slots |= {name: seen for name, (_, seen) in around.items()}
    _body(operator.body, at, state, operator.tiles)
    for name, (whole, seen) in around.items():
        state.surroundings.put(operator.name, whole.tensor, seen.values, whole.values)
        state.slots[name] = whole
    state.surroundings.leave(operator.name, state.dram)


def _slots_around(
    operator: Operator, state: _State, surroundings: SharedTensors
) -> dict[str, tuple[_LivingTile, _LivingTile]]:
    """Return the tensors kept around an operator, each whole and in the operator's view."""
    found = {}
    for name, slot in state.slots.items():
        if slot.tensor:
            seen = surroundings.lay(operator.name, slot.tensor, slot.values)
            if seen is not None:
                found[name] = slot, _LivingTile((0,) * seen.ndim, seen)
    return found


def _loop(loop: ProgramLoop, at: Coordinates, state: _State) -> None:
    """Execute the iterations; nodes that run ahead use the next one's tiles and coordinates."""
    places = _places(loop, at, state)
    if not loop.ahead:
        for place in places:
            _body(loop.body, place, state, loop.tiles)
        return
    behind: dict[str, _LivingTile] = {}
    for i in range(len(places) + 1):
        state.past |= behind
        if i < len(places):
            _open(loop.tiles, places[i], state)
            for node in loop.body[: loop.ahead]:
                _node(node, places[i], state)
            new = {tile.name: state.slots.pop(tile.name) for tile in loop.tiles}
        if i > 0:
            state.slots |= behind
            for node in loop.body[loop.ahead :]:
                _node(node, places[i - 1], state)
            _close(loop.tiles, state)
        behind = new


def _places(loop: ProgramLoop, at: Coordinates, state: _State) -> list[Coordinates]:
    """Return the coordinates of the iterations that are executed."""
    before = at.get(loop.rank, 0) + loop.start
    places = [at | {loop.rank: before + i * loop.step} for i in range(loop.trips)]
    for place in places:
        for rank, terms in state.derived:  # sums of others
            place[rank] = sum(c * place.get(one, 0) for one, c in terms)
    if state.surroundings is None:
        return places
    wants = state.surroundings.wants
    return [place for place in places if wants(loop, place[loop.rank])]


def _command(command: Command, at: Coordinates, state: _State) -> None:
    if isinstance(command, Load | Store):
        _transfer(command, state)
    elif isinstance(command, Compute):
        _compute(command, at, state)
    elif isinstance(command, Sfu):
        _sfu(command, at, state)
    elif isinstance(command, UnitCommand):
        block = _check_written(_slot(command.tile, state).values, f"tile {command.tile.name}")
        _slot(command.out, state).values[...] = command.meaning(block)
    else:
        _slot(command.tile, state)


def _transfer(command: Load | Store, state: _State) -> None:
    tile = command.tile
    slot = _slot(tile, state)
    outside, values, where = _transfer_block(command, slot, state)
    if any(one.stop > size for one, size in zip(where, values.shape, strict=True)):
        raise ProgramError(f"tile {tile.name} at {slot.start} reaches beyond {outside}")
    if isinstance(command, Store):
        values[tuple(where)] = _check_written(slot.values, f"tile {tile.name}")
        return
    slot.values[...] = _check_written(values[tuple(where)], outside)
    if command.slides:
        _slide(command, slot, state)


def _transfer_block(
    command: Load | Store, slot: _LivingTile, state: _State
) -> tuple[str, DramTensor, list[slice]]:
    """Return the other side of a transfer: name and values of a tile or tensor, and the box."""
    tile = command.tile
    other = command.source if isinstance(command, Load) else command.target
    if other is None:
        view, origin = command.view or tile.view, (0,) * len(tile.shape)
        name = f"{view.name} in DRAM"
        values: DramTensor = state.dram[view.name]
    else:
        source = _slot(other, state)
        name, origin, values = f"tile {other.name}", source.start, source.values
    low = [s - o for s, o in zip(slot.start, origin, strict=True)]
    if min(low, default=0) < 0:
        raise ProgramError(f"tile {tile.name} at {slot.start} starts before {name}")
    return name, values, [slice(s, s + n) for s, n in zip(low, tile.shape, strict=True)]


def _slide(command: Load, slot: _LivingTile, state: _State) -> None:
    """Copy the elements that a sliding tile shares with its predecessor; only others are moved."""
    tile = command.tile
    past = state.past.get(tile.name)
    if past is None:
        raise ProgramError(f"tile {tile.name} slides, and there was none before")
    shift = [new - old for new, old in zip(slot.start, past.start, strict=True)]
    shared = tuple(
        max(0, min(old - s, new)) if s >= 0 else 0
        for s, old, new in zip(shift, past.values.shape, tile.shape, strict=True)
    )
    stays = tuple(slice(s, s + n) for s, n in zip(shift, shared, strict=True))
    target = tuple(slice(0, n) for n in shared)
    slot.values[target] = _check_written(past.values[stays], f"the part of {tile.name} that stays")
    fresh = in_bytes(slot.values.size - int(np.prod(shared)), tile.view.bits)
    if command.moved is None or command.moved.outer != fresh:
        raise ProgramError(f"tile {tile.name} slides by {fresh} B, the program says otherwise")


def _slot(tile: Tile, state: _State) -> _LivingTile:
    if tile.name not in state.slots:
        raise ProgramError(f"tile {tile.name} is used outside the body that declares it")
    return state.slots[tile.name]


def _check_written(values: Array, what: str) -> Array:
    if np.isnan(values).any():
        raise ProgramError(f"{what} is read before it is written")
    return values


def _compute(command: Compute, at: Coordinates, state: _State) -> None:
    sizes = dict(zip(command.ranks, command.shape, strict=True))
    number = {rank: index for index, rank in enumerate(command.ranks)}
    arguments: list[object] = []
    for tile in command.inputs:
        block = _check_written(_box(tile, sizes, at, state), f"tile {tile.name}")
        view, names = by_rank(block, tile.view, sizes)
        arguments += [view, [number[rank] for rank in names]]
    read = {rank for tile in command.inputs for rank in tile.view.names}
    for rank in sizes.keys() - read:  # of size 1, beside others in a sum of ranks
        arguments += [np.ones(sizes[rank]), [number[rank]]]
    out, names = by_rank(_box(command.out, sizes, at, state), command.out.view, sizes)
    arguments.append([number[rank] for rank in names])
    made = np.asarray(np.einsum(*arguments, optimize=True))  # type: ignore[call-overload]
    if command.accumulate:
        made = made + _check_written(out, f"partial sums of {command.out.name}")
    elif not np.isnan(out).all():
        raise ProgramError(f"partial sums of {command.out.name} are overwritten")
    out[...] = made


def _box(tile: Tile, sizes: Mapping[str, int], at: Coordinates, state: _State) -> Array:
    """Return the bounding box of a block in a tile, as a view of its values."""
    slot = _slot(tile, state)
    where = []
    for rank, first, n, start, length in zip(
        tile.view.ranks,
        tile.view.start(at),
        tile.view.extent(sizes),
        slot.start,
        tile.shape,
        strict=True,
    ):
        if first < start or first + n > start + length:
            span = f"rank {rank} {first}..{first + n}"
            raise ProgramError(f"{span} is outside tile {tile.name} {start}..{start + length}")
        where.append(slice(first - start, first - start + n))
    return slot.values[(*where, ...)]  # type: ignore[arg-type] # a view, also without dimensions


def by_rank(array: Array, view: TensorView, sizes: Mapping[str, int]) -> tuple[Array, list[str]]:
    """Return a view of a block with one dimension per rank, and the ranks' names."""
    strides = {
        rank: c * stride
        for dim, stride in zip(view.terms, array.strides, strict=True)
        for rank, c in dim
    }
    shape = [sizes[rank] for rank in strides]
    return as_strided(array, shape, list(strides.values())), list(strides)


def _sfu(command: Sfu, at: Coordinates, state: _State) -> None:
    sizes = dict(zip(command.ranks, command.shape, strict=True))
    ranks = [rank for dim in command.out.view.terms for rank, _ in dim]
    order = RankOrder.from_ranks(sizes, ranks, command.axis)
    blocks: list[Array] = []
    for tile in command.inputs:
        block = _check_written(_box(tile, sizes, at, state), f"tile {tile.name}")
        values, names = by_rank(block, tile.view, sizes)
        if command.visible and not blocks:
            values = command.visible.hide(values, names, command.axis, at)
        blocks.append(order.take(values, names))
    made, statistics = command.does.meaning(
        blocks, command.scale, _known_statistics(command, order, at, state)
    )
    if command.step in MAKES_STATISTICS:
        rows = state.statistics.setdefault(command.operator, _Rows(order.rows))
        rows.blocks[tuple(at.get(rank, 0) for rank in rows.ranks)] = statistics
    if made is None:
        return
    out = _box(command.out, sizes, at, state)
    in_place = command.out.name in [tile.name for tile in command.inputs]
    if not in_place and not np.isnan(out).all():
        raise ProgramError(f"tile {command.out.name} is overwritten")
    out[...] = order.give(made, ranks)


def _known_statistics(command: Sfu, order: RankOrder, at: Coordinates, state: _State) -> Statistics:
    """Return the statistics of a block's rows; empty at the beginning of their axis."""
    begins = command.step in MAKES_STATISTICS and at.get(command.axis, 0) == 0
    if begins or command.step not in MAKES_STATISTICS + NEEDS_STATISTICS:
        return ()
    rows = state.statistics.get(command.operator, _Rows(order.rows))
    where = tuple(at.get(rank, 0) for rank in rows.ranks)
    shape = (*(order.sizes.get(rank, 0) for rank in rows.ranks), 1)
    known = rows.blocks.get(where, ())
    if not known or any(values.shape != shape for values in known):
        known = _assemble_statistics(rows, where, shape)
    if not known:
        raise ProgramError(f"rows {where} of {command.out.name} have no statistics yet")
    return tuple(order.take(values[..., 0], rows.ranks) for values in known)


def _assemble_statistics(rows: _Rows, where: Sequence[int], shape: Sequence[int]) -> Statistics:
    """Return the statistics of rows that were computed in several blocks; empty if incomplete."""
    numbers = {len(block) for block in rows.blocks.values()}
    statistics = tuple(np.full(shape, np.nan) for _ in range(min(numbers, default=0)))
    for start, block in rows.blocks.items():
        low = [max(a, b) for a, b in zip(where, start, strict=True)]
        ends = zip(where, shape[:-1], start, block[0].shape[:-1], strict=True)
        high = [min(a + n, b + m) for a, n, b, m in ends]
        if any(a >= b for a, b in zip(low, high, strict=True)):
            continue
        target = tuple(slice(a - o, b - o) for a, b, o in zip(low, high, where, strict=True))
        source = tuple(slice(a - o, b - o) for a, b, o in zip(low, high, start, strict=True))
        for whole, part in zip(statistics, block, strict=True):
            whole[target] = part[source]
    return () if any(np.isnan(values).any() for values in statistics) else statistics
