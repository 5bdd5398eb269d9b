"""The difference of two runs, taken apart: it adds up, and each part is the machine's own."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simaccel.diagnosis.difference import Difference, FieldDifference, compare
from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Run
from simaccel.schedulers import Options
from simaccel.study.recording import record
from simaccel.trace import TraceError, TraceReader
from simaccel.workload import ModelDimensions, attention
from tests.draws import DRAWS
from tests.machine.accelerators import accelerators
from tests.program.programs import Case, fused_cases, gemm_cases, separate_cases, staged_cases
from tests.refusals import refusal_of
from tests.traced import write_trace

FEW = settings(max_examples=3 * DRAWS, suppress_health_check=[HealthCheck.too_slow])
SMALL = ModelDimensions(hidden=3, heads=2, head_size=3, ff_size=4)
QUEUES = {"in_queues": "per_tensor"}


def _books(run: Run, engine: str, cause: str) -> int:
    """Sum what the machine booked of one cause, over all operators."""
    found = run.engines[engine]
    return {"busy": found.busy, "idle": found.idle, **found.stalls}.get(cause, 0)


@FEW
@given(
    st.one_of(
        st.tuples(gemm_cases(), gemm_cases()),
        st.tuples(separate_cases(), fused_cases()),
        st.tuples(staged_cases(), separate_cases()),
    ),
    st.tuples(accelerators(dma=QUEUES), accelerators(dma=QUEUES)),
    st.sampled_from(["array", "sfu", "dma_in0", "dma_out"]),
)
def test_the_parts_add_up(
    cases: tuple[Case, Case], on: tuple[Accelerator, Accelerator], engine: str
) -> None:
    """Workloads may differ here: nothing but the sums is asked for."""
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("a.h5", "b.h5")]
        runs = [
            write_trace(path, one, case, workload="same: one")
            for path, one, case in zip(paths, on, cases, strict=True)
        ]
        with TraceReader.open(paths[0]) as a, TraceReader.open(paths[1]) as b:
            found = compare(a, b, engine)
    assert (found.a, found.b) == (runs[0].cycles, runs[1].cycles)
    assert sum(one.difference for one in found.groups) == runs[1].cycles - runs[0].cycles
    assert sum(one.difference for one in found.shares) == found.cycles
    for group in found.groups:
        shares = [one for one in found.shares if one.group == group.group]
        assert sum(one.a for one in shares) == group.a
        assert sum(one.b for one in shares) == group.b
    for cause in {one.cause for one in found.shares}:
        mine = [one for one in found.shares if one.cause == cause]
        assert sum(one.a for one in mine) == _books(runs[0], engine, cause)
        assert sum(one.b for one in mine) == _books(runs[1], engine, cause)


Recorded = Callable[..., Path]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Record attention blocks on the toy accelerator, each once."""
    folder = tmp_path_factory.mktemp("traces")

    def make(dataflow: str, seq_len: int = 5, *, pipeline: bool = False, **sets: str) -> Path:
        names = (dataflow, str(seq_len), str(pipeline), *sets.values())
        path = folder / f"{'-'.join(names).replace(' ', '').replace('/', '')}.h5"
        if not path.exists():
            overrides = [f"{name.replace('__', '.')}={value}" for name, value in sets.items()]
            on = load_accelerator("toy", overrides)
            workload = attention(SMALL, batch=1, seq_len=seq_len)
            record(path, workload, on, dataflow, options=Options(pipeline=pipeline, patience=2))
        return path

    return make


def _compare(a: Path, b: Path, engine: str = "array") -> Difference:
    with TraceReader.open(a) as first, TraceReader.open(b) as second:
        return compare(first, second, engine)


def test_fused_and_separate_operators_are_one_group(recorded: Recorded) -> None:
    found = _compare(recorded("naive-m"), recorded("flat-h"))
    by_name = {one.group: one for one in found.groups}
    assert set(by_name) == {"Q", "K", "V", "L+softmax+A", "O", "FF1", "FF2"}
    attention_ = by_name["L+softmax+A"]
    assert attention_.operators_a == ("L", "softmax", "A")
    assert attention_.operators_b == ("L+softmax+A",)
    assert by_name["Q"].operators_a == by_name["Q"].operators_b == ("Q",)
    assert [abs(one.difference) for one in found.groups] == sorted(
        (abs(one.difference) for one in found.groups), reverse=True
    )


def test_the_other_way_round_is_the_negative(recorded: Recorded) -> None:
    there = _compare(recorded("naive-m"), recorded("flat-h"))
    back = _compare(recorded("flat-h"), recorded("naive-m"))
    assert there.cycles == -back.cycles != 0
    assert {(s.group, s.cause): s.difference for s in there.shares} == {
        (s.group, s.cause): -s.difference for s in back.shares
    }


def test_a_run_and_itself_do_not_differ(recorded: Recorded) -> None:
    found = _compare(recorded("naive-m"), recorded("naive-m"))
    assert found.cycles == 0
    assert found.fields == ()
    assert not any(one.difference for one in found.groups)
    assert not any(one.difference for one in found.shares)


def test_what_was_chosen_otherwise_is_named(recorded: Recorded) -> None:
    faster = recorded("naive-m", dram__bandwidth_bytes_per_second="16 GB/s")
    found = _compare(recorded("naive-m"), faster)
    field = "accelerator.dram.bandwidth_bytes_per_second"
    assert found.fields[-1] == FieldDifference(field, "8000000000", "16000000000")
    assert {one.name for one in found.fields[:-1]} <= {"mapping L", "mapping softmax", "mapping A"}
    assert found.cycles < 0
    dearer = _compare(recorded("naive-m"), recorded("naive-m", energy__mac_pj="3.5"))
    assert [one.name for one in dearer.fields] == ["accelerator.energy.mac_pj"]
    assert dearer.cycles == 0
    flows = _compare(recorded("naive-m"), recorded("flat-h"))
    assert flows.fields == (FieldDifference("dataflow", "naive-m", "flat-h"),)
    piped = _compare(recorded("flat-h"), recorded("flat-h", pipeline=True))
    assert "fork ahead 1" in {one.b for one in piped.fields}


def test_traces_of_two_workloads_are_refused(recorded: Recorded) -> None:
    a, b = recorded("naive-m"), recorded("naive-m", seq_len=6)
    said = refusal_of(_compare, a, b, error=TraceError)
    assert said == (
        f"{b}: is of another workload than {a}: seq_len 6, not 5; "
        "allowed: a trace of the same workload"
    )


def test_an_engine_that_not_both_have_is_refused(recorded: Recorded) -> None:
    a, b = recorded("naive-m"), recorded("naive-m", dma__in_queues="single")
    assert _compare(a, b, "sfu").cycles
    said = refusal_of(_compare, a, b, "dma_in0")
    assert said.startswith("command line: --engine: got 'dma_in0'; allowed: ")
    assert "dma_out" in said


def test_a_partial_trace_is_refused(recorded: Recorded) -> None:
    whole = recorded("naive-m")
    with TraceReader.open(whole) as a, TraceReader.open(whole) as b:
        b.partial = True
        with pytest.raises(TraceError, match="is partial: its run did not end; allowed: a whole"):
            compare(a, b)
