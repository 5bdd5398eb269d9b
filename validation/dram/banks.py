"""When the commands of a DRAM channel may go out: the timings of a part, as they stand in JEDEC's.

All times are in clocks of the part. A command changes the earliest times of those that follow it:
of its bank, its bank group, its rank and of the other ranks on the same data bus.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from simaccel.hardware.dram.part import DramPart

CLOSED = -1
"""The open row of a bank that has none."""
_WINDOW = 4
"""Activates in the window of tFAW."""


class Banks:
    """Open rows, and the earliest clocks of commands. Bank groups are numbered over all units."""

    def __init__(self, part: DramPart) -> None:
        self.part = part
        self.group_of = [bank // part.banks_per_group for bank in range(part.banks)]
        self.unit_of = [group // part.bank_groups for group in self.group_of]
        self.open_row = [CLOSED] * part.banks
        self.hits = [0] * part.banks
        """Bursts of the open row since it was opened."""
        self.activate_at = [0] * part.banks
        self.precharge_at = [0] * part.banks
        self.refresh_at = [0] * part.banks
        self.column_at: tuple[list[int], list[int]] = ([0] * part.banks, [0] * part.banks)
        """Of each bank since its row was opened: reads, writes."""
        groups = part.bank_groups * part.units
        self.group_activate_at = [0] * groups
        self.group_column_at: tuple[list[int], list[int]] = ([0] * groups, [0] * groups)
        """Of each bank group: reads, writes."""
        self.windows: list[deque[int]] = [deque(maxlen=_WINDOW) for _ in range(part.units)]
        self._gaps = [[list(self._column_gaps(g, w)) for g in range(groups)] for w in (0, 1)]
        self._close = (part.rtp, part.write_latency + part.burst + part.wr)

    def _column_gaps(self, group: int, write: int) -> Iterator[tuple[int, int, int]]:
        """Yield the gaps after a read (0) or a write (1) in a bank group."""
        part = self.part
        unit = group // part.bank_groups
        done = part.write_latency + part.burst
        for other in range(part.bank_groups * part.units):
            if other // part.bank_groups != unit:
                if part.pseudo_channels == 1:
                    yield other, *self._rank_gaps(write)
                continue
            same = other == group
            if write:
                wtr = part.wtr_l if same else part.wtr_s
                ccd = part.ccd_l_write if same else part.ccd_s
                yield other, done + wtr, max(part.burst, ccd)
            else:
                ccd = part.ccd_l if same else part.ccd_s
                to_write = part.read_latency + part.burst + part.rtrs - part.write_latency
                yield other, max(part.burst, ccd), to_write

    def _rank_gaps(self, write: int) -> tuple[int, int]:
        """Return the gaps between ranks: the data of one after those of the other, and tRTRS."""
        part = self.part
        slack = part.burst + part.rtrs
        back = slack + part.write_latency - part.read_latency
        forth = slack + part.read_latency - part.write_latency
        return (back, part.burst) if write else (slack, forth)

    def may_activate(self, bank: int) -> int:
        """Return the earliest clock to open a row of a closed bank."""
        window = self.windows[self.unit_of[bank]]
        earliest = max(self.activate_at[bank], self.group_activate_at[self.group_of[bank]])
        if len(window) == _WINDOW:
            return max(earliest, window[0] + self.part.faw)
        return earliest

    def may_access(self, bank: int, write: int) -> int:
        """Return the earliest clock of a read or a write of the open row."""
        own, group = self.column_at[write][bank], self.group_column_at[write][self.group_of[bank]]
        return max(group, own)

    def activate(self, bank: int, row: int, clock: int) -> None:
        """Open a row."""
        part, group = self.part, self.group_of[bank]
        unit = self.unit_of[bank]
        self.open_row[bank] = row
        self.hits[bank] = 0
        self.activate_at[bank] = clock + part.rc
        self.precharge_at[bank] = clock + part.ras
        self.column_at[0][bank] = clock + part.rcd_read
        self.column_at[1][bank] = clock + part.rcd_write
        first, at = unit * part.bank_groups, self.group_activate_at
        for other in range(first, first + part.bank_groups):
            gap = part.rrd_l if other == group else part.rrd_s
            at[other] = max(at[other], clock + gap)
        self.windows[unit].append(clock)

    def access(self, bank: int, write: int, clock: int) -> None:
        """Read or write a burst of the open row."""
        self.hits[bank] += 1
        close = clock + self._close[write]
        self.precharge_at[bank] = max(self.precharge_at[bank], close)
        reads, writes = self.group_column_at
        for other, until_read, until_write in self._gaps[write][self.group_of[bank]]:
            reads[other] = max(reads[other], clock + until_read)
            writes[other] = max(writes[other], clock + until_write)

    def precharge(self, bank: int, clock: int) -> None:
        """Close the open row."""
        self.open_row[bank] = CLOSED
        self.refresh_at[bank] = clock + self.part.rp
        self.activate_at[bank] = max(self.activate_at[bank], clock + self.part.rp)

    def of_unit(self, unit: int) -> range:
        """Return the banks of a rank or pseudo channel."""
        count = self.part.bank_groups * self.part.banks_per_group
        return range(unit * count, unit * count + count)

    def may_refresh(self, unit: int) -> int:
        """Return the earliest clock to refresh a unit whose banks are closed."""
        return max(self.refresh_at[bank] for bank in self.of_unit(unit))

    def refresh(self, unit: int, clock: int) -> None:
        """Refresh all banks of a unit, which are closed."""
        for bank in self.of_unit(unit):
            done = clock + self.part.rfc
            self.refresh_at[bank] = done
            self.activate_at[bank] = max(self.activate_at[bank], done)
