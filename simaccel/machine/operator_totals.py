"""Totals of operators: their cycles, and each engine's cycles by cause, over all repetitions.

Each cycle of a core belongs to one operator, also where operators overlap. An operator's cycles go
from the end of those of the operator before to the cycle in which its results are in DRAM. Where
the next operator waits for none of them, they end earlier: when all engines but those that store
have done their work in it. So a wait of the array for its first tiles is the next operator's, and
what is still being stored goes on in the next one's cycles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from simaccel.machine.accounts import StallAccount, outer_site
from simaccel.machine.stateful import Counter, SkippedPeriods, StatefulPart
from simaccel.units import Cause


class RowTotals(StatefulPart):
    """A row of numbers that only grow."""

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
    """Totals of all operators, which change only where the cycles of an operator end.

    Its own row has, by core, the cycle of the last such end, and each engine's cycles by cause
    until then. ``of`` has a row for each operator: its cycles, which are those of the first of its
    cores (``places``), and each engine's by cause. ``accounts``: by core those of its engines.
    """

    of: Mapping[str, RowTotals]
    sites: Mapping[str, int]
    """What is added to sites of other operators in the cycles of each operator."""
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
        """Cycles of an operator."""
        return self.of[operator].numbers[0]

    def by_cause(self, operator: str) -> dict[str, list[int]]:
        """Cycles of an operator by engine and cause."""
        numbers, n = self.of[operator].numbers, len(Cause)
        return {
            account.engine: list(numbers[1 + index * n : 1 + (index + 1) * n])
            for index, account in enumerate(chain.from_iterable(self.accounts))
        }
