"""Lowering of a mapping tree to a program, by peeling.

A tile lives in the body of the innermost loop that moves it, however deep its ``keep`` stands. The
first iteration of a loop is peeled if it differs: there are no partial sums yet, a window does not
slide yet, or an online operator has nothing to rescale. Equal bodies are one object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass, field, replace
from itertools import groupby

from simaccel.mapping.cores import core_spreads, piece_of, pieces
from simaccel.mapping.lifetimes import resident_tensor
from simaccel.mapping.space import IterationSpace, aliases_of, space_of
from simaccel.mapping.tile_streams import tile_streams
from simaccel.mapping.tree import BUFFER, Group, Keep, Mapping, ResidentScope, Spread
from simaccel.mapping.view import TensorView
from simaccel.numbers import blocks
from simaccel.program.bodies import (
    Body,
    BodyState,
    GroupTiles,
    Item,
    OperatorLeaf,
    Outline,
    RankParts,
    TilePlacement,
)
from simaccel.program.dependences import mark_streams
from simaccel.program.outline import outline
from simaccel.program.program import (
    STREAM,
    Compute,
    Folds,
    Node,
    Operator,
    Program,
    ProgramLoop,
    Sfu,
    Steps,
    Tile,
    TransferTraffic,
)
from simaccel.workload import Vector, Workload

Built = tuple[tuple[Tile, ...], tuple[Node, ...], int]
"""(tiles of a body, its nodes, number of nodes that run ahead)."""


def lower(workload: Workload, mapping: Mapping) -> Program:
    """Return the program of a mapping of a workload; repeated layers become a loop.

    Raises:
        NotExecutableError: an operand is kept in no memory that its unit can read.
    """
    body: list[Node] = []
    streams = tile_streams(workload, mapping)
    for times, run in groupby(mapping.body, lambda it: workload.times(it.groups[0].operators[0])):
        lowered = (_lower(workload, part) for part in run)
        nodes = tuple(mark_streams(node, streams) if streams else node for node in lowered)
        body += [ProgramLoop(rank="layer", trips=times, body=nodes)] if times > 1 else nodes
    return Program(name=f"{workload.name}-{mapping.dataflow}", body=tuple(body))


def _lower(workload: Workload, one: Group | ResidentScope) -> Node:
    if isinstance(one, Group):
        return lower_group(workload, one)
    tiles = tuple(_around_tiles(workload, one))
    inside = tuple(lower_group(workload, group, one.keeps, tiles) for group in one.groups)
    return ProgramLoop(rank="kept", trips=1, tiles=tiles, body=inside)


def _around_tiles(workload: Workload, around: ResidentScope) -> Iterator[Tile]:
    """Yield the tiles of keeps around groups, as wide as the widest tensor written in place.

    A tensor that is kept whole has its own dimensions as ranks, ``0``, ``1``, ...; operators view
    boxes of it in their own ranks.
    """
    views: dict[str | None, list[TensorView]] = {}
    for group in around.groups:
        space = space_of(workload, group)
        aliases = aliases_of(space, group.tree, around.keeps)
        for op in space.operators:
            for use, view in op.uses:
                name = aliases.get(use, use)
                held = resident_tensor(workload, group, name, around.keeps)
                views.setdefault(held, []).append(view)
    numbers = Counter[str]()
    for keep in around.keeps:
        number, inside = numbers[keep.tensor], views[keep.tensor]
        numbers[keep.tensor] += 1
        own = next(view for view in inside if view.name == keep.tensor)
        shape = tuple(span.stop - span.start for span in keep.region)
        if not shape:
            shape = workload.shapes[keep.tensor]
            own = replace(own, ranks=tuple(map(str, range(len(shape)))), shape=shape)
        yield Tile(
            name=f"{keep.tensor}_kept{number or ''}",
            view=own.as_wide(max(view.bits for view in inside)),
            shape=shape,
            slots=keep.slots,
            origin=tuple(span.start for span in keep.region),
        )


def lower_group(
    workload: Workload, group: Group, around: Sequence[Keep] = (), tiles: Sequence[Tile] = ()
) -> Operator:
    """Return the operator of one group; ``tiles``: of the keeps ``around`` it.

    Raises:
        NotExecutableError: an operand is kept in no memory that its unit can read.
    """
    space, spreads = space_of(workload, group), core_spreads(group)
    body: tuple[Node, ...] = tuple(_core_loops(workload, group, spreads, space.sizes))
    declared: tuple[Tile, ...] = ()
    if not body:
        made = outline(space, group, around)
        lowering = _Lowering(space, made, tuple(tiles), GroupTiles(space))
        declared, body, _ = lowering.body(made.top, BodyState(tuple(space.sizes.items())))
    return Operator(
        name=group.name,
        body=body,
        tiles=declared,
        cores=group.place,
        derived=tuple(space.derived.items()),
        joined=group.joined,
    )


def _core_loops(
    workload: Workload, group: Group, spreads: Sequence[Spread], sizes: Map[str, int]
) -> Iterator[ProgramLoop]:
    """Yield loops over cores with pieces of one size each; none without a spread."""
    if not spreads:
        return
    for piece, inside in pieces(spreads, sizes):
        tiles: tuple[Tile, ...] = ()
        body: tuple[Node, ...] = tuple(_core_loops(workload, group, spreads[1:], inside))
        if not spreads[1:]:
            alone = lower_group(workload, piece_of(group, inside))
            tiles, body = alone.tiles, alone.body
        yield ProgramLoop(
            rank=piece.spread.rank,
            trips=piece.count,
            step=piece.spread.tile,
            start=piece.start,
            tiles=tiles,
            body=body,
            core=piece.core,
            cores_apart=piece.stride,
        )


@dataclass
class _Lowering:
    """Lowering of a group's outline to commands; ``built``: the nodes of bodies lowered so far."""

    space: IterationSpace
    outline: Outline
    outer: tuple[Tile, ...]
    tiles: GroupTiles
    built: dict[tuple[int, BodyState], Built] = field(default_factory=dict)
    online: dict[str, tuple[OperatorLeaf, ...]] = field(default_factory=dict)
    """Einsums that accumulate over the axis of an online vector operator, by its name."""

    def __post_init__(self) -> None:
        """Collect the einsums behind online vector operators."""
        self._find_online(self.outline.top)

    def _find_online(self, item: Item) -> None:
        if isinstance(item, RankParts):
            for _, _, body in item.parts:
                self._find_online(body)
        elif isinstance(item, Body):
            for leaf in item.online:
                made = leaf.op.output.name
                self.online[leaf.op.name] = tuple(
                    reader
                    for reader in item.leaves
                    if made in {view.name for view in reader.op.inputs}
                    and item.rank in reader.op.reduced
                )
            for inner in item.items:
                self._find_online(inner)

    def body(self, body: Body, state: BodyState) -> Built:
        """Return a body as tiles and nodes; equal bodies are one object."""
        operators = {leaf.op.name for leaf in body.leaves}
        operators |= {one.op.name for name in operators for one in self.online.get(name, ())}
        state = state if state.begun <= operators else replace(state, begun=state.begun & operators)
        key = id(body), state
        if key not in self.built:
            self.built[key] = self._build(body, state)
        return self.built[key]

    def _build(self, body: Body, state: BodyState) -> Built:
        own = [
            (held, self.tiles.tile(held, state))
            for held in body.holds
            if not (held.maker and state.step == "statistics")  # which make nothing
        ]
        state = replace(state, tiles=(*state.tiles, *own))
        used = [self._used_tiles(item) for item in body.items] if own else []
        users = {
            held: [n for n, tiles in enumerate(used) if (held.use, held.user) in tiles]
            for held, _ in own
        }
        nodes: list[Node] = []
        ahead = 0
        for number, item in enumerate(body.items):
            if number == body.ahead:
                ahead = len(nodes)
            for held, tile in own:
                if users[held][0] == number:
                    nodes += self.tiles.bring(held, tile, state)
            nodes += self._item(item, state)
            for held, tile in reversed(own):
                if users[held][-1] == number:
                    nodes += self.tiles.take(held, tile, state)
        return tuple(tile for _, tile in own), tuple(nodes), ahead

    def _used_tiles(self, item: Item) -> set[tuple[str, str]]:
        """Return the tiles of enclosing bodies that are used below: (tensor, operator or "")."""
        return {
            (self.outline.aliases.get(use, use), user)
            for leaf in item.leaves
            for use, _ in leaf.op.uses
            for user in ("", leaf.op.name)
        }

    def _item(self, item: Item, state: BodyState) -> Iterator[Node]:
        if isinstance(item, OperatorLeaf):
            if isinstance(item.op.operator, Vector):
                yield from self._vector(item, item.op.operator, state)
            else:
                yield self._compute(item, state)
        elif isinstance(item, RankParts):
            yield from self._parts(item, state)
        elif item.doubled:
            for step in ("statistics", "normalise"):
                yield from self._loop(item, replace(state, step=step))
        else:
            yield from self._loop(item, state)
            for leaf in item.online:
                for sums in self.online[leaf.op.name]:
                    yield self._correct(sums, "divide", leaf, state)

    def _parts(self, item: RankParts, state: BodyState) -> Iterator[Node]:
        for start, size, body in item.parts:
            sizes = {**dict(state.sizes), item.rank: size}
            adders = {leaf.op.name for leaf in body.leaves if item.rank in leaf.op.reduced}
            begun = state.begun | adders if start else state.begun
            tiles, nodes, _ = self.body(
                body,
                replace(state, sizes=tuple(sizes.items()), begun=frozenset(begun), slides=False),
            )
            yield ProgramLoop(rank=item.rank, trips=1, start=start, tiles=tiles, body=nodes)

    def _loop(self, body: Body, state: BodyState) -> Iterator[Node]:
        sizes = dict(state.sizes)
        for start, trips, size, begins in self._blocks(body, state, sizes[body.rank]):
            inside = replace(
                state,
                sizes=tuple({**sizes, body.rank: size}.items()),
                begun=state.begun if begins else state.begun | body.adders,
                slides=not begins and body.slides,
            )
            tiles, nodes, ahead = self.body(body, inside)
            yield ProgramLoop(
                rank=body.rank,
                trips=trips,
                step=body.tile,
                start=start,
                tiles=tiles,
                body=nodes,
                ahead=ahead if trips > 1 else 0,
            )

    @staticmethod
    def _blocks(body: Body, state: BodyState, extent: int) -> Iterator[tuple[int, int, int, bool]]:
        """Yield (start, trips, size, is first) of blocks; the first one is apart if it differs."""
        differs = body.slides or body.adders - state.begun
        for start, trips, size in blocks(extent, body.tile):
            if differs and not start and trips > 1:
                yield 0, 1, size, True
                yield body.tile, trips - 1, size, False
            else:
                yield start, trips, size, not start

    def _operand(
        self, leaf: OperatorLeaf, use: str, view: TensorView, state: BodyState
    ) -> tuple[TilePlacement | None, Tile]:
        name = self.outline.aliases.get(use, use)
        in_scope = state.tile(name, leaf.op.name)
        held, tile = in_scope or (None, self.outer[leaf.outer[name]])
        known = tile.view
        own = view.as_wide(known.bits)
        if (own.name, own.kind) != (known.name, known.kind):
            own = replace(own, name=known.name, kind=known.kind)
        if held is None and not tile.origin:
            return None, replace(tile, view=own, shape=own.shape)
        return held, tile if own == known else replace(tile, view=own)

    def _shape(self, leaf: OperatorLeaf, state: BodyState) -> tuple[int, ...]:
        sizes = self.space.widen(dict(state.sizes))
        return tuple(sizes[rank] for rank in leaf.op.ranks)

    def _compute(self, leaf: OperatorLeaf, state: BodyState) -> Compute:
        operands = [self._operand(leaf, use, view, state) for use, view in leaf.op.uses]
        tiles = [tile for _, tile in operands]
        accumulate = leaf.op.name in state.begun
        on: Folds | Steps
        if leaf.division is None:
            stationarity = leaf.do.stationarity or "ws"
            on = Folds(stationarity, *leaf.folds, leaf.do.diagonal)
        else:
            on = self._steps(leaf, tiles, state, accumulate=accumulate)
        return Compute(
            out=tiles[-1],
            inputs=tuple(tiles[:-1]),
            ranks=leaf.op.ranks,
            shape=self._shape(leaf, state),
            on=on,
            accumulate=accumulate,
        )

    def _steps(
        self, leaf: OperatorLeaf, tiles: Sequence[Tile], state: BodyState, *, accumulate: bool
    ) -> Steps:
        division, sizes = leaf.division, self.space.widen(dict(state.sizes))
        assert division is not None  # noqa: S101 - only mac leaves come here
        sizes = {rank: sizes[rank] for rank in leaf.op.ranks}

        def accesses(tile: Tile, view: TensorView) -> TransferTraffic:
            if tile.place == STREAM:
                return TransferTraffic(0, 0)
            moved = division.accesses(view, sizes, tile.view.bits)
            return moved if tile.place == BUFFER else TransferTraffic(0, moved.inner)

        cycles = [accesses(t, view) for t, (_, view) in zip(tiles, leaf.op.uses, strict=True)]
        out = leaf.op.output
        began = division.first_accesses(out, sizes, tiles[-1].view.bits)
        zero = TransferTraffic(0, 0) if accumulate else began
        outside = tiles[-1].place == BUFFER
        sums = cycles[-1]
        read = TransferTraffic(sums.outer - zero.outer * outside, sums.inner - zero.inner)
        return Steps(
            steps=division.steps(sizes),
            pes=division.pes(sizes),
            reads=(*cycles[:-1], read),
            writes=sums,
        )

    def _vector(self, leaf: OperatorLeaf, vector: Vector, state: BodyState) -> Iterator[Node]:
        uses = leaf.op.uses[:-1] if state.step == "statistics" else leaf.op.uses
        tiles = [self._operand(leaf, use, view, state)[1] for use, view in uses]
        sums, row = self.online.get(leaf.op.name, ()), self.space.rows.get(leaf.op.name, "")
        yield Sfu(
            operator=leaf.op.name,
            work=vector.kind,
            step="online" if sums else state.step or "whole",
            out=tiles[0] if state.step == "statistics" else tiles[-1],
            inputs=tuple(tiles[: len(leaf.op.inputs)]),
            ranks=leaf.op.ranks,
            shape=self._shape(leaf, state),
            axis=self.space.axes.get(leaf.op.name, ""),
            scale=vector.scale,
            visible=vector.visible and replace(vector.visible, row=row),
        )
        for producer in sums:
            if producer.op.name in state.begun:
                yield self._correct(producer, "rescale", leaf, state)

    def _correct(
        self, summed: OperatorLeaf, step: str, leaf: OperatorLeaf, state: BodyState
    ) -> Sfu:
        """Return the command that corrects an einsum's sums behind an online vector operator."""
        view = summed.op.output
        _, tile = self._operand(summed, view.name, view, state)
        sizes = self.space.widen(dict(state.sizes))
        ranks = tuple(rank for dim in view.terms for rank, _ in dim)
        vector = leaf.op.operator
        assert isinstance(vector, Vector)  # noqa: S101 - only vector operators are online
        return Sfu(
            operator=leaf.op.name,
            work=vector.kind,
            step=step,
            out=tile,
            inputs=(tile,),
            ranks=ranks,
            shape=tuple(sizes[rank] for rank in ranks),
            axis=self.space.axes.get(leaf.op.name, ""),
        )
