"""A memory controller of one DRAM channel: first ready, oldest first, writes in batches.

It works burst by burst and is deterministic. Clocks in which nothing happens are skipped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from simaccel.hardware.dram.part import DramPart
from simaccel.hardware.spec import Spec
from validation.dram.banks import CLOSED, Banks

NEVER = 2**62


class ControllerSpec(Spec):
    """Queues and limits of a memory controller, in bursts.

    Reads and writes wait in a queue each. One of them a clock moves on to the queue of its bank,
    where the oldest whose row is open goes first. A bank's row is closed when its oldest burst
    needs another and none that waits needs the open one, or ``row_hits`` have been served.
    Writes are taken when their queue is full, or when more than ``few_writes`` wait and no burst
    does at any bank; then all that wait are taken before the next read.
    """

    reads: int = 32
    writes: int = 32
    few_writes: int = 8
    per_bank: int = 8
    row_hits: int = 4
    high_mark: int = 25
    low_mark: int = 7
    """Of writes that wait, for a controller without queues of banks: 80% and 20% of 32."""
    source: str = (
        "the controller of the reference curves: DRAMsim3 (commit 2981759) with 32-entry queues"
    )


@dataclass
class BurstTraffic:
    """Bursts in the order in which they are asked for: bank, row, 1 for a write.

    A burst asks ``after`` the one before it has been accepted; where ``waits`` has its number, all
    reads before it have to be back.
    """

    banks: Sequence[int]
    rows: Sequence[int]
    writes: Sequence[int]
    keys: Sequence[int]
    """Number of the burst in the memory: a read that waits already is not asked for twice."""
    waits: frozenset[int] = frozenset()
    arrivals: Sequence[int] | None = None
    """Clock at which each is asked for at the earliest."""
    in_flight: int = NEVER
    """Reads that may be accepted and not yet back."""


@dataclass
class ServedCounters:
    """Counters of what has been served so far."""

    bursts: int = 0
    """On the data bus."""
    merged: int = 0
    """That needed none of their own."""
    reads: int = 0
    latency: int = 0
    """Clocks from asking to the end of the data, summed over the reads."""
    activates: int = 0


class Controller:
    """One channel with its controller, fed with traffic."""

    def __init__(
        self, part: DramPart, spec: ControllerSpec, traffic: BurstTraffic, *, refresh: bool = True
    ) -> None:
        self.part, self.spec, self.traffic = part, spec, traffic
        self.banks = Banks(part)
        self.clock = 0
        self.served = ServedCounters()
        self.next = 0
        """The burst that is asked for next."""
        self.asked: list[int] = [0] * len(traffic.banks)
        self.pending: set[int] = set()
        """Keys of reads and (negative) writes that wait."""
        self.flying: deque[tuple[int, int]] = deque()
        """(clock at which it is back, bursts that this one answers) of reads."""
        self.in_flight = 0
        self.merged: dict[int, list[int]] = {}
        self.queues: tuple[list[int], list[int]] = ([], [])
        self.draining = 0
        self.waiting: list[list[int]] = [[] for _ in range(part.banks)]
        self.ready_at = [0] * part.banks
        """No command of a bank goes out before."""
        self.turn = 0
        """The bank that was served last: the search begins behind it."""
        self.refresh_every = part.refi // part.ranks if refresh else NEVER
        self.refresh_due = self.refresh_every
        self.refresh_unit = 0
        self.refreshing: deque[int] = deque()
        self.blocked: range = range(0)

    def run(self, until: int) -> bool:
        """Go on until a clock; give False if nothing is left to do before."""
        while self.clock < until:
            acted = self._accept()
            acted |= self._return()
            if self.clock >= self.refresh_due:
                self._call_refresh()
            acted |= self._issue()
            acted |= self._move()
            if acted:
                self.clock += 1
                continue
            after = self._next_event()
            if after >= NEVER:
                return False
            self.clock = max(self.clock + 1, after)
        return True

    def _next_event(self) -> int:
        """Return the clock in which something may happen, when nothing does now."""
        after = self.refresh_due if self.next < len(self.asked) or self._busy() else NEVER
        for bank, queue in enumerate(self.waiting):
            if queue and self.ready_at[bank] < after and bank not in self.blocked:
                after = self.ready_at[bank]
        if self.refreshing:
            after = min(after, self._refresh_event())
        if self.flying and self.flying[0][0] < after:
            after = self.flying[0][0]
        arrivals = self.traffic.arrivals
        if arrivals is not None and self.next < len(arrivals) and arrivals[self.next] > self.clock:
            after = min(after, arrivals[self.next])
        return after

    def _at_banks(self) -> bool:
        return any(self.waiting)

    def _busy(self) -> bool:
        return bool(self.flying or self.queues[0] or self.queues[1] or self._at_banks())

    def _accept(self) -> bool:
        """Take the next burst into a queue, if there is room."""
        at, traffic = self.next, self.traffic
        if at >= len(self.asked):
            return False
        write = traffic.writes[at]
        room = len(self.queues[write]) < (self.spec.writes if write else self.spec.reads)
        if not room or (at in traffic.waits and self.in_flight):
            return False
        if not write and self.in_flight >= traffic.in_flight:
            return False
        arrival = self.clock
        if traffic.arrivals is not None:
            arrival = traffic.arrivals[at]
            if arrival > self.clock:
                return False
        self.asked[at] = arrival
        self.next += 1
        self._queue(at, write)
        return True

    def _queue(self, at: int, write: int) -> None:
        """Queue a burst, unless one of the same place waits already."""
        key = self.traffic.keys[at]
        if not write:
            self.in_flight += 1
        mark = ~key if write else key
        if mark in self.pending:
            if write:
                self.served.merged += 1
            else:
                self.merged.setdefault(key, []).append(at)
            return
        self.pending.add(mark)
        self.queues[write].append(at)

    def _return(self) -> bool:
        """Let reads whose data are there go."""
        flying, before = self.flying, self.in_flight
        while flying and flying[0][0] <= self.clock:
            self.in_flight -= flying.popleft()[1]
        return self.in_flight != before

    def _call_refresh(self) -> None:
        """Note that a rank has to be refreshed, one after the other, evenly spaced."""
        for _ in range(self.part.pseudo_channels):
            self.refreshing.append(self.refresh_unit)
            self.refresh_unit = (self.refresh_unit + 1) % self.part.units
        self.refresh_due += self.refresh_every
        self.blocked = self.banks.of_unit(self.refreshing[0])

    def _refresh(self) -> bool:
        """Close a bank of the unit that is to be refreshed, or refresh it."""
        banks, unit = self.banks, self.refreshing[0]
        closed = True
        for bank in banks.of_unit(unit):
            if banks.open_row[bank] == CLOSED:
                continue
            closed = False
            if banks.precharge_at[bank] <= self.clock:
                banks.precharge(bank, self.clock)
                return True
        if not closed or banks.may_refresh(unit) > self.clock:
            return False
        banks.refresh(unit, self.clock)
        self.refreshing.popleft()
        self.blocked = banks.of_unit(self.refreshing[0]) if self.refreshing else range(0)
        for bank in banks.of_unit(unit):
            self.ready_at[bank] = 0
        return True

    def _refresh_event(self) -> int:
        """Return when the refresh that waits goes on."""
        banks, unit = self.banks, self.refreshing[0]
        still = [b for b in banks.of_unit(unit) if banks.open_row[b] != CLOSED]
        if still:
            return min(banks.precharge_at[bank] for bank in still)
        return banks.may_refresh(unit)

    def _issue(self) -> bool:
        """Send a command, or two where the part takes a row and a column command at once."""
        kind = 1 if self.refreshing and self._refresh() else self._command(0)
        if kind and self.part.dual_command:
            self._command(kind)
        return bool(kind)

    def _command(self, other_than: int) -> int:
        """Send the first command that is ready; give 1 for a row's, 2 for a column's, else 0."""
        clock, ready_at, waiting = self.clock, self.ready_at, self.waiting
        count = len(waiting)
        for step in range(1, count + 1):
            bank = self.turn + step
            if bank >= count:
                bank -= count
            if ready_at[bank] > clock or not waiting[bank] or bank in self.blocked:
                continue
            kind, ready_at[bank] = self._bank_command(bank, other_than)
            if kind:
                self.turn = bank
                return kind if kind != other_than else 0
        return 0

    def _bank_command(self, bank: int, other_than: int) -> tuple[int, int]:
        """Send a command of a bank; give its kind (0: none) and when to look at it again."""
        clock, banks = self.clock, self.banks
        queue = self.waiting[bank]
        row = banks.open_row[bank]
        rows = self.traffic.rows
        if row == CLOSED:
            earliest = banks.may_activate(bank)
            if earliest > clock:
                return 0, earliest
            if other_than != 1:
                banks.activate(bank, rows[queue[0]], clock)
                self.served.activates += 1
            return 1, clock
        hits = [at for at in queue if rows[at] == row]
        look = NEVER
        if rows[queue[0]] != row and (not hits or banks.hits[bank] >= self.spec.row_hits):
            look = banks.precharge_at[bank]
            if look <= clock:
                if other_than != 1:
                    banks.precharge(bank, clock)
                return 1, clock
        return self._column(bank, hits, look, other_than)

    def _column(self, bank: int, hits: list[int], look: int, other_than: int) -> tuple[int, int]:
        """Send the first read or write of the open row that is ready."""
        seen = -1
        for at in hits:
            write = self.traffic.writes[at]
            if write == seen:
                continue
            earliest = self.banks.may_access(bank, write)
            if earliest <= self.clock:
                if other_than != 2:
                    self._serve(self.waiting[bank], at)
                return 2, self.clock
            look = min(look, earliest)
            if seen >= 0:
                break
            seen = write
        return 0, look

    def _serve(self, queue: list[int], at: int) -> None:
        """Send a read or a write that waits in a queue."""
        part, served = self.part, self.served
        key, write = self.traffic.keys[at], self.traffic.writes[at]
        self.banks.access(self.traffic.banks[at], write, self.clock)
        queue.remove(at)
        served.bursts += 1
        if write:
            self.pending.discard(~key)
            return
        self.pending.discard(key)
        back = self.clock + part.read_latency + part.burst
        answered = [at, *self.merged.pop(key, ())]
        self.flying.append((back, len(answered)))
        served.merged += len(answered) - 1
        for request in answered:
            served.reads += 1
            served.latency += back - self.asked[request]

    def _move(self) -> bool:
        """Move a burst to the queue of its bank: the first whose bank has room."""
        spec, (reads, writes) = self.spec, self.queues
        full = len(writes) >= spec.writes
        if not self.draining and (full or (len(writes) > spec.few_writes and not self._at_banks())):
            self.draining = len(writes)
        queue = writes if self.draining else reads
        of_bank, waiting, limit = self.traffic.banks, self.waiting, spec.per_bank
        for place, at in enumerate(queue):
            bank = of_bank[at]
            if len(waiting[bank]) < limit:
                if self.draining:
                    self.draining -= 1
                waiting[bank].append(at)
                self.ready_at[bank] = 0
                del queue[place]
                return True
        return False
