"""What is exported is what the run did, read back by other parsers than those that wrote it."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.machine.accounts import NO_WAIT, Cause, Wait
from simaccel.machine.machine import EngineCycles
from simaccel.trace import Event, Site, Trace, TraceError, TraceHeader, TraceWriter
from simaccel.trace.exports import FORMATS, Excerpt, excerpt
from simaccel.trace.exports.perfetto import COLOURS
from simaccel.trace.schema import CAUSES
from tests.trace.exports.formats import (
    RESERVED_COLOURS,
    Signals,
    read_perfetto,
    read_table,
    read_vcd,
    slice_event,
    text,
)
from tests.trace.scripts import (
    ENGINES,
    SCRIPTS,
    SITES,
    Again,
    Row,
    Script,
    padded,
    unrolled,
    write,
    written,
)

FOLDER = Path(__file__).parents[3] / "traces"
REFERENCES = ("toy_gemm_naive", "toy_attention_flat", "edge_bert_flat")
NOWHERE = Site("", "")


def _brute_force(script: Script, start: int, end: int) -> list[Event]:
    """Expand a script without any reader, whole events in order of start and engine."""
    found = []
    for engine, intervals in unrolled(script).items():
        for _, first, after, (cause, wait, site) in intervals:
            if first < end and after > start:
                place = SITES.get(site, NOWHERE)
                direct = wait.tile, wait.kind, wait.engine
                where = site, place.operator, place.command
                found.append(Event(engine, first, after, cause.name.lower(), *direct, *where))
    return found


def _by_lane(events: list[Event]) -> dict[str, list[Event]]:
    ordered = sorted(events, key=lambda event: (event.engine, event.start))
    return {lane: list(row) for lane, row in groupby(ordered, lambda event: event.engine)}


def _clipped(event: Event, start: int, end: int) -> Event:
    return replace(event, start=max(event.start, start), end=min(event.end, end))


def _from_table(part: Excerpt) -> list[Event]:
    return [Event(**row) for row in read_table(text("csv", part))]


def _from_perfetto(part: Excerpt) -> list[Event]:
    shown = read_perfetto(text("perfetto", part))
    return [slice_event(lane, one) for lane, row in shown.slices.items() for one in row]


def _from_vcd(part: Excerpt) -> list[Event]:
    signals = read_vcd(text("vcd", part))
    assert signals.end == part.end
    scopes = dict.fromkeys(scope for scope, _ in signals.types)
    return [event for scope in scopes for event in _states(signals, scope)]


def _states(signals: Signals, scope: str) -> Iterator[Event]:
    """Cut the time of one engine wherever one of its signals changes."""
    changes = {name: dict(signals.values[s, name]) for s, name in signals.types if s == scope}
    times = sorted({time for values in changes.values() for time in values})
    now: dict[str, str | int] = {}
    for start, end in pairwise([*times, signals.end]):
        now |= {name: values[start] for name, values in changes.items() if start in values}
        said = {name: "" if value == "-" else value for name, value in now.items()}
        cause = said["cause"]
        assert said.pop("busy") == int(cause == "busy")
        assert CAUSES[int(said.pop("state"))] == cause
        said["kind"] = said.pop("wait")
        yield Event(engine=scope, start=start, end=end, **said)  # type: ignore[arg-type]


def _require_the_same(part: Excerpt, events: list[Event]) -> None:
    expected = _by_lane(events)
    assert _by_lane(_from_table(part)) == expected
    assert _by_lane(_from_perfetto(part)) == expected
    assert _by_lane(_from_vcd(part)) == {
        lane: [_clipped(event, part.start, part.end) for event in row]
        for lane, row in expected.items()
    }


@given(SCRIPTS, st.sampled_from([1, 3, 64]), st.data())
def test_every_format_holds_the_events_of_the_window(
    script: Script, block_rows: int, data: st.DataObject
) -> None:
    with written(script, block_rows) as trace:
        start = data.draw(st.integers(0, trace.cycles - 1))
        end = data.draw(st.integers(start + 1, trace.cycles))
        part = excerpt(trace, start, end)
        _require_the_same(part, _brute_force(script, start, end))


@pytest.mark.parametrize("name", REFERENCES)
def test_reference_traces_are_exported_as_the_reader_gives_them(name: str) -> None:
    with Trace.open(FOLDER / f"{name}.h5") as trace:
        for start in (0, trace.cycles // 2):
            end = min(start + 50_000, trace.cycles)
            events = trace.decode(trace.events(start, end))
            assert len(events) > 50
            _require_the_same(excerpt(trace, start, end), events)


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_trace_gives_the_same_bytes(name: str) -> None:
    with Trace.open(FOLDER / "toy_gemm_naive.h5") as trace:
        first = text(name, excerpt(trace))
        assert text(name, excerpt(trace)) == first
        assert "date" not in first


NASTY = 'gemm "S", Q\\x20\n\r $end \u00e9\t'
LANES = ("dma in/0", "dma in.0")


def _nasty(folder: Path) -> Trace:
    """Two engines whose names differ only in what VCD can't say, and texts that need escapes."""
    header = TraceHeader(version="9", sites={1: Site("a,b", NASTY)})
    wait = Wait("tile, \u20ac 1", "ready", LANES[0])
    with TraceWriter(folder / "t.h5", header) as writer:
        writer.interval(LANES[0], 0, 5, Cause.BUSY, NO_WAIT, 1)
        writer.interval(LANES[1], 0, 5, Cause.DRAM_BANDWIDTH, wait, 1)
        stalls = {"dram_bandwidth": 5}
        writer.finish(5, {LANES[0]: EngineCycles(5, 0, {}), LANES[1]: EngineCycles(0, 0, stalls)})
    return Trace.open(folder / "t.h5")


def test_texts_of_any_characters_arrive(tmp_path: Path) -> None:
    with _nasty(tmp_path) as trace:
        part, events = excerpt(trace), trace.decode(trace.events())
        assert [event.command for event in events] == [NASTY, NASTY]
        assert _by_lane(_from_table(part)) == _by_lane(events)
        assert _by_lane(_from_perfetto(part)) == _by_lane(events)
        names = dict(zip(LANES, ("dma_in_0", "dma_in_0_"), strict=True))
        assert _by_lane(_from_vcd(part)) == {
            names[event.engine]: [replace(event, engine=names[event.engine])] for event in events
        }


def test_an_empty_run_is_exported(tmp_path: Path) -> None:
    with write(tmp_path / "t.h5", []) as trace:
        part = excerpt(trace)
        assert read_table(text("csv", part)) == []
        assert read_perfetto(text("perfetto", part)).slices == {}
        assert read_vcd(text("vcd", part)).values == {}


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (5, 4), (0, 549)])
def test_a_window_outside_the_run_is_refused(start: int, end: int) -> None:
    with Trace.open(FOLDER / "toy_gemm_naive.h5") as trace:
        problem = rf"toy_gemm_naive.h5: cycles {start} to {end}; allowed: a part of cycles 0 to 548"
        with pytest.raises(TraceError, match=problem):
            excerpt(trace, start, end)


BUSY, WAITING = (Cause.BUSY, NO_WAIT, 1), (Cause.SFU, NO_WAIT, 2)


def _alternating(pairs: int) -> Script:
    body = (Row("array", 3, BUSY), Row("array", 2, WAITING))
    return padded([Again(body, pairs - 1)], ENGINES)


def test_too_many_events_are_refused_at_the_exact_number(tmp_path: Path) -> None:
    with write(tmp_path / "t.h5", _alternating(8)) as trace:
        assert len(excerpt(trace, at_most=18).rows) == 18
        message = (
            r"t.h5: more than 17 events in cycles 0 to 40; allowed: --from 0 --to 20 "
            r"\(10 events\), or a larger --at-most than 17"
        )
        with pytest.raises(TraceError, match=message):
            excerpt(trace, at_most=17)
        with pytest.raises(TraceError, match=r"cycles 7 to 40; .* a larger --at-most than 2$"):
            excerpt(trace, 7, at_most=2)


def test_the_window_that_is_named_fits(tmp_path: Path) -> None:
    with write(tmp_path / "t.h5", _alternating(10**15)) as trace:
        with pytest.raises(TraceError) as refused:
            excerpt(trace, 1234, at_most=1000)
        found = re.search(r"--from 1234 --to (\d+) \((\d+) events\)", str(refused.value))
        assert found is not None
        end, n_events = map(int, found.groups())
        assert len(excerpt(trace, 1234, end, at_most=1000).rows) == n_events
        assert 400 < n_events <= 1000


def test_colours_are_of_all_causes_and_differ() -> None:
    assert set(COLOURS) == set(CAUSES)
    assert len(set(COLOURS.values())) == len(COLOURS)
    assert set(COLOURS.values()) <= set(RESERVED_COLOURS)


def test_viewers_know_every_cycle_that_they_are_given(tmp_path: Path) -> None:
    with write(tmp_path / "t.h5", _alternating(2**52)) as trace:
        part = excerpt(trace, 2**52 - 7, 2**52)
        _require_the_same(part, trace.decode(part.rows))
        with pytest.raises(TraceError, match=r"windows up to cycle 4503599627370496$"):
            text("perfetto", excerpt(trace, 2**52 - 7, 2**52 + 1))


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
                    yield giver.engine, last, lane, after[0].start, group[0].tile


@given(SCRIPTS, st.data())
def test_arrows_start_where_tiles_are_handed_over(script: Script, data: st.DataObject) -> None:
    with written(script, 16) as trace:
        start = data.draw(st.integers(0, trace.cycles - 1))
        shown = read_perfetto(text("perfetto", excerpt(trace, start)))
        events = _by_lane(_brute_force(script, start, trace.cycles))
        assert shown.arrows == set(_expected_arrows(events, start))


def test_reference_traces_have_arrows() -> None:
    with Trace.open(FOLDER / "toy_attention_flat.h5") as trace:
        shown = read_perfetto(text("perfetto", excerpt(trace)))
        events = _by_lane(trace.decode(trace.events()))
    assert shown.arrows == set(_expected_arrows(events, 0))
    assert {(giver, waiter) for giver, _, waiter, _, _ in shown.arrows} >= {
        ("dma_in0", "array"), ("array", "sfu"), ("sfu", "array"), ("array", "dma_out"),
    }  # fmt: skip


def test_what_a_slice_is_called() -> None:
    with Trace.open(FOLDER / "toy_attention_flat.h5") as trace:
        shown = read_perfetto(text("perfetto", excerpt(trace)))
    assert shown.slices["dma_in1"][0].name == "load K queue 1"
    assert shown.slices["sfu"][0].name == "waits: S ready (dram_bandwidth)"
    assert shown.slices["dma_in2"][1].name == "waits (dram_queue)"
    assert shown.slices["sfu"][-1].name == "waits (drain)"
    assert (shown.about["from"], shown.about["to"], shown.about["accelerator"]) == (0, 605, "toy")


def test_csv_is_what_rfc_4180_says(tmp_path: Path) -> None:
    with _nasty(tmp_path) as trace:
        lines = text("csv", excerpt(trace))
    quoted = '"' + NASTY.replace('"', '""') + '"'
    assert lines == (
        "engine,start,end,cause,tile,kind,waits_for,site,operator,command\r\n"
        f'dma in/0,0,5,busy,,,,1,"a,b",{quoted}\r\n'
        f'dma in.0,0,5,dram_bandwidth,"tile, \u20ac 1",ready,dma in/0,1,"a,b",{quoted}\r\n'
    )


def test_vcd_says_its_units_and_types(tmp_path: Path) -> None:
    with write(tmp_path / "t.h5", _alternating(8)) as trace:
        written_text = text("vcd", excerpt(trace, 10, 20))
        signals = read_vcd(written_text)
    assert written_text.isascii()
    assert signals.header["timescale"] == "1 ns"
    assert "1 ns stands for 1 cycle" in signals.header["comment"]
    assert "Cycles 10 to 20 of 40" in signals.header["comment"]
    assert "2=dram_bandwidth" in signals.header["comment"]
    assert signals.types["array", "busy"] == ("wire", 1)
    assert signals.types["array", "state"] == ("reg", 8)
    assert signals.types["array", "cause"] == ("string", 1)
    assert signals.values["array", "busy"] == [(10, 1), (13, 0), (15, 1), (18, 0)]
