"""The SFU on the machine: its own cycles, and its passes through the buffer's ports."""

import pytest

from simaccel.hardware import SfuWork
from simaccel.machine.machine import Machine, Run
from simaccel.program.text import parse_program
from tests.machine.accelerators import accelerator, gigabytes

PIECE = """\
program sfu
  operator sfu
    loop q {trips} from 0 step 1
      tile X 1x40 x1 of X[q=9,c=40] 2B
      sfu {work} X 1x40 scale 1.0
"""


def _run(
    work: SfuWork = "softmax",
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
    return Machine(on, parse_program(PIECE.format(work=work, trips=trips))).run()


@pytest.mark.parametrize(
    ("work", "passes", "cycles", "reads", "writes"),
    [
        ("softmax", 3, 35, 3, 2),
        ("softmax", 2, 25, 2, 1),
        ("statistics", 3, 15, 1, 0),
        ("normalise", 3, 15, 1, 1),
        ("online", 3, 25, 2, 1),
        ("rescale", 3, 15, 1, 1),
        ("divide", 3, 15, 1, 1),
    ],
)
def test_each_work_has_its_passes(
    work: SfuWork, passes: int, cycles: int, reads: int, writes: int
) -> None:
    run = _run(work, passes=passes)
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
