"""An accelerator as a hierarchy of levels, outermost first: memories, and fan-outs between them.

A *temporal* level is a memory (or several side by side, for different tensors) whose loops run one
after the other. A *spatial* level is a fan-out whose iterations run at once, each in an instance of
all levels below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from simaccel.errors import Fault, require_none
from simaccel.hardware.quantity import Rate

Role = Literal["input", "weight", "output"]
ROLES: Final[tuple[Role, ...]] = ("input", "weight", "output")
"""An einsum's first input, its second, and its output."""
UNLIMITED: Final = Rate(1, 0)


@dataclass(frozen=True, kw_only=True)
class Memory:
    """A memory that the tensors of some roles share; a capacity of None is unlimited."""

    roles: frozenset[Role] = frozenset(ROLES)
    capacity_bytes: int | None = None
    read_pj_per_byte: float = 0.0
    write_pj_per_byte: float = 0.0


@dataclass(frozen=True, kw_only=True)
class TemporalLevel:
    """A level of memories. A role that none of them has bypasses the level.

    ``read``, ``write`` and ``both`` (reads plus writes) limit the bytes per cycle of *one* instance
    of the level, over all its memories.
    """

    name: str
    memories: tuple[Memory, ...]
    read: Rate = UNLIMITED
    write: Rate = UNLIMITED
    both: Rate = UNLIMITED

    @property
    def roles(self) -> frozenset[Role]:
        """The roles that the level can keep."""
        return frozenset(role for memory in self.memories for role in memory.roles)

    def memory(self, role: Role) -> Memory | None:
        """Return the memory of a role, if there is one."""
        return next((memory for memory in self.memories if role in memory.roles), None)


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
class Pipes:
    """The pipes between the buffer and the instances of the outermost spatial level.

    ``down`` and ``up`` in bytes per cycle. Without ``multicast`` data for several instances are
    sent to each.
    """

    down: Rate = UNLIMITED
    up: Rate = UNLIMITED
    multicast: bool = True
    pj_per_byte: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Hierarchy:
    """All levels, outermost first; below the last one are MACs.

    Raises:
        InputError: two levels with one name, a role in two memories of a level, or an outermost
            level that is no unlimited memory of all roles.

    """

    levels: tuple[Level, ...]
    mac_pj: float = 0.0
    pipes: Pipes | None = None

    def __post_init__(self) -> None:
        """Refuse impossible hierarchies."""
        faults = list(_faults(self.levels))
        require_none(faults)

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
    def inside(self) -> int:
        """The index of the outermost spatial level; the number of levels if there is none."""
        return min(self.spatial, default=len(self.levels))

    @property
    def macs_per_cycle(self) -> int:
        """MACs of all instances in one cycle."""
        product = 1
        for level in self.fanouts:
            product *= level.fanout
        return product


def _faults(levels: Sequence[Level]) -> list[Fault]:
    names = [level.name for level in levels]
    faults = [
        Fault("levels", name, f"{names.count(name)} levels", "one level of a name")
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]
    outermost = levels[0] if levels else None
    if not (
        isinstance(outermost, TemporalLevel)
        and outermost.roles == set(ROLES)
        and all(memory.capacity_bytes is None for memory in outermost.memories)
    ):
        allowed = "first a memory without a limit that keeps all roles"
        faults.append(Fault("levels", "outermost", names[:1], allowed))
    for level in levels:
        if isinstance(level, TemporalLevel):
            held = [role for memory in level.memories for role in memory.roles]
            faults += [
                Fault("levels", f"{level.name}.memories", role, "each role in one memory")
                for role in ROLES
                if held.count(role) > 1
            ]
        elif level.fanout < 1:
            faults.append(Fault("levels", f"{level.name}.fanout", level.fanout, "1 or more"))
    return faults
