"""The SFU on the machine: its own cycles, and its passes through the buffer's ports."""

import pytest

from simaccel.machine.machine import Machine, Run
from simaccel.program.text import parse_program
from tests.machine.accelerators import accelerator, gigabytes

PIECE = """\
program sfu
  operator sfu
    loop q {trips} from 0 step 1
      tile X 1x40 x1 of X[q=9,c=40] 2B
      sfu softmax {step} X = X over q=1 c=40 axis c of softmax
"""


def _run(
    step: str = "whole",
    trips: int = 1,
    *,
    passes: int = 3,
    read: int | None = None,
    write: int | None = None,
) -> Run:
    """40 elements on 4 lanes, 5 cycles of latency: a pass is 10 cycles and 80 bytes."""
    on = accelerator(
        sfu={"lanes": 4, "passes": passes, "latency_cycles": 5},
        buffer={
            "read_bytes_per_second": gigabytes(read),
            "write_bytes_per_second": gigabytes(write),
        },
    )
    return Machine(on, parse_program(PIECE.format(step=step, trips=trips))).run()


@pytest.mark.parametrize(
    ("step", "passes", "cycles", "reads", "writes"),
    [
        ("whole", 3, 35, 3, 2),
        ("whole", 2, 25, 2, 1),
        ("statistics", 3, 15, 1, 0),
        ("normalise", 3, 15, 1, 1),
        ("online", 3, 25, 2, 1),
        ("rescale", 3, 15, 1, 1),
        ("divide", 3, 15, 1, 1),
    ],
)
def test_each_step_has_its_passes(
    step: str, passes: int, cycles: int, reads: int, writes: int
) -> None:
    run = _run(step, passes=passes)
    assert run.cycles == cycles
    assert run.engines["sfu"].busy == cycles
    assert run.moved.get(("buffer_read", "X"), 0) == 80 * reads
    assert run.moved.get(("buffer_write", "X"), 0) == 80 * writes
    assert run.elements == 40 * (cycles - 5) // 10


def test_pieces_follow_one_another() -> None:
    assert _run(trips=9).cycles == 9 * 35


def test_the_read_port_throttles() -> None:
    """Three passes read 240 B at 4 B/cycle: 60 cycles instead of 35."""
    run = _run(read=4)
    assert run.cycles == 60
    assert run.engines["sfu"].busy == 35
    assert run.engines["sfu"].stalls == {"buffer_port": 25}
    assert run.served_cycles["buffer_read"] == 60


def test_the_write_port_throttles() -> None:
    """Two passes write 160 B at 2 B/cycle: 80 cycles."""
    assert _run(write=2).cycles == 80


def test_a_port_as_fast_as_the_sfu_is_hidden() -> None:
    """240 B at 8 B/cycle are 30 cycles, at 7 B/cycle 35, at 6 B/cycle 40."""
    assert _run(read=8).cycles == 35
    assert _run(read=7).cycles == 35
    assert _run(read=6).cycles == 40


def test_both_ports_work_at_the_same_time() -> None:
    assert _run(read=4, write=2).cycles == 80


NORM = """\
program norm
  operator norm
    tile X 4x8 x1 of X[q=4,c=8] 2B
    tile G 8 x1 of G[c=8] 4B
    tile Y 4x8 x1 of Y[q=4,c=8] 1B
    sfu layer_norm whole Y = X G over q=4 c=8 axis c of norm
"""


@pytest.mark.parametrize(("passes", "cycles", "reads"), [(3, 29, 3), (2, 21, 2)])
def test_each_input_and_the_output_have_blocks_of_their_own(
    passes: int, cycles: int, reads: int
) -> None:
    on = accelerator(sfu={"lanes": 4, "passes": passes, "latency_cycles": 5})
    run = Machine(on, parse_program(NORM)).run()
    assert (run.cycles, run.elements) == (cycles, 32 * passes)
    moved = {tensor: n for (level, tensor), n in run.moved.items() if level == "buffer_read"}
    assert moved == {"X": 64 * reads, "G": 32}
    assert run.moved["buffer_write", "Y"] == 32


def test_a_window_is_read_once_and_passed_over_at_each_position() -> None:
    text = """\
program pool
  operator pool
    tile I 9 x1 of I[2*p+r=9] 2B
    tile O 4 x1 of O[p=4] 2B
    sfu pooling whole O = I over p=4 r=3 of pool
"""
    run = Machine(accelerator(sfu={"lanes": 4}), parse_program(text)).run()
    assert (run.cycles, run.elements) == (3, 12)
    assert run.moved == {("buffer_read", "I"): 18, ("buffer_write", "O"): 8}
