"""Uneven bounds of products: each tensor kept at its own depth, a rank cut twice.

Of three tensors of which every rank is in two, one (the first) is kept in tiles of S x T. Inside,
the rank that the other two share goes in steps of 1; the second tensor keeps S x 1, and the third,
as b is cut again, one element:

    loop a S, loop b T        keep first  (S x T)
    loop c 1                  keep second (S x 1)
    loop b 1                  keep third  (1 x 1)

The first is moved once, the second once for each piece of b, the third once for each piece of a.
No mapping with the same pieces of the first needs less of the other two, so that this is the whole
front of trees that keep each tensor once: wherever the others are kept further out, they are
larger and moved as often.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from simaccel.analytic.bounds.front import Front
from simaccel.analytic.bounds.problem import NoBoundError, Operand, Problem
from simaccel.analytic.bounds.sizes import divisors, even_pieces
from simaccel.analytic.family import Ints, ints
from simaccel.mapping.tree import BUFFER, Do, Group, Keep, Loop, Tree

_TENSORS = 3


@dataclass(frozen=True)
class Shape:
    """Which tensor is kept outermost, next and innermost, and the ranks that pairs share.

    An empty name: a pair shares no rank (above 1).
    """

    first: Operand
    second: Operand
    third: Operand
    a: str
    b: str
    c: str


def shapes(problem: Problem) -> list[Shape]:
    """Return every way to keep the three tensors of a product.

    Raises:
        NoBoundError: it is no product of two tensors with every rank in two of three.

    """
    name = problem.operator.name
    if len(problem.operands) != _TENSORS or any(one.slides for one in problem.operands):
        raise NoBoundError(
            f"operator {name}: uneven bounds are of products of two tensors without sums of ranks"
        )
    for rank in problem.free:
        if sum(rank in one.ranks for one in problem.operands) != _TENSORS - 1:
            raise NoBoundError(f"operator {name}: rank {rank} isn't in two of three tensors")
    found = []
    for one, two, three in permutations(problem.operands):
        shared = (one.ranks & two.ranks, one.ranks & three.ranks, two.ranks & three.ranks)
        found.append(Shape(one, two, three, *(next(iter(ranks), "") for ranks in shared)))
    return found


def uneven_front(problem: Problem, *, imperfect: bool) -> Front:
    """Return the front; origins are (number of the shape, size of a, size of b)."""
    front = Front()
    for number, shape in enumerate(shapes(problem)):
        for a in _sizes(problem, shape.a, imperfect=imperfect):
            b = ints([*_sizes(problem, shape.b, imperfect=imperfect)])
            room, moved = _figures(problem, shape, a, b)
            origin = np.stack([np.full(b.size, number), np.full(b.size, a), b], axis=1)
            front.add(room, moved, origin)
    return front


def _sizes(problem: Problem, rank: str, *, imperfect: bool) -> Iterator[int]:
    size = problem.sizes.get(rank, 1)
    yield from even_pieces(size) if imperfect else divisors(size)


def _figures(problem: Problem, shape: Shape, a: int, b: Ints) -> tuple[Ints, Ints]:
    """Return bytes kept and bytes moved."""
    widths = [one.bytes_per_element for one in (shape.first, shape.second, shape.third)]
    room = widths[0] * a * b + widths[1] * a + widths[2]
    whole_a, whole_b = (problem.sizes.get(rank, 1) for rank in (shape.a, shape.b))
    visits = (ints(1), -(-whole_b // b), ints(-(-whole_a // a)))
    moved = ints(0)
    for one, times in zip((shape.first, shape.second, shape.third), visits, strict=True):
        twice = 2 * times - 1 if one.is_output else times
        moved = moved + problem.groups * problem.tensor_bytes(one) * twice
    return room, np.broadcast_to(moved, room.shape)


def uneven_group(problem: Problem, origin: Ints) -> Group:
    """Return the tree of a point of the front."""
    number, a, b = (int(one) for one in origin)
    shape = shapes(problem)[number]
    cuts = [*((rank, 1) for rank in problem.batch), (shape.a, a), (shape.b, b)]
    tree: Tree = (
        *_loops(problem, cuts),
        Keep(shape.first.name, BUFFER),
        *_loops(problem, [(shape.c, 1)]),
        Keep(shape.second.name, BUFFER),
        *((Loop(shape.b, 1),) if shape.b and b > 1 else ()),
        Keep(shape.third.name, BUFFER),
        Do(problem.operator.name, "array", "ws"),
    )
    return Group(operators=(problem.operator.name,), tree=tree, merged=problem.merged)


def _loops(problem: Problem, cuts: list[tuple[str, int]]) -> list[Loop]:
    return [Loop(rank, tile) for rank, tile in cuts if tile < problem.sizes.get(rank, 1)]
