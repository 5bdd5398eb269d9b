"""A run of which only the cycles count: it books nothing, and all else is the same."""

from dataclasses import replace

import pytest

from simaccel.machine.machine import DeadlockError, Machine, Run
from simaccel.machine.tokens import Tokens
from simaccel.program.text import parse_program
from tests.draws import DRAWS
from tests.machine.accelerators import accelerator
from tests.machine.test_deadlock import ROWS
from tests.machine.trees import cases


def _without_books(run: Run) -> Run:
    operators = tuple(replace(one, engines={}) for one in run.operators)
    return replace(run, events=0, engines={}, operators=operators)


def test_only_the_books_are_missing() -> None:
    """Held against runs event by event, with accounts."""
    found = list(cases(range(50 * DRAWS)))
    assert len(found) > 10 * DRAWS
    for case in found:
        run = Machine(case.on, case.program, accounts=False).run()
        assert _without_books(run) == _without_books(case.run), f"seed {case.seed}"
        assert not any(one.busy for one in run.engines.values())


def test_a_deadlock_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    post = Tokens.post

    def forgetful(self: Tokens) -> None:
        if (self.handover.tile, self.handover.kind, self.handover.source) != ("S", "ready", "sfu"):
            post(self)

    monkeypatch.setattr(Tokens, "post", forgetful)
    told = []
    for accounts in (True, False):
        with pytest.raises(DeadlockError) as error:
            Machine(accelerator(), parse_program(ROWS), accounts=accounts).run()
        told.append(str(error.value))
    assert told[0] == told[1]
