import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simaccel.hardware.load import load_accelerator
from simaccel.machine.machine import Machine, Run
from simaccel.mapping.choices import (
    FusedGroup,
    FusedMapping,
    GemmGroup,
    GemmMapping,
    Mapping,
    WorkloadReference,
)
from simaccel.mapping.lower import lower
from simaccel.mapping.program import Program
from simaccel.mapping.text import program_text
from simaccel.trace import Trace, TraceHeader, TraceWriter, program_sites
from simaccel.workload import Dimensions, attention, gemm

ACCELERATOR = load_accelerator("toy", ["buffer.capacity_bytes=unlimited"])
HAS_FAST_FORWARD = "fast_forward" in inspect.signature(Machine).parameters


def _gemm() -> Program:
    workload = gemm(m=37, k=11, n=50, batch=2)
    mapping = GemmMapping(m=4, k=5, n=3, order="mnk", stationarity="ws", a_slots=2)
    return _lowered(workload, GemmGroup(operator="gemm", mapping=mapping))


def _attention() -> Program:
    sizes = Dimensions(hidden=24, heads=3, head_size=8, ff_size=4)
    workload = attention(sizes, batch=4, seq_len=21, scope="la")
    mapping = FusedMapping(
        heads=1, rows=4, keys=21, logit_stationarity="ws", attend_stationarity="os"
    )
    return _lowered(workload, FusedGroup(operators=("L", "softmax", "A"), mapping=mapping))


def _lowered(workload: Any, group: Any) -> Program:  # noqa: ANN401 - of either kind
    reference = WorkloadReference(name=workload.name, fingerprint=workload.fingerprint)
    return lower(workload, Mapping(workload=reference, dataflow="x", groups=(group,)))


def _traced(path: Path, program: Program, **options: bool) -> tuple[Run, Trace]:
    header = TraceHeader(program=program_text(program), sites=program_sites(program, ACCELERATOR))
    with TraceWriter(path, header) as writer:
        run = Machine(ACCELERATOR, program, writer, **options).run()
        writer.finish(run.cycles, run.engines, {"macs": run.macs})
    return run, Trace.open(path)


@pytest.fixture(params=[_gemm, _attention])
def program(request: pytest.FixtureRequest) -> Program:
    made: Program = request.param()
    return made


def test_a_trace_tells_what_the_machine_did(tmp_path: Path, program: Program) -> None:
    off = {"fast_forward": False} if HAS_FAST_FORWARD else {}
    run, trace = _traced(tmp_path / "t.h5", program, **off)
    with trace:
        trace.check()
        assert (trace.cycles, trace.n_segments) == (run.cycles, 0)
        assert trace.totals == run.engines
        assert trace.engines == tuple(run.engines)
        stalls = trace.stalls(["engine", "cause"])
        assert {(s.engine, s.cause): s.cycles for s in stalls} == {
            (name, cause): cycles
            for name, engine in run.engines.items()
            for cause, cycles in engine.stalls.items()
        }
        bins = trace.utilisation(bins=10)
        for at, engine in enumerate(bins.engines):
            assert bins.cycles[at, 0].sum() == run.engines[engine].busy
        busy = [e for e in trace.decode(trace.events(engine="array")) if e.cause == "busy"]
        assert all(e.command.startswith("gemm ") and e.operator for e in busy)


@pytest.mark.skipif(not HAS_FAST_FORWARD, reason="this machine has no fast-forward")
def test_a_fast_forwarded_trace_expands_to_the_same_events(
    tmp_path: Path, program: Program
) -> None:
    run, fast = _traced(tmp_path / "fast.h5", program, fast_forward=True)
    full, slow = _traced(tmp_path / "slow.h5", program, fast_forward=False)
    with fast, slow:
        fast.check()
        assert fast.n_segments > 0
        assert fast.n_rows < slow.n_rows
        assert (run.cycles, run.engines) == (full.cycles, full.engines)
        assert np.array_equal(fast.events(), slow.events())
        assert fast.stalls() == slow.stalls()
