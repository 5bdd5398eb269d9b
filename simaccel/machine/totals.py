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


class RowTotals(StatefulPart):
    """A row of counters."""

    numbers: Counter[tuple[int, ...]]

    def __init__(self, length: int) -> None:
        self.numbers = (0,) * length

    def counters(self) -> tuple[int, ...]:
        """Return the whole row."""
        return self.numbers

    def skip(self, skip: SkippedPeriods) -> None:
        """Add the growth in the skipped periods."""
        numbers = list(self.numbers)
        for index, amount in skip.growth():
            numbers[index] += amount
        self.numbers = tuple(numbers)


class OperatorTotals(RowTotals):
    """The totals of all operators, which change only when the cycles of an operator end.

    Its own row has, by core, the cycle of the last such end, and each engine's cycles by cause
    until then. ``of``: a row per operator with its cycles, on the first of its cores (``places``),
    and each engine's cycles by cause. ``accounts``: of the engines, by core.
    """

    of: Mapping[str, RowTotals]
    sites: Mapping[str, int]
    """By operator, the offset of other operators' sites in its cycles."""
    accounts: Sequence[Sequence[StallAccount]]
    places: Mapping[str, range]

    def __init__(
        self,
        operators: Sequence[str],
        accounts: Sequence[Sequence[StallAccount]],
        places: Mapping[str, range],
    ) -> None:
        names = dict.fromkeys(operators)
        self.sites = {name: outer_site(0, index) for index, name in enumerate(names)}
        self.accounts = tuple(map(tuple, accounts))
        self.places = dict(places)
        width = sum(map(len, accounts)) * len(Cause)
        super().__init__(len(accounts) + width)
        self.of = {name: RowTotals(1 + width) for name in names}

    def close(self, now: int, operator: str) -> None:
        """Add the cycles of an operator that end now."""
        place, n_cores = self.places[operator], len(self.accounts)
        seen, own = list(self.numbers), list(self.of[operator].numbers)
        own[0] += now - seen[place.start]
        at = n_cores
        for core, accounts in enumerate(self.accounts):
            for account in accounts:
                if core in place:
                    account.flush(now)
                    for index, n in enumerate(account.cycles, at):
                        own[1 - n_cores + index] += n - seen[index]
                        seen[index] = n
                at += len(Cause)
        seen[place.start : place.stop] = [now] * len(place)
        self.numbers, self.of[operator].numbers = tuple(seen), tuple(own)

    def cycles(self, operator: str) -> int:
        """Return the cycles of an operator, over all repetitions."""
        return self.of[operator].numbers[0]

    def by_cause(self, operator: str) -> dict[str, list[int]]:
        """Return the cycles of an operator by engine and cause."""
        numbers, n = self.of[operator].numbers, len(Cause)
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


def sum_totals(parts: Iterable[WorkTotals]) -> WorkTotals:
    """Return the sum of the work of operators."""
    found = WorkTotals()
    for one in parts:
        found.macs += one.macs
        found.native_macs += one.native_macs
        found.elements += one.elements
        found.moved.update(one.moved)
    return found


def by_name(moved: collections.Counter[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Return the bytes above 0, sorted by level and tensor."""
    return {key: n for key, n in sorted(moved.items()) if n}
