"""What the tiles of nests take in memories, in bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from simaccel.analytic.nest_moves import Shape, Term
from simaccel.hardware.levels import ROLES, Hierarchy
from simaccel.mapping.nest import Bools

Number = TypeVar("Number", np.int64, np.float64)


def tile_bytes(
    hierarchy: Hierarchy,
    shapes: Mapping[int, Shape],
    kept: Bools,
    extent: Callable[[int, int], npt.NDArray[Number]],
) -> npt.NDArray[Number]:
    """Give the bytes of full tiles by (temporal level, role, candidate).

    ``extent`` gives the size of full tiles that enter a level, by level and rank.
    """
    found = np.zeros(kept.shape, dtype=extent(0, 0).dtype)
    for index, level in enumerate(hierarchy.temporal):
        for role, shape in shapes.items():
            if kept[index, role].any():
                sides = [_side(dim, level, extent) for dim in shape.dims]
                found[index, role] = math.prod(sides, start=shape.width * kept[index, role])
    return found


def _side(
    dim: Sequence[Term], level: int, extent: Callable[[int, int], npt.NDArray[Number]]
) -> npt.NDArray[Number]:
    """Give the extent of an index, which is a sum of ranks."""
    ((rank, first), *rest) = dim
    side = extent(level, rank) if first == 1 else first * (extent(level, rank) - 1) + 1
    for other, coefficient in rest:
        side = side + coefficient * (extent(level, other) - 1)
    return side


def held(hierarchy: Hierarchy, tiles: npt.NDArray[Number]) -> Bools:
    """Say which candidates' tiles fit the memories."""
    fits = np.ones(tiles.shape[-1], dtype=np.bool_)
    for index, level in enumerate(hierarchy.memories):
        for memory in level.memories:
            if memory.capacity_bytes is not None:
                used = tiles[index, [ROLES.index(role) for role in memory.roles]].sum(axis=0)
                fits &= used <= memory.capacity_bytes
    return fits
