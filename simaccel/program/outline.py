"""Outlining of a group's tree into nested bodies with their tiles.

Loops of a single iteration are dropped. A tile belongs to the body of the innermost loop that moves
it, even if that is outside of the branch or loop in which its ``keep`` node is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from simaccel.errors import SimaccelError
from simaccel.mapping.space import BoundOperator, IterationSpace, aliases_of, holding_tensor
from simaccel.mapping.tree import (
    BUFFER,
    PE,
    STREAM,
    Do,
    Fork,
    Group,
    Keep,
    Loop,
    Part,
    Span,
    Spread,
    Tree,
)
from simaccel.mapping.view import TensorView, pe_memory
from simaccel.program.bodies import Body, OperatorLeaf, Outline, RankParts, TilePlacement, settle
from simaccel.program.division import Division
from simaccel.units import ARRAY, MAC
from simaccel.workload import Einsum
from simaccel.workload.names import sums_name

STREAM_SLOTS: Final = 2
"""Slots of a tile that is streamed to PEs: one in use while the next arrives."""
_MOST_SLOTS: Final = 64


class NotExecutableError(SimaccelError):
    """The machine can't execute a mapping; the message has the reason."""


@dataclass
class _Path:
    """The position of a walk in the tree: enclosing bodies, rank sizes, and keeps so far."""

    bodies: list[Body]
    full: dict[str, int]
    """Size of a full piece, by rank."""
    all_sizes: dict[str, frozenset[int]]
    """Sizes of all pieces, by rank: the full one and remainders."""
    box: dict[str, tuple[int, int]]
    """(start, size) of the part of each rank."""
    keeps: list[tuple[Keep, dict[str, int], int]]
    """(keep, rank sizes at it, number of bodies around it)."""
    spreads: list[Spread | Loop] = field(default_factory=list)
    spread_from: dict[str, int] | None = None
    """Sizes of a full piece outside of the first spread, by rank; None before it."""

    def copy(self) -> _Path:
        sizes = dict(self.full), dict(self.all_sizes), dict(self.box)
        return _Path([*self.bodies], *sizes, [*self.keeps], [*self.spreads], self.spread_from)


def outline(space: IterationSpace, group: Group, around: Sequence[Keep] = ()) -> Outline:
    """Return the outline of a group's tree; ``around``: keeps that hold tensors around the group.

    Raises:
        NotExecutableError: an operand is kept in no memory that its unit can read.
    """
    walk = _Walk(space, group, around)
    top = Body()
    all_sizes = {rank: frozenset({size}) for rank, size in space.sizes.items()}
    box = {rank: (0, size) for rank, size in space.sizes.items()}
    walk.tree(group.tree, _Path([top], space.full_sizes, all_sizes, box, []))
    settle(top, space.axes)
    return Outline(top, walk.aliases)


class _Walk:
    """One walk over a tree."""

    def __init__(self, space: IterationSpace, group: Group, around: Sequence[Keep]) -> None:
        self.space, self.group, self.around = space, group, around
        self.aliases = aliases_of(space, group.tree, around)
        outputs = dict.fromkeys(op.output.name for op in space.operators)
        read = (name for op in space.operators for name in op.names)
        names = dict.fromkeys(name for name in read if name not in outputs) | outputs
        self.queues = {name: at for at, name in enumerate(names)}
        self.placed: dict[tuple[int, str, str], TilePlacement] = {}

    def tree(self, tree: Tree, path: _Path) -> None:
        """Add the nodes of a tree to the innermost body."""
        for node in tree:
            if isinstance(node, Loop):
                self._loop(node, path)
            elif isinstance(node, Spread):
                path.spread_from = path.spread_from or dict(path.full)
                path.spreads.append(node)
                path.full[node.rank] = min(path.full[node.rank], node.tile)
            elif isinstance(node, Keep):
                path.keeps.append((node, dict(path.full), len(path.bodies)))
            elif isinstance(node, Fork):
                self._fork(node, path)
            elif isinstance(node, Part):
                self._part(node, path)
            else:
                self._leaf(node, path)

    def _loop(self, node: Loop, path: _Path) -> None:
        if path.spread_from is not None:
            path.spreads.append(node)
            path.full[node.rank] = min(path.full[node.rank], node.tile)
            return
        outer_size, all_sizes = path.full[node.rank], path.all_sizes[node.rank]
        path.full[node.rank] = min(outer_size, node.tile)
        sizes = ((min(length, node.tile), length % node.tile) for length in all_sizes)
        path.all_sizes[node.rank] = frozenset(size for both in sizes for size in both if size)
        if outer_size <= node.tile:
            return
        least = min(-(-length // node.tile) for length in all_sizes)
        body = Body(rank=node.rank, tile=node.tile, least=least)
        path.bodies[-1].items.append(body)
        path.bodies.append(body)

    def _fork(self, node: Fork, path: _Path) -> None:
        body = path.bodies[-1]
        for number, branch in enumerate(node.branches):
            if number == node.ahead and node.ahead and body.rank:
                body.ahead = len(body.items)
            self.tree(branch, path.copy())

    def _part(self, node: Part, path: _Path) -> None:
        start, whole = path.box[node.rank][0], path.full[node.rank]
        parts = RankParts(node.rank, [])
        for _, at, size, branch in node.shares(whole):
            inner = path.copy()
            inner.full[node.rank] = size
            inner.all_sizes[node.rank] = frozenset({size})
            inner.box[node.rank] = (start + at, size)
            body = Body(part=node.rank)
            inner.bodies.append(body)
            self.tree(branch, inner)
            parts.parts.append((at, size, body))
        path.bodies[-1].items.append(parts)

    def _leaf(self, node: Do, path: _Path) -> None:
        op = self.space.bound_operator(node.operator)
        division = self._division(path) if node.unit == MAC else None
        folds = self._folds(path) if node.unit == ARRAY else (None, None)
        leaf = OperatorLeaf(node, op, division, folds, {})
        path.bodies[-1].items.append(leaf)
        outer: dict[str, int] = {}
        for position, (use, view) in enumerate(op.uses):
            name = self.aliases.get(use, use)
            if not self._hold(name, view, pe_memory(position, len(op.uses)), leaf, path):
                outer[name] = self._keep_index(name, view, path, op)
        leaf.outer = outer

    @staticmethod
    def _division(path: _Path) -> Division:
        cuts: dict[str, dict[str, tuple[int, ...]]] = {"rows": {}, "cols": {}, PE: {}}
        lane_ranks = set()
        part = dict(path.spread_from or path.full)
        for node in path.spreads:
            level = node.level if isinstance(node, Spread) else PE
            if level not in cuts:
                lane_ranks.add(node.rank)
                continue
            by_rank = cuts[level]
            by_rank[node.rank] = (*by_rank.get(node.rank, ()), node.tile)
            if level != PE:
                part[node.rank] = min(part[node.rank], node.tile)
        return Division(cuts["rows"], cuts["cols"], cuts[PE], frozenset(lane_ranks), part)

    def _folds(self, path: _Path) -> tuple[int | None, int | None]:
        """Return (rows, columns) of a fold; None where no spread sets them."""
        sizes = dict(path.spread_from or {})
        sides: dict[str, int] = {}
        for node in path.spreads:
            if isinstance(node, Spread):
                pieces = -(-sizes[node.rank] // node.tile)
                sides[node.level] = sides.get(node.level, 1) * pieces
            sizes[node.rank] = min(sizes[node.rank], node.tile)
        return sides.get("rows"), sides.get("cols")

    def _hold(
        self, name: str, view: TensorView, port: str, leaf: OperatorLeaf, path: _Path
    ) -> bool:
        """Place the tiles of an operand; return whether the group holds it."""
        holding = [(keep, full, depth) for keep, full, depth in path.keeps if keep.tensor == name]
        buffered = False
        for keep, full, depth in holding:
            place = BUFFER if keep.level == BUFFER else f"{PE}.{port}"
            self._place(keep, view, place, full, path, leaf, buffered=buffered, depth=depth)
            buffered = buffered or place == BUFFER
        pes = any(keep.level != BUFFER for keep, _, _ in holding)
        held = holding_tensor(self.space.workload, name, self.around)
        is_around = any(keep.tensor == held for keep in self.around)
        if leaf.do.unit == MAC and not (pes or buffered or is_around):
            self._stream(name, view, path, leaf)
            return True
        return bool(holding)

    def _stream(self, name: str, view: TensorView, path: _Path, leaf: OperatorLeaf) -> None:
        if name == leaf.op.output.name:
            raise NotExecutableError(
                f"{leaf.op.name}: partial sums are kept neither in the buffer nor in PEs; the "
                "machine needs one of the two"
            )
        body = path.bodies[-1]
        slots = STREAM_SLOTS if len(_loops(path.bodies)) else 1
        full = dict(path.spread_from or path.full)
        body.holds.append(
            TilePlacement(
                use=name,
                view=view,
                place=STREAM,
                slots=slots,
                block=full,
                queue=self.queues[name],
                tile=self._pe_tile(name, leaf.op.name),
                division=leaf.division,
                user=leaf.op.name,
            )
        )

    def _place(
        self,
        keep: Keep,
        view: TensorView,
        place: str,
        full: dict[str, int],
        path: _Path,
        leaf: OperatorLeaf,
        *,
        buffered: bool,
        depth: int,
    ) -> None:
        view = self._widest_view(keep.tensor, view)
        moves = self.space.moves(view)
        bodies = path.bodies[:depth] if place == BUFFER else path.bodies
        movers = [n for n, body in enumerate(bodies) if {body.rank, body.part} & moves]
        at = len(bodies) - 1 if keep.anew else max(movers, default=0)
        home = bodies[at]
        maker = self.space.made.get(keep.tensor)
        if place != BUFFER and maker != leaf.op.name:
            maker = None
        user = "" if place == BUFFER else leaf.op.name
        key = (id(home), keep.tensor, place + user)
        if key in self.placed:
            return
        op = self.space.bound_operator(maker) if maker else None
        held = TilePlacement(
            use=keep.tensor,
            view=view,
            place=place,
            slots=keep.slots,
            block=full if place == BUFFER else dict(path.spread_from or full),
            queue=self.queues[keep.tensor],
            maker=op,
            loads=maker is None,
            stores=self.space.stored_views(keep.tensor, self.aliases),
            buffered=buffered,
            division=leaf.division,
            user=user,
        )
        self.placed[key] = held
        self._finish(held, _loops(bodies[: at + 1]), home, anew=keep.anew)
        home.holds.append(held)
        if buffered and held.spills:
            for (_, tensor, where), other in self.placed.items():
                if (tensor, where) == (keep.tensor, BUFFER):
                    other.returns = True

    def _finish(
        self, held: TilePlacement, loops: Sequence[Body], home: Body, *, anew: bool
    ) -> None:
        """Set a tile's fields that depend on the loops outside: spills, slots, slides, name."""
        summed = frozenset[str]() if held.maker is None else held.maker.reduced
        reductions = [n for n, body in enumerate(loops) if body.rank in summed]
        moving = self.space.moves(held.view)
        if not loops:
            held.slots = 1
        if reductions:
            # a free slot means that the sums that will be loaded into it have been stored
            inside = loops[reductions[-1] + 1 :]
            most = math.prod(body.least for body in inside if body.rank in moving)
            held.slots, held.spills = min(held.slots, most), True
        elif loops:
            held.slots = min(held.slots, _MOST_SLOTS)
        rank = home.rank
        terms = self.space.plain(held.view).terms
        if held.loads and not anew and any(len(dim) > 1 and rank in dict(dim) for dim in terms):
            held.slides, held.step = rank, home.tile
        name = sums_name(held.use) if held.spills and held.place == BUFFER else held.use
        in_buffer = held.place == BUFFER
        held.tile = name if in_buffer else self._pe_tile(name, held.user)

    def _pe_tile(self, name: str, user: str) -> str:
        """Return the name of a tile in PEs, with its user's name if several einsums use it."""
        einsums = (op for op in self.space.operators if isinstance(op.operator, Einsum))
        users = [op for op in einsums if name in {self.aliases.get(u, u) for u, _ in op.uses}]
        return f"{PE}.{name}" if len(users) < 2 else f"{PE}.{user}.{name}"  # noqa: PLR2004

    def _widest_view(self, tensor: str, view: TensorView) -> TensorView:
        """Return a tile's view, with elements as wide as the widest tensor written in place."""
        maker = self.space.made.get(tensor)
        own = self.space.bound_operator(maker).output if maker else view
        written = (output for output, source in self.aliases.items() if source == tensor)
        makers = (self.space.bound_operator(self.space.made[output]) for output in written)
        return own.as_wide(max(own.bits, *(op.output.bits for op in makers), 0))

    def _keep_index(self, name: str, view: TensorView, path: _Path, op: BoundOperator) -> int:
        """Return the number of the keep around the group that holds an operand."""
        held = holding_tensor(self.space.workload, name, self.around)
        for number, keep in enumerate(self.around):
            if keep.tensor != held:
                continue
            spans = [
                path.box.get(dim[0][0], (0, size)) if len(dim) == 1 else (0, size)
                for dim, size in zip(view.terms, view.shape, strict=True)
            ]
            region = keep.region or tuple(Span(0, size) for size in view.shape)
            if all(
                span.start <= start and start + size <= span.stop
                for span, (start, size) in zip(region, spans, strict=True)
            ):
                return number
        raise NotExecutableError(
            f"{op.name}: {name} is kept nowhere in the buffer; allowed: a keep of it outside of "
            f"do {op.name}"
        )


def _loops(bodies: Sequence[Body]) -> list[Body]:
    return [body for body in bodies if body.rank]
