"""One's own number of cycles: what it has and lacks, counted by hand, to the last cycle."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel import build, gemm, load_accelerator, simulate
from simaccel.analytic.prediction import GroupPrediction
from simaccel.diagnosis.own_estimate import own_estimate
from simaccel.machine.accounts import EngineCycles
from simaccel.machine.machine import OperatorRun
from simaccel.report.estimates import of_result

RUN = OperatorRun(
    "a",
    100,
    0,
    0,
    {},
    0,
    {"array": EngineCycles(60, 10, {"dram_bandwidth": 25, "dram_latency": 5})},
)
"""An array that is busy for 60 of 100 cycles; 32 of them are MACs on all PEs."""
BOUND = GroupPrediction(
    name="a",
    bound_terms={"fill": 7, "drain": 3, "array": 60},
    macs=0,
    elements=0,
    moved={},
    buffer_bytes=0,
    resources={"array": 60, "dram": 40},
    energy_pj={},
)
WAITS = {"dram_bandwidth", "idle"}  # 23 + 7: the fill took 5 of latency and 2, the drain 3 idle


@pytest.mark.parametrize(
    ("number", "lacks", "unexplained"),
    [
        (32, {"array beyond that", "fill", "drain", *WAITS}, 0),
        (35, {"array beyond that", "fill", "drain", *WAITS}, 3),
        (40, {"array beyond that", "fill", "drain", *WAITS}, 0),  # the work of the DRAM
        (60, {"fill", "drain", *WAITS}, 0),
        (63, {"fill", *WAITS}, 0),
        (67, {"drain", *WAITS}, 0),
        (70, WAITS, 0),
        (93, {"idle"}, 0),
        (92, {"idle"}, -1),
        (100, set(), 0),
        (120, set(), 20),
    ],
)
def test_a_number_lacks_the_terms_beyond_those_that_it_has(
    number: int, lacks: set[str], unexplained: int
) -> None:
    found = own_estimate("a", number, BOUND, 32, RUN)
    assert {term.name for term in found.terms if term.is_lacking} == lacks
    assert found.unexplained_cycles == unexplained
    assert found.cycles == sum(term.cycles for term in found.terms) == 100
    assert found.terms[0].name == ("work of dram" if number == 40 else "MACs / PEs")


def test_without_a_run_the_terms_are_those_of_the_bound() -> None:
    found = own_estimate("a", 60, BOUND, 60)
    assert [(one.name, one.cycles, one.is_lacking) for one in found.terms] == [
        ("MACs / PEs, all of array", 60, False),
        ("fill", 7, True),
        ("drain", 3, True),
    ]


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 10**5))
def test_terms_add_up_to_the_last_cycle(m: int, n: int, number: int) -> None:
    """Of a fold whose rows and columns are in use in part; whatever the number is."""
    result = simulate(gemm(m=m, k=40, n=n), load_accelerator("toy"), "naive")
    row, whole = of_result({"gemm": number, "total": number}, result)
    assert row.terms == whole.terms
    assert sum(term.cycles for term in row.terms) == result.run.cycles
    has = sum(term.cycles for term in row.terms if not term.is_lacking)
    assert number == has + row.unexplained_cycles


def test_rows_that_overlap_add_up_as_well() -> None:
    """A block: each row of a run, with the part of its bound that others hide."""
    result = simulate(build("bert", seq_len=32, scope="block"), load_accelerator("toy"), "naive")
    found = of_result(dict.fromkeys((one.name for one in result.run.operators), 1), result)
    assert [one.cycles for one in found] == [one.cycles for one in result.run.operators]
    assert len(found) > 4
