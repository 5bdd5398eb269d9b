import pytest

from simaccel.machine.machine import DeadlockError, Machine
from simaccel.machine.tokens import Tokens
from simaccel.program.text import parse_program
from tests.machine.accelerators import accelerator

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
