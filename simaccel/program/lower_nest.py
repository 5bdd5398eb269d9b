"""Lowering of nests: the loops of DRAM and buffer around the passes of a spatial array.

A tile lives in the body of the innermost loop that changes it. The first iteration is peeled where
it differs from the later ones: nothing has been summed up yet, or a window starts to slide.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, get_args

from simaccel.errors import SimaccelError
from simaccel.hardware.levels import Role
from simaccel.hardware.spatial import Fan
from simaccel.mapping.choices import NestMapping
from simaccel.program.division import Division, Slide, volume
from simaccel.program.lower_gemm import blocks
from simaccel.program.program import (
    BUFFER,
    STREAM,
    Compute,
    Load,
    Loop,
    Moved,
    Node,
    Operator,
    Reserve,
    Steps,
    Store,
    Tile,
    View,
)
from simaccel.workload import Einsum

FANS: Final = get_args(Fan)
PE: Final = "pe"
_OUTPUT: Final[Role] = "output"
_QUEUES: Final[dict[Role, int]] = {"input": 0, "weight": 1, "output": 2}
_STREAM_SLOTS: Final = 2
_MOST_SLOTS: Final = 64


class NotExecutableError(SimaccelError):
    """A mapping that the machine doesn't execute; the message says why."""


@dataclass(frozen=True)
class _Around:
    """One loop around the passes: it has ``least`` trips or more wherever it runs."""

    level: int
    rank: str
    step: int
    least: int


@dataclass(frozen=True)
class _Held:
    """A tile of one role: where it lives, and in the body of how many loops."""

    role: Role
    place: str
    depth: int
    buffered: bool
    """Whether it comes from a tile in the buffer."""
    slots: int
    spills: bool
    """Whether sums go back and come again."""


@dataclass(frozen=True)
class _Body:
    """What distinguishes a body: its block, whether it is a first one, the tiles that it sees."""

    depth: int
    sizes: tuple[tuple[str, int], ...]
    first: bool
    """Nothing has been summed up yet."""
    later: bool
    """The loop around has had an iteration, so that windows slide."""
    tiles: tuple[tuple[_Held, Tile], ...] = ()
    """Those of the bodies outside; with those of this body once it is being built."""

    def tile(self, role: Role, *, beyond: bool) -> Tile | None:
        """Give the tile of a role in the buffer, or ``beyond`` it, in PEs or on its way there."""
        for held, tile in self.tiles:
            if held.role == role and (held.place != BUFFER) == beyond:
                return tile
        return None


Built = tuple[tuple[Tile, ...], tuple[Node, ...]]


def lower_nest(einsum: Einsum, views: Mapping[Role, View], mapping: NestMapping) -> Operator:
    """Lower one einsum on a spatial array; ``views`` are its tensors, padded sizes included.

    Raises:
        NotExecutableError: partial sums would be kept neither in the buffer nor in PEs.

    """
    nest = _Nest(einsum, views, mapping)
    sizes = tuple((rank, mapping.padded.get(rank, n)) for rank, n in einsum.ranks.items())
    tiles, nodes = nest.body(_Body(0, sizes, first=True, later=False))
    return Operator(name=einsum.name, body=nodes, tiles=tiles)


@dataclass
class _Nest:
    einsum: Einsum
    views: Mapping[Role, View]
    mapping: NestMapping
    built: dict[_Body, Built] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = [level.level for level in self.mapping.levels]
        self.outside = next(at for at, name in enumerate(self.names) if name in FANS)
        self.chains = chains(self.einsum, self.mapping)
        pe = self.names.index(PE)
        full = self.chains.full
        self.division = Division(
            block=full[self.outside],
            row=full[self.names.index("rows") + 1],
            part=full[pe],
            lanes=full[pe + 1],
        )
        self.loops = tuple(self._loops())
        self.held = [held for role in self.views for held in self._places_of(role)]

    def _loops(self) -> Iterator[_Around]:
        """Give the loops around the passes; those of one trip are none."""
        trips, full, least = self.chains.trips, self.chains.full, self.chains.least
        for at, level in enumerate(self.mapping.levels[: self.outside]):
            rest = [rank for rank in self.einsum.ranks if rank not in level.order]
            for rank in (*level.order, *rest):
                if trips[at][rank] > 1:
                    yield _Around(at, rank, full[at + 1][rank], least[at][rank])

    def _places_of(self, role: Role) -> Iterator[_Held]:
        """Give the tiles of a role from the outermost in."""
        buffered = False
        for at, level in enumerate(self.mapping.levels[: self.outside]):
            if at and role in level.keep:
                buffered = True
                yield self._place(role, BUFFER, at, buffered=False, slots=level.slots)
        pe = self.mapping.levels[self.names.index(PE)]
        if role in pe.keep:
            place = f"{PE}.{role}"
            yield self._place(role, place, self.outside, buffered=buffered, slots=pe.slots)
        elif not buffered and role == _OUTPUT:
            raise NotExecutableError(
                f"{self.einsum.name}: partial sums are kept neither in the buffer nor in PEs; the "
                "machine needs one of the two"
            )
        elif not buffered:
            slots: dict[Role, int] = {role: _STREAM_SLOTS}
            yield self._place(role, STREAM, self.outside, buffered=False, slots=slots)

    def _place(
        self, role: Role, place: str, level: int, *, buffered: bool, slots: Mapping[Role, int]
    ) -> _Held:
        view = self.views[role]
        depth = max(
            (
                at + 1
                for at, loop in enumerate(self.loops)
                if loop.level < level and (place == STREAM or loop.rank in view.names)
            ),
            default=0,
        )
        reductions = [at for at in range(depth) if self._adds(at)] if role == _OUTPUT else []
        most = _MOST_SLOTS if depth else 1
        if reductions:
            # a slot that is free tells that the sums to be loaded into it have been stored
            inside = self.loops[reductions[-1] + 1 : depth]
            most = math.prod(loop.least for loop in inside if loop.rank in view.names)
        return _Held(
            role=role,
            place=place,
            depth=depth,
            buffered=buffered,
            slots=min(slots.get(role, 1), most),
            spills=bool(reductions),
        )

    def _adds(self, at: int) -> bool:
        """Say whether the iterations of a loop add to the same sums."""
        return self.loops[at].rank not in self.views[_OUTPUT].names

    def body(self, body: _Body) -> Built:
        """Build the body below some loops; equal bodies are one object."""
        if body not in self.built:
            self.built[body] = self._build(body)
        return self.built[body]

    def _build(self, body: _Body) -> Built:
        here = [held for held in self.held if held.depth == body.depth]
        own = tuple((held, self._tile(held, body)) for held in here)
        body = replace(body, tiles=(*body.tiles, *own))
        nodes = [node for held, tile in own for node in self._bring(held, tile, body)]
        nodes += self._inner(body)
        for held, tile in reversed(own):
            if held.role == _OUTPUT:
                nodes.append(self._take(held, tile, body))
        return tuple(tile for _, tile in own), tuple(nodes)

    def _inner(self, body: _Body) -> Iterator[Node]:
        if body.depth == len(self.loops):
            yield self._compute(body)
            return
        loop, sizes = self.loops[body.depth], dict(body.sizes)
        for start, trips, size, begins in self._blocks(body, sizes[loop.rank]):
            inside = _Body(
                body.depth + 1,
                tuple({**sizes, loop.rank: size}.items()),
                first=body.first and (begins or not self._adds(body.depth)),
                later=not begins and self._slides_at(body.depth + 1),
                tiles=body.tiles,
            )
            tiles, nodes = self.body(inside)
            yield Loop(
                rank=loop.rank, trips=trips, step=loop.step, start=start, tiles=tiles, body=nodes
            )

    def _blocks(self, body: _Body, extent: int) -> Iterator[tuple[int, int, int, bool]]:
        """Give blocks of the next loop's rank; the first is apart where it differs."""
        step = self.loops[body.depth].step
        differs = self._slides_at(body.depth + 1) or (body.first and self._adds(body.depth))
        for start, trips, size in blocks(0, extent, step):
            if differs and not start and trips > 1:
                yield 0, 1, size, True
                yield step, trips - 1, size, False
            else:
                yield start, trips, size, not start

    def _slides_at(self, depth: int) -> bool:
        return any(held.depth == depth and self._slides(held) for held in self.held)

    def _slides(self, held: _Held) -> bool:
        """Say whether the innermost loop that changes a tile moves it along a sum of ranks."""
        rank = self.loops[held.depth - 1].rank if held.depth else ""
        dims = self.views[held.role].terms
        return held.place != STREAM and any(len(dim) > 1 and rank in dict(dim) for dim in dims)

    def _sizes(self, held: _Held, body: _Body) -> dict[str, int]:
        """Give the block of a tile; of ranks that it lacks, as much as is there at once."""
        block = self.division.block
        if held.place == BUFFER:
            block = self.chains.full[self.names.index(BUFFER)]
        return {rank: min(size, block[rank]) for rank, size in body.sizes}

    def _tile(self, held: _Held, body: _Body) -> Tile:
        view, sizes = self.views[held.role], self._sizes(held, body)
        part = 0 if held.place == STREAM else None
        if held.place not in (BUFFER, STREAM):
            parts = {rank: min(size, self.division.part[rank]) for rank, size in sizes.items()}
            part = math.prod(view.extent(parts)) * view.bytes_per_element
        twice = [one.name for one in self.views.values()].count(view.name) > 1
        name = f"{view.name}.{held.role}" if twice else view.name
        return Tile(
            name=name if held.place == BUFFER else f"{PE}.{name}",
            view=view,
            shape=view.extent(sizes),
            slots=held.slots,
            place=held.place,
            part_bytes=part,
        )

    def _bring(self, held: _Held, tile: Tile, body: _Body) -> Iterator[Node]:
        """Load a tile, or take a slot for sums that start from nothing."""
        queue = _QUEUES[held.role]
        if held.role != _OUTPUT:
            source = body.tile(held.role, beyond=False) if held.buffered else None
            slides, moved = self._slides(held) and body.later, self._moved(held, body)
            yield Load(tile=tile, queue=queue, source=source, moved=moved, slides=slides)
        elif held.spills:
            source = body.tile(held.role, beyond=False) if held.buffered else None
            if body.first:
                yield Reserve(tile=tile, queue=queue, noc=source is not None)
            else:
                moved, back = self._moved(held, body), source is not None
                yield Load(tile=tile, queue=queue, source=source, moved=moved, back=back)
        if held.role == _OUTPUT and held.place == BUFFER and self._comes_back():
            yield Reserve(tile=tile, queue=queue, noc=True)

    def _comes_back(self) -> bool:
        """Say whether partial sums go from PEs to the buffer and back."""
        return any(h.role == _OUTPUT and h.buffered and h.spills for h in self.held)

    def _take(self, held: _Held, tile: Tile, body: _Body) -> Store:
        target = body.tile(held.role, beyond=False) if held.buffered else None
        return Store(tile=tile, target=target, moved=self._moved(held, body))

    def _moved(self, held: _Held, body: _Body) -> Moved | None:
        """Give the bytes of a transfer; None for a whole tile of the buffer."""
        view, sizes = self.views[held.role], self._sizes(held, body)
        slide = None
        if self._slides(held) and body.later:
            loop = self.loops[body.depth - 1]
            slide = Slide(loop.rank, loop.step, loop.step)
        if held.place == STREAM:
            return _bytes(self.division.accesses(view, sizes), view)
        if held.place != BUFFER:
            return _bytes(self.division.spread(view, sizes, slide), view)
        if slide is None:
            return None
        n = volume(view, {rank: ((1, sizes[rank]),) for rank in view.names}, slide)
        return _bytes(Moved(n, n), view)

    def _compute(self, body: _Body) -> Compute:
        sizes = dict(body.sizes)
        tiles = {
            role: body.tile(role, beyond=True) or body.tile(role, beyond=False)
            for role in self.views
        }
        found = {role: tile for role, tile in tiles.items() if tile is not None}
        inputs = [role for role in found if role != _OUTPUT]
        sums = self._accesses(_OUTPUT, found, sizes)
        began = self.division.first_accesses(self.views[_OUTPUT], sizes)
        zero = _bytes(began, self.views[_OUTPUT]) if body.first else Moved(0, 0)
        outside = found[_OUTPUT].place == BUFFER
        read = Moved(sums.outer - zero.outer * outside, sums.inner - zero.inner)
        return Compute(
            out=found[_OUTPUT],
            inputs=tuple(found[role] for role in inputs),
            ranks=tuple(sizes),
            shape=tuple(sizes.values()),
            on=Steps(
                steps=self.division.steps(sizes),
                pes=self.division.pes(sizes),
                reads=(*(self._accesses(role, found, sizes) for role in inputs), read),
                writes=sums,
            ),
            accumulate=not body.first,
        )

    def _accesses(self, role: Role, tiles: Mapping[Role, Tile], sizes: Mapping[str, int]) -> Moved:
        """Give the bytes that MACs access in PEs, or beyond them if no PE keeps the role."""
        place, view = tiles[role].place, self.views[role]
        if place == STREAM:
            return Moved(0, 0)
        moved = _bytes(self.division.accesses(view, sizes), view)
        return moved if place == BUFFER else Moved(0, moved.inner)


def _bytes(elements: Moved, view: View) -> Moved:
    width = view.bytes_per_element
    return Moved(elements.outer * width, elements.inner * width)


@dataclass(frozen=True)
class Chains:
    """By level and rank: trips where a tile is full, the least of any tile, and full sizes.

    ``full`` has the size that enters each level, and after the last level, of a MAC (1).
    """

    trips: tuple[Mapping[str, int], ...]
    least: tuple[Mapping[str, int], ...]
    full: tuple[Mapping[str, int], ...]


def chains(einsum: Einsum, mapping: NestMapping) -> Chains:
    """Split all ranks; a factor beyond the tiles that there are makes no more than those."""
    levels = mapping.levels
    trips: list[dict[str, int]] = [{} for _ in levels]
    least: list[dict[str, int]] = [{} for _ in levels]
    full: list[dict[str, int]] = [{} for _ in (*levels, None)]
    for rank, unpadded in einsum.ranks.items():
        total = mapping.padded.get(rank, unpadded)
        pieces, size = total, 1
        full[-1][rank] = 1
        for at in range(len(levels) - 1, -1, -1):
            here = min(levels[at].factors.get(rank, 1), pieces) if at else pieces
            tiles = -(-pieces // here)
            trips[at][rank], least[at][rank] = here, pieces - (tiles - 1) * here
            pieces, size = tiles, min(size * here, total)
            full[at][rank] = size
    return Chains(tuple(trips), tuple(least), tuple(full))
