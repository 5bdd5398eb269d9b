"""Families of trees of single einsums and single vector operators on a systolic array."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from simaccel.analytic.family import Branch, Family, FamilyLoops, Ints, ints
from simaccel.hardware import STATIONARITIES, Accelerator
from simaccel.mapping.space import BoundOperator, IterationSpace, joined_name
from simaccel.mapping.tree import BUFFER, Do, Keep
from simaccel.search.neighbours import filling_tiles, tile_sizes
from simaccel.search.problems import NotMappableError
from simaccel.units import ARRAY, SFU
from simaccel.workload import Einsum, Vector
from simaccel.workload.names import tensor_of
from simaccel.workload.roles import Part
from simaccel.workload.vectors import VECTORS

SLOTS = (2, 3, 1)
Merged = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class RankRoles:
    """The ranks of an einsum by their role on a systolic array, without ranks of size 1."""

    g: tuple[str, ...]
    m: tuple[str, ...]
    k: tuple[str, ...]
    n: tuple[str, ...]


def roles(space: IterationSpace, op: BoundOperator) -> RankRoles:
    """Return which ranks of an einsum act as g, m, k and n.

    Raises:
        NotMappableError: the einsum is none that a systolic array folds.
    """
    name = f"operator {op.name}"
    if len(op.inputs) != 2:  # noqa: PLR2004 - a systolic array multiplies two
        raise NotMappableError(
            f"{name}: a systolic array multiplies two tensors, not {len(op.inputs)}"
        )
    by_part: dict[Part, list[str]] = {"g": [], "m": [], "k": [], "n": []}
    for rank, part in op.parts.items():
        if space.sizes[rank] == 1:
            continue
        if part is None:
            raise NotMappableError(f"{name}: rank {rank} is in one of its tensors only")
        by_part[part].append(rank)
    # judged by the whole operator: of a core's piece the batch may be all that is left
    if isinstance(op.operator, Einsum) and op.operator.elementwise:
        raise NotMappableError(
            f"{name}: an elementwise product is no work for a systolic array; write it as a vector "
            f"operator of kind product"
        )
    return RankRoles(*(tuple(ranks) for ranks in by_part.values()))


def tilings(space: IterationSpace, ranks: tuple[str, ...], side: int) -> list[dict[str, int]]:
    """Return tile sizes of ranks with one role: outer ranks are cut first, inner stay whole."""
    tiles: list[dict[str, int]] = []
    for at, rank in enumerate(ranks):
        outer = dict.fromkeys(ranks[:at], 1)
        inner = {outer_rank: space.sizes[outer_rank] for outer_rank in ranks[at + 1 :]}
        whole = math.prod(inner.values())
        sizes = tile_sizes(space.sizes[rank], max(1, -(-side // whole)))
        if whole > 1:
            sizes = sorted({*sizes, *filling_tiles(space.sizes[rank], whole, side)})
        tiles += [{**outer, rank: size, **inner} for size in sizes]
    unique = {tuple(sorted(tiling.items())): tiling for tiling in tiles}
    return list(unique.values()) or [{}]


def tiles_by_rank(
    space: IterationSpace, parts: RankRoles, accelerator: Accelerator
) -> dict[str, Ints]:
    """Return the tile sizes of the ranks of m, k and n, on the last three of six array axes."""
    array = accelerator.systolic
    side = max(1, min(array.rows, array.cols))
    found: dict[str, Ints] = {}
    for axis, part in enumerate((parts.m, parts.k, parts.n)):
        choices, shape = tilings(space, part, side), [1] * 6
        shape[3 + axis] = len(choices)
        found |= {rank: ints([one[rank] for one in choices]).reshape(shape) for rank in part}
    return found


def batch_loops(parts: RankRoles) -> tuple[FamilyLoops, ...]:
    """Return loops over single positions of the batch ranks, which all tensors have."""
    places = tuple(map(ints, range(len(parts.g))))
    return (FamilyLoops(parts.g, (ints(1),) * len(parts.g), places),) if parts.g else ()


def einsum_families(
    space: IterationSpace,
    op: BoundOperator,
    accelerator: Accelerator,
    *,
    kept: Sequence[str] = (),
) -> list[Family]:
    """Return families with every loop order, stationarity and tile size; ``kept`` stays on chip."""
    parts = roles(space, op)
    tiles = tiles_by_rank(space, parts, accelerator)
    orders = np.array(list(permutations(range(3))), dtype=np.int64)
    places = tuple(
        (orders[:, axis] * len(tiles) + number).reshape(-1, 1, 1, 1, 1)
        for axis, part in enumerate((parts.m, parts.k, parts.n))
        for number in range(len(part))
    )
    slot = ints(list(SLOTS)).reshape(1, -1, 1, 1, 1)
    loops = FamilyLoops(tuple(tiles), tuple(tiles.values()), places)
    names = dict.fromkeys((*op.names, op.output.name))
    keeps = tuple(Keep(tensor, BUFFER, slot) for tensor in names if tensor_of(tensor) not in kept)
    around = tuple(Keep(name) for name in kept)
    held = ints(range(len(STATIONARITIES))).reshape(-1, 1, 1, 1, 1, 1)
    branch: Branch = (*batch_loops(parts), loops, *keeps, Do(op.name, ARRAY, STATIONARITIES[0]))
    return [Family(space, branch, {}, around, {op.name: held})]


def vector_families(
    space: IterationSpace,
    op: BoundOperator,
    vector: Vector,
    accelerator: Accelerator,
    *,
    rows: int | None = None,
    kept: Sequence[str] = (),
    overwrites: bool = False,
) -> list[Family]:
    """Return families of row blocks of a vector operator, of whole rows and of parts of rows.

    A block tiles one rank of the rows and has all positions of the ranks inside it; each rank that
    may be tiled has a family. Without a normalised axis a block is a
    part of one row or several whole rows. ``rows``: of a block, if they are given.
    ``kept``: tensors that stay on chip around the group. ``overwrites``: the output replaces the
    first input, which is kept.
    """
    axis = space.axes.get(op.name)
    outer = [rank for rank in op.ranks if rank != axis and rank in op.output.names]
    inner = outer.pop() if outer else None
    array = accelerator.array
    heights = [1]
    if inner is not None:
        most = space.sizes[inner]
        heights = [min(rows, most)] if rows else tile_sizes(most, array.rows)
        heights = sorted({*heights, 1})
    widths = widths_of(space, op, vector, accelerator)
    in_place = op.inputs[0].ranks == op.output.ranks
    if {op.names[0], op.output.name} & set(kept):
        in_place = overwrites
    names = [*op.names] if in_place else [*op.names, op.output.name]
    names = [tensor for tensor in names if tensor_of(tensor) not in kept]
    around = tuple(Keep(tensor) for tensor in kept)
    slots = ints([1, 2, 3]).reshape(-1, 1, 1)
    ranks = (*outer, *([inner] if inner else []), *([axis] if axis else []))
    order = tuple(ints(at) for at in range(len(ranks)))
    keeps = tuple(Keep(name, BUFFER, slots) for name in dict.fromkeys(names))
    aliases = {op.output.name: op.names[0]} if in_place else {}
    single = [ints(1) for _ in outer]
    blocks = [
        [
            *single,
            *([ints(heights).reshape(1, -1, 1)] if inner else []),
            *([ints(part).reshape(1, 1, -1)] if axis else []),
        ]
        for part in ([widths[0]], widths[1:])
        if part
    ]
    for at, rank in enumerate(outer if inner and not rows else ()):
        several = ints(tile_sizes(space.sizes[rank], array.rows)).reshape(1, -1, 1)
        whole = [ints(space.sizes[behind]) for behind in ranks[at + 1 :]]
        blocks.append([*single[:at], several, *whole])
    every = (FamilyLoops(ranks, tuple(tiles), order) for tiles in blocks)
    return [Family(space, (loops, *keeps, Do(op.name, SFU)), aliases, around) for loops in every]


def widths_of(
    space: IterationSpace, op: BoundOperator, vector: Vector, accelerator: Accelerator
) -> list[int]:
    """Return the candidate widths of a normalised axis, the whole row first.

    A row that is cut needs two passes, one for statistics and one to normalise; a whole row needs
    three.
    """
    axis = space.axes.get(op.name)
    if not axis:
        return [1]
    cut_widths = tile_sizes(space.sizes[axis], accelerator.array.cols)[-2::-1]
    return [space.sizes[axis], *(cut_widths if "statistics" in VECTORS[vector.kind].steps else [])]


def row_merges(vector: Vector) -> dict[str, tuple[str, ...]]:
    """Return which ranks of a vector operator are merged: all ranks of rows but the last.

    Without a normalised axis, all ranks are merged; none if it reads a tensor transposed, too.
    """
    orders = {(operand.tensor, tuple(operand.ranks)) for operand in vector.inputs}
    if len(orders) > len({tensor for tensor, _ in orders}):
        return {}
    rows = tuple(rank for rank in vector.input.ranks if rank != vector.axis)
    together = rows[:-1] if vector.axis else rows
    if len(together) < 2 or any(  # noqa: PLR2004 - one rank is one already
        set(operand.ranks) != set(vector.ranks) or not operand.is_unit
        for operand in (*vector.inputs, vector.output)
    ):
        return {}
    return {joined_name(together): together}
