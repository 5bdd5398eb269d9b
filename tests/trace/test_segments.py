import time
from collections import Counter
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simaccel.machine.accounts import NO_WAIT, Wait
from simaccel.trace import TraceError, TraceReader
from simaccel.trace.schema import EVENT, merge_rows
from simaccel.units import STALLS, Cause
from tests.draws import DRAWS
from tests.trace.scripts import (
    ENGINES,
    SCRIPTS,
    SITES,
    Again,
    Interval,
    Row,
    Script,
    flat,
    padded,
    totals,
    unrolled,
    write,
    written,
)

BUSY = (Cause.BUSY, NO_WAIT, 1)
WAITING = (Cause.DRAM_BANDWIDTH, Wait("K", "ready", "dma_in"), 2)
IDLE = (Cause.IDLE, NO_WAIT, 0)
BLOCKS = st.sampled_from([1, 2, 3, 7, 64])
FEW = settings(max_examples=5 * DRAWS)  # each of them writes files


def _known(trace: TraceReader, start: int, end: int, engine: str = "engine") -> set[Interval]:
    found = trace.decode(trace.events(start, end, engine))
    intervals = {
        (
            e.lane,
            e.start,
            e.end,
            (Cause[e.cause.upper()], Wait(e.tile, e.kind, e.waits_for), e.site),
        )
        for e in found
    }
    assert len(found) == len(intervals)
    return intervals


@FEW
@given(SCRIPTS, BLOCKS, st.data())
def test_any_window_holds_what_the_unrolled_run_holds(
    script: Script, block_rows: int, data: st.DataObject
) -> None:
    intervals = [i for engine in unrolled(script).values() for i in engine]
    with written(script, block_rows) as trace:
        assert _known(trace, 0, trace.cycles) == {*intervals}
        for _ in range(5):
            start = data.draw(st.integers(-2, trace.cycles))
            end = data.draw(st.integers(start, trace.cycles + 2))
            engine = data.draw(st.sampled_from(["engine", *ENGINES]))
            expected = {
                i for i in intervals
                if i[1] < end and i[2] > start < end and engine in ("engine", i[0])
            }  # fmt: skip
            assert _known(trace, start, end, engine) == expected
            for track in map(trace.track, ENGINES):
                assert track.count(start, end) == len(track.expand(start, end))


@FEW
@given(SCRIPTS, BLOCKS, BLOCKS)
def test_events_are_those_of_the_run_without_segments(script: Script, a: int, b: int) -> None:
    with written(script, a) as skipped, written(flat(script), b) as whole:
        skipped.check()
        whole.check()
        assert skipped.totals == whole.totals == totals(script)
        assert np.array_equal(skipped.events(), whole.events())


@FEW
@given(SCRIPTS, BLOCKS, st.data())
def test_bins_count_every_cycle(script: Script, block_rows: int, data: st.DataObject) -> None:
    with written(script, block_rows) as trace:
        start = data.draw(st.integers(0, trace.cycles - 1))
        end = data.draw(st.integers(start + 1, trace.cycles))
        if data.draw(st.booleans()):
            n = data.draw(st.integers(1, end - start))
            bins = trace.utilisation(bins=n, start=start, end=end)
            assert len(bins.edges) == n + 1
        else:
            n = data.draw(st.integers(1, end - start + 3))
            bins = trace.utilisation(bin_cycles=n, start=start, end=end)
            assert set(np.diff(bins.edges)[:-1]) <= {n}
        account = trace.account(("engine", "cause"), start, end)
    assert (bins.edges[0], bins.edges[-1]) == (start, end)
    for at, engine in enumerate(bins.engines):
        causes = [a[0] for _, s, e, a in unrolled(script)[engine] for _ in range(s, e)]
        for bin_at, (low, high) in enumerate(pairwise(bins.edges.tolist())):
            expected = np.bincount(causes[low:high], minlength=len(Cause))
            assert np.array_equal(bins.cycles[at, :, bin_at], expected)
        summed = {one.cause: one.cycles for one in account if one.engine == engine}
        assert summed == Counter(Cause(n).name.lower() for n in causes[start:end])


@FEW
@given(SCRIPTS, BLOCKS, st.data())
def test_stalls_sum_the_waiting_cycles(
    script: Script, block_rows: int, data: st.DataObject
) -> None:
    by = ("engine", "operator", "cause", "tile", "kind", "waits_for")
    with written(script, block_rows) as trace:
        start = data.draw(st.integers(0, trace.cycles - 1))
        end = data.draw(st.integers(start + 1, trace.cycles))
        table, by_cause = (trace.stalls(each, start, end) for each in (by, ["cause"]))
        assert trace.stalls(by) == trace.stalls(by, 0, trace.cycles)
    expected: Counter[tuple[str, str, str, str, str, str]] = Counter()
    for engine, first, last, (cause, wait, site) in chain(*unrolled(script).values()):
        cycles = min(last, end) - max(first, start)
        if cause in STALLS and cycles > 0:
            operator = SITES[site].operator if site in SITES else ""
            direct = (wait.tile, wait.kind, wait.engine)
            expected[engine, operator, cause.name.lower(), *direct] += cycles
    found = {
        (s.engine, s.operator, s.cause, s.tile, s.kind, s.waits_for): s.cycles for s in table
    }  # fmt: skip
    assert found == expected
    assert sum(s.cycles for s in by_cause) == expected.total()
    assert [s.cycles for s in table] == sorted(expected.values(), reverse=True)
    assert len(by_cause) == len({key[2] for key in expected})


def _long_run() -> Script:
    """A 10^17-cycle run: the array works at times, the DMA always, the SFU never."""
    inner = Again((Row("array", 3, BUSY), Row("array", 2, WAITING), Row("dma_in", 5, BUSY)), 10**9)
    outer = Again((inner, Row("array", 7, WAITING), Row("dma_in", 7, BUSY)), 10**7)
    return padded([Row("array", 4, IDLE), outer], ENGINES)


def test_long_runs_are_looked_into_without_unrolling(tmp_path: Path) -> None:
    started = time.process_time()
    with write(tmp_path / "t.h5", _long_run()) as trace:
        assert trace.n_rows == 8
        trace.check()
        period = 5 * (10**9 + 1) + 7
        assert trace.cycles == 4 + period * (10**7 + 1)
        middle = 4 + period * 5_000_000 - 7
        found = trace.decode(trace.events(middle - 5, middle + 9))
        assert [(e.lane, e.start - middle, e.end - middle, e.cause) for e in found] == [
            ("dma_in", -middle, trace.cycles - 4 - middle, "busy"),
            ("sfu", -middle, trace.cycles - middle, "idle"),
            ("array", -5, -2, "busy"),
            ("array", -2, 7, "dram_bandwidth"),
            ("array", 7, 10, "busy"),
        ]
        assert len(trace.events(lane="dma_in")) == 2
        bins = trace.utilisation(bins=1000)
        assert bins.cycles.sum() == 3 * trace.cycles
        assert bins.share("array")[500] == pytest.approx(0.6)
        (stall,) = trace.stalls()
        assert (stall.engine, stall.operator) == ("array", "softmax")
        assert stall.cycles == trace.totals["array"].stalls["dram_bandwidth"]
        with pytest.raises(TraceError, match=r"20,000,002,030,000,007 rows in cycles 0 to "):
            trace.events()
        assert len(trace.events(0, 5 * 10**5, "array")) == 2 * 10**5
    assert time.process_time() - started < 5


def test_too_many_events_are_refused_at_the_exact_number(tmp_path: Path) -> None:
    script = [Again((Row("array", 1, BUSY), Row("array", 1, WAITING)), 9)]
    with write(tmp_path / "t.h5", script) as trace:
        assert len(trace.events(at_most=20)) == 20
        with pytest.raises(
            TraceError, match="20 rows in cycles 0 to 20, more than 19; allowed: --from 0"
        ):
            trace.events(at_most=19)


def test_engines_may_cross_a_segment_border_at_different_cycles(tmp_path: Path) -> None:
    body = (Row("array", 3, BUSY), Row("array", 2, WAITING), Row("sfu", 5, BUSY))
    script = padded([Row("array", 4, IDLE), Row("sfu", 1, IDLE), Again(body, 3)], ENGINES)
    with write(tmp_path / "t.h5", script) as trace:
        assert trace.n_segments == 1
        assert len(trace.events(lane="array")) == 9
        assert [(e["start"], e["end"]) for e in trace.events(lane="sfu")] == [
            (0, 1), (1, 21), (21, 24),
        ]  # fmt: skip


def test_rows_with_a_gap_are_not_joined() -> None:
    rows = np.zeros(3, EVENT)
    rows["start"], rows["end"] = (0, 2, 5), (2, 4, 6)
    assert merge_rows(rows)[["start", "end"]].tolist() == [(0, 4), (5, 6)]


def test_a_repetition_of_nothing_is_no_segment(tmp_path: Path) -> None:
    with write(tmp_path / "t.h5", [Row("array", 2, BUSY), Again((Row("array", 1, IDLE),), 0)]) as t:
        assert (t.n_segments, t.cycles) == (0, 3)


def test_an_empty_run_is_a_trace(tmp_path: Path) -> None:
    with write(tmp_path / "t.h5", []) as trace:
        trace.check()
        assert len(trace.events()) == 0
        assert trace.stalls() == []
        with pytest.raises(TraceError, match="allowed: a part of cycles 0 to 0"):
            trace.utilisation(bins=1)
