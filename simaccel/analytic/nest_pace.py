"""How long a nest takes beside what comes and goes: stage by stage, from the passes outwards.

A *stage* is the body of one loop: the tiles that live there, and a number of iterations of the
stage inside, the innermost of which are the passes. All iterations of a stage are taken as equal,
with the mean of what the mapping moves in them. The rules, all in cycles:

- A tile of one slot comes when the one before has been used, and goes before the next one: that
  time is added (*serial*). What starts at once shares its resource in turns.
- Behind tiles of S slots an iteration lasts at least 1 / S of the whole way of a tile: it comes,
  is used, and goes (*chained*).
- A resource serves one at a time: no iteration is shorter than what it and all inside it ask for.
- What an outer stage loads ahead it asks for in one go, and shares the resource in turns with the
  stages inside until it has come. Until then each iteration inside takes as long as with a
  *rival* that is served as often as itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from simaccel.analytic.nest_ways import Moving, Use, Way, down, moving, up
from simaccel.hardware import Accelerator
from simaccel.hardware.levels import Role

_OUTSIDE: Final = -1
"""The position of a tile that comes once."""
_INSIDE: Final = 1 << 30
"""The position of what comes for each pass, inside all loops."""
_RIVALS: Final = ("", "dram", "read_port", "write_port", "distribution", "collection")


def _total(uses: Iterable[Use]) -> dict[str, float]:
    found: dict[str, float] = {}
    for use in uses:
        for name, cycles in use.items():
            found[name] = found.get(name, 0.0) + cycles
    return found


@dataclass(frozen=True)
class Passes:
    """One pass: its steps, and the cycles of the resources that MACs access meanwhile."""

    steps: float
    use: Use

    @cached_property
    def cycles(self) -> dict[str, float]:
        """Give its cycles beside a rival for one resource, or none."""
        return {
            rival: max(self.steps, *(n * (1 + (name == rival)) for name, n in self.use.items()), 0)
            for rival in _RIVALS
        }

    @property
    def last(self) -> float:
        """Give the cycles of the last one."""
        return self.cycles[""]

    @property
    def asks(self) -> Use:
        """Give what it asks for at its start."""
        return self.use

    def serial(self, _rival: str, _others: frozenset[Role] = frozenset()) -> float:
        """Give what tiles of one slot add: it has none."""
        return 0.0


@dataclass(frozen=True)
class Stage:
    """The tiles of one body, and ``trips`` iterations of what is inside."""

    tiles: tuple[Moving, ...]
    trips: float
    inside: Stage | Passes

    @cached_property
    def use(self) -> Use:
        """Cycles of the resources in one iteration."""
        inside = {name: self.trips * cycles for name, cycles in self.inside.use.items()}
        return _total((inside, *(use for one in self.tiles for use in (one.down, one.up))))

    @property
    def asks(self) -> Use:
        """Give what passes ask for at the start of an iteration: nothing."""
        return {}

    @cached_property
    def cycles(self) -> dict[str, float]:
        """Give the cycles of one iteration beside a rival for one resource, or none."""
        return {rival: self._cycles(rival) for rival in _RIVALS}

    @property
    def last(self) -> float:
        """Give the cycles of the last iteration of all: nothing is loaded ahead in it."""
        return self._added("") + (self.trips - 1) * self.inside.cycles[""] + self.inside.last

    def _cycles(self, rival: str) -> float:
        work = self.trips * self.inside.cycles[rival] + self._lost
        served = dict(self.use)
        own = [one.get(rival, 0.0) for tile in self.tiles for one in (tile.down, tile.up)]
        if rival in served:
            served[rival] += max(own, default=0.0)
        return max(work + self._added(rival), self._chained(work, rival), *served.values(), 0.0)

    @cached_property
    def _lost(self) -> float:
        """Give what the iterations inside lose while this one loads and stores beside them."""
        lost, alone = 0.0, self.inside.cycles[""]
        for tile in self.tiles:
            for name, cycles in (*tile.down.items(), *tile.up.items()):
                slowed = self.inside.cycles[name]
                if tile.slots > 1 and slowed > alone:
                    left = slowed - self.inside.use.get(name, 0.0)
                    lost += min(self.trips, cycles / left) * (slowed - alone)
        return lost

    def _added(self, rival: str) -> float:
        """Give what tiles of one slot add, but for what the first ones inside take anyway.

        Those of other roles come at the same time.
        """
        single = frozenset(tile.role for tile in self.tiles if tile.slots == 1)
        return max(0.0, self.serial(rival) - self.inside.serial(rival, single)) if single else 0.0

    def serial(self, rival: str, others: frozenset[Role] = frozenset()) -> float:
        """Give the cycles that tiles of one slot take, but those of the ``others``.

        Inputs come while sums go; sums that come back wait for those that go, and meet the
        inputs that are still coming.
        """
        inputs = sums = meets = 0.0
        for tile in self.tiles:
            single = tile.slots == 1 and tile.role not in others
            if tile.role == "output":
                goes = tile.goes(self._beside(tile), rival)
                meets = self._meets(tile, goes, 0)
                sums = (goes + tile.comes(self._leaving(tile), rival)) * single
            elif single:
                inputs = max(inputs, tile.comes(self._beside(tile), rival))
        longest = max(sums, inputs)
        return longest and longest + meets

    def _chained(self, work: float, rival: str) -> float:
        """Give the cycles of an iteration in which tiles of several slots keep up.

        Their transfers start with a pass, which may ask for the same resources. Sums that come
        back meet the inputs that are asked for when the iteration after ends, in the meantime
        at the earliest.
        """
        found = 0.0
        for tile in self.tiles:
            if tile.slots == 1:
                continue
            beside = (*self._beside(tile), self.inside.asks)
            if tile.role == "output":
                goes = tile.goes(beside, rival)
                meets = self._meets(tile, goes, max(goes, work))
                way = tile.comes(self._leaving(tile), rival) + meets + work + goes
            else:
                way = tile.comes(beside, rival) + work
            found = max(found, way / tile.slots)
        return found

    def _beside(self, tile: Moving) -> tuple[Use, ...]:
        """Give what starts together with a tile: inputs that come, and sums that go."""
        others = (one for one in self.tiles if one is not tile)
        return tuple(one.up if one.role == "output" else one.down for one in others)

    def _leaving(self, tile: Moving) -> tuple[Use, ...]:
        """Give what goes on to DRAM when sums have come from PEs and others go back there."""
        others = (one for one in self.tiles if one is not tile)
        return tuple(one.up for one in others if one.role == "output")

    def _meets(self, sums: Moving, sums_from: float, inputs_from: float) -> float:
        """Give for how long sums on their way back and inputs ask for the same resource."""
        found = (
            min(sums_from + own, inputs_from + one.down[name]) - max(sums_from, inputs_from)
            for one in self.tiles
            for name, own in sums.down.items()
            if one.role != "output" and name in one.down
        )
        return max(0.0, *found, 0.0)


@dataclass(frozen=True)
class Pace:
    """A whole nest: cycles before its first pass, while it works, and after the last pass."""

    fill: float
    cycles: float
    drain: float


def pace_of(ways: Sequence[Way], cycles: int, passes: int, accelerator: Accelerator) -> Pace:
    """Pace a nest whose ``passes`` take ``cycles`` altogether."""
    uses = [use(w, passes, accelerator) for w in ways if w.accesses for use in (down, up)]
    inside: Stage | Passes = Passes(cycles / passes, _total(uses))
    stages = _tiles(ways, passes, accelerator)
    counts = [times for times, _ in stages[1:]] + [passes]
    first: list[Moving] = []
    for (times, tiles), more in zip(reversed(stages), reversed(counts), strict=True):
        inside = Stage(tiles, more / times, inside)
        first = [one for one in tiles if one.slots > 1 or times == 1] + first
    assert isinstance(inside, Stage)  # noqa: S101 - narrows the type
    work = (inside.trips - 1) * inside.inside.cycles[""] + inside.inside.last
    return Pace(_fill(first), work, sum(one.goes() for one in first))


def _tiles(
    ways: Sequence[Way], passes: int, accelerator: Accelerator
) -> list[tuple[int, tuple[Moving, ...]]]:
    """Give how often tiles come, and which: by the loops around them, the outermost first."""
    kept = [way for way in ways if way.role == "output" and way.target != "mac"]
    found: dict[int, tuple[int, tuple[Moving, ...]]] = {_OUTSIDE: (1, ())}
    for way in ways:
        if way.source == "pe" or way.accesses:
            continue
        position, times = (_INSIDE, passes) if way.streams else (way.position, way.times)
        tile = moving(way, times, accelerator, skewed=way in kept[-1:])
        most, others = found.get(position, (1, ()))
        found[position] = (max(most, times), (*others, tile))
    return [found[position] for position in sorted(found)]


def _fill(first: Sequence[Moving]) -> float:
    """Give the cycles until the first pass: its operands come at once and take turns.

    What a tile of one slot adds in each iteration, also in the first, isn't in it.
    """
    found: dict[Role, float] = {}
    for tile in first:
        if tile.role != "output":
            beside = tuple(one.down for one in first if one is not tile)
            found[tile.role] = found.get(tile.role, 0.0) + tile.comes(beside)
    return max(found.values(), default=0.0)
