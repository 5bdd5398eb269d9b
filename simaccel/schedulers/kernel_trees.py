"""Trees by rules, of the kernels that a chip's compiler makes of products and epilogues."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from simaccel.analytic.evaluation import fits_memories
from simaccel.analytic.family import family_of
from simaccel.hardware import Accelerator
from simaccel.hardware.compiler import ConvertedBlocksSpec
from simaccel.mapping.space import BoundOperator, IterationSpace
from simaccel.mapping.tree import Do, Fork, Group, Keep, Loop, Node, Tree
from simaccel.schedulers.chains import OperatorChain, made_in_place
from simaccel.schedulers.einsums import RankRoles
from simaccel.search.candidate_set import capacity
from simaccel.units import ARRAY, SFU
from simaccel.workload.roles import window_ranks

Sizes = dict[str, int]
"""Tile sizes by rank."""
_TURNS: Final = 2
"""Rows of inputs that are processed at once, in multiples of the array's rows."""


def fits(space: IterationSpace, group: Group, accelerator: Accelerator) -> bool:
    """Return whether the tiles of a tree fit the buffer, the accumulator and staging."""
    return fits_memories(family_of(space, group), accelerator, capacity(accelerator))


def sliding_ranks(op: BoundOperator) -> tuple[str, ...]:
    """Return the group's ranks of an operator's sliding windows (`window_ranks`)."""
    inner = (rank for view in op.inputs for dim in view.terms if len(dim) > 1 for rank, _ in dim)
    return tuple(dict.fromkeys(inner)) if is_convolution(op) else ()


def cut_loops(space: IterationSpace, ranks: Sequence[str], tiles: Sizes) -> list[Loop]:
    """Return loops over the ranks that are tiled."""
    return [Loop(rank, tiles[rank]) for rank in ranks if tiles[rank] < space.sizes[rank]]


def halve_side(sizes: Sizes, ranks: Sequence[str]) -> Sizes:
    """Return the sizes with the first rank longer than 1 halved."""
    rank = next(rank for rank in ranks if sizes[rank] > 1)
    return sizes | {rank: -(-sizes[rank] // 2)}


def shrink_sizes(space: IterationSpace, ranks: Sequence[str], most: int) -> Sizes:
    """Return sizes of ranks whose product is at most ``most``; inner ranks stay whole."""
    found = {}
    for rank in reversed(ranks):
        found[rank] = min(space.sizes[rank], max(1, most))
        most //= found[rank]
    return found


@dataclass(frozen=True)
class ProductTrees:
    """Trees of a product with its epilogue, if it has one (``chain``), in the ranks of a group."""

    space: IterationSpace
    parts: RankRoles
    chain: OperatorChain | None
    accelerator: Accelerator

    @property
    def product(self) -> BoundOperator:
        """The product."""
        return self.space.operators[0]

    @property
    def shares_diagonal(self) -> bool:
        """Whether products at once share an array: the weights of each lie beside zeros."""
        weights = self.space.workload.tensors[self.product.inputs[1].name].kind == "weight"
        return self.accelerator.systolic.diagonal and weights and bool(self.parts.g)

    @cached_property
    def _taps(self) -> list[str]:
        """Ranks of a sliding window that the product reduces over."""
        return [rank for rank in sliding_ranks(self.product) if rank in self.product.reduced]

    @cached_property
    def _taps_apart(self) -> list[str]:
        """Ranks of a window that are gone through tap by tap.

        Those along the width are not where the array has rows for them beside the channels
        (`CompilerSpec.merged_taps`).
        """
        reduced = self.parts.k
        taps = [rank for rank in self._taps if rank in reduced]
        dimensions = [dim for read in self.product.operator.inputs for dim in read.projection]
        windows = [dict(dim.terms) for dim in dimensions if len(dim.terms) > 1]
        if not (self.accelerator.compiler.merged_taps and windows):
            return taps
        apart = [rank for rank in taps if rank not in windows[-1]]
        rows = math.prod(self.space.sizes[rank] for rank in reduced if rank not in apart)
        return apart if rows <= self.accelerator.array.rows else taps

    def load_whole(self, tiles: Sizes) -> Tree:
        """Return the kernel that loads its operands, works, and stores the result one by one."""
        a, b = self.product.names[:2]
        slots = 1 + bool(self.parts.g)
        heads, across, down = self._cut(tiles, self.parts.g, self.parts.n, self.parts.m)
        held, moving = Keep(b, slots=slots), Keep(a, slots=slots)
        return (*heads, *across, held, *down, moving, *self._with_epilogue((), slots))

    def stream(self, tiles: Sizes) -> Tree:
        """Return the kernel that streams columns of the second operand, loading the next meanwhile.

        If array and vector unit work in turn (`CompilerSpec.in_turn`), the sums have one slot,
        which is free once the last operator has written its result.
        """
        a, b = self.product.names[:2]
        parts, in_turn = self.parts, self.chain is not None and self.accelerator.compiler.in_turn
        heads, down, across, depth = self._cut(tiles, parts.g, parts.m, parts.n, parts.k)
        own: Tree = (Keep(b, slots=2),)
        stays: Tree = (Keep(a, slots=2 if down or heads else 1),)
        if depth:
            own, stays = (*depth, Keep(a, slots=2), Keep(b, slots=2)), ()
        aside = self.space.operators[-1].output.name if in_turn else ""
        ahead = int(bool(across) and not in_turn)
        end = self._with_epilogue(own, 2, ahead=ahead, aside=aside)
        return (*heads, *down, *stays, *across, *end)

    def hold_weights(self) -> Tree | None:
        """Return the kernel of a convolution that holds the weights and streams rows of the inputs.

        None if the compiler doesn't choose the smaller operand to hold (`CompilerSpec.held`), or
        the weights aren't the smaller one. More rows are processed at once than the array has, so
        that streaming takes longer than shifting weights in.
        """
        space, parts, on = self.space, self.parts, self.accelerator
        if on.compiler.held != "smaller" or parts.g or not is_convolution(self.product):
            return None
        columns = math.prod(space.sizes[rank] for rank in (*parts.n, *self._taps))
        if math.prod(space.sizes[rank] for rank in parts.m) <= columns:
            return None
        a, b = self.product.names[:2]
        (down,) = self._cut(shrink_sizes(space, parts.m, _TURNS * on.systolic.rows), parts.m)
        return (
            Keep(b),
            *down,
            Keep(a, slots=2),
            *self._with_epilogue((), 2, ahead=int(bool(down))),
        )

    def _cut(self, tiles: Sizes, *parts: Sequence[str]) -> Iterator[list[Loop]]:
        """Yield the loops over the ranks of each part that are tiled."""
        yield from (cut_loops(self.space, ranks, tiles) for ranks in parts)

    def _with_epilogue(self, own: Tree, slots: int, *, ahead: int = 0, aside: str = "") -> Tree:
        """Return a product on its tiles, and what follows it on each tile of its result.

        ``aside``: a result that has tiles of its own, so that those of the others need one slot.
        """
        product, chain = self.product, self.chain
        leaf = Do(product.name, ARRAY, "ws", diagonal=self.shares_diagonal)
        own = (*own, *(Loop(rank, 1) for rank in self._taps_apart), leaf)
        if chain is None:
            return (Keep(product.output.name, slots=slots), *own)
        space = chain.space
        outputs = [item.output.name for item in space.operators if not made_in_place(chain, item)]
        beside = dict.fromkeys(
            name for item in space.operators[1:] for name in item.names if name not in space.made
        )
        kept = dict.fromkeys((*beside, *outputs), slots)
        if aside:
            kept |= dict.fromkeys(outputs, 1) | {aside: slots}
        keeps = [Keep(name, slots=count) for name, count in kept.items()]
        behind = ((Do(item.name, SFU),) for item in space.operators[1:])
        return (*keeps, Fork((own, *behind), ahead=ahead))


def converted_tree(
    space: IterationSpace, op: BoundOperator, parts: RankRoles, tiles: Sizes, ahead: int = 0
) -> Tree:
    """Return the kernel of a product whose operands and result the vector unit converts as a whole.

    Rows are tiled inside columns, so that the second operand is converted once. ``ahead``: 1 if the
    next operands are converted while the array works.
    """
    by_output = {item.output.name: item for item in space.operators}
    a, b = (by_output.get(name) for name in op.names[:2])
    back = next((item for item in space.operators if op.output.name in item.names), None)
    down, across = cut_loops(space, parts.m, tiles), cut_loops(space, parts.n, tiles)

    def keeps(item: BoundOperator | None, plain: str, slots: int = 1) -> tuple[Keep, ...]:
        names = dict.fromkeys((*item.names, item.output.name) if item else (plain,))
        return tuple(Keep(name, slots=slots) for name in names)

    def leaf(item: BoundOperator | None) -> tuple[Tree, ...]:
        return ((Do(item.name, SFU),),) if item else ()

    before = 1 + ahead
    held = keeps(b, op.names[1], before if across else 1)
    made = keeps(back, op.output.name, before)
    do: Tree = (Do(op.name, ARRAY, "ws"),)
    heads = tuple(Loop(rank, 1) for rank in parts.g)
    if across and not down:
        inside: Tree = (*across, *held, *made)
        inside = (*inside, Fork((*leaf(b), do, *leaf(back)), ahead=ahead * len(leaf(b))))
        first: tuple[Node, ...] = (Fork((*leaf(a), inside)),) if a else inside
        return (*heads, *keeps(a, op.names[0]), *first)
    moving = (*keeps(a, op.names[0], before), *made)
    if not down:
        every = (*leaf(a), *leaf(b), do, *leaf(back))
        return (*heads, *across, *held, *moving, Fork(every))
    inner: Tree = (*down, *moving, Fork((*leaf(a), do, *leaf(back)), ahead=ahead * len(leaf(a))))
    end: tuple[Node, ...] = inner
    if b:
        end = (Fork((*leaf(b), inner), ahead=ahead * bool(across)),)
    return (*heads, *across, *held, *end)


def converted_blocks_tree(
    space: IterationSpace,
    op: BoundOperator,
    parts: RankRoles,
    blocks: ConvertedBlocksSpec,
    ahead: int,
) -> Tree | None:
    """Return the kernel of a product in blocks whose operands are converted again for each block.

    ``ahead``: 1 if the next block is converted while the array works. The sums of a block
    accumulate over its depth. None if the depth fits one block and nothing is converted ahead.
    """
    sides = (parts.m, blocks.rows), (parts.n, blocks.columns), (parts.k, blocks.depth)
    tiles = [shrink_sizes(space, ranks, most) for ranks, most in sides]
    down, across, deep = (
        cut_loops(space, ranks, sizes) for (ranks, _), sizes in zip(sides, tiles, strict=True)
    )
    if not deep:  # an operand that lacks the ranks of loops outside would be converted anew
        return converted_tree(space, op, parts, tiles[0] | tiles[1], ahead) if ahead else None
    by_output = {item.output.name: item for item in space.operators}
    operands = [(name, by_output.get(name)) for name in op.names[:2]]
    back = next((item for item in space.operators if op.output.name in item.names), None)
    before = [item for _, item in operands if item is not None]
    names = [name for name, item in operands if item is None]
    names += [name for item in before for name in (*item.names, item.output.name)]
    made = (*back.names, back.output.name) if back else (op.output.name,)
    loads = (Keep(name, slots=1 + ahead) for name in dict.fromkeys(names))
    leaves = (*((Do(item.name, SFU),) for item in before), (Do(op.name, ARRAY, "ws"),))
    inner: Tree = (*deep, *loads, Fork(leaves, ahead=ahead * len(before)))
    outside = (*(Loop(rank, 1) for rank in parts.g), *across, *down)
    early = ahead * bool(across or down)
    end = Fork((inner, (Do(back.name, SFU),)), ahead=early) if back else None
    keeps = (Keep(name, slots=1 + ahead) for name in dict.fromkeys(made))
    return (*outside, *keeps, *((end,) if end else inner))


def vector_tree(space: IterationSpace, loops: Sequence[Loop], slots: int) -> Tree:
    """Return the kernel of vector operators in blocks.

    What lacks a rank of the loops, such as the conversion of a bias, is done before them, once.
    """
    cut = {loop.rank for loop in loops}
    *before, last = space.operators
    once = [item for item in before if not cut <= {*item.output.ranks}]
    inside = [item for item in before if item not in once] + [last]
    made = {item.output.name for item in space.operators} - space.escapes

    def keeps(items: Sequence[BoundOperator], slots: int) -> dict[str, Keep]:
        names = (name for item in items for name, _ in item.uses)
        return {name: Keep(name, slots=1 if name in made else slots) for name in names}

    held = keeps(once, 1)
    moving = [keep for name, keep in keeps(inside, slots).items() if name not in held]
    leaves = tuple((Do(item.name, SFU),) for item in inside)
    end: Tree = (*loops, *moving, Fork(leaves) if len(leaves) > 1 else leaves[0][0])
    if once:
        end = (Fork((*((Do(item.name, SFU),) for item in once), end)),)
    return (*held.values(), *end)


def tilings(ranks: Mapping[str, int], sublanes: int, lanes: int) -> Iterator[Sizes]:
    """Yield the padded sizes of ranks for each choice of the ranks on lanes and on sublanes."""
    for along in ranks:
        padded = {along: -(-ranks[along] // lanes) * lanes}
        down = [rank for rank in ranks if rank != along]
        yield from ({**padded, rank: -(-ranks[rank] // sublanes) * sublanes} for rank in down)
        if not down:
            yield padded


def is_convolution(op: BoundOperator) -> bool:
    """Return whether an operator reads sliding windows, 1 x 1 ones included."""
    return bool(window_ranks(op.operator))


def is_plain(op: BoundOperator) -> bool:
    """Return whether each operand of an operator is indexed by its ranks, without windows."""
    return all(len(dim) == 1 for view in (*op.inputs, op.output) for dim in view.terms)
