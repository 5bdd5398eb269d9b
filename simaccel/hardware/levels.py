"""An accelerator as a hierarchy of levels, outermost first: memories, and fan-outs between them.

A *temporal* level is a memory (or several beside each other, one for each tensor) whose loops run
one after the other; a *spatial* level is a fan-out whose iterations run at the same time, each in
an instance of everything below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from simaccel.errors import Fault, InputError
from simaccel.hardware.quantity import Rate

Role = Literal["input", "weight", "output"]
ROLES: Final[tuple[Role, ...]] = ("input", "weight", "output")
"""An einsum's first input, its second, and its output."""
UNLIMITED: Final = Rate(1, 0)


@dataclass(frozen=True, kw_only=True)
class Memory:
    """A memory that the tensors of some roles share; ``None`` bytes: unlimited."""

    roles: frozenset[Role] = frozenset(ROLES)
    capacity_bytes: int | None = None
    read_pj_per_byte: float = 0.0
    write_pj_per_byte: float = 0.0


@dataclass(frozen=True, kw_only=True)
class TemporalLevel:
    """Memories at one place. A role that none of them has bypasses the level.

    ``read``, ``write`` and ``both`` together are the bytes per cycle of *one* instance of the
    level, over all its memories.
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
    """``fanout`` instances of all that is below.

    What several instances need at the same time is read once above them (multicast).
    ``reduces``: partial sums are added on the way up; where not, no rank that the output lacks
    can be split here.
    """

    name: str
    fanout: int
    reduces: bool = True


Level = TemporalLevel | SpatialLevel


@dataclass(frozen=True, kw_only=True)
class Pipes:
    """The pipes that all bytes pass between buffer and the outermost spatial level's instances.

    Bytes per cycle; without ``multicast`` what several instances need is sent to each.
    """

    down: Rate = UNLIMITED
    up: Rate = UNLIMITED
    multicast: bool = True
    pj_per_byte: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Hierarchy:
    """All levels from the outermost, which keeps every role, in; below the last one are MACs.

    Raises:
        InputError: a name twice, the outermost level is not a memory of all roles without a
            limit, a role in two memories of a level.

    """

    levels: tuple[Level, ...]
    mac_pj: float = 0.0
    pipes: Pipes | None = None

    def __post_init__(self) -> None:
        """Refuse what can't be a hierarchy."""
        faults = list(_faults(self.levels))
        if faults:
            raise InputError(faults)

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
