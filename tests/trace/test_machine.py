from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import yaml

from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine, Run
from simaccel.program.program import Program
from simaccel.program.text import program_text
from simaccel.schedulers import Options
from simaccel.study.documents import accelerator_document
from simaccel.study.experiment import moved_tree
from simaccel.study.recording import record
from simaccel.trace import TraceHeader, TraceReader, TraceWriter, program_sites
from simaccel.trace.schema import EVENT
from simaccel.workload import ModelDimensions, attention, gemm, transformer
from tests.program.programs import FlatTiles, case, flat_group, gemm_case
from tests.small_pods import SMALL

ACCELERATOR = load_accelerator("toy", ["buffer.capacity_bytes=unlimited"])


def _gemm() -> Program:
    workload = gemm(m=37, k=11, n=50, batch=2)
    return gemm_case(workload, m=4, k=5, n=3, a_slots=2).program


def _attention() -> Program:
    sizes = ModelDimensions(hidden=24, heads=3, head_size=8, ff_size=4)
    workload = attention(sizes, batch=4, seq_len=21, scope="la")
    tiles = FlatTiles(rows=4, keys=21, attend_stationarity="os")
    return case(workload, flat_group(workload, tiles)).program


def _traced(path: Path, program: Program, *, fast_forward: bool = True) -> tuple[Run, TraceReader]:
    header = TraceHeader(
        accelerator=yaml.safe_dump(accelerator_document(ACCELERATOR)),
        program=program_text(program),
        sites=program_sites(program, ACCELERATOR),
    )
    with TraceWriter(path, header) as writer:
        run = Machine(ACCELERATOR, program, writer, fast_forward).run()
        writer.finish(run.cycles, run.engines, {"bytes": moved_tree(run.moved)}, run.served_cycles)
    return run, TraceReader.open(path)


@pytest.mark.parametrize("channels", [1, 4])
def test_without_figures_a_cycle_of_service_moves_what_one_channel_can(
    tmp_path: Path, channels: int
) -> None:
    accelerator = load_accelerator("toy", [f"dram.channels={channels}"])
    record(tmp_path / "t.h5", gemm(m=37, k=11, n=50), accelerator, "naive")
    with TraceReader.open(tmp_path / "t.h5") as trace:
        exact = trace.bandwidth(bins=5).moved[0]
        trace.figures = {}  # as of a partial trace
        found = trace.bandwidth(bins=5)
    assert found.bytes_per_cycle["dram"] == 8
    assert np.array_equal(found.moved[0], found.served[0] * 8 // channels)
    assert (found.moved[0] >= exact).all()  # the last cycle of a request may move less


def test_sums_that_chips_exchange_are_bytes_of_the_dram(tmp_path: Path) -> None:
    """They are no tensors of the workload; `tpu_v5e` has a memory beside the DRAM."""
    pod = load_accelerator("tpu_v5e", ["chips=2"])
    step = transformer(SMALL, phase="decode", kv_len=8, scope="model")
    options = Options(tensor_parallel=2)
    moved = record(tmp_path / "t.h5", step, pod, "deployed", options=options).run.moved
    assert {"F.sum", "Y.sum"} <= {name for level, name in moved if level == "dram_write"}
    with TraceReader.open(tmp_path / "t.h5") as trace:
        series = trace.bandwidth(bins=5)
    on_dram = sum(n for (level, _), n in moved.items() if level in {"dram_read", "dram_write"})
    assert series.moved[series.channels.index("dram")].sum() == on_dram


@pytest.fixture(params=[_gemm, _attention])
def program(request: pytest.FixtureRequest) -> Program:
    made: Program = request.param()
    return made


def test_a_trace_tells_what_the_machine_did(tmp_path: Path, program: Program) -> None:
    run, trace = _traced(tmp_path / "t.h5", program, fast_forward=False)
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
        _require_lanes(trace, run)
        busy = [e for e in trace.decode(trace.events(lane="array")) if e.cause == "busy"]
        assert all(e.command.startswith("compute ") and e.operator for e in busy)


MESH = ["cores.noc.topology=mesh", "cores.noc.link_bytes_per_cycle=16", "cores.noc.hop_cycles=2"]


def _spread(trace: TraceReader, lane: str, column: str) -> list[float]:
    """What one lane holds, or serves, in each cycle, from its events one by one."""
    found: list[float] = []
    for event in trace.events(lane=lane).tolist():
        row = dict(zip(EVENT.names or (), event, strict=True))
        cycles = row["end"] - row["start"]
        assert row["start"] == len(found)
        found += [row[column] / (cycles if column == "served" else 1)] * cycles
    return found


def _require_lanes(trace: TraceReader, run: Run) -> None:
    """Bins of bandwidth and occupancy are the sums of what the lanes say cycle by cycle."""
    limits = {"dram": 8.0, "buffer_read": 32.0}
    assert trace.tiles
    for bins in (1, 7, trace.cycles):
        series = trace.bandwidth(bins=bins)
        moved = dict.fromkeys(series.channels, 0)
        for (level, _), n_bytes in run.moved.items():
            moved["dram" if level.startswith("dram") else level] += n_bytes
        for at, name in enumerate(series.channels):
            lane = "dram0" if name == "dram" else name
            assert series.served[at].sum() == run.served_cycles[lane]
            assert series.moved[at].sum() == moved[name]
            if bins > 1:
                spread = _spread(trace, lane, "served")
                for index, (start, end) in enumerate(pairwise(series.edges.tolist())):
                    assert abs(sum(spread[start:end]) - series.served[at, index]) <= 1
            limit = series.bytes_per_cycle[name]
            assert limit == limits.get(name, limit)
            assert limit is None or (series.moved[at] <= limit * np.diff(series.edges) + 1).all()
            assert (series.share(name) <= 1).all()
        held = trace.occupancy(bins=bins)
        for at, tile in enumerate(held.tiles):
            spread = _spread(trace, tile, "held")
            assert max(spread) > 0
            for index, (start, end) in enumerate(pairwise(held.edges.tolist())):
                mean = sum(spread[start:end]) / (end - start)
                assert held.mean_bytes[at, index] == pytest.approx(mean)
    top = np.sum([_spread(trace, tile, "held") for tile in trace.tiles], axis=0).max()
    assert top == run.peak_buffer_bytes


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
        middle = fast.cycles // 3
        for by in (("engine", "cause", "tile"), ("operator", "site")):
            assert fast.account(by, middle, middle + 99) == slow.account(by, middle, middle + 99)
        for lane in (*fast.channels, *fast.tiles):
            assert np.array_equal(fast.events(lane=lane), slow.events(lane=lane))
        for ask in ("bandwidth", "occupancy"):
            one, other = (vars(getattr(t, ask)(bins=31)) for t in (fast, slow))
            for name in one:
                if name in ("served", "moved"):
                    # a row of service that a period cuts is spread over the bins in two parts
                    least = {"served": 1, "moved": 8}[name]  # 8 B/cycle
                    assert np.abs(one[name] - other[name]).max() <= least
                    assert np.array_equal(one[name].sum(axis=-1), other[name].sum(axis=-1))
                else:
                    assert np.array_equal(one[name], other[name]), (ask, name)


def test_segments_are_placed_in_time(tmp_path: Path) -> None:
    run, trace = _traced(tmp_path / "t.h5", _gemm())
    with trace:
        found = trace.segments()
        assert found
        for segment in found:
            assert 0 <= segment.start < segment.end <= run.cycles
            assert segment.end - segment.start == segment.period_cycles * (segment.repeats + 1)
            first = trace.events(segment.start, segment.start + segment.period_cycles, "array")
            for time in (1, segment.repeats):
                shift = time * segment.period_cycles
                again = trace.events(segment.start + shift, segment.start + shift + 1, "array")
                assert again["cause"][-1] == first["cause"][0]


@pytest.mark.parametrize("fast_forward", [True, False])
def test_checkpoints_change_nothing_that_is_read(
    tmp_path: Path, program: Program, monkeypatch: pytest.MonkeyPatch, *, fast_forward: bool
) -> None:
    _, whole = _traced(tmp_path / "whole.h5", program, fast_forward=fast_forward)
    monkeypatch.setattr("simaccel.machine.machine._CHUNK", 97)
    monkeypatch.setattr("simaccel.machine.machine._CHECKPOINT", 3)
    _, often = _traced(tmp_path / "often.h5", program, fast_forward=fast_forward)
    with whole, often:
        often.check()
        for lane in ("engine", *whole.channels, *whole.tiles):
            assert np.array_equal(often.events(lane=lane), whole.events(lane=lane))


def _require_service(path: Path, shown: set[str]) -> None:
    """Bytes over the limit of all channels are at most the cycles of service over all cycles."""
    with TraceReader.open(path) as trace:
        series = trace.bandwidth(bins=1)
        for at, channel in enumerate(series.channels):
            limit, share = series.bytes_per_cycle[channel], series.share(channel)[0]
            assert limit is None or series.moved[at, 0] / (limit * trace.cycles) <= share + 1e-9
        assert all(series.share(channel)[0] for channel in shown)


def test_no_link_moves_more_than_its_service(tmp_path: Path) -> None:
    step = transformer(SMALL, phase="decode", kv_len=8, scope="model")
    pod, options = load_accelerator("tpu_v5e", ["chips=2x1"]), Options(tensor_parallel=2)
    record(tmp_path / "t.h5", step, pod, "deployed", options=options)
    _require_service(tmp_path / "t.h5", {"links", "dram"})
    cores = load_accelerator("edge", ["cores.count=4", *MESH])
    record(tmp_path / "u.h5", gemm(m=64, k=64, n=64), cores, "flex")
    _require_service(tmp_path / "u.h5", {"core_noc", "buffer_read"})
