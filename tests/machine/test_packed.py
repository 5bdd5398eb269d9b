"""Elements of 4 bits by hand: each piece that moves is packed on its own, and rounded up."""

import pytest

from simaccel.machine.machine import Machine, Run
from simaccel.program.fit import reserved_bytes
from simaccel.program.lowering import lower
from simaccel.program.text import parse_program, program_text
from simaccel.workload import Workload
from tests.agreement import assert_counts, assert_exact
from tests.machine.accelerators import accelerator
from tests.trees import einsum, mapping, vector, workload

ROW = accelerator(array={"rows": 1, "cols": 3})


def _product(bits: dict[str, int]) -> Workload:
    """3 x 3 x 3, all sides odd."""
    return workload(einsum("E", "C m n", "A m k", "B k n", m=3, k=3, n=3), bits=bits)


def _run(of: Workload, body: str) -> Run:
    one = mapping(of, f"group E\n{body}\n  do E array ws")
    run = assert_counts(of, one, ROW)
    assert_exact(of, one, ROW, run)
    program = lower(of, one)
    assert parse_program(program_text(program)) == program
    return run


def test_folds_read_a_packed_tile_fold_by_fold() -> None:
    """B is 9 elements, 5 B, and comes once; folds of 1 x 3 of it are 2 B each, three of them."""
    run = _run(_product({"A": 8, "B": 4, "C": 8}), "  keep A buffer, B buffer, C buffer")
    assert run.moved["dram_read", "B"] == run.moved["buffer_write", "B"] == 5
    assert run.moved["buffer_read", "B"] == run.moved["noc_distribution", "B"] == 3 * 2
    assert run.moved["dram_read", "A"] == 9
    assert run.peak_buffer_bytes == 9 + 5 + 9


@pytest.mark.parametrize(("tile", "n_bytes"), [(1, 3 * 2), (2, 3 + 2), (3, 5)])
def test_tiles_are_rounded_up_one_by_one(tile: int, n_bytes: int) -> None:
    """A of 3 x 3: rows of 3 take 2 B each; two rows and one row 3 B and 2 B; all at once 5 B."""
    body = f"  loop m {tile}\n  keep A buffer, B buffer, C buffer"
    run = _run(_product({"A": 4, "B": 8, "C": 4}), body)
    assert run.moved["dram_read", "A"] == run.moved["dram_write", "C"] == n_bytes


def test_sums_that_come_back_are_packed_as_they_went() -> None:
    """C leaves after each of three steps of k in columns of 3 (2 B), and comes back twice."""
    body = "  loop k 1\n  loop n 1\n  keep A buffer, B buffer, C buffer"
    run = _run(_product({"A": 8, "B": 8, "C": 4}), body)
    assert run.moved["dram_write", "C"] == 9 * 2
    assert run.moved["dram_read", "C"] == 6 * 2


def test_a_window_that_slides_brings_its_new_elements_packed() -> None:
    """Steps of 1 along p, r = 3: the first window of I has 3 elements (2 B), then 1 (1 B) each."""
    of = workload(
        einsum("E", "O m p", "I c p+r", "W m c r", m=1, c=1, p=5, r=3),
        bits={"I": 4, "W": 8, "O": 8},
    )
    one = mapping(
        of, "group E\n  keep W buffer\n  loop p 1\n  keep I buffer, O buffer\n  do E array ws"
    )
    assert assert_counts(of, one, ROW).moved["dram_read", "I"] == 2 + 4 * 1


def test_a_tile_is_as_wide_as_what_is_made_in_it_in_place() -> None:
    """The input of 4 bits comes as 5 B into a tile of 9 B, in which the output of 8 bits is."""
    of = workload(vector("R", "relu", "Y m n", "X m n", m=3, n=3), bits={"X": 4, "Y": 8})
    one = mapping(of, "group R\n  keep X buffer\n  do R sfu")
    run = assert_counts(of, one, ROW)
    assert (run.moved["dram_read", "X"], run.moved["dram_write", "Y"]) == (5, 9)
    assert reserved_bytes(lower(of, one)) == 9
    assert Machine(ROW, lower(of, one)).run().peak_buffer_bytes == 9
