"""Groups one after the other: what of the next may begin while one drains (decision 0038).

Written from the rules alone: a load waits for the stores that make its tensor; nothing waits for
anything else where all tiles of a group fit beside those of the one before it; where only what its
first leaf takes fits, one tile of each comes early. Tensors in a FIFO that the group before has,
too, come as soon as a slot of it is free.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

from simaccel.analytic.bodies import Bodies
from simaccel.analytic.family import Family, Floats, Kept, branches_of
from simaccel.analytic.pointwise import everywhere, larger, pick, smaller, up
from simaccel.analytic.schedule import bodies
from simaccel.analytic.timing.fifos import Slots, released, slots_of
from simaccel.analytic.timing.timeline import Timeline, timeline
from simaccel.analytic.timing.times import (
    ARRAY,
    CHANNEL,
    DMA_OUT,
    EARLIER,
    FREE,
    LEFT,
    NOC_OUT,
    SFU,
    ZERO,
    Begin,
    Gate,
    Times,
)
from simaccel.analytic.totals import Counts
from simaccel.analytic.units import Units
from simaccel.hardware import Accelerator
from simaccel.mapping.space import held_around
from simaccel.mapping.tree import BUFFER, Keep

WEIGHT = "weight"


@dataclass(eq=False)
class Link:
    """A group in the sequence of a mapping, ``times`` one after the other with those around it.

    ``kept_bytes``: of the buffer, for what is kept ``around`` it.
    """

    family: Family
    counts: Counts
    around: tuple[Keep, ...]
    times: int
    kept_bytes: int
    before: dict[int, bool] = field(default_factory=dict)
    """Places of those that can stand directly before it: whether that is in the layer before."""
    place: int = 0
    fifos: dict[str, Slots] = field(default_factory=dict)

    @cached_property
    def top(self) -> Bodies:
        """Its bodies."""
        return bodies(self.family)

    @property
    def buffer_bytes(self) -> int:
        """What the group reserves of the buffer, with what is kept around it."""
        return int(self.counts.room(BUFFER)) + self.kept_bytes

    def moves(self, level: str) -> set[str]:
        """Name the tensors with bytes at a level and direction."""
        return {name for (at, name), n in self.counts.moved.items() if at == level and int(n)}

    @cached_property
    def uses(self) -> dict[str, str]:
        """The tensors that leaves use and that are kept around the group."""
        space = self.family.space
        names = {name for seen in space.operators for name, _ in seen.uses}
        whole = {keep.tensor: not keep.region for keep in self.around}
        own = {
            one.tensor.partition("#")[0]
            for one in branches_of(self.family.branch)
            if isinstance(one, Kept)
        }
        held = {name: held_around(space.workload, name, self.around) for name in names}
        return {
            name: tensor
            for name, tensor in held.items()
            if tensor in whole and (tensor == name or not whole[tensor] or name not in own)
        }

    def taken_first(self) -> list[str]:
        """Name the tensors that the first leaf takes and that the buffer has tiles of."""
        path = next(self.family.paths())
        seen = self.family.space.seen(path.leaf.operator)
        held = {
            one.tensor
            for one in path.entries
            if isinstance(one, Kept) and one.level == BUFFER and int(one.slots)
        }
        return [name for name, _ in seen.uses[:-1] if name in held]


@dataclass(frozen=True)
class Overlapped:
    """What of a group may begin early, as in a program: all, all but some loads, or some loads."""

    free: bool = False
    whole: bool = False
    early: frozenset[str] = frozenset()
    ahead: frozenset[str] = frozenset()
    """Of these, tensors whose FIFO is that of the group before."""
    more_bytes: int = 0
    """Of the buffer, beside what the group before reserves."""


_FIRST = Overlapped(free=True, whole=True)
"""With nothing before it, there is nothing to wait for."""


def overlapped(link: Link, links: Sequence[Link], accelerator: Accelerator) -> Overlapped:
    """Return what of a group may begin early."""
    if not link.before:
        return _FIRST
    if not accelerator.groups.overlap:
        return Overlapped()
    before = [links[place] for place in link.before]
    others = [one for one in before if one is not link]
    tensors = link.family.space.workload.tensors
    stored = {name for one in before for name in one.moves("dram_write")}
    used = {
        name for one in others for way in ("dram_read", "dram_write") for name in one.moves(way)
    }
    again = any(link.before.values())
    loads = link.moves("dram_read")
    known = {
        name for name in loads if name not in stored and (not again or tensors[name].kind == WEIGHT)
    }
    ahead = frozenset(
        name
        for name, slots in link.fifos.items()
        if name in known and all(slots in one.fifos.values() for one in before)
    )
    alone = not link.uses and not link.moves("dram_write") & used
    if alone and _fits(link, None, others, accelerator, ahead):
        more = int(link.counts.room(BUFFER)) - _room(link, (BUFFER,), only=ahead)
        return Overlapped(
            free=known == loads,
            whole=True,
            early=frozenset(known),
            ahead=ahead,
            more_bytes=more if others else 0,
        )
    chosen: list[str] = []
    for name in link.taken_first():
        if name in known - ahead and _fits(link, [*chosen, name], others, accelerator):
            chosen.append(name)
    more = sum(int(link.counts.tiles[BUFFER, name][0]) for name in chosen) if others else 0
    return Overlapped(early=ahead.union(chosen), ahead=ahead, more_bytes=more)


def _fits(
    link: Link,
    once: Collection[str] | None,
    others: Sequence[Link],
    accelerator: Accelerator,
    shared: Collection[str] = (),
) -> bool:
    """Whether all tiles of a group but those in ``shared`` slots, or one slot of some, fit."""
    for places, capacity in accelerator.capacities.items():
        kept = BUFFER in places
        used = (_room(one, places) + kept * one.kept_bytes for one in others)
        mine = _room(link, places, once) - _room(link, places, only=shared)
        mine += kept * link.kept_bytes * (once is None)
        if capacity is not None and max(used, default=0) + mine > capacity:
            return False
    for kind, capacity in accelerator.staging.items():
        used = (_room(one, (BUFFER,), None, kind) for one in others)
        mine = _room(link, (BUFFER,), once, kind) - _room(link, (BUFFER,), None, kind, shared)
        if capacity is not None and max(used, default=0) + mine > capacity:
            return False
    return True


def _room(
    link: Link,
    places: Sequence[str],
    once: Collection[str] | None = None,
    kind: str | None = None,
    only: Collection[str] | None = None,
) -> int:
    """Return the bytes of tiles in some places: all, ``only`` some, or ``once`` loaded early."""
    found = 0
    for at, (n_bytes, slots) in link.counts.tiles.items():
        place, name = at
        if only is not None and name not in only:
            continue
        if place in places and kind in (None, link.counts.kinds[at]):
            if once is None:
                found += int(n_bytes) * int(slots)
            elif name in once and place == BUFFER:
                found += int(n_bytes)
    return found


class Chain:
    """The groups of a mapping in order, and what begins early of each."""

    def __init__(self, links: Sequence[Link], accelerator: Accelerator) -> None:
        self.links, self.accelerator = tuple(links), accelerator
        for place, link in enumerate(links):
            link.place = place
            link.fifos = slots_of(link.top, link.counts, accelerator)
            if place:
                link.before[place - 1] = False
        self.layers = [list(run) for _, run in groupby(links, lambda one: one.times)]
        for run in self.layers:
            if run[0].times > 1:
                run[0].before[run[-1].place] = True
        self.ways = [overlapped(link, links, accelerator) for link in links]

    def buffer_bytes(self) -> int:
        """Return the most bytes of the buffer that are reserved at once."""
        alone = [link.buffer_bytes for link in self.links]
        pairs = [
            alone[place] + way.more_bytes
            for link, way in zip(self.links, self.ways, strict=True)
            for place in link.before
        ]
        return max([*alone, *pairs])

    def cycles(self, bounds: Sequence[int]) -> list[int]:
        """Return the cycles of each group from the end of the one before to its own, all layers.

        ``bounds``: what each takes at least that begins when the one before has ended.
        """
        found = [0] * len(self.links)
        last: _Ran | None = None
        for run in self.layers:
            before, more = run[0].place - 1, run[0].times - 1
            last, windows = self._ran(run, last)
            _add(found, run, windows, before, 1)
            if more and self.ways[run[0].place] != Overlapped():
                last, windows = self._ran(run, last)
            _add(found, run, windows, run[-1].place, more)
        least = [
            bound * link.times if way in (Overlapped(), _FIRST) else 0
            for bound, link, way in zip(bounds, self.links, self.ways, strict=True)
        ]
        return list(map(max, found, least))

    def _ran(self, run: Sequence[Link], last: _Ran | None) -> tuple[_Ran | None, list[Window]]:
        """Go through groups in time; return the last, and the cycles of each."""
        found: list[Window] = []
        for link in run:
            begin = _begin(last, link, self.ways[link.place])
            units = Units(link.family, self.accelerator)
            space = link.family.space
            times = timeline(link.top, space, units, self.accelerator, begin)
            gate = ZERO if begin is None else begin.x[_ENDED]
            delay = ZERO if begin is None else times.x[_STORED] - begin.x[_STORED]
            began = gate + delay
            last = _Ran(link, times, began, larger(times.end(), began))
            found.append((int(up(delay)), int(up(last.ended - began))))
        return last, found

    def bound(self, works: Sequence[Mapping[str, int]]) -> int:
        """Return cycles that no run is shorter than, of the work of each group by resource.

        Groups that begin before the one before has ended share the time of all they join.
        """
        total, joined = 0, Counter[str]()
        for run in self.layers:
            total, joined = self._bound(run, works, total, joined)
            more, before = run[0].times - 2, total
            if more >= 0:
                total, joined = self._bound(run, works, total, joined)
            if more > 0 and any(not self.ways[link.place].whole for link in run):
                total += more * (total - before)
            elif more > 0:
                for link in run:
                    joined.update({name: more * work for name, work in works[link.place].items()})
        return total + max(joined.values(), default=0)

    def _bound(
        self,
        run: Sequence[Link],
        works: Sequence[Mapping[str, int]],
        total: int,
        joined: Counter[str],
    ) -> tuple[int, Counter[str]]:
        """Go once through groups: add what is closed, and hand on what is still open."""
        joined = Counter(joined)
        for link in run:
            way, work = self.ways[link.place], Counter(works[link.place])
            if not way.whole:
                total += max(joined.values(), default=0)
                joined = Counter()
                for name in way.early:
                    tiles = link.fifos[name].n_slots if name in way.ahead else 1
                    work.subtract(self._early(link, name, tiles))
            joined.update(work)
        return total, joined

    def _early(self, link: Link, name: str, tiles: int) -> dict[str, int]:
        """Return the work of resources that some tiles of a tensor can take off a group."""
        tensor, on = link.family.space.workload.tensors[name], self.accelerator
        n_bytes = int(link.counts.tiles[BUFFER, name][0])
        backing = on.backing(tensor.kind)
        share = backing.dram.channel_bytes(n_bytes, 0)
        return {
            on.memory(tensor.kind): tiles * (backing.channel_read_rate.cycles(share) + 1),
            "buffer_write": tiles * (on.write_rate.cycles(n_bytes) + 1),
        }


@dataclass(frozen=True)
class _Ran:
    """A group in time: the end of the one before, and its own."""

    link: Link
    times: Timeline
    began: Floats
    ended: Floats


Window = tuple[int, int]
"""Cycles by which a group delays the end of the one before, and its own up to its end."""


def _add(
    found: list[int], run: Sequence[Link], windows: Sequence[Window], before: int, times: int
) -> None:
    """Add the cycles of groups; ``before``: what stands before the first of them."""
    for link, (delay, cycles) in zip(run, windows, strict=True):
        if delay:
            found[before] += times * delay
        found[link.place] += times * cycles
        before = link.place


_ENDED = "end of the group before"
_STORED = "used", EARLIER[0]
"""When its last store is done, if that is its end: a load may delay it."""
_LOADER = "at dma_in"
_QUEUES = 16
"""Loaders that a group may have."""


def _of_a_channel(key: object) -> bool:
    """Whether a time is that of a channel, or of one of its last stores."""
    name = key[0] if isinstance(key, tuple) else key
    return isinstance(name, str) and name.startswith((CHANNEL, "store"))


def _of_a_slot(key: object) -> bool:
    """Whether a time is that at which a slot of a tile was released: key and number of a tile."""
    return isinstance(key, tuple) and isinstance(key[0], int)


def _begin(last: _Ran | None, link: Link, way: Overlapped) -> Begin | None:
    """Return what a group finds; cycles count from where the first of its engines may begin.

    A group that follows its own last run has the slots of that.
    """
    if last is None or way == Overlapped():
        return None
    x: Times = {}
    loaded = [time for key, time in last.times.x.items() if str(key).startswith(_LOADER)]
    together = functools.reduce(larger, loaded, last.began)
    for key, time in last.times.x.items():
        if isinstance(key, str) and key.startswith("at "):
            x[key] = larger(time, last.began if way.whole else last.ended)
        elif key in (FREE, LEFT) or _of_a_channel(key) or (last.link is link and _of_a_slot(key)):
            x[key] = time
    for engine in (ARRAY, SFU, DMA_OUT, NOC_OUT):
        x.setdefault(engine, last.began if way.whole else last.ended)
    x |= {f"{_LOADER}{n}": together for n in range(_QUEUES)}
    x[_ENDED] = last.ended
    stored = last.times.x["store", 0, "end"]
    x[_STORED] = pick(stored == last.ended, stored, ZERO)
    origin = functools.reduce(smaller, (x[engine] for engine in (ARRAY, SFU, f"{_LOADER}0")))
    shifted = {key: larger(time - origin, 0) for key, time in x.items()}
    gate = None if way.free else Gate(shifted[_ENDED], way.early, way.ahead)
    wrote = {name for name, line in last.times.lines.items() if everywhere(line.wrote)}
    slots = {
        name: [larger(time - origin, 0) for time in _released(last, link.fifos[name])]
        for name in way.ahead
    }
    return Begin(shifted, gate, frozenset(wrote), slots)


def _released(last: _Ran, slots: Slots) -> list[Floats]:
    """Return when a group released the slots of a FIFO, the latest first."""
    (name,) = (name for name, one in last.link.fifos.items() if one == slots)
    return released(last.times.x, last.link.top, name)
