"""Blocks in the order that vector operators' meanings take: rows first, axis or window last."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simaccel.lazy import np
from simaccel.workload.vectors.kind import Array


@dataclass(frozen=True)
class RankOrder:
    """The order of a block's ranks: ``rows``, then those of the last dimension, ``inner``."""

    sizes: Mapping[str, int]
    rows: tuple[str, ...]
    inner: tuple[str, ...]

    @classmethod
    def from_ranks(
        cls, sizes: Mapping[str, int], output: Sequence[str], axis: str | None
    ) -> RankOrder:
        """Return the order for an output's ranks; the axis, or the ranks it lacks, come last."""
        rows = tuple(rank for rank in sizes if rank in output and rank != axis)
        return cls(sizes, rows, tuple(rank for rank in sizes if rank not in rows))

    def take(self, values: Array, ranks: Sequence[str]) -> Array:
        """Return an array with dimensions ``ranks`` in this order, of size 1 for ranks it lacks."""
        here = [rank for rank in (*self.rows, *self.inner) if rank in ranks]
        inner = math.prod(self.sizes[rank] for rank in self.inner if rank in ranks)
        shape = [self.sizes[rank] if rank in ranks else 1 for rank in self.rows]
        return values.transpose([ranks.index(rank) for rank in here]).reshape([*shape, inner])

    def give(self, made: Array, ranks: Sequence[str]) -> Array:
        """Return a result with dimensions in the order of the output's ``ranks``.

        It is repeated along row ranks that it lacks.
        """
        rows = [self.sizes[rank] for rank in self.rows]
        if made.ndim > len(rows):
            made = np.broadcast_to(made, [*rows, made.shape[-1]])
        here = [rank for rank in (*self.rows, *self.inner) if rank in ranks]
        natural = made.reshape([self.sizes[rank] for rank in here])
        return natural.transpose([here.index(rank) for rank in ranks])
