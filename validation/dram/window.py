"""A memory controller without queues of banks: of all that wait, the oldest that is ready.

Reads and writes wait in a buffer each. A request whose row has been opened for it moves on to a
third, which goes first, and whose rows nobody closes. So do Ramulator 2's controllers.
"""

from __future__ import annotations

from validation.dram.banks import CLOSED
from validation.dram.controller import NEVER, Controller

ROW, COLUMN = 1, 2
"""Kinds of commands."""


class WindowController(Controller):
    """Ready first, oldest first over a window; writes between two marks of their buffer.

    Writes are served from when more than ``high_mark`` wait or no read does, to when fewer than
    ``low_mark`` wait and a read does.
    """

    writing = False
    quiet_until = 0
    """No command is ready before, unless something new comes."""

    def _move(self) -> bool:
        """Nothing moves on: requests wait where they came."""
        return False

    def _at_banks(self) -> bool:
        return bool(self.opened)

    @property
    def opened(self) -> list[int]:
        """Requests for which a row has been opened; the first bank's queue holds them all."""
        return self.waiting[0]

    def _queue(self, at: int, write: int) -> None:
        super()._queue(at, write)
        self.quiet_until = 0

    def _call_refresh(self) -> None:
        super()._call_refresh()
        self.quiet_until = 0

    def _next_event(self) -> int:
        after = self.refresh_due if self.next < len(self.asked) or self._busy() else NEVER
        if self.queues[0] or self.queues[1] or self.opened or self.refreshing:
            after = min(after, self.quiet_until)
        if self.flying:
            after = min(after, self.flying[0][0])
        arrivals = self.traffic.arrivals
        if arrivals is not None and self.next < len(arrivals) and arrivals[self.next] > self.clock:
            after = min(after, arrivals[self.next])
        return after

    def _issue(self) -> bool:
        if self.clock < self.quiet_until:
            return False
        self.quiet_until = NEVER
        kind = self._best(0)
        if kind:
            if self.part.dual_command:
                self._best(kind)
            self.quiet_until = self.clock + 1
        return bool(kind)

    def _best(self, other_than: int) -> int:
        """Send the best command; give its kind, or 0 if none is ready."""
        kind = self._first_ready(self.opened, other_than)
        if kind:
            return kind
        if self.refreshing:
            if other_than:
                return 0
            if self._refresh():
                return ROW
            self.quiet_until = min(self.quiet_until, self._refresh_event())
            return 0
        self._turn()
        return self._first_ready(self.queues[self.writing], other_than)

    def _turn(self) -> None:
        """Go over to writes, or back to reads."""
        reads, writes = self.queues
        if not self.writing:
            self.writing = len(writes) > self.spec.high_mark or not reads
        elif len(writes) < self.spec.low_mark and reads:
            self.writing = False

    def _first_ready(self, queue: list[int], other_than: int) -> int:
        """Send the command of the oldest request that is ready."""
        clock, banks, of_bank = self.clock, self.banks, self.traffic.banks
        rows, writes = self.traffic.rows, self.traffic.writes
        soonest = self.quiet_until
        for at in queue:
            bank = of_bank[at]
            row = banks.open_row[bank]
            if row == rows[at]:
                kind, ready = COLUMN, banks.may_access(bank, writes[at])
            elif row == CLOSED:
                kind, ready = ROW, banks.may_activate(bank)
            else:
                kind, ready = ROW, banks.precharge_at[bank]
            if ready > clock:
                soonest = min(soonest, ready)
            elif kind != other_than and not (kind == ROW and row != CLOSED and self._needed(bank)):
                self._send(queue, at, bank, row, kind)
                return kind
        self.quiet_until = soonest
        return 0

    def _needed(self, bank: int) -> bool:
        """Whether a row of a bank has been opened for a request that still waits."""
        return any(self.traffic.banks[at] == bank for at in self.opened)

    def _send(self, queue: list[int], at: int, bank: int, row: int, kind: int) -> None:
        if kind == COLUMN:
            self._serve(queue, at)
        elif row == CLOSED:
            self.banks.activate(bank, self.traffic.rows[at], self.clock)
            self.served.activates += 1
            if queue is not self.opened:
                queue.remove(at)
                self.opened.append(at)
        else:
            self.banks.precharge(bank, self.clock)
