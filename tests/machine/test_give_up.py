"""Runs for their cycles alone: given up below a limit, or without books, else the same."""

import gc
import weakref
from dataclasses import replace

import pytest

from simaccel.hardware import Accelerator
from simaccel.machine.machine import DeadlockError, Machine, Run
from simaccel.machine.tokens import Tokens
from simaccel.program.lowering import lower
from simaccel.program.program import Program
from simaccel.program.text import parse_program
from tests.drawn_trees import draw_case
from tests.draws import DRAWS, seeds
from tests.machine.accelerators import accelerator
from tests.machine.test_blame import ROWS
from tests.machine.trees import cases
from tests.refusals import refusal_of

# 12 B come and go at 1 B/cycle; a softmax of 4 elements takes 3 passes of a lane
THREE = """\
program three
  operator op
    loop q 1000 from 0 step 1
      tile X 1x12 x1 of X[q=1000,c=12] 1B
      load X queue 0
      sfu softmax whole X = X over q=1 c=4 axis c of softmax
      store X
"""
BY_HAND = 1000 * (12 + 12 + 12)


def _machine(on: Accelerator, program: Program, *, fast_forward: bool = True) -> Machine:
    return Machine(on, program, fast_forward=fast_forward, accounts=False)


def _hand() -> tuple[Accelerator, Program]:
    on = accelerator(dram={"bandwidth_bytes_per_second": "1 GB/s"})
    return on, parse_program(THREE)


@pytest.mark.parametrize("fast_forward", [False, True])
@pytest.mark.parametrize(
    ("limit", "cycles"),
    [(BY_HAND - 1, None), (BY_HAND, None), (BY_HAND + 1, BY_HAND), (float("inf"), BY_HAND)],
)
def test_the_limit_by_hand(limit: float, cycles: int | None, *, fast_forward: bool) -> None:
    """One slot: each of 1,000 rows comes in 12 cycles, is worked on for 12, and goes in 12."""
    assert _machine(*_hand(), fast_forward=fast_forward).cycles_below(limit) == cycles


@pytest.mark.parametrize("limit", [BY_HAND / 2, BY_HAND + 1])
def test_what_is_taken_apart_is_free_at_once(limit: float) -> None:
    machine = _machine(*_hand())
    machine.cycles_below(limit)
    every = [weakref.ref(part) for part in (*machine.parts(), *machine.processes)]
    gc.disable()
    try:
        machine.take_apart()
        assert [part() for part in every if part() is not None] == []
    finally:
        gc.enable()


@pytest.mark.parametrize("spatial", [False, True])
def test_the_limit_is_exact_on_drawn_trees(*, spatial: bool) -> None:
    for seed in seeds(4):
        drawn = draw_case(seed, spatial=spatial)
        on, program = drawn.on, lower(drawn.of, drawn.mapping)
        cycles = Machine(on, program).run().cycles
        for limit, below in ((cycles - 1, None), (cycles, None), (cycles + 1, cycles)):
            assert _machine(on, program).cycles_below(limit) == below, f"seed {seed}, {limit}"


@pytest.mark.parametrize(("limit", "rows", "part"), [(24_000, 0, 0.2), (30_000, 500, 0.6)])
def test_a_run_is_given_up_when_clock_and_work_reach_the_limit(
    limit: int, rows: int, part: float
) -> None:
    """After n rows 36 n cycles are over and 24 (1,000 - n) are left of DRAM: 30,000 at n = 500."""
    on, program = _hand()
    whole, early = (_machine(on, program, fast_forward=False) for _ in range(2))
    assert whole.cycles_below(float("inf")) == BY_HAND
    assert early.cycles_below(limit) is None
    assert 36 * rows <= early.clock.cycle < 36 * (rows + 200)
    assert early.clock.events < whole.clock.events * part


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
        said = refusal_of(
            Machine(accelerator(), parse_program(ROWS), accounts=accounts).run, error=DeadlockError
        )
        told.append(said)
    assert told[0] == told[1]
