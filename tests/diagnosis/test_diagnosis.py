"""Accounts of operators and windows, against the machine's own books and event by event."""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from simaccel.diagnosis.stalls import TOTAL, OperatorDiagnosis, diagnose
from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.accounts import EngineCycles
from simaccel.study.recording import record
from simaccel.trace import Stall, TraceReader
from simaccel.workload import ModelDimensions, attention, build
from simaccel.workload.roles import kind_of
from tests.draws import DRAWS
from tests.machine.accelerators import accelerators
from tests.program.programs import Case, cases
from tests.refusals import refusal_of
from tests.traced import write_trace

FEW = settings(max_examples=3 * DRAWS, suppress_health_check=[HealthCheck.too_slow])
SMALL = ModelDimensions(hidden=6, heads=3, head_size=5, ff_size=7)


def _causes(engine: EngineCycles) -> dict[str, int]:
    found = {"busy": engine.busy, "idle": engine.idle, **engine.stalls}
    return {cause: n for cause, n in found.items() if n}


@FEW
@given(cases(), accelerators())
def test_a_whole_run_is_what_the_machine_booked(one: Case, on: Accelerator) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.h5"
        run = write_trace(path, on, one)
        assume(run.cycles > 0)
        with TraceReader.open(path) as trace:
            found = diagnose(trace)
    assert found.total.cycles == run.cycles
    booked = {operator.name: operator for operator in run.operators if operator.cycles}
    assert [part.name for part in found.operators] == list(booked)
    for part in found.operators:
        assert part.cycles == booked[part.name].cycles
        expected = {name: _causes(e) for name, e in booked[part.name].engines.items()}
        assert part.engines == expected
    assert found.total.engines == {name: _causes(e) for name, e in run.engines.items()}


@FEW
@given(cases(), accelerators(), st.data())
def test_windows_are_counted_event_by_event(
    one: Case, on: Accelerator, data: st.DataObject
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.h5"
        run = write_trace(path, on, one)
        assume(run.cycles > 2)
        start = data.draw(st.integers(0, run.cycles - 1))
        end = data.draw(st.integers(start + 1, run.cycles))
        with TraceReader.open(path) as trace:
            found = diagnose(trace, start, end)
            events = trace.decode(trace.events(start, end))
            before, after = (
                diagnose(trace, *w) if w[0] < w[1] else None
                for w in ((0, start), (end, run.cycles))
            )
            whole = diagnose(trace)
    counted: Counter[tuple[str, str]] = Counter()
    stalled: Counter[tuple[str, str, str, str]] = Counter()
    for event in events:
        cycles = min(event.end, end) - max(event.start, start)
        counted[event.lane, event.cause] += cycles
        if event.cause not in ("busy", "idle"):
            stalled[event.lane, event.operator, event.cause, event.tile] += cycles
    engines = found.total.engines
    assert {(e, c): n for e, one_ in engines.items() for c, n in one_.items()} == +counted
    waits: Counter[tuple[str, str, str, str]] = Counter()
    for wait in found.total.waits:
        waits[wait.engine, wait.operator, wait.cause, wait.tile] += wait.cycles
    assert waits == stalled
    assert found.total.cycles == end - start
    for part in found.operators:
        assert all(sum(causes.values()) == part.cycles for causes in part.engines.values())
    parts = [w for w in (before, found, after) if w is not None]
    for operator in whole.operators:
        pieces = [p for w in parts for p in w.operators if p.name == operator.name]
        assert sum(p.cycles for p in pieces) == operator.cycles
        for engine, causes in operator.engines.items():
            sums: Counter[str] = Counter()
            for piece in pieces:
                sums.update(piece.engines[engine])
            assert sums == causes


@pytest.fixture(scope="module")
def block(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record an attention block on the toy accelerator, softmax apart."""
    path = tmp_path_factory.mktemp("traces") / "block.h5"
    workload = attention(SMALL, batch=1, seq_len=7)
    record(path, workload, load_accelerator("toy"), "naive-m")
    return path


def test_a_whole_run_knows_its_bytes_and_a_window_those_of_its_channels(block: Path) -> None:
    with TraceReader.open(block) as trace:
        whole, figures = diagnose(trace), trace.figures
        half = trace.cycles // 2
        halves = diagnose(trace, 0, half), diagnose(trace, half)
    assert whole.total.moved["dram_read"] == figures["bytes"]["dram"]["read"]
    assert whole.total.macs == figures["macs"]
    for part, operator in zip(whole.operators, figures["operators"], strict=True):
        assert part.moved["buffer_write"] == operator["bytes"]["buffer"]["write"]
        assert part.macs == operator["macs"]
    dram = [sum(one.total.moved["dram"].values()) for one in halves]
    tree = figures["bytes"]["dram"]
    assert sum(dram) == sum(sum(tensors.values()) for tensors in tree.values())
    assert min(dram) > 0


def test_an_unknown_operator_gets_a_suggestion(block: Path) -> None:
    with TraceReader.open(block) as trace:
        found = diagnose(trace)
    assert found.part(None) is found.total
    assert found.part("softmax").name == "softmax"
    said = refusal_of(found.part, "softmux")
    assert said == (
        "command line: --operator: got 'softmux'; did you mean 'softmax'? "
        "(allowed: Q, K, V, L, softmax, A, O, FF1, FF2)"
    )


def _part(**busy: int) -> OperatorDiagnosis:
    engines = {name: {"busy": n, "idle": 100 - n} for name, n in busy.items()}
    return OperatorDiagnosis("x", 100, engines)


def test_the_critical_engine_is_busy_longest() -> None:
    assert _part(dma_in0=60, array=59, sfu=0).critical == "dma_in0"
    assert _part(dma_in0=60, array=60, sfu=60).critical == "array"
    assert _part(dma_in0=60, array=59, sfu=60).critical == "sfu"
    blaming = Stall("sfu", "x", "dram_bandwidth", "A", "ready", "dma_in0", 5)
    part = _part(dma_in0=60, array=60, sfu=10)
    assert OperatorDiagnosis("x", 100, part.engines, (blaming,)).critical == "dma_in0"


def test_the_array_is_told_of_unless_the_sfu_is_busier() -> None:
    assert _part(array=5, sfu=5).compute == "array"
    assert _part(array=5, sfu=6).compute == "sfu"
    assert _part(dma_in=5, dma_out=6).compute == "dma_out"


def test_stalls_come_in_order() -> None:
    causes = {"busy": 1, "idle": 2, "noc": 3, "sfu": 4, "drain": 4}
    part = OperatorDiagnosis(TOTAL, 14, {"array": causes})
    assert part.stalls("array") == [("drain", 4), ("sfu", 4), ("noc", 3)]
    assert part.share("array", "sfu") == 4 / 14


@pytest.mark.parametrize(
    ("name", "operator", "kind"),
    [
        ("resnet50", "conv1", "convolution"),
        ("resnet50", "pool1", "pooling"),
        ("llama3-8b", "gate", "GEMM"),
        ("mixtral-8x7b", "experts0.gate", "GEMM"),  # tokens t of each expert x are rows x * 2 + t
        ("mixtral-8x7b", "experts0.silu", "elementwise"),
        ("mixtral-8x7b", "norm1", "row-wise"),
        ("mixtral-8x7b", "experts0.gate+experts0.silu", "fused GEMM"),
    ],
)
def test_kinds_by_hand(name: str, operator: str, kind: str) -> None:
    sizes = {"scope": "model"} if name == "resnet50" else {"phase": "decode", "batch": 3}
    workload = build(name, **sizes)
    assert {*operator.split("+")} <= {*workload.by_name}
    assert kind_of(workload, operator) == kind
