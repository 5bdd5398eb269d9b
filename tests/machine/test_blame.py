"""Of several tiles the one that comes last is to blame; deadlocks name who waits for whom."""

from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import DeadlockError, Machine
from simaccel.machine.tokens import Tokens
from simaccel.program.text import parse_program
from tests.draws import DRAWS
from tests.machine.accelerators import accelerator
from tests.machine.trees import cases

TOY = """\
program toy
  operator gemm
    tile A 1x4x4 x1 of A[g=1,m=4,k=4] 2B
    tile B 1x4x4 x1 of B[g=1,k=4,n=4] 2B
    tile C 1x4x4 x1 of C[g=1,m=4,n=4] 2B
    load A queue 0
    load B queue 1
    compute C = A B over g=1 m=4 k=4 n=4 folds ws
    store C
"""


def test_the_tile_that_comes_last_is_blamed() -> None:
    """A 0-4, B 4-8, there at 9 and 13: the array waits 8 for bandwidth and 5 for latency."""
    run = Machine(load_accelerator("toy"), parse_program(TOY)).run()
    stalls = run.engines["array"].stalls
    assert (stalls["dram_bandwidth"], stalls["dram_latency"]) == (8, 5)


@pytest.mark.parametrize(("first", "second"), [("A", "B"), ("B", "A")])
def test_the_order_of_asking_decides_and_not_that_of_the_command(first: str, second: str) -> None:
    """A small tile behind a large one, or before it, both on one queue: 32 B and 320 B."""
    text = TOY.replace("B[g=1,k=4", "B[g=1,k=40").replace("tile B 1x4x4", "tile B 1x40x4")
    text = text.replace("load A queue 0\n", "load X queue 0\n").replace("load B", "load A")
    text = text.replace("load A queue 1", f"load {second} queue 1").replace(
        "load X", f"load {first}"
    )
    dram = {"bandwidth_bytes_per_second": "8 GB/s", "latency_cycles": 5}
    run = Machine(accelerator(dram=dram, dma={"in_queues": "single"}), parse_program(text)).run()
    assert run.engines["array"].stalls["dram_bandwidth"] == 4 + 40
    assert run.engines["array"].stalls["dram_latency"] == 5


def test_a_tile_that_nobody_has_begun_comes_after_one_that_is_at_work() -> None:
    """X 0-4, there at 9, in the SFU until 57; V 4-8, there at 13: all waiting is for X."""
    text = """\
program p
  operator op
    tile X 1x4x4 x1 of X[g=1,q=4,c=4] 2B
    tile V 1x4x4 x1 of V[g=1,c=4,e=4] 2B
    tile O 1x4x4 x1 of O[g=1,q=4,e=4] 2B
    load V queue 1
    load X queue 0
    sfu softmax whole X = X over g=1 q=4 c=4 axis c of softmax
    compute O = X V over g=1 q=4 c=4 e=4 folds ws
    store O
"""
    run = Machine(
        accelerator(dram={"bandwidth_bytes_per_second": "8 GB/s", "latency_cycles": 5}),
        parse_program(text),
    ).run()
    assert run.engines["array"].stalls == {
        "dram_bandwidth": 4, "dram_latency": 5, "sfu": 48, "drain": 4,
    }  # fmt: skip


def test_books_balance_whoever_is_blamed() -> None:
    for case in cases(range(55 * DRAWS)):
        for engine in case.run.engines.values():
            total = engine.busy + engine.idle + sum(engine.stalls.values())
            assert total == case.run.cycles, f"seed {case.seed}"


@dataclass
class _Judge:
    """Watches waits for several tiles: cycles in which the last one was blamed, and another."""

    right: int = 0
    wrong: int = 0
    history: dict[str, list[tuple[int, Tokens | None]]] = field(default_factory=dict)

    def blamed(self, tokens: Tokens) -> None:
        """Note whom a wait is booked to from now on."""
        line = self.history.setdefault(tokens.handover.target, [])
        line.append((tokens.clock.cycle, tokens.blamed))

    def posted(self, tokens: Tokens) -> None:
        """Judge when the last of the tiles has come."""
        if tokens.waiter is None or tokens.needed != [tokens]:
            return
        line = [*self.history.pop(tokens.handover.target), (tokens.clock.cycle, None)]
        for (start, blamed), (end, _) in pairwise(line):
            self.right += (end - start) * (blamed is tokens)
            self.wrong += (end - start) * (blamed is not tokens)


def test_the_blamed_tile_is_nearly_always_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over random trees: who comes last is foreseen, and seldom wrongly."""
    judge, blame, post = _Judge(), Tokens._blame, Tokens.post

    def blaming(tokens: Tokens) -> None:
        blame(tokens)
        judge.blamed(tokens)

    def posting(tokens: Tokens) -> None:
        judge.posted(tokens)
        post(tokens)

    monkeypatch.setattr(Tokens, "_blame", blaming)
    monkeypatch.setattr(Tokens, "post", posting)
    for case in cases(range(80 * DRAWS)):
        Machine(case.on, case.program, fast_forward=False).run()
    assert judge.wrong < judge.right / 20, judge


# Q 2 slots, K 1, S 1, O 2
ROWS = """\
program rows
  operator LA
    tile K 1x4x4 x1 of K[g=1,d=4,c=4] 2B
    load K queue 1
    loop q 9 from 0 step 4
      tile Q 1x4x4 x2 of Q[g=1,q=36,d=4] 2B
      tile S 1x4x4 x1 of S[g=1,q=36,c=4] 2B
      load Q queue 0
      compute S = Q K over g=1 q=4 d=4 c=4 folds ws
      sfu softmax whole S = S over g=1 q=4 c=4 axis c of softmax
      store S
"""


def _forget(patch: pytest.MonkeyPatch, tile: str, kind: str, source: str) -> None:
    """Let an engine forget to pass a tile on."""
    post = Tokens.post

    def forgetful(self: Tokens) -> None:
        handover = self.handover
        if (handover.tile, handover.kind, handover.source) != (tile, kind, source):
            post(self)

    patch.setattr(Tokens, "post", forgetful)


def _deadlock(patch: pytest.MonkeyPatch, tile: str, kind: str, source: str) -> str:
    machine = Machine(accelerator(), parse_program(ROWS))
    _forget(patch, tile, kind, source)
    with pytest.raises(DeadlockError) as error:
        machine.run()
    assert error.value.exit_code == 3
    return str(error.value)


def test_every_waiting_engine_says_what_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SFU forgets to hand S on: the first product takes 14 cycles, softmax 3 * 16."""
    assert _deadlock(monkeypatch, "S", "ready", "sfu") == (
        "deadlock at cycle 62: no engine can go on\n"
        "  dma_in0 waits for a free slot of tile Q, held by array\n"
        "  dma_in1 waits for the other engines at the end of LA\n"
        "  dma_in2 waits for the other engines at the end of LA\n"
        "  array waits for a free slot of tile S, held by dma_out\n"
        "  sfu waits for tile S from array\n"
        "  dma_out waits for tile S from sfu"
    )


def test_a_slot_that_is_never_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    message = _deadlock(monkeypatch, "Q", "free", "array")
    assert "\n  dma_in0 waits for a free slot of tile Q, held by array\n" in message
    assert "\n  array waits for tile Q from dma_in0\n" in message


def test_without_the_fault_the_program_ends() -> None:
    assert Machine(accelerator(), parse_program(ROWS)).run().cycles == 9 * (14 + 48)
