"""Ports of the buffer that a block of a unit shares with transfers, turn by turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from simaccel.analytic.blocks import Block, Share
from simaccel.analytic.bodies import FALSE, TRUE
from simaccel.analytic.family import Bools, Floats
from simaccel.analytic.pointwise import anywhere, larger, pick, plain, smaller, up, without
from simaccel.analytic.timing.times import (
    ARRAY,
    FREE,
    LEFT,
    READ,
    SFU,
    WRITE,
    ZERO,
    Begin,
    State,
    Times,
)

NEVER: Final[Floats] = plain(np.full((), np.inf))
Late = Callable[[Floats, Floats], None]
_RECENT = 5
_PAST = 64
_BLOCKS = "blocks"
_Given = dict[tuple[str, int], Floats]
"""By port and part of a block: cycles that others got in its turns."""


@dataclass(eq=False)
class Use:
    """A transfer that keeps a port busy for ``left`` cycles from ``begin`` on, if it is alone.

    ``late`` is told when the port had served it, and when it has now. ``number``: how many there
    had been.
    """

    engine: str
    begin: Floats
    left: Floats
    number: Floats
    late: Late | None


@dataclass(eq=False)
class Past:
    """A block of an engine that was gone through, by some candidates."""

    engine: str
    begin: Floats
    end: Floats
    out: Floats
    block: Block
    given: _Given
    where: Bools
    number: Floats
    latest: Floats = ZERO
    """No block so far ends later."""
    gone: Bools = FALSE
    """Where others like it have followed that were not gone through."""


class Ports(State):
    """The ports' uses by transfers, and what a block beside them takes longer.

    A port serves whoever asks in turns, so that of two each gets half. A fold that reads for more
    than half of its cycles takes longer while a transfer reads too. A use that is gone through
    behind the block puts off what the block's engine does next.
    """

    def __init__(self, begin: Begin | None) -> None:
        super().__init__(begin)
        self.present: Bools = TRUE
        """Candidates that have the present iteration."""
        self.uses: dict[str, list[Use]] = {READ: [], WRITE: []}
        self.latest: dict[str, Floats] = {READ: ZERO, WRITE: ZERO}
        """No use of a port ends later."""
        self.most = {READ: 2 * _RECENT, WRITE: 2 * _RECENT}
        """Of so many uses, those are forgotten that are no candidate's last any more."""
        self.blocks: list[Past] = []
        self.most_blocks = 2 * _PAST
        """Of so many blocks, those are forgotten that are no candidate's last any more."""
        self.given: _Given = {}
        """What others got in turns of the last block."""
        self.counts: dict[str, Floats] = dict.fromkeys((READ, WRITE, _BLOCKS), ZERO)
        """How many uses of a port, and blocks, there were."""

    def use_port(
        self,
        port: str,
        engine: str,
        begin: Floats,
        cycles: Floats,
        where: Bools,
        late: Late | None = None,
    ) -> None:
        """Note a transfer."""
        where = where if self.present is TRUE else where & self.present
        use = Use(engine, begin, pick(where, cycles, 0), self.counts[port], late)
        first = len(self.blocks)
        while first and anywhere(begin < self.blocks[first - 1].latest):
            first -= 1
        for place, past in enumerate(self.blocks[first:], first) if anywhere(use.left) else ():
            if past.engine == engine or not anywhere(here := begin < past.end):
                continue
            here = here & (use.left > 0) & past.block.waits
            if anywhere(here) and anywhere(here := here & self._recent(past)):
                delay = self._turns([use], past.begin, past.block, port, here, past.given)
                if anywhere(delay):
                    self._put_off(past, self.blocks[place + 1 :], delay)
        count = self.counts[port] = self.counts[port] + where
        uses = self.uses[port]
        uses.append(use)
        self.latest[port] = larger(self.latest[port], begin + use.left)
        if len(uses) > self.most[port]:
            uses = [
                one for one in uses if anywhere((one.left > 0) & (count - one.number <= _RECENT))
            ]
            self.uses[port], self.most[port] = uses, 2 * max(len(uses), _RECENT)

    def beside(self, begin: Floats, block: Block) -> Floats:
        """Return what a block that begins at a time takes longer, as others use ports as well."""
        self.given = {}
        read, write = (
            self._turns(self.uses[port], begin, block, port, self.present, self.given)
            if anywhere(self.latest[port] > begin)
            else ZERO
            for port in (READ, WRITE)
        )
        return larger(read, write)

    def done(
        self, engine: str, begin: Floats, end: Floats, out: Floats, block: Block
    ) -> Late | None:
        """Note a block and when its engine was free and its results were there.

        Returns what is to be told when a port has served it later than when it ended.
        """
        if not anywhere(block.waits & self.present) and not self._has(engine):
            return None
        number = self.counts[_BLOCKS]
        past = Past(engine, begin, end, out, block, self.given, self.present, number)
        self._note(past)
        if len(self.blocks) > self.most_blocks:
            self.blocks = [one for one in self.blocks if anywhere(self._recent(one))]
            self.most_blocks = 2 * max(len(self.blocks), _PAST)
        return partial(self._served_late, past)

    def _served_late(self, past: Past, _: Floats, served: Floats) -> None:
        """Let a block end when a port has served it."""
        here = self._recent(past) & without(past.gone)
        delay = pick(here, larger(served - past.end, 0), 0)
        if anywhere(delay):
            self._put_off(past, self.blocks[self.blocks.index(past) + 1 :], delay)

    def _has(self, engine: str) -> bool:
        """Return whether an engine has one of the last blocks."""
        mine = (one for one in reversed(self.blocks) if one.engine == engine)
        return any(anywhere(self._recent(one)) for one in mine)

    def _note(self, past: Past) -> None:
        past.latest = larger(past.end, self.blocks[-1].latest) if self.blocks else past.end
        self.blocks.append(past)
        self.counts[_BLOCKS] = past.number + past.where

    def _put_off(self, past: Past, behind: Sequence[Past], delay: Floats) -> None:
        """Let a block end later, and those that its engine went on with."""
        free = past.end
        for one in (past, *(other for other in behind if other.engine == past.engine)):
            if one is not past:
                delay = pick(one.where, larger(delay - larger(one.begin - free, 0), 0), delay)
                free = pick(one.where, one.end, free)
                one.begin = one.begin + pick(one.where, delay, 0)
            mine = pick(one.where, delay, 0)
            if anywhere(mine):
                for time in (one.end, one.out):
                    self.later_at(list(self.x), time, mine)
                one.end, one.out = one.end + mine, one.out + mine
        latest = past.end
        for one in (past, *behind):
            one.latest = latest = larger(latest, larger(one.latest, one.end))
        if past.engine == ARRAY and anywhere(delay):
            for key in (FREE, LEFT):
                self.x[key] = self.x[key] + delay

    def later_at(self, keys: Iterable[object], when: Floats, shift: Floats) -> None:
        """Let what happens at a time happen later."""
        for key in keys:
            time = self.x.get(key)
            if time is not None and anywhere(same := (time == when) & (time > 0)):
                self.x[key] = pick(same, time + shift, time)

    def _recent(self, one: Past) -> Bools:
        """Return where a block is one of the last."""
        found: Bools = one.where & (self.counts[_BLOCKS] - one.number <= _PAST)
        return found

    def _turns(
        self, uses: list[Use], begin: Floats, block: Block, port: str, where: Bools, given: _Given
    ) -> Floats:
        """Return by how much a block is longer, and let uses be what is left of them.

        ``given``: what others got in turns of its parts, to which these uses are added.
        """
        more = was = ZERO
        if not uses or not anywhere(where & block.waits):
            return more
        for n, part in enumerate(block.parts_at_read if port == READ else block.parts_at_write):
            before = given.get((port, n))
            here = where & part.waits
            if anywhere(here):
                others = ZERO if before is None else before
                now = self._beside(uses, begin + more, part, port, here, others)
                if now is not ZERO:
                    given[port, n] = now
                    was, more = was + part.longer(others), more + part.longer(now)
            elif before is not None:
                was, more = was + part.longer(before), more + part.longer(before)
            begin = begin + part.cycles
        return more - was

    def _beside(
        self, uses: list[Use], begin: Floats, part: Share, port: str, where: Bools, given: Floats
    ) -> Floats:
        """Return what others get in turns of a part of a block, those before as well."""
        count = self.counts[port]
        for use in uses:
            if not anywhere(lasts := use.begin + use.left > begin):
                continue
            here = where & (use.left > 0) & (count - use.number <= _RECENT)
            if not anywhere(here & lasts):
                continue
            start, turns, theirs = part.beside(begin, given, use.begin, use.left)
            if not anywhere(here := here & (theirs > 0)):
                continue
            was = use.begin + up(use.left)
            given = given + pick(here, theirs, 0)
            use.left = pick(here, use.begin + use.left - start - theirs, use.left)
            use.begin = pick(here, start + up(turns), use.begin)
            self.latest[port] = larger(self.latest[port], use.begin + use.left)
            if use.late is not None:
                use.late(was, use.begin + up(use.left))
        return given

    def lasting(self, growth: Times, interval: Floats) -> Floats:
        """Return in how many periods no other use of a port begins or ends that is waited for."""
        found = NEVER
        for use, here, now, rate in self._others(growth, interval):
            to_come = (use.begin - now) // larger(interval, 1)
            n = pick(use.begin > now, to_come, (use.begin + use.left - now) // rate)
            found = smaller(found, pick(here, pick(use.left > 0, n, 0), NEVER))
        return found

    def _others(
        self, growth: Times, interval: Floats
    ) -> Iterator[tuple[Use, Bools, Floats, Floats]]:
        """Yield uses by who is not asked again, that blocks of an engine in each period wait for.

        With whose they are, when that engine is free, and what the use gets in a period.
        """
        for engine in (ARRAY, SFU):
            period, now, waits = growth.get(engine, ZERO), self.x[engine], FALSE
            for past in self.blocks if anywhere(period > 0) else ():
                if past.engine == engine and anywhere(past.begin >= now - period):
                    here = past.where & past.block.waits & (past.begin >= now - period)
                    waits = waits | (here & (period > 0))
            for port in (READ, WRITE) if anywhere(waits) else ():
                rate = larger(interval - growth.get(port, ZERO), 1)
                for use in self.uses[port]:
                    # one that has ended in this period was part of what it took
                    lasts = use.begin + use.left > pick(use.left > 0, now, now - interval)
                    if use.engine != engine and anywhere(lasts):
                        again = growth.get(use.engine, ZERO) > 0
                        if anywhere(here := lasts & waits & without(again)):
                            yield use, here, now, rate

    def go_on(self, moved: Floats, more: Floats, growth: Times, interval: Floats) -> None:
        """Let ``more`` periods of blocks follow, and the uses be those of the last period."""
        others = list(self._others(growth, interval))
        for engine in (ARRAY, SFU):
            self._repeat(engine, moved, more, growth.get(engine, ZERO))
        for use in (*self.uses[READ], *self.uses[WRITE]):
            use.begin = use.begin + pick(growth.get(use.engine, ZERO) > 0, moved, 0)
        for use, mine, now, rate in others:
            here = mine & (use.begin <= now) & (moved > 0)
            left = larger(use.begin + use.left - now - more * rate, 0)
            use.begin, use.left = (
                pick(here, new, old) for new, old in ((now + moved, use.begin), (left, use.left))
            )
        for port in (READ, WRITE):
            self.latest[port] = self.latest[port] + moved

    def _repeat(self, engine: str, moved: Floats, more: Floats, period: Floats) -> None:
        """Note blocks that are not gone through as one, where each period has the same."""
        end = self.x[engine]
        cycles = read = write = reading = writing = ZERO
        for past in self.blocks:
            if past.engine != engine or not anywhere(since := past.begin >= end - period):
                continue
            if anywhere(mine := self._recent(past) & since & (moved > 0)):
                past.gone = past.gone | mine
                times, block = pick(mine, more, 0), past.block
                cycles, read = cycles + times * block.cycles, read + times * block.read
                write = write + times * block.write
                reading = reading + times * block.at_read.turns
                writing = writing + times * block.at_write.turns
        if anywhere(where := cycles > 0):
            several = Block(cycles, read, write, None, reading, writing, several=True)
            number = self.counts[_BLOCKS]
            end = end + moved
            self._note(Past(engine, end - moved, end, end, several, {}, where, number))
