"""Reuse by dimension: the effect of each loop, spread and fold of a tree on each tensor.

The data-centric analysis of MAESTRO (Kwon et al., section 3) for any tree: a dimension that a
tensor lacks is reuse in time or in space, of an input (it stays, or is multicast) or of sums (they
are added up in place, or across PEs); a dimension that it has moves it, or slides its window. The
folds of a systolic array are directives, too: two dimensions in space, one that streams.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from simaccel.hardware import PLACES, Accelerator, ArraySpec
from simaccel.mapping.space import BoundOperator, IterationSpace
from simaccel.mapping.tree import BUFFER, Do, Group, Keep, Loop, Node, Spread, paths
from simaccel.mapping.view import TensorView
from simaccel.workload import Einsum
from simaccel.workload.names import tensor_of

Effect = Literal[
    "moves", "slides", "stays", "again", "returns", "apart", "overlaps", "multicast", "summed"
]
"""The effect of a dimension on a tensor.

In time: another tile comes (``moves``), or the part of a window that is new (``slides``); the tile
``stays``, or sums are ``summed`` in it; or it comes ``again``, sums ``returns``, because a loop
inside moves it. In space: each instance has a tile of its own (``apart``), or a window that
``overlaps`` its neighbour's; all have the same (``multicast``), or their sums are ``summed``.
"""


@dataclass(frozen=True, kw_only=True)
class Coupling:
    """The effect of a dimension on one tensor on its way to the next memory inside (``level``)."""

    tensor: str
    effect: Effect
    level: str


@dataclass(frozen=True, kw_only=True)
class Dimension:
    """A directive that a tree implies, in MAESTRO's notation.

    ``steps``: how many pieces follow each other, or (``in_space``) run at once, at most.
    """

    operator: str
    directive: str
    in_space: bool
    steps: int
    couplings: tuple[Coupling, ...]


@dataclass(frozen=True)
class _TreeCut:
    """A cut of equivalent ranks into pieces in time or in space."""

    ranks: tuple[str, ...]
    tile: int
    steps: int
    where: str


def dimensions_of(
    space: IterationSpace, group: Group, accelerator: Accelerator
) -> tuple[Dimension, ...]:
    """Return the directives of a group's operators, from the outside in."""
    found: list[Dimension] = []
    for outside, leaf in paths(group.tree):
        op = space.bound_operator(leaf.operator)
        found += _dimensions(space, op, outside, leaf, accelerator)
    return tuple(found)


def _dimensions(
    space: IterationSpace,
    op: BoundOperator,
    outside: Sequence[Node],
    leaf: Do,
    accelerator: Accelerator,
) -> list[Dimension]:
    way, left = _way(space, outside)
    sizes = {rank: space.widen(left)[rank] for rank in op.ranks}
    array = accelerator.array
    if not isinstance(op.operator, Einsum):
        lanes = accelerator.sfu.lanes
        ranks = tuple(rank for rank, size in sizes.items() if size > 1)
        elements = math.prod(sizes.values())
        rounds = [_TreeCut(ranks, lanes, -(-elements // lanes), "")] if elements > lanes else []
        way += [*rounds, *([_TreeCut(ranks, 1, min(elements, lanes), "lanes")] if ranks else [])]
    elif isinstance(array, ArraySpec):
        way += _folds(op, sizes, array, leaf)
    else:
        way += [_TreeCut((rank,), 1, size, "") for rank, size in sizes.items() if size > 1]
    dimensions = []
    for at, step in enumerate(way):
        if isinstance(step, Keep) or not any(_is_moved(space, step, view) for _, view in op.uses):
            continue
        couplings = tuple(_coupling(space, op, way, at, number) for number in range(len(op.uses)))
        kind = "SpatialMap" if step.where else "TemporalMap"
        on = f" on {step.where}" if step.where else ""
        directive = f"{kind}({step.tile},{step.tile}) {'*'.join(step.ranks)}{on}"
        dimensions.append(
            Dimension(
                operator=op.name,
                directive=directive,
                in_space=bool(step.where),
                steps=step.steps,
                couplings=couplings,
            )
        )
    return dimensions


def _way(
    space: IterationSpace, outside: Sequence[Node]
) -> tuple[list[_TreeCut | Keep], dict[str, int]]:
    """Return the cuts and keeps around a leaf, and the sizes of its block."""
    left, way = dict(space.sizes), list[_TreeCut | Keep]()
    for node in outside:
        if isinstance(node, Keep):
            way.append(node)
        elif isinstance(node, Loop | Spread) and node.tile < left[node.rank]:
            steps = -(-left[node.rank] // node.tile)
            where = node.level if isinstance(node, Spread) else ""
            way.append(_TreeCut((node.rank,), node.tile, steps, where))
            left[node.rank] = node.tile
    return way, left


def _folds(
    op: BoundOperator, sizes: Mapping[str, int], array: ArraySpec, leaf: Do
) -> list[_TreeCut]:
    """Return the folds of a block: loops, ranks on the array's sides, streamed rank."""
    parts = {rank: op.parts.get(rank) for rank, size in sizes.items() if size > 1}
    high, wide, stream = (
        tuple(rank for rank, own in parts.items() if own == part)
        for part in PLACES[leaf.stationarity or "ws"]
    )
    folds: list[_TreeCut] = []
    sides = [(high, array.rows, "rows"), (wide, array.cols, "cols")]
    for ranks, side, _ in sides:
        whole = math.prod(sizes[rank] for rank in ranks)
        if whole > side:
            folds.append(_TreeCut(ranks, side, -(-whole // side), ""))
    for ranks, side, name in sides:
        whole = math.prod(sizes[rank] for rank in ranks)
        if whole > 1:
            folds.append(_TreeCut(ranks, 1, min(whole, side), name))
    length = math.prod(sizes[rank] for rank in stream)
    return [*folds, *([_TreeCut(stream, 1, length, "")] if length > 1 else [])]


def _is_moved(space: IterationSpace, step: _TreeCut, view: TensorView) -> bool:
    """Return whether the ranks of a step move a tensor's tile."""
    return bool((space.moves(view) | view.names) & {*step.ranks})


def _coupling(
    space: IterationSpace, op: BoundOperator, way: Sequence[_TreeCut | Keep], at: int, number: int
) -> Coupling:
    name, view = op.uses[number]
    step = way[at]
    assert isinstance(step, _TreeCut)  # noqa: S101 - narrows the type
    is_sum = number == len(op.inputs)
    end, level = _home(way, at, name)
    is_moved = _is_moved(space, step, view)
    inside = [
        node
        for node in way[at + 1 : end]
        if isinstance(node, _TreeCut) and not node.where and _is_moved(space, node, view)
    ]
    effect: Effect
    if step.where:
        own: Effect = "overlaps" if _is_window(view, step.ranks) else "apart"
        effect = own if is_moved else "summed" if is_sum else "multicast"
    elif is_moved:
        effect = "slides" if not inside and _is_window(view, step.ranks) else "moves"
    elif inside:
        effect = "returns" if is_sum else "again"
    else:
        effect = "summed" if is_sum else "stays"
    return Coupling(tensor=name, effect=effect, level=level)


def _home(way: Sequence[_TreeCut | Keep], at: int, name: str) -> tuple[int, str]:
    """Return the next memory inside that keeps a tensor: its index, and its level."""
    for place in range(at + 1, len(way)):
        node = way[place]
        if isinstance(node, Keep) and node.tensor == name:
            return place, node.level
    return len(way), "array"


def _is_window(view: TensorView, ranks: Sequence[str]) -> bool:
    return any(len(dim) > 1 and dict(dim).keys() & {*ranks} for dim in view.terms)


# -- what crosses DRAM


def dram_bytes_of(space: IterationSpace, group: Group) -> dict[str, int]:
    """Return the DRAM bytes of einsums' tensors, for one run of the group.

    Left out are tensors that the directives of one operator don't determine: in windows, passed
    between or used by several operators, in parts of a rank, kept nowhere in the buffer, or packed
    (whose tiles are rounded up to bytes).
    """
    leaves = list(paths(group.tree))
    if len(leaves) > len(space.operators):
        return {}
    uses = Counter(name for op in space.operators for name, _ in op.uses)
    moved: dict[str, int] = {}
    untold: set[str] = set()
    for outside, leaf in leaves:
        op = space.bound_operator(leaf.operator)
        for number, (name, view) in enumerate(op.uses):
            tensor = tensor_of(name)
            plain = all(len(dim) == 1 and dim[0][1] == 1 for dim in view.terms)
            plain = plain and not (view.packed or view.names & {*space.derived})
            times = _times(space, outside, name, view)
            if times is None or not plain or uses[name] > 1 or not isinstance(op.operator, Einsum):
                untold.add(tensor)
                continue
            every = math.prod(times.values())
            if number == len(op.inputs):  # sums that come back; what is made anew doesn't
                every = 2 * every - math.prod(n for r, n in times.items() if r not in op.ranks)
            moved[tensor] = moved.get(tensor, 0) + view.n_bytes * every
    return {name: n_bytes for name, n_bytes in moved.items() if name not in untold}


def _times(
    space: IterationSpace, outside: Sequence[Node], name: str, view: TensorView
) -> dict[str, int] | None:
    """Return how often a tensor is loaded, by rank that it lacks: pieces outside its last move.

    None if it isn't kept in the buffer.
    """
    at = [
        place
        for place, node in enumerate(outside)
        if isinstance(node, Keep) and (node.tensor, node.level) == (name, BUFFER)
    ]
    if not at:
        return None
    loops = [node for node in outside[: at[0]] if isinstance(node, Loop)]
    left, last = dict(space.sizes), -1
    for place, loop in enumerate(loops):
        if loop.tile < left[loop.rank]:
            last = place if loop.rank in view.names else last
            left[loop.rank] = loop.tile
    pieces = {rank: {size: 1} for rank, size in space.sizes.items() if rank not in view.names}
    for loop in loops[: last + 1]:
        if loop.rank in pieces:
            pieces[loop.rank] = cut(pieces[loop.rank], loop.tile)
    return {rank: sum(piece.values()) for rank, piece in pieces.items()}


def cut(pieces: Mapping[int, int], tile: int) -> dict[int, int]:
    """Cut pieces (count by size) into smaller ones, the last of each smaller still.

    >>> cut({10: 2}, 4)
    {4: 4, 2: 2}
    """
    found: dict[int, int] = {}
    for size, count in pieces.items():
        for one, n in ((min(tile, size), size // min(tile, size)), (size % min(tile, size), 1)):
            if one:
                found[one] = found.get(one, 0) + n * count
    return found
