"""When tiles of PEs come and go, calculated by hand."""

import pytest

from simaccel.analytic.estimate import estimate
from simaccel.hardware.load import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.checks import faults
from simaccel.program.lowering import lower
from simaccel.workload import gemm
from tests.trees import mapping

SLOW = [
    "array.bypass_buffer=[input, weight]",
    "dram.bandwidth_bytes_per_second=1 GB/s",
    "noc.collection.topology=bus",
    "noc.collection.link_bytes_per_cycle=1",
]
"""A byte a cycle, to and from DRAM and from the PE to the buffer."""
BUFFERED_A = ["array.bypass_buffer=[weight, output]"]


def test_results_leave_pes_when_the_buffer_has_stored_those_before() -> None:
    """B comes behind a row of A, a row of C takes 20 cycles, and twice 40 on its way out."""
    of, on = gemm(m=6, k=1, n=20), load_accelerator("toy_linear", SLOW)
    one = mapping(
        of,
        """
        group gemm
          loop m 1
          keep C buffer
          keep A pe x2, B pe, C pe x2
          do gemm mac
        """,
    )
    assert faults(of, one, on) == []
    assert estimate(of, one, on).cycles == (2 + 40) + 20 + 6 * (40 + 40)


def test_a_tile_of_the_buffer_is_asked_for_when_the_last_part_of_it_has_been_brought() -> None:
    """A block of A takes 160 cycles, a part of it 5 to the PE and 20 there, a value of B 2.

    Part 3 comes when part 0 has been used, from 185 on, and the value of B for part 1 takes a turn
    of the NoC between. So the next block is asked for at 191, before the value of B for part 2.
    """
    fast = ["noc.distribution.topology=bus", "noc.distribution.link_bytes_per_cycle=8"]
    of, on = gemm(m=20, k=8, n=1), load_accelerator("toy_linear", [*SLOW, *fast, *BUFFERED_A])
    one = mapping(
        of,
        """
        group gemm
          loop k 4
          keep A buffer
          loop k 1
          keep A pe x3, B pe, C pe
          do gemm mac
        """,
    )
    assert faults(of, one, on) == []
    second = 160 + 5 + 20 + (5 + 1) + 160 + 2  # part 2: its value comes behind the next block
    assert estimate(of, one, on).cycles == second + 20 + 5 * (2 + 20) + 40


@pytest.mark.parametrize(
    ("slots", "cycles"),
    [
        ("keep A pe x2, B pe, C pe", (2 + 40) + 4 * (20 + 40)),
        ("keep A pe, B pe, C pe x2", (2 + 40) + 20 + 3 * (2 + 40) + 40),
    ],
)
def test_of_tiles_that_go_when_a_pass_ends_those_with_few_slots_go_first(
    slots: str, cycles: int
) -> None:
    """A row of C takes 20 cycles, and 40 on its way out; a value of A 2 and all of B 40.

    At the end of a pass A's slot is free and C is made. With one slot of C the row is stored and a
    value of A comes behind it; with one of A its next value comes first: the next pass awaits it.
    """
    past = ["array.bypass_buffer=[input, weight, output]"]
    of, on = gemm(m=4, k=1, n=20), load_accelerator("toy_linear", [*SLOW, *past])
    text = f"""
        group gemm
          loop m 1
          {slots}
          do gemm mac
        """
    one = mapping(of, text)
    assert faults(of, one, on) == []
    assert estimate(of, one, on).cycles == cycles
    assert Machine(on, lower(of, one)).run().cycles == cycles
