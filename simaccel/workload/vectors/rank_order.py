"""Blocks as the meanings of vector operators see them: rows, and the axis or window last."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simaccel.lazy import np
from simaccel.workload.vectors.kind import Array


@dataclass(frozen=True)
class RankOrder:
    """The order of a block's ranks: ``rows``, and those of the last dimension, ``inner``."""

    sizes: Mapping[str, int]
    rows: tuple[str, ...]
    inner: tuple[str, ...]

    @classmethod
    def from_ranks(
        cls, sizes: Mapping[str, int], output: Sequence[str], axis: str | None
    ) -> RankOrder:
        """Line up a block of ranks whose output has some; the axis or the others come last."""
        rows = tuple(rank for rank in sizes if rank in output and rank != axis)
        return cls(sizes, rows, tuple(rank for rank in sizes if rank not in rows))

    def take(self, values: Array, ranks: Sequence[str]) -> Array:
        """Line up an array with a dimension for each of some ranks, 1 where it lacks a rank."""
        here = [rank for rank in (*self.rows, *self.inner) if rank in ranks]
        inner = math.prod(self.sizes[rank] for rank in self.inner if rank in ranks)
        shape = [self.sizes[rank] if rank in ranks else 1 for rank in self.rows]
        return values.transpose([ranks.index(rank) for rank in here]).reshape([*shape, inner])

    def give(self, made: Array, ranks: Sequence[str]) -> Array:
        """Return what was made with a dimension for each of the output's ranks, in their order.

        It is repeated along rows that it lacks.
        """
        rows = [self.sizes[rank] for rank in self.rows]
        if made.ndim > len(rows):
            made = np.broadcast_to(made, [*rows, made.shape[-1]])
        here = [rank for rank in (*self.rows, *self.inner) if rank in ranks]
        natural = made.reshape([self.sizes[rank] for rank in here])
        return natural.transpose([here.index(rank) for rank in ranks])
