"""What the engines of a spatial array wait for, by hand."""

import pytest

from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.checks import faults
from simaccel.program.lowering import lower
from simaccel.workload import gemm
from tests.agreement import assert_counts
from tests.trees import einsum, mapping, vector, workload

TREE = """
group gemm
  keep A pe
  keep B pe
  keep C pe
  do gemm mac
"""
"""4 x 4 x 4 MACs on one PE, from DRAM straight to it and back."""


def _on(hops: int, latency: int) -> Accelerator:
    """Give an array behind a bus that takes no time but its latency."""
    wide = ["noc.distribution.topology=bus", "noc.distribution.link_bytes_per_cycle=10000"]
    slow = [f"noc.distribution.hop_cycles={hops}", f"dram.latency_cycles={latency}"]
    return load_accelerator("toy_linear", [*wide, *slow])


@pytest.mark.parametrize(
    ("hops", "latency", "cause"), [(7, 0, "noc"), (7, 5, "noc"), (7, 9, "dram_latency")]
)
def test_the_longer_latency_of_a_load_into_pes_is_named(
    hops: int, latency: int, cause: str
) -> None:
    of, on = gemm(m=4, k=4, n=4), _on(hops, latency)
    one = mapping(of, TREE)
    assert faults(of, one, on) == []
    run = Machine(on, lower(of, one)).run()
    transfer = 2  # both inputs over one pipe, one cycle each
    assert run.cycles == transfer + hops + latency + 4**3
    assert run.engines["array"].busy == 4**3
    assert run.engines["array"].stalls[cause] >= hops + latency


RAGGED = load_accelerator(
    "eyeriss_like", ["array.bypass_buffer=[]", "array.vectors=4", "dram.latency_cycles=3"]
)


def test_each_row_is_divided_anew_over_its_columns() -> None:
    """Five rows of A: a row of PEs gets 4, of which its columns take 3 and 1; the next gets 1."""
    of = gemm(m=5, k=1, n=1)
    one = mapping(
        of,
        """
        group gemm
          keep C buffer
          spread m 4 rows
          spread m 3 cols
          keep A pe, B pe
          do gemm mac
        """,
    )
    assert faults(of, one, RAGGED) == []
    run = assert_counts(of, one, RAGGED)
    assert run.moved["pe.weight_write", "B"] == 3 * of.tensors["B"].bytes_per_element


def test_loops_of_a_pe_cut_what_loops_outside_leave() -> None:
    """Of 5 rows of A loops leave 4 and 1, and of the 4 leave 3 and 1: three steps of one PE."""
    of = gemm(m=5, k=1, n=1)
    one = mapping(
        of,
        """
        group gemm
          keep C buffer
          spread n 1 rows
          keep A pe, B pe
          loop m 4
          loop m 3
          spread m 1 vectors
          do gemm mac
        """,
    )
    assert faults(of, one, RAGGED) == []
    run = assert_counts(of, one, RAGGED)
    (group,) = run.operators
    assert group.engines["array"].busy == 3


def test_parts_of_a_sum_add_to_what_is_kept_around_groups() -> None:
    """Each of 5 x 4 sums is written for each of 7 products, and read before all but the first."""
    chain = workload(
        einsum("one", "T m n", "A m k", "B k n", m=5, n=4, k=7),
        vector("act", "relu", "U m n", "T m n", m=5, n=4),
    )
    one = mapping(
        chain,
        """
        around
          keep T buffer
          group one
            part k 4 rest
              | do one mac
              | do one mac
          group act
            keep U buffer
            do act sfu
        """,
    )
    assert faults(chain, one, RAGGED) == []
    sums, after = assert_counts(chain, one, RAGGED).operators
    width = chain.tensors["T"].bytes_per_element
    assert sums.moved["buffer_write", "T"] == 5 * 4 * 7 * width
    assert sums.moved["buffer_read", "T"] == 5 * 4 * 6 * width
    assert after.moved["buffer_read", "T"] == 5 * 4 * width


@pytest.mark.parametrize(
    ("p", "tile", "part", "r", "written"),
    [
        (6, 3, 2, 4, 15),  # 5 + 4, then rows 3 to 7 of 0 to 4, and 5 to 8 of 2 to 5: 3 + 3 more
        (7, 3, 2, 4, 17),  # after these a block of one: 6 to 9 of 3 to 7
        (9, 4, 3, 6, 24),
        (6, 3, 2, 2, 10),  # the second PE's windows have nothing in common
    ],
)
def test_a_window_shares_with_the_one_that_its_pe_had(
    p: int, tile: int, part: int, r: int, written: int
) -> None:
    """Also where a block is no multiple of the PEs' parts, so that they have windows of sizes."""
    of = workload(einsum("E", "O p", "I p+r", "W r", p=p, r=r))
    one = mapping(
        of,
        f"""
        group E
          keep O buffer, I buffer
          loop p {tile}
          spread p {part} cols
          keep I pe, W pe
          do E mac
        """,
    )
    assert faults(of, one, RAGGED) == []
    width = of.tensors["I"].bytes_per_element
    assert assert_counts(of, one, RAGGED).moved["pe.input_write", "I"] == written * width
