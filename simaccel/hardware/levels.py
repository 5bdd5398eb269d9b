"""An accelerator as a hierarchy of levels, outermost first: memories, and fan-outs between them.

A *temporal* level is a memory (or several side by side, for different tensors) whose loops run one
after the other. A *spatial* level is a fan-out whose iterations run at once, each in an instance of
all levels below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

Role = Literal["input", "weight", "output"]
ROLES: Final[tuple[Role, ...]] = ("input", "weight", "output")
"""An einsum's first input, its second, and its output."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """A memory that the tensors of some roles share; a capacity of None is unlimited."""

    roles: frozenset[Role] = frozenset(ROLES)
    capacity_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class TemporalLevel:
    """Memories side by side; tensors of a role that none of them has bypass the level."""

    name: str
    memories: tuple[Memory, ...]

    @property
    def roles(self) -> frozenset[Role]:
        """The roles that the level can keep."""
        return frozenset(role for memory in self.memories for role in memory.roles)


@dataclass(frozen=True, kw_only=True)
class SpatialLevel:
    """A fan-out: ``fanout`` instances of all levels below.

    Data that several instances need at once are read once above (multicast). ``reduces``: partial
    sums are added on the way up; without it no rank that the output lacks can be split here.
    """

    name: str
    fanout: int
    reduces: bool = True


Level = TemporalLevel | SpatialLevel


@dataclass(frozen=True, kw_only=True)
class Hierarchy:
    """All levels, outermost first; below the last one are MACs.

    ``limited_rates``: whether the DRAM, and the NoC between buffer and array, have a limited
    bandwidth.
    """

    levels: tuple[Level, ...]
    limited_rates: tuple[bool, bool] = (False, False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all levels, outermost first."""
        return tuple(level.name for level in self.levels)

    @cached_property
    def temporal(self) -> tuple[int, ...]:
        """The indices of the temporal levels."""
        return tuple(i for i, level in enumerate(self.levels) if isinstance(level, TemporalLevel))

    @cached_property
    def spatial(self) -> tuple[int, ...]:
        """The indices of the spatial levels."""
        return tuple(i for i, level in enumerate(self.levels) if isinstance(level, SpatialLevel))

    @cached_property
    def memories(self) -> tuple[TemporalLevel, ...]:
        """The temporal levels."""
        return tuple(level for level in self.levels if isinstance(level, TemporalLevel))

    @cached_property
    def fanouts(self) -> tuple[SpatialLevel, ...]:
        """The spatial levels."""
        return tuple(level for level in self.levels if isinstance(level, SpatialLevel))

    @cached_property
    def first_fanout(self) -> int:
        """The index of the outermost spatial level; the number of levels if there is none."""
        return min(self.spatial, default=len(self.levels))

    @property
    def macs_per_cycle(self) -> int:
        """MACs of all instances in one cycle."""
        return math.prod(level.fanout for level in self.fanouts)
