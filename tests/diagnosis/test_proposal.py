"""A dataflow that moves fewer bytes: bytes by hand, from a hand-made account of a run."""

from dataclasses import replace

from simaccel.diagnosis.proposal import Proposal, propose
from simaccel.diagnosis.stalls import TOTAL, Diagnosis, OperatorDiagnosis
from simaccel.importers.accelerators import load_accelerator
from simaccel.workload import Workload, build, gemm

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
