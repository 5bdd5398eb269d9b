"""Arrows lead from who hands over a tile to who waited for it."""

from collections.abc import Iterator
from itertools import groupby, pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from simaccel.machine.accounts import NO_WAIT, Wait
from simaccel.trace import Event, TraceReader
from simaccel.trace.exports import excerpt
from simaccel.units import Cause
from tests.trace.exports.formats import (
    read_perfetto,
    text,
)
from tests.trace.exports.runs import FOLDER, by_lane, engine_events
from tests.trace.scripts import (
    SCRIPTS,
    Row,
    Script,
    write,
    written,
)


def test_an_arrow_leads_from_who_hands_over_to_who_waited(tmp_path: Path) -> None:
    """The DMA works until cycle 8, the data arrive 5 later; the SFU starts when the array ends."""
    from_dma, from_array = Wait("K", "ready", "dma_in"), Wait("S", "ready", "array")
    script = [
        Row("dma_in", 8, (Cause.BUSY, NO_WAIT, 1)),
        Row("dma_in", 12, (Cause.BUSY, NO_WAIT, 2)),
        Row("array", 8, (Cause.DRAM_BANDWIDTH, from_dma, 1)),
        Row("array", 5, (Cause.DRAM_LATENCY, from_dma, 1)),
        Row("array", 4, (Cause.BUSY, NO_WAIT, 1)),
        Row("array", 3, (Cause.IDLE, NO_WAIT, 0)),
        Row("sfu", 8, (Cause.DRAM_BANDWIDTH, from_array, 2)),
        Row("sfu", 5, (Cause.DRAM_LATENCY, from_array, 2)),
        Row("sfu", 4, (Cause.ARRAY, from_array, 2)),
        Row("sfu", 3, (Cause.BUSY, NO_WAIT, 2)),
    ]
    with write(tmp_path / "t.h5", script) as trace:
        whole = read_perfetto(text("perfetto", excerpt(trace)))
        assert whole.arrows == {("dma_in", 7, "array", 13, "K"), ("array", 16, "sfu", 17, "S")}
        late = read_perfetto(text("perfetto", excerpt(trace, 8, 20)))
        assert late.arrows == {("array", 16, "sfu", 17, "S")}


def test_who_waits_itself_in_the_end_hands_nothing_over(tmp_path: Path) -> None:
    """The DMA works for 4 cycles, then waits for a slot for as long as the array waits for it."""
    from_dma, slot = Wait("K", "ready", "dma_in"), Wait("K", "free", "sfu")
    script = [
        Row("dma_in", 4, (Cause.BUSY, NO_WAIT, 1)),
        Row("dma_in", 6, (Cause.SFU, slot, 1)),
        Row("array", 4, (Cause.DRAM_BANDWIDTH, from_dma, 1)),
        Row("array", 3, (Cause.SFU, from_dma, 1)),
        Row("array", 3, (Cause.BUSY, NO_WAIT, 1)),
    ]
    with write(tmp_path / "t.h5", script) as trace:
        assert read_perfetto(text("perfetto", excerpt(trace))).arrows == set()


def _expected_arrows(
    events: dict[str, list[Event]], start: int
) -> Iterator[tuple[str, int, str, int, str]]:
    """Look back from every end of a wait, with all events at hand."""
    for lane, row in events.items():
        groups = [list(g) for _, g in groupby(row, lambda e: (e.tile, e.kind, e.waits_for))]
        for group, after in pairwise(groups):
            parts = [part for part in group if part.cause != "dram_latency"]
            if not group[0].waits_for or not parts:
                continue
            last = parts[-1].end - 1
            for giver in events.get(group[0].waits_for, []):
                works = giver.waits_for == "" and giver.cause not in ("idle", "drain")
                if works and giver.site and max(giver.start, start) <= last < giver.end:
                    yield giver.lane, last, lane, after[0].start, group[0].tile


@given(SCRIPTS, st.data())
def test_arrows_start_where_tiles_are_handed_over(script: Script, data: st.DataObject) -> None:
    with written(script, 16) as trace:
        start = data.draw(st.integers(0, trace.cycles - 1))
        shown = read_perfetto(text("perfetto", excerpt(trace, start)))
        events = by_lane(e for e in engine_events(script) if e.end > start)
        assert shown.arrows == set(_expected_arrows(events, start))


def test_reference_traces_have_arrows() -> None:
    with TraceReader.open(FOLDER / "toy_attention_flat.h5") as trace:
        shown = read_perfetto(text("perfetto", excerpt(trace)))
        events = by_lane(trace.decode(trace.events()))
    assert shown.arrows == set(_expected_arrows(events, 0))
    assert {(giver, waiter) for giver, _, waiter, _, _ in shown.arrows} >= {
        ("dma_in1", "array"), ("sfu", "array"), ("array", "dma_out"),
    }  # fmt: skip
