"""Totals of operators: their cycles, and each engine's cycles by cause, over all repetitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from simaccel.machine.accounts import StallAccount
from simaccel.machine.stateful import SkippedPeriods, StatefulPart
from simaccel.units import Cause


class OperatorTotals(StatefulPart):
    """Totals of all operators in one row of numbers, which changes only when an operator ends.

    The row has, by core, the cycle of the last end; each engine's cycles by cause then; and for
    each operator its cycles, which are those of the first of its cores (``places``), and each
    engine's by cause. ``accounts``: by core those of its engines.
    """

    COUNTERS = ("numbers",)
    WIRING = ("operators", "accounts", "places", "width")

    def __init__(
        self,
        operators: Sequence[str],
        accounts: Sequence[Sequence[StallAccount]],
        places: Mapping[str, range],
    ) -> None:
        self.operators = {name: index for index, name in enumerate(dict.fromkeys(operators))}
        self.accounts = tuple(map(tuple, accounts))
        self.places = dict(places)
        self.width = sum(map(len, accounts)) * len(Cause)
        n_cores, n_operators = len(accounts), len(self.operators)
        self.numbers = (0,) * (n_cores + self.width + n_operators * (1 + self.width))

    def _start(self, operator: str) -> int:
        return len(self.accounts) + self.width + self.operators[operator] * (1 + self.width)

    def close(self, now: int, operator: str) -> None:
        """Add an operator's cycles when all engines of its cores have met at its end."""
        start, place = self._start(operator), self.places[operator]
        numbers = list(self.numbers)
        numbers[start] += now - numbers[place.start]
        at = len(self.accounts)
        for core, accounts in enumerate(self.accounts):
            for account in accounts:
                if core in place:
                    account.flush(now)
                    self._book(numbers, at, start + 1 - len(self.accounts), account)
                at += len(Cause)
        numbers[place.start : place.stop] = [now] * len(place)
        self.numbers = tuple(numbers)

    @staticmethod
    def _book(numbers: list[int], at: int, apart: int, account: StallAccount) -> None:
        """Add an engine's cycles since the last call (at ``at``) to those ``apart`` from it."""
        for index, n in enumerate(account.cycles, at):
            numbers[index + apart] += n - numbers[index]
            numbers[index] = n

    def cycles(self, operator: str) -> int:
        """Cycles of an operator."""
        return self.numbers[self._start(operator)]

    def by_cause(self, operator: str) -> dict[str, list[int]]:
        """Cycles of an operator by engine and cause."""
        start, n = self._start(operator) + 1, len(Cause)
        return {
            account.engine: list(self.numbers[start + index * n : start + (index + 1) * n])
            for index, account in enumerate(chain.from_iterable(self.accounts))
        }

    def counters(self) -> tuple[int, ...]:
        """Return the whole row."""
        return self.numbers

    def skip(self, skip: SkippedPeriods) -> None:
        """Add the cycles of the operators in the skipped periods."""
        numbers = list(self.numbers)
        for index, amount in skip.growth():
            numbers[index] += amount
        self.numbers = tuple(numbers)
