"""How long a nest takes beside what comes and goes: stage by stage, from the passes outwards.

A *stage* is the body of one loop: the tiles that live there, and a number of iterations of the
stage inside, the innermost of which are the passes. All iterations of a stage are taken as equal,
with the mean of what the mapping moves in them. The rules, all in cycles:

- A tile of one slot comes when the one before has been used, and goes before the next one: that
  time is added (*serial*). What starts at once shares its resource in turns.
- Behind tiles of S slots an iteration lasts at least 1 / S of the whole way of a tile: it comes,
  is used, and goes.
- A resource serves one at a time: no iteration is shorter than what it and all inside it ask for.
- What an outer stage loads ahead it asks for in one go, and shares the resource in turns with the
  stages inside until it has come. Until then each iteration inside takes as long as with a
  *rival* that is served as often as itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from simaccel.analytic.work import Traffic, ints
from simaccel.hardware import Accelerator
from simaccel.hardware.levels import Role

PASS: Final = 1 << 30
"""The position of what comes anew for each pass: inside all loops."""
_STREAM_SLOTS: Final = 2
Use = Mapping[str, float]
"""Cycles by resource."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """What one role moves between two neighbours that keep it, or to the MACs.

    ``outer`` and ``inner``: (down, up) bytes at the memory outside and over all PEs inside.
    ``times``: how often a tile comes. ``slots``: of the tile inside. ``position``: the place of
    the innermost loop that brings another tile.
    """

    role: Role
    tensor: str
    source: str
    target: str
    outer: tuple[int, int]
    inner: tuple[int, int]
    times: int
    slots: int
    position: int


@dataclass(frozen=True)
class _Tile:
    """A way's tile as its stage sees it: what one of them costs to bring and to take away."""

    way: Way
    slots: int
    down: Use
    up: Use
    arrives: int
    """Latency of the way in."""
    leaves: int

    def comes(self, beside: Iterable[Use] = (), rival: str = "") -> float:
        """Give the cycles until it has come."""
        return _shared(self.down, beside, rival) + self.arrives

    def goes(self, beside: Iterable[Use] = (), rival: str = "") -> float:
        """Give the cycles until it has gone."""
        return _shared(self.up, beside, rival) + self.leaves


def most(use: Use) -> float:
    """Give the cycles of the busiest resource."""
    return max(use.values(), default=0.0)


def _total(uses: Iterable[Use]) -> Counter[str]:
    found: Counter[str] = Counter()
    for use in uses:
        for name, cycles in use.items():
            found[name] += cycles  # type: ignore[assignment] # cycles may be fractions
    return found


def _shared(use: Use, beside: Iterable[Use], rival: str = "") -> float:
    """Give when the last of ``use`` has been served, if all start at once and take turns."""
    others = list(beside)
    return max(
        (
            cycles * (1 + (name == rival)) + sum(min(cycles, one.get(name, 0)) for one in others)
            for name, cycles in use.items()
        ),
        default=0.0,
    )


@dataclass(frozen=True)
class _Stage:
    """The tiles of one body; ``trips``: how often it runs in the stage outside."""

    tiles: tuple[_Tile, ...]
    trips: float

    @cached_property
    def use(self) -> Use:
        """Cycles of the resources for its own tiles, of one iteration."""
        return _total(use for tile in self.tiles for use in (tile.down, tile.up))

    @cached_property
    def inputs(self) -> list[_Tile]:
        """The tiles that are asked for as soon as those before them have been used."""
        return [tile for tile in self.tiles if tile.way.role != "output"]

    def beside(self, tile: _Tile, during: Use) -> list[Use]:
        """Give what starts together with a tile: the next pass, inputs, and sums that go."""
        others = [one.down for one in self.inputs if one is not tile]
        return [*others, *(one.up for one in self.tiles if one is not tile and one.up), during]

    def serial(self, rival: str, besides: frozenset[Role] = frozenset()) -> float:
        """Give the cycles that tiles of one slot add.

        Inputs come while sums go; sums that come back wait for those that go, and meet the
        inputs of several slots that are still coming.
        """
        inputs = sums = meets = 0.0
        for tile in self.tiles:
            if tile.slots > 1 or tile.way.role in besides:
                continue
            if tile.way.role == "output":
                up = tile.goes(self.beside(tile, {}), rival)
                meets = self._meets(tile, lambda _, one, up=up: one - up)
                sums = up + tile.comes((), rival)
            else:
                inputs = max(inputs, tile.comes(self.beside(tile, {}), rival))
        return max(sums, inputs) + meets

    def chained(self, work: float, during: Use, rival: str) -> float:
        """Give the cycles of an iteration in which tiles of several slots keep up.

        Sums that come back when the iteration after has ended meet the inputs that come then.
        """
        least = 0.0
        for tile in self.tiles:
            if tile.slots > 1 and tile.way.role == "output":
                up = tile.goes(self.beside(tile, during), rival)
                meets = self._meets(tile, lambda own, _: up + own - work)
                way = tile.comes((), rival) + meets + work + up
                least = max(least, way / tile.slots)
            elif tile.slots > 1:
                way = tile.comes(self.beside(tile, during), rival) + work
                least = max(least, way / tile.slots)
        return least

    def _meets(self, sums: _Tile, still: Callable[[float, float], float]) -> float:
        """Give what sums on their way back lose to inputs of several slots.

        ``still``: for how long they meet, given the cycles of both.
        """
        return max(
            (
                max(0.0, min(own, one.down[name], still(own, one.down[name])))
                for one in self.inputs
                for name, own in sums.down.items()
                if name in one.down
            ),
            default=0.0,
        )

    def ahead(self) -> list[Use]:
        """Give what it moves while the stages inside work."""
        return [
            use for tile in self.tiles if tile.slots > 1 for use in (tile.down, tile.up) if use
        ]


@dataclass(frozen=True)
class Pace:
    """The stages of a nest, the outermost first; each pass takes ``steps`` and uses ``use``."""

    stages: Sequence[_Stage]
    passes: float
    """In one iteration of the innermost stage."""
    steps: float
    use: Use

    def cycles(self) -> float:
        """Give the cycles of the whole nest without its first loads and last stores."""
        return self._last(0)

    def _last(self, at: int) -> float:
        """Give the cycles of the last iteration of a stage: it loads nothing ahead."""
        if at == len(self.stages):
            return self._iteration(at, "")
        trips, _ = self._inside(at)
        serial = self._serial(at, "") if at else 0.0
        return serial + (trips - 1) * self._iteration(at + 1, "") + self._last(at + 1)

    def fill(self) -> float:
        """Give the cycles until the first pass: its operands come at once and take turns.

        What a tile of one slot adds in each iteration, also the first, isn't in it.
        """
        firsts = [t for s in self.stages for t in s.tiles if self._once(s, t)]
        found: Counter[str] = Counter()
        for tile in firsts:
            others = [one.down for one in firsts if one is not tile]
            if tile.way.role != "output":
                found[tile.way.role] += tile.comes(others)
        return max(found.values(), default=0)

    def drain(self) -> float:
        """Give the cycles after the last pass."""
        return sum(
            tile.goes() for stage in self.stages for tile in stage.tiles if self._once(stage, tile)
        )

    def _once(self, stage: _Stage, tile: _Tile) -> bool:
        return tile.slots > 1 or stage is self.stages[0]

    def _inside(self, at: int) -> tuple[float, Use]:
        """Give how often the stage inside runs, and what an iteration of it uses."""
        if at + 1 == len(self.stages):
            return self.passes, self.use
        return self.stages[at + 1].trips, self._use(at + 1)

    def _use(self, at: int) -> Use:
        trips, use = self._inside(at)
        inside = {name: trips * cycles for name, cycles in use.items()}
        return _total((inside, self.stages[at].use))

    def _iteration(self, at: int, rival: str) -> float:
        """Give the cycles of one iteration of a stage beside a rival for one resource."""
        if at == len(self.stages):
            own = {name: n * (1 + (name == rival)) for name, n in self.use.items()}
            return max(self.steps, most(own))
        stage = self.stages[at]
        trips, _ = self._inside(at)
        work = trips * self._iteration(at + 1, rival) + self._delays(at)
        serial = self._serial(at, rival)
        served = dict(self._use(at))
        if rival in stage.use:
            served[rival] += max(max(t.down.get(rival, 0), t.up.get(rival, 0)) for t in stage.tiles)
        return max(work + serial, stage.chained(work, self.use if at + 1 == len(self.stages) else {}, rival), most(served))

    def _serial(self, at: int, rival: str) -> float:
        """Give what tiles of one slot add, but for what the first ones inside take anyway.

        Those of other roles come at the same time.
        """
        own = self.stages[at].serial(rival)
        if not own or at + 1 == len(self.stages):
            return own
        roles = frozenset(tile.way.role for tile in self.stages[at].tiles if tile.slots == 1)
        return max(0.0, own - self.stages[at + 1].serial(rival, roles))

    def _delays(self, at: int) -> float:
        """Give what the stages inside lose while this one loads ahead of them."""
        trips, inside = self._inside(at)
        alone, lost = self._iteration(at + 1, ""), 0.0
        for use in self.stages[at].ahead():
            for name, cycles in use.items():
                beside = self._iteration(at + 1, name)
                if beside > alone:
                    left = beside - inside.get(name, 0)
                    lost += min(trips, cycles / left) * (beside - alone)
        return lost


def pace_of(
    ways: Sequence[Way], cycles: int, passes: int, accelerator: Accelerator
) -> Pace:
    """Put the stages of a nest together; its passes take ``cycles`` altogether."""
    by_position: dict[int, list[_Tile]] = {-1: []}
    during: list[Use] = []
    last = next(w for w in reversed(ways) if w.role == "output" and w.target != "mac")
    for way in ways:
        if way.source == "pe":
            continue
        if way.target == "mac" and way.source == "buffer":
            during += [_down(way, passes, accelerator), _up(way, passes, accelerator)]
        elif way.target == "mac":
            by_position.setdefault(PASS, []).append(_tile(way, passes, None, accelerator))
        else:
            found = by_position.setdefault(way.position, [])
            found.append(_tile(way, way.times, last, accelerator))
    stages, before = [], 1
    for position in sorted(by_position):
        tiles = by_position[position]
        times = max((t.way.times for t in tiles), default=1) if position < PASS else passes
        stages.append(_Stage(tuple(tiles), times / before))
        before = times
    return Pace(stages, passes / before, cycles / passes, _total(during))


def _tile(way: Way, times: int, last: Way | None, accelerator: Accelerator) -> _Tile:
    """Give a tile with its latencies: of the DRAM, of the pipes, of the array's first and last."""
    array, brings, takes = accelerator.array, bool(way.outer[0]), bool(way.outer[1])
    arrives = accelerator.dram.latency_cycles if way.source == "dram" else 0
    leaves = 0
    if way.target == "pe":
        arrives += accelerator.lead_latency_cycles + array.lead_latency_cycles
        leaves += accelerator.tail_latency_cycles if way.source == "buffer" else 0
    if way.role == "output" and way is last:
        leaves += array.tail_latency_cycles
    return _Tile(
        way=way,
        slots=_STREAM_SLOTS if way.target == "mac" else way.slots,
        down=_down(way, times, accelerator),
        up=_up(way, times, accelerator),
        arrives=arrives * brings,
        leaves=leaves * takes,
    )


def _mean(n_bytes: int, times: int) -> int:
    return -(-n_bytes // times)


def _down(way: Way, times: int, accelerator: Accelerator) -> Use:
    """Give the cycles of what one tile uses on its way in."""
    down = _mean(way.outer[0], times)
    if way.source == "dram":
        used = {"dram": int(Traffic(accelerator).dram(ints(down)))}
    else:
        used = {"read_port": accelerator.read_rate.cycles(down)}
    if way.target == "buffer":
        used["write_port"] = accelerator.write_rate.cycles(down)
    else:
        multicasts = accelerator.noc.distribution.multicasts
        spread = down if multicasts else _mean(way.inner[0], times)
        used["distribution"] = accelerator.distribution_rate.cycles(spread)
    return {name: cycles for name, cycles in used.items() if cycles}


def _up(way: Way, times: int, accelerator: Accelerator) -> Use:
    """Give the cycles of what one tile uses on its way out."""
    up = _mean(way.outer[1], times)
    if way.source == "dram":
        used = {"dram": int(Traffic(accelerator).dram(ints(up)))}
    else:
        used = {"write_port": accelerator.write_rate.cycles(up)}
    if way.target == "buffer":
        used["read_port"] = accelerator.read_rate.cycles(up)
    else:
        used["collection"] = accelerator.collection_rate.cycles(up)
    return {name: cycles for name, cycles in used.items() if cycles}
