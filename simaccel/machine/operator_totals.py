"""The books of the operators: cycles, and where each engine's went, summed over repetitions."""

from __future__ import annotations

from collections.abc import Sequence

from simaccel.machine.accounts import StallAccount
from simaccel.machine.stateful import SkippedPeriods, StatefulPart
from simaccel.units import Cause


class OperatorTotals(StatefulPart):
    """All operators' sums in one row of numbers, which changes only when an operator ends.

    The row: the cycle of the last closing; each engine's cycles by cause at it; then for each
    operator its cycles and each engine's by cause.
    """

    COUNTERS = ("numbers",)
    WIRING = ("operators", "accounts", "width")

    def __init__(self, operators: Sequence[str], accounts: Sequence[StallAccount]) -> None:
        self.operators = {name: index for index, name in enumerate(dict.fromkeys(operators))}
        self.accounts = tuple(accounts)
        self.width = len(accounts) * len(Cause)
        self.numbers = (0,) * (1 + self.width + len(self.operators) * (1 + self.width))

    def _start(self, operator: str) -> int:
        return 1 + self.width + self.operators[operator] * (1 + self.width)

    def close(self, now: int, operator: str) -> None:
        """Book an operator when all engines have met at its end."""
        for account in self.accounts:
            account.flush(now)
        closing = (now, *(n for account in self.accounts for n in account.cycles))
        start = self._start(operator)
        numbers = list(self.numbers)
        for index, n in enumerate(closing):
            numbers[start + index] += n - numbers[index]
        numbers[: len(closing)] = closing
        self.numbers = tuple(numbers)

    def cycles(self, operator: str) -> int:
        """Cycles of an operator."""
        return self.numbers[self._start(operator)]

    def by_cause(self, operator: str) -> dict[str, list[int]]:
        """Cycles of an operator by engine and cause."""
        start, n = self._start(operator) + 1, len(Cause)
        return {
            account.engine: list(self.numbers[start + index * n : start + (index + 1) * n])
            for index, account in enumerate(self.accounts)
        }

    def counters(self) -> tuple[int, ...]:
        """Return the whole row."""
        return self.numbers

    def skip(self, skip: SkippedPeriods) -> None:
        """Add what the operators of the periods would have booked."""
        numbers = list(self.numbers)
        for index, amount in skip.growth():
            numbers[index] += amount
        self.numbers = tuple(numbers)
