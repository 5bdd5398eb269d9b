"""Totals of operators: their cycles, and each engine's cycles by cause, over all repetitions.

Each cycle of a core belongs to one operator, even if operators overlap. An operator's cycles begin
at the end of the previous operator's and end when its results are in DRAM. If the next operator
waits for none of them, they end earlier: when all engines but those that store have done their
work. So a wait of the array for its first tiles belongs to the next operator, and the last stores
take place in the next operator's cycles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from simaccel.machine.accounts import StallAccount, outer_site
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
