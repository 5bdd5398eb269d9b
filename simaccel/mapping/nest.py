"""Nests: mappings of one einsum on a hierarchy of levels, one or 100,000s of them as arrays.

`NestMapping` is one mapping for people and files; `Nests` are many for the closed form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from simaccel.hardware.levels import Hierarchy
from simaccel.mapping.choices import NestMapping
from simaccel.workload import Einsum

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Nests:
    """Candidate mappings of one einsum on one hierarchy, as arrays.

    Ranks are in the order of ``einsum.ranks``, levels outermost first as in ``hierarchy.levels``,
    temporal levels as in ``hierarchy.memories``, roles as in ``ROLES``.

    - ``factors`` (candidate, level, rank): pieces P >= 1 that a level makes of a tile. The entry of
      level 0 is ignored: it takes what is left.
    - ``orders`` (candidate, temporal level, rank): rank indices, from the outermost loop in.
    - ``keeps`` (candidate, temporal level, role): whether the level keeps the role.
    - ``sizes`` (candidate, rank): the size that is run; larger than the einsum's where padded.
    """

    factors: Ints
    orders: Ints
    keeps: Bools
    sizes: Ints

    def __len__(self) -> int:
        """Count the candidates."""
        return len(self.factors)

    def take(self, which: Ints | Bools | slice) -> Nests:
        """Give some of the candidates, by index, mask or slice."""
        raise NotImplementedError

    @classmethod
    def concatenate(cls, parts: Sequence[Nests]) -> Self:
        """Put several (at least one) behind each other."""
        raise NotImplementedError

    @classmethod
    def of(cls, einsum: Einsum, hierarchy: Hierarchy, mappings: Sequence[NestMapping]) -> Self:
        """Make arrays of mappings.

        Raises:
            InputError: a mapping isn't for these ranks and levels.

        """
        raise NotImplementedError

    def mapping(self, einsum: Einsum, hierarchy: Hierarchy, index: int) -> NestMapping:
        """Give one candidate as a mapping: no factors of 1, no loops of one trip in orders."""
        raise NotImplementedError
