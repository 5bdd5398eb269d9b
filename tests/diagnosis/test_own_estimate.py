"""One's own number of cycles, and a dataflow that moves fewer bytes: by hand."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel import build, gemm, load_accelerator, simulate
from simaccel.analytic.prediction import GroupPrediction
from simaccel.diagnosis.own_estimate import own_estimate
from simaccel.diagnosis.stalls import TOTAL, Diagnosis, OperatorDiagnosis
from simaccel.machine.accounts import EngineCycles
from simaccel.machine.machine import OperatorRun
from simaccel.report.estimates import of_result
from simaccel.study.stall_analysis import Proposal, propose
from simaccel.workload import Workload

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


EDGE = load_accelerator("edge")
ATTENTION = build("bert", batch=1, seq_len=64, scope="la")
SMALL = 12 * 64 * 64 * 2
"""Bytes of Q, K, V or Z: 12 heads of 64 rows and 64 columns, 2 bytes each. S has as many."""


def _part(name: str, cycles: int, waits: int, n_bytes: int) -> OperatorDiagnosis:
    engines = {"array": {"busy": cycles - waits, "dram_bandwidth": waits}, "sfu": {"idle": cycles}}
    return OperatorDiagnosis(
        name, cycles, engines, moved={"dram_read": {"X": n_bytes}, "dram_write": {}}
    )


def _run(*parts: OperatorDiagnosis) -> Diagnosis:
    cycles = sum(part.cycles for part in parts)
    return Diagnosis(0, cycles, OperatorDiagnosis(TOTAL, cycles, {}), parts)


def _apart(waits: int = 90_000) -> Diagnosis:
    """Each operator of an attention on its own: S goes to DRAM and comes back twice."""
    return _run(
        _part("L", 100_000, 0, 3 * SMALL),
        _part("softmax", 100_000, waits, 2 * SMALL),
        _part("A", 100_000, 0, 3 * SMALL),
    )


def _proposed(found: Diagnosis, workload: Workload = ATTENTION) -> Proposal:
    one = propose(workload, EDGE, found)
    assert one is not None
    return one


def test_a_name_with_a_plus_is_one_operator() -> None:
    plain = gemm(m=128, k=64, n=128)
    workload = replace(plain, operators=(replace(plain.operators[0], name="a+b"),))
    proposal = _proposed(_run(_part("a+b", 100_000, 90_000, 9 * 65_536)), workload)
    assert proposal.operators == ("a+b",)
    assert 65_536 <= proposal.proposed_bytes < 9 * 65_536  # two operands and a result


def test_an_attention_in_one_group_moves_what_it_must() -> None:
    one = _proposed(_apart())
    assert (one.dataflow, one.operators) == ("flash", ("L", "softmax", "A"))
    assert one.moved_bytes == 8 * SMALL
    assert one.proposed_bytes == 4 * SMALL
    assert one.cycles == 300_000
    # 2 x 12 x 64 x 64 x 64 MACs on 32 x 32 PEs
    assert 2 * 12 * 64**3 // 1024 <= one.proposed_cycles < 300_000


def test_a_fused_group_is_compared_as_a_whole() -> None:
    one = _proposed(_run(_part("L+softmax+A", 300_000, 200_000, 6 * SMALL)))
    assert (one.moved_bytes, one.proposed_bytes) == (6 * SMALL, 4 * SMALL)


def test_a_gemm_is_searched_alone() -> None:
    workload = gemm(m=64, k=64, n=64)
    (name,) = (operator.name for operator in workload.operators)
    least = 3 * 64 * 64 * 2
    one = _proposed(_run(_part(name, 10**6, 10**5, 5 * least)), workload)
    assert (one.dataflow, one.operators, one.moved_bytes) == ("flex", (name,), 5 * least)
    assert least <= one.proposed_bytes < 3 * least  # each tensor once, but for what overlaps better


def test_nothing_is_proposed_without_a_reason() -> None:
    assert propose(ATTENTION, EDGE, _apart(waits=5_000)) is None  # hardly anything waits
    unknown = tuple(replace(part, moved={}) for part in _apart().operators)
    assert propose(ATTENTION, EDGE, _run(*unknown)) is None  # a window
    least = tuple(_part(part.name, 10**5, 9 * 10**4, SMALL) for part in _apart().operators)
    assert propose(ATTENTION, EDGE, _run(*least)) is None  # nothing moves less
    fast = tuple(replace(part, cycles=50) for part in _apart(waits=45).operators)
    assert propose(ATTENTION, EDGE, _run(*fast)) is None  # it would be slower
    assert propose(ATTENTION, EDGE, _run(_apart().operators[1])) is None  # a part of it
    assert propose(ATTENTION, EDGE, Diagnosis(0, 1, OperatorDiagnosis(TOTAL, 1, {}), ())) is None


def test_spatial_arrays_have_other_dataflows() -> None:
    assert propose(ATTENTION, load_accelerator("eyeriss_like"), _apart()) is None
