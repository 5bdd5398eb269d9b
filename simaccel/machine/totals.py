"""Totals of a run: the work of its steps, and the cycles of its operators by engine and cause."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from simaccel.machine.accounts import StallAccount, outer_site
from simaccel.machine.engines import Engine
from simaccel.machine.stateful import Counter, SkippedPeriods, StatefulPart
from simaccel.units import Cause


class CounterRow(StatefulPart):
    """A row of counters that a skip of periods advances."""

    numbers: Counter[tuple[int, ...]]

    def __init__(self, length: int) -> None:
        self.numbers = (0,) * length

    def counters(self) -> tuple[int, ...]:
        """Return the row."""
        return self.numbers

    def skip(self, skip: SkippedPeriods) -> None:
        """Add the growth in the skipped periods."""
        numbers = list(self.numbers)
        for index, amount in skip.growth():
            numbers[index] += amount
        self.numbers = tuple(numbers)


class OperatorTotals(CounterRow):
    """Cycles of all operators, each added when the operator ends.

    The row of the class has, for each core, the cycle in which its last operator ended, then the
    cycles of each engine by cause up to that end. ``by_operator``: rows with the cycles of the
    operator on the first of its cores (``places``), then those of each engine by cause.
    ``accounts``: of the engines, by core.
    """

    by_operator: Mapping[str, CounterRow]
    site_offsets: Mapping[str, int]
    """By operator: added to the sites of other operators' commands in its cycles."""
    accounts: Sequence[Sequence[StallAccount]]
    places: Mapping[str, range]

    def __init__(
        self,
        operators: Sequence[str],
        accounts: Sequence[Sequence[StallAccount]],
        places: Mapping[str, range],
    ) -> None:
        names = dict.fromkeys(operators)
        self.site_offsets = {name: outer_site(0, index) for index, name in enumerate(names)}
        self.accounts = tuple(map(tuple, accounts))
        self.places = dict(places)
        width = sum(map(len, accounts)) * len(Cause)
        super().__init__(len(accounts) + width)
        self.by_operator = {name: CounterRow(1 + width) for name in names}

    def close(self, now: int, operator: str) -> None:
        """Add the cycles of an operator, which ends now."""
        place, n_cores = self.places[operator], len(self.accounts)
        last_end, own = list(self.numbers), list(self.by_operator[operator].numbers)
        own[0] += now - last_end[place.start]
        at = n_cores
        for core, accounts in enumerate(self.accounts):
            for account in accounts:
                if core in place:
                    account.flush(now)
                    for index, n in enumerate(account.cycles, at):
                        own[1 - n_cores + index] += n - last_end[index]
                        last_end[index] = n
                at += len(Cause)
        last_end[place.start : place.stop] = [now] * len(place)
        self.numbers, self.by_operator[operator].numbers = tuple(last_end), tuple(own)

    def cycles(self, operator: str) -> int:
        """Return the cycles of an operator, over all repetitions."""
        return self.by_operator[operator].numbers[0]

    def by_cause(self, operator: str) -> dict[str, list[int]]:
        """Return the cycles of an operator by engine and cause."""
        numbers, n = self.by_operator[operator].numbers, len(Cause)
        return {
            account.engine: list(numbers[1 + index * n : 1 + (index + 1) * n])
            for index, account in enumerate(chain.from_iterable(self.accounts))
        }


@dataclass
class WorkTotals:
    """Work of executed steps: MACs, elements x passes of the SFU, bytes moved.

    ``native_macs``: MACs in units of the multipliers' native width.
    """

    macs: int = 0
    native_macs: int = 0
    elements: int = 0
    moved: collections.Counter[tuple[str, str]] = field(default_factory=collections.Counter)
    """Bytes by (level and direction, tensor)."""


def sum_work(engines: Sequence[Engine], operators: Iterable[str]) -> dict[str, WorkTotals]:
    """Return the work of the executed steps of each operator."""
    totals = {name: WorkTotals() for name in operators}
    for engine in engines:
        for at, (n, op) in enumerate(zip(engine.counts, engine.plan.ops, strict=True)):
            if n and (op.macs or op.elements or op.amounts):
                total = totals[op.operator]
                total.macs += n * op.macs
                total.native_macs += n * op.native_macs
                total.elements += n * op.elements
                for key, n_bytes in engine.amounts(at):
                    total.moved[key] += n * n_bytes
    return totals


def by_name(moved: collections.Counter[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Return the bytes above 0, sorted by level and tensor."""
    return {key: n for key, n in sorted(moved.items()) if n}
