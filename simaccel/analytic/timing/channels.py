"""Loads and stores that share a channel: DRAM serves the oldest load first, stores in batches."""

from __future__ import annotations

from collections.abc import Sequence

from simaccel.analytic.blocks import Move
from simaccel.analytic.bodies import FALSE, RING, TRUE
from simaccel.analytic.family import Bools, Floats, ints
from simaccel.analytic.pointwise import anywhere, larger, pick, plain, smaller, without
from simaccel.analytic.timing.lines import Line, Request, in_order
from simaccel.analytic.timing.pipes import Pipes
from simaccel.analytic.timing.times import COUNTERS, DMA_OUT, DRAM, EARLIER, STORES, Begin
from simaccel.analytic.timing.turns import Posted, after_loads, delay_of, meeting
from simaccel.hardware import Accelerator

Late = list[tuple[Request, Bools]]
"""Loads with whose they are."""
Moved = tuple[Request, Floats, Floats, Floats]
"""A load that ends later: its end and arrival before, and by how much."""


class Channels(Pipes):
    """The channels of DRAM and of the memories beside it, with their last loads and stores."""

    def __init__(self, accelerator: Accelerator, begin: Begin | None) -> None:
        super().__init__(accelerator, begin)
        wrote = frozenset() if begin is None else begin.wrote
        self.lines = {
            name: Line(
                at,
                name,
                wrote=TRUE if name in wrote else FALSE,
                stored=set() if begin is None else set(EARLIER),
            )
            for name, at in accelerator.every_backing.items()
        }
        """The channels of DRAM and of the memories beside it."""
        for line in self.lines.values() if begin is not None else ():
            for n, key in enumerate(EARLIER):
                self.x[line.kept, n, "tile"] = plain(ints(key))
                line.until = larger(line.until, self.x[line.kept, n, "end"])
        self.counters = COUNTERS | {
            line.key(what) for line in self.lines.values() for what in (DRAM, STORES)
        }

    def _there(self, where: Bools) -> Bools:
        """Return the candidates that have a transfer: those of this iteration."""
        if self.present is TRUE:
            return where
        return self.present if where is TRUE else where & self.present

    def _shift(self, one: Request, shift: Floats) -> None:
        """Let a load end later, and what its end has set."""
        self.set_later([_later(one, shift)])

    def set_later(self, moved: Sequence[Moved]) -> None:
        """Let what some loads have set by their ends be later, for the last one first.

        Else one would be taken for the next one, where it now ends when that one did.
        """
        for one, end, arrival, shift in reversed(moved):
            if anywhere(shift > 0):
                key = one.tiled.key
                arrivals: list[object] = [("next", key, n) for n in range(one.tiled.far)]
                self.later_at([one.engine], end, shift)
                self.later_at([("ready", key), *arrivals], arrival, shift)

    def _beside_stores(self, asked: Floats, start: Floats, move: Move, there: Bools) -> Floats:
        """Return when a load that is served from ``start`` on ends beside stores, in batches."""
        line = self.lines[move.memory]
        kept = line.kept
        turned, wrote = FALSE, line.wrote
        end = start + move.longest
        stored = anywhere(line.until > start)
        for n in range(len(EARLIER) - 1, -1, -1) if stored else ():
            last = self.x[kept, n, "end"]
            if not anywhere(ends := last > start):
                continue
            since = self.x[kept, n, "since"]
            meets = there & ends & (end > since) & (move.service > 0)
            if not anywhere(meets):
                continue
            store = Posted(since, self.x[kept, n, "begin"], last)
            met, later = meeting(asked, start, move.service, store, line.pace)
            met = larger(met, start + move.longest)
            start, end = pick(meets, start + met - end, start), pick(meets, met, end)
            for part in ("since", "begin"):
                value = self.x[kept, n, part]
                self.x[kept, n, part] = pick(meets, getattr(later, part), value)
            self._delay_store(line, n, pick(meets, later.end - last, 0))
            turned = turned | meets
            line.turned = pick(meets & (later.since != since), later.since, line.turned)
            wrote = pick(meets, later.end > end, wrote)
        line.wrote = wrote & (turned | without(there))
        if anywhere(before := there & without(turned) & wrote):
            turn = (move.service > 0) * line.pace.turn * before
            line.turned = pick(before, start + turn, line.turned)
            end = end + turn
        return end

    def _delay_store(self, line: Line, n: int, delay: Floats) -> None:
        """Let one of the last stores end later, and what waits for its end."""
        if not anywhere(delay):
            return
        end = (line.kept, n, "end")
        served, port = self.x[end], self.x[line.kept, n, "port"]
        last = larger(served, port)
        self.x[end] = served + delay
        line.until = larger(line.until, self.x[end])
        self._store_ends_later(line, n, last, larger(self.x[end], port) - last)

    def _store_ends_later(self, line: Line, n: int, last: Floats, delay: Floats) -> None:
        """Let what waits for the end of a store happen later."""
        if not anywhere(delay):
            return
        tile = self.x[line.kept, n, "tile"]
        for key in line.stored:
            mine = pick(tile == key, delay, 0)
            if anywhere(mine):
                slots = [(key, n) for n in range(1, RING + 1)]
                self.later_at([DMA_OUT, ("used", key), ("ready", key), *slots], last, mine)
                self._ask_later(line, key, last, mine)

    def _ask_later(self, line: Line, key: int, last: Floats, delay: Floats) -> None:
        """Let loads be asked for later that take the slot of a store."""
        for one in line.recent:
            if one.tiled.key == key and anywhere(same := (one.begin == last) & (delay > 0)):
                one.begin = one.begin + pick(same, delay, 0)
                self._shift(one, pick(same, delay, 0))
                free = self.x[line.channel]
                self.x[line.channel] = pick(same, larger(free, one.end), free)

    def _load_late(self, one: Request, was: Floats, served: Floats) -> None:
        """Let a load end when its port has served it, and not when it ``was``."""
        self._hold_up(one, pick(served > was, larger(served - one.end, 0), 0))

    def _hold_up(self, one: Request, late: Floats) -> None:
        """Let a load end later, and its loader ask for the next ones then."""
        if not anywhere(late):
            return
        ended = one.end
        self._shift(one, late)
        for other in self.lines[one.move.memory].recent:
            behind = (late > 0) & (other.begin == ended)
            if other.engine == one.engine and other is not one and anywhere(behind):
                other.begin = pick(behind, one.end, other.begin)
                least = one.end + other.move.longest - other.end
                self._hold_up(other, pick(behind, larger(least, 0), 0))

    def _store_late(self, line: Line, was: Floats, served: Floats) -> None:
        """Let a store end when its port has served it, and not when it ``was``."""
        for n in range(len(EARLIER)):
            end, port = ((line.kept, n, part) for part in ("end", "port"))
            mine = (self.x[port] == was) & (served > was)
            if anywhere(mine):
                last = larger(self.x[end], was)
                self.x[port] = pick(mine, served, self.x[port])
                self._store_ends_later(line, n, last, pick(mine, larger(served - last, 0), 0))

    def _behind_loads(
        self, asked: Floats, move: Move, where: Bools
    ) -> tuple[Posted, Late, list[Moved]]:
        """Return when a store is served: after a batch of loads, which then wait for it.

        It gets its turn as well where loads run out, though a loader asks for its next one then:
        such loads are returned, with whose they are; and those that end later.
        """
        line = self.lines[move.memory]
        there, free = self._there(where), self.x[line.channel]
        behind = self._let_by_a_store(line, asked, there)
        until, later = self._until(line, asked, there, behind)
        wrote = line.wrote
        for _, mine in behind:
            wrote = wrote | mine
        posted = after_loads(asked, until, move.service, wrote, line.pace, line.turned)
        done, moved = until, []
        if anywhere(there & (until > asked + line.pace.loads)):
            batch = asked + line.pace.loads
            for one in line.recent:
                if not anywhere(mine := one.end > batch):
                    continue
                if anywhere(mine := mine & there & line.counts(one) & (one.end <= until)):
                    delay = delay_of(one.end, asked, move.service, line.pace, line.turned)
                    moved.append(_later(one, pick(mine, delay, 0)))
            done = done + larger(delay_of(until, asked, move.service, line.pace, line.turned), 0)
        self.x[line.channel] = pick(there, done, free)
        line.turned = pick(there, posted.since, line.turned)
        line.wrote = pick(there, posted.end > done, line.wrote)
        return posted, later, moved

    def _let_by_a_store(self, line: Line, asked: Floats, there: Bools) -> Late:
        """Return loads that take a slot when a store ends, where the storer goes on at once.

        It asks for the next store before their loader knows of the slot.
        """
        goes_on = there & (asked > 0) & (self.x[DMA_OUT] == asked)
        if not anywhere(goes_on):
            return []
        stored = [one for one in line.recent if one.tiled.key in line.stored]
        every = [(one, goes_on & (one.begin == asked) & line.counts(one)) for one in stored]
        return [(one, mine) for one, mine in every if anywhere(mine)]

    def _until(self, line: Line, asked: Floats, there: Bools, behind: Late) -> tuple[Floats, Late]:
        """Return when loads run out for the first time since a store waits, and those behind."""
        free = self.x[line.channel]
        if not anywhere(there & (free > asked)):
            return free, []
        after = [(one, mine) for one in line.recent if anywhere(mine := one.end > asked)]
        late = [(one, there & line.counts(one) & mine) for one, mine in after]
        late = [(one, mine) for one, mine in late if anywhere(mine)]
        until, at_once = free, FALSE
        for _, mine in behind:
            until, at_once = pick(mine, asked, until), at_once | mine
        for one, mine in late:
            first = mine & without(at_once & (one.begin >= asked))
            until = pick(first, pick(until > asked, smaller(until, one.end), one.end), until)
        for one, mine in in_order(late):
            until = pick(mine & (one.begin < until), larger(until, one.end), until)
        later = [(one, mine & (one.begin >= until)) for one, mine in late]
        return until, in_order([(one, mine) for one, mine in later if anywhere(mine)])

    def _serve_again(self, line: Line, later: Late, ends: list[Floats]) -> list[Moved]:
        """Serve loads behind a store, that were gone through before it.

        ``ends``: when those of the line had ended. Those that end later are returned.
        """
        every = ((one, self._load_again(line, one, mine, ends)) for one, mine in later)
        return [_later(one, end - one.end) for one, end in every]

    def _load_again(self, line: Line, one: Request, mine: Bools, ends: list[Floats]) -> Floats:
        """Return when a load ends that is served again, behind the one of its loader before."""
        begin, channel = one.begin, line.channel
        for other, end in zip(line.recent, ends, strict=True):
            if other is not one and other.engine == one.engine and other.end is not end:
                begin = pick(mine & (begin == end), other.end, begin)
        one.begin = begin
        line.latest = larger(line.latest, begin)
        free = self.x[channel]
        start = larger(begin, free)
        end = larger(self._beside_stores(begin, start, one.move, mine), one.end)
        end = pick(mine, end, one.end)
        self.x[channel] = pick(mine, end, free)
        return end


def _later(one: Request, shift: Floats) -> Moved:
    """Let a load end later."""
    was = one.end, one.arrival
    if anywhere(shift > 0):
        one.end, one.arrival = one.end + shift, one.arrival + shift
    return one, *was, shift
