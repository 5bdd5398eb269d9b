"""Loads that were asked for before others that were gone through: all of them are served again."""

from __future__ import annotations

import numpy as np

from simaccel.analytic.blocks import Move
from simaccel.analytic.bodies import FALSE, TRUE, Tiled
from simaccel.analytic.family import Bools, Floats
from simaccel.analytic.pointwise import anywhere, everywhere, larger, pick, smaller, without
from simaccel.analytic.timing.lines import Line, Post, Request, Transfer, in_order
from simaccel.analytic.timing.times import EARLIER, ZERO
from simaccel.analytic.timing.traffic import Traffic


class Again(Traffic):
    """Transfers in the order in which they are asked for, whatever the order of the program."""

    def _served(
        self, begin: Floats, move: Move, where: Bools, engine: str, tiled: Tiled
    ) -> Request:
        """Return a load that is served.

        Where others that were gone through were asked for later, the channel is as it was before
        them, and everything since is served again in the order of time.
        """
        line, again = self.lines[move.memory], FALSE
        for _, mine in line.asked_after(begin, self._there(where)):
            again = again | mine
        if not anywhere(again):
            return super()._served(begin, move, where, engine, tiled)
        found = super()._served(begin, move, where & without(again), engine, tiled)
        found.begin = pick(again, begin, found.begin)
        found.end = pick(again, begin, found.end)
        found.arrival = pick(again, begin + move.latency, found.arrival)
        line.loads = line.loads + again
        self._insert(line, found, again)
        return found

    def _insert(self, line: Line, new: Request, again: Bools) -> None:
        """Serve a load, and what was gone through since the first that was asked for later."""
        first: Floats = np.inf  # type: ignore[assignment]
        for load, later in line.asked_after(new.begin, again):
            first = pick(later, smaller(first, load.turn), first)
        since = [one for one in line.recent if anywhere(again & (one.turn >= first))]
        every: list[tuple[Transfer, Bools]] = [(one, line.counts(one)) for one in since]
        every += [(one, line.keeps(one)) for one in line.posts]
        every = [(one, again & (one.turn >= first) & mine) for one, mine in every]
        every = [(one, mine) for one, mine in every if anywhere(mine)]
        was = _Was(line, self._last_stores(line))
        self._go_back(line, every, first)
        self._in_order(line, every, was)
        for load, end in reversed(list(zip(was.loads, was.ends, strict=True))):
            if load is not new and load.end is not end:
                late = larger(load.end - end, 0)
                _end_at(load, end)
                self._shift(load, pick(again, late, 0))
        for n, now in enumerate(self._last_stores(line)):
            late = larger(now - was.stores[n], 0)
            self._store_ends_later(line, n, was.stores[n], pick(again, late, 0))

    def _go_back(self, line: Line, every: list[tuple[Transfer, Bools]], turn: Floats) -> None:
        """Let a channel be as it was before the first of some transfers."""
        for one, mine in every:
            here = mine & (one.turn == turn)
            for before in one.before if anywhere(here) else ():
                if not anywhere(there := here & before.where):
                    continue
                wrote, turned, *times = line.moved(before)
                line.wrote = pick(there, wrote, line.wrote)
                line.turned = pick(there, turned, line.turned)
                for key, time in zip(line.keys, times, strict=True):
                    if time is not (now := self.x[key]):
                        self.x[key] = pick(there, time, now)
            for load, delay in one.delays if isinstance(one, Post) else ():
                there = mine & line.counts(load)
                _end_at(load, load.end - pick(there, delay, 0))

    def _in_order(self, line: Line, every: list[tuple[Transfer, Bools]], was: _Was) -> None:
        """Serve transfers in the order in which they were asked for."""
        order, asked, left = in_order(every), {}, ZERO
        for one, mine in every:
            asked[one], one.begin = one.begin, pick(mine, -1.0, one.begin)
            if isinstance(one, Request):
                _end_at(one, pick(mine, -1.0, one.end))
            else:
                left = left + mine
        for one, mine in order:
            kept = () if everywhere(mine) else one.before
            one.before = [*kept, line.before(self.x, mine)]
            one.turn = pick(mine, line.turn(), one.turn)
            one.begin = pick(mine, asked[one], one.begin)
            if isinstance(one, Post):
                self._store_again(line, one, mine, was)
                left = left - mine
            elif isinstance(one, Request):
                if one.tiled.key in line.stored:
                    self._behind_store(line, one, mine, was, left)
                _end_at(one, self._load_again(line, one, mine, was.ends))

    def _store_again(self, line: Line, one: Post, mine: Bools, was: _Was) -> None:
        """Serve a store again, behind the one before."""
        ends = [load.end for load in line.recent]
        one.begin = pick(mine, larger(one.begin, self._last_stores(line)[0]), one.begin)
        posted, later, _ = self._behind_loads(one.begin, one.move, mine)
        kept = [] if mine is TRUE else [(load, pick(mine, 0, time)) for load, time in one.delays]
        one.delays = kept + line.later_than(ends)
        self._post(line, one, posted, mine)
        self._serve_again(line, later, was.ends)

    def _behind_store(self, line: Line, one: Request, mine: Bools, was: _Was, left: Floats) -> None:
        """Ask for sums again when they have been stored, with so many stores still to come."""
        now = self._last_stores(line)
        for post in line.posts:
            if post.tiled.key == one.tiled.key and anywhere(then := mine & (post.begin >= 0)):
                number = line.stores - 1 - post.number
                then = then & (one.begin == _numbered(was.stores, number))
                if not anywhere(then):
                    continue
                stored = larger(one.begin, _numbered(now, number - left))
                one.begin = pick(then, stored, one.begin)

    def _last_stores(self, line: Line) -> list[Floats]:
        """Return when the last stores end, the latest first."""
        kept, every = line.kept, range(len(EARLIER))
        return [larger(self.x[kept, n, "end"], self.x[kept, n, "port"]) for n in every]


class _Was:
    """When the last loads and stores of a line ended before they were served again."""

    def __init__(self, line: Line, stores: list[Floats]) -> None:
        self.loads, self.stores = list(line.recent), stores
        self.ends = [one.end for one in self.loads]


def _end_at(one: Request, end: Floats) -> None:
    """Let a load end at a time."""
    one.arrival, one.end = one.arrival - one.end + end, end


def _numbered(times: list[Floats], number: Floats) -> Floats:
    """Return the time with a number, by candidate."""
    found = ZERO
    for n, time in enumerate(times):
        if anywhere(here := number == n):
            found = pick(here, time, found)
    return found
