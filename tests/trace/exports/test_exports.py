"""What is exported is what the run did, read back by other parsers than those that wrote it."""

import io
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path

import h5py
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simaccel.machine.accounts import NO_WAIT, Wait
from simaccel.trace import Event, TraceError, TraceReader
from simaccel.trace.exports import FORMATS, Excerpt, excerpt
from simaccel.trace.exports.vcd import identifiers
from simaccel.trace.schema import CAUSES
from simaccel.units import CAUSES as NAMED_CAUSES
from simaccel.units import Cause
from tests.draws import DRAWS
from tests.refusals import refusal_of
from tests.trace.exports.formats import (
    RESERVED_COLOURS,
    Signals,
    parquet,
    read_frame,
    read_perfetto,
    read_table,
    read_vcd,
    slice_event,
    text,
)
from tests.trace.exports.runs import (
    ALL,
    FOLDER,
    LANES,
    NASTY,
    REFERENCES,
    alternating,
    by_lane,
    engine_events,
    nasty,
    other_events,
    other_lanes,
    recorded,
)
from tests.trace.scripts import SCRIPTS, Row, Script, lengths, write, written


def _clipped(event: Event, part: Excerpt) -> Event:
    return replace(event, start=max(event.start, part.start), end=min(event.end, part.end))


def _from_table(part: Excerpt) -> list[Event]:
    rows = read_table(text("csv", part))
    assert all(row.pop("lane_kind") == part.lanes[row["lane"]] for row in rows)
    within = [range(max(row["start"], part.start), min(row["end"], part.end)) for row in rows]
    assert [row.pop("cycles") for row in rows] == [len(cycles) for cycles in within]
    return [Event(**row) for row in rows]


def _from_perfetto(part: Excerpt) -> list[Event]:
    shown = read_perfetto(text("perfetto", part))
    return [slice_event(lane, one) for lane, row in shown.slices.items() for one in row]


def _from_vcd(part: Excerpt) -> list[Event]:
    signals = read_vcd(text("vcd", part))
    assert signals.end == part.end
    scopes = dict.fromkeys(scope for scope, _ in signals.types)
    return [event for scope in scopes for event in _states(signals, scope)]


def _states(signals: Signals, scope: str) -> Iterator[Event]:
    """Cut the time of one lane wherever one of its signals changes."""
    kind, _, lane = scope.partition(".")
    changes = {name: dict(signals.values[s, name]) for s, name in signals.types if s == scope}
    times = sorted({time for values in changes.values() for time in values})
    now: dict[str, str | int] = {}
    for start, end in pairwise([*times, signals.end]):
        now |= {name: values[start] for name, values in changes.items() if start in values}
        said = {name: "" if value == "-" else value for name, value in now.items()}
        busy = said.pop("busy") if "busy" in said else int(said["held"] != 0)
        cause = said.setdefault("cause", "busy" if busy else "idle")
        if kind == "engines":
            assert busy == int(cause == "busy")
            assert CAUSES[int(said.pop("state"))] == cause
        else:
            said |= dict(zip(("tile", "wait", "waits_for", "site"), ("", "", "", 0), strict=True))
            said |= {"operator": "", "command": ""}
        said["kind"] = said.pop("wait")
        yield Event(lane=lane, start=start, end=end, **said)  # type: ignore[arg-type]


def _require_the_same(part: Excerpt, events: list[Event]) -> None:
    """Compare what the formats hold with all events that overlap the window."""
    assert by_lane(_from_table(part)) == by_lane(events)
    slices = [e for e in events if part.lanes[e.lane] == "engine" or e.served or e.cause == "busy"]
    slices = [e for e in slices if part.lanes[e.lane] != "tile"]
    assert by_lane(_from_perfetto(part)) == by_lane(slices)
    assert _held(part) == {
        e.lane: [(_clipped(one, part).start, one.held) for one in events if one.lane == e.lane]
        for e in events
        if part.lanes[e.lane] == "tile"
    }
    names = dict(zip(part.lanes, identifiers(part.lanes).values(), strict=True))
    assert by_lane(_from_vcd(part)) == by_lane(
        replace(_clipped(event, part), lane=names[event.lane]) for event in events
    )


def _held(part: Excerpt) -> dict[str, list[tuple[int, int | float]]]:
    """Give when each tile changed to how many bytes; all of a memory stand in each event."""
    found: dict[str, list[tuple[int, int | float]]] = defaultdict(list)
    tiles = {lane for lane, kind in part.lanes.items() if kind == "tile"}
    in_pes = tiles & {"tile pe.K"}
    of_memory = {"bytes held": tiles - in_pes, "bytes held in each PE": in_pes}
    before: dict[str, dict[str, int | float]] = {name: {} for name in of_memory}
    for counter in read_perfetto(text("perfetto", part)).counters:
        if counter.name in of_memory:
            assert {*counter.args} == of_memory[counter.name]
            assert counter.args != before[counter.name]
            for tile in counter.args:
                if counter.args[tile] != before[counter.name].get(tile):
                    found[tile].append((counter.ts, counter.args[tile]))
            before[counter.name] = dict(counter.args)
    return found


@settings(max_examples=4 * DRAWS)  # each of them writes and reads files
@given(SCRIPTS, st.data())
def test_every_format_holds_the_events_of_the_window(script: Script, data: st.DataObject) -> None:
    channels, tiles = data.draw(other_lanes(max(lengths(script).values())))
    with recorded(script, channels, tiles) as trace:
        start = data.draw(st.integers(0, trace.cycles - 1))
        end = data.draw(st.integers(start + 1, trace.cycles))
        kinds = data.draw(st.sets(st.sampled_from(ALL), min_size=1).map(sorted))
        part = excerpt(trace, start, end, lanes=kinds, bins=3)
        events = [*engine_events(script), *other_events(channels, tiles)]
        overlapping = [e for e in events if e.start < end and e.end > start]
        _require_the_same(part, [e for e in overlapping if trace.lanes[e.lane] in kinds])


@pytest.mark.parametrize("name", REFERENCES)
def test_reference_traces_are_exported_as_the_reader_gives_them(name: str) -> None:
    with TraceReader.open(FOLDER / f"{name}.h5") as trace:
        for start in (0, trace.cycles // 2):
            end = min(start + 50_000, trace.cycles)
            events = [
                event
                for lane in trace.lanes
                for event in trace.decode(trace.events(start, end, lane))
            ]
            assert len(events) > 100
            _require_the_same(excerpt(trace, start, end, lanes=ALL), events)


@pytest.mark.parametrize("name", REFERENCES)
def test_csv_and_parquet_are_the_table_that_the_reader_gives_pandas(name: str) -> None:
    with TraceReader.open(FOLDER / f"{name}.h5") as trace:
        end = min(trace.cycles, 50_000)
        part = excerpt(trace, 100, end, lanes=ALL)
        expected = trace.frame(100, end, ALL)
    read = pq.read_table(io.BytesIO(parquet(part)))
    for found in (read_frame(text("csv", part)), read.to_pandas()):
        assert list(found.columns) == list(expected.columns)
        assert len(found) > 30
        for column in expected.columns:
            assert found[column].tolist() == expected[column].tolist()
    assert {field.name: str(field.type).partition("<")[0] for field in read.schema} == {
        **dict.fromkeys(("start", "end", "held", "served", "cycles"), "int64"),
        **dict.fromkeys(("lane", "cause", "tile", "kind", "waits_for"), "dictionary"),
        **dict.fromkeys(("operator", "command", "lane_kind"), "dictionary"),
        "site": "int32",
    }


@pytest.mark.parametrize("name", REFERENCES)
def test_bandwidth_counters_count_every_byte(name: str) -> None:
    with TraceReader.open(FOLDER / f"{name}.h5") as trace:
        counters = read_perfetto(text("perfetto", excerpt(trace, bins=7, lanes=["sfu"]))).counters
        moved = trace.figures["bytes"]["dram"]
        cycles = trace.cycles
    (label,) = {one.name for one in counters if one.name.startswith("dram")}
    assert re.fullmatch(r"dram \(at most [0-9.]+\)", label)
    rates = {one.ts: one.args["bytes per cycle"] for one in counters if one.name == label}
    assert list(rates) == [at * cycles // 7 for at in range(7)]
    lengths = [after - before for before, after in pairwise([*rates, cycles])]
    total = sum(rate * length for rate, length in zip(rates.values(), lengths, strict=True))
    assert total == pytest.approx(sum(n for way in moved.values() for n in way.values()))


TEXTS = [name for name in FORMATS if name != "parquet"]


def test_the_same_trace_gives_the_same_parquet() -> None:
    with TraceReader.open(FOLDER / "toy_gemm_naive.h5") as trace:
        assert parquet(excerpt(trace)) == parquet(excerpt(trace))


@pytest.mark.parametrize("name", TEXTS)
def test_the_same_trace_gives_the_same_text(name: str) -> None:
    with TraceReader.open(FOLDER / "toy_gemm_naive.h5") as trace:
        first = text(name, excerpt(trace))
        assert text(name, excerpt(trace)) == first
        assert "date" not in first


def test_texts_of_any_characters_arrive(tmp_path: Path) -> None:
    with nasty(tmp_path) as trace:
        part, events = excerpt(trace), trace.decode(trace.events())
        assert [event.command for event in events] == [NASTY, NASTY]
        assert by_lane(_from_table(part)) == by_lane(events)
        assert by_lane(_from_perfetto(part)) == by_lane(events)
        names = dict(zip(LANES, ("dma_in_0", "dma_in_0_"), strict=True))
        assert by_lane(_from_vcd(part)) == {
            names[event.lane]: [replace(event, lane=names[event.lane])] for event in events
        }


def test_what_a_killed_run_kept_is_exported_and_says_so(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "toy_gemm_naive.h5", tmp_path / "t.h5")
    with TraceReader.open(tmp_path / "t.h5") as trace:
        whole = {name: text(name, excerpt(trace, lanes=ALL)) for name in TEXTS}
    with h5py.File(tmp_path / "t.h5", "r+") as file:
        file.attrs["complete"] = False
        del file["totals"], file["header/figures"]
    with TraceReader.open(tmp_path / "t.h5") as trace:
        part = excerpt(trace, lanes=ALL)
        assert (text("csv", part), text("vcd", part)) == (whole["csv"], whole["vcd"])
        shown, before = read_perfetto(text("perfetto", part)), read_perfetto(whole["perfetto"])
    assert shown.slices == before.slices
    assert "the run was killed" in str(shown.about["partial"])
    assert "partial" not in before.about


def test_an_empty_run_is_exported(tmp_path: Path) -> None:
    with write(tmp_path / "t.h5", []) as trace:
        part = excerpt(trace)
        assert read_table(text("csv", part)) == []
        assert read_perfetto(text("perfetto", part)).slices == {}
        assert read_vcd(text("vcd", part)).values == {}


def test_colours_are_of_all_causes_and_differ() -> None:
    colours = {name: cause.slice_colour for name, cause in NAMED_CAUSES.items()}
    assert set(colours) == set(CAUSES)
    assert len(set(colours.values())) == len(colours)
    assert set(colours.values()) <= set(RESERVED_COLOURS)


def test_viewers_know_every_cycle_that_they_are_given(tmp_path: Path) -> None:
    with write(tmp_path / "t.h5", alternating(2**52)) as trace:
        part = excerpt(trace, 2**52 - 7, 2**52, lanes=["engine"])
        _require_the_same(part, trace.decode(part.rows))
        with pytest.raises(TraceError, match=r"windows up to cycle 4503599627370496$"):
            text("perfetto", excerpt(trace, 2**52 - 7, 2**52 + 1))


def test_what_a_slice_is_called() -> None:
    with TraceReader.open(FOLDER / "toy_attention_flat.h5") as trace:
        shown = read_perfetto(text("perfetto", excerpt(trace)))
    assert shown.slices["dma_in1"][0].name == "load K queue 1"
    assert shown.slices["sfu"][0].name == "waits: S ready (dram_bandwidth)"
    assert shown.slices["dma_in2"][1].name == "load V queue 2"
    assert shown.slices["array"][5].name.startswith("compute S = Q K over bh=1")
    assert shown.slices["sfu"][-1].name == "waits (drain)"
    assert (shown.about["from"], shown.about["to"], shown.about["accelerator"]) == (0, 469, "toy")


def test_csv_is_what_rfc_4180_says(tmp_path: Path) -> None:
    with nasty(tmp_path) as trace:
        lines = text("csv", excerpt(trace))
    quoted = '"' + NASTY.replace('"', '""') + '"'
    assert lines == (
        "lane,start,end,cause,tile,kind,waits_for,site,operator,command,held,served,lane_kind,cycles\r\n"
        f'dma in/0,0,5,busy,,,,1,"a,b",{quoted},0,0,engine,5\r\n'
        'dma in.0,0,5,dram_bandwidth,"tile, \u20ac 1",ready,dma in/0,'
        f'1,"a,b",{quoted},0,0,engine,5\r\n'
    )


def test_vcd_says_its_units_and_types(tmp_path: Path) -> None:
    with write(tmp_path / "t.h5", alternating(8)) as trace:
        written_text = text("vcd", excerpt(trace, 10, 20))
        signals = read_vcd(written_text)
    assert written_text.isascii()
    assert signals.header["timescale"] == "1 ns"
    assert "1 ns stands for 1 cycle" in signals.header["comment"]
    assert "Cycles 10 to 20 of 40" in signals.header["comment"]
    assert "2=dram_bandwidth" in signals.header["comment"]
    assert signals.types["engines.array", "busy"] == ("wire", 1)
    assert signals.types["engines.array", "state"] == ("reg", 8)
    assert signals.types["engines.array", "cause"] == ("string", 1)
    assert signals.values["engines.array", "busy"] == [(10, 1), (13, 0), (15, 1), (18, 0)]


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (5, 4), (0, 474)])
def test_a_window_outside_the_run_is_refused(start: int, end: int) -> None:
    with TraceReader.open(FOLDER / "toy_gemm_naive.h5") as trace:
        problem = rf"toy_gemm_naive.h5: cycles {start} to {end}; allowed: a part of cycles 0 to 473"
        with pytest.raises(TraceError, match=problem):
            excerpt(trace, start, end)


def test_too_many_events_are_refused_at_the_exact_number(tmp_path: Path) -> None:
    with write(tmp_path / "t.h5", alternating(8)) as trace:
        assert len(excerpt(trace, at_most=18).rows) == 18
        message = (
            r"t.h5: 18 rows in cycles 0 to 40, more than 17; allowed: --from 0 --to 20 "
            r"\(start=0, end=20\), or a larger --at-most \(at_most\) than 17"
        )
        with pytest.raises(TraceError, match=message):
            excerpt(trace, at_most=17)
        with pytest.raises(
            TraceError, match=r"cycles 7 to 40, .*; allowed: a larger --at-most \(at_most\) than 2$"
        ):
            excerpt(trace, 7, at_most=2)


def test_the_window_that_is_named_fits(tmp_path: Path) -> None:
    with write(tmp_path / "t.h5", alternating(10**15)) as trace:
        said = refusal_of(excerpt, trace, 1234, error=TraceError, at_most=1000)
        found = re.search(r"--from 1234 --to (\d+) \(start=1234, end=\1\)", said)
        assert found is not None
        assert 400 < len(excerpt(trace, 1234, int(found[1]), at_most=1000).rows) <= 1000


def test_lanes_are_named_or_of_a_kind() -> None:
    with TraceReader.open(FOLDER / "toy_gemm_naive.h5") as trace:
        assert excerpt(trace, lanes=["tile B", "engine"]).lanes == {
            **dict.fromkeys(trace.engines, "engine"),
            "tile B": "tile",
        }
        assert set(excerpt(trace).lanes.values()) == {"engine", "tile"}
        with pytest.raises(TraceError, match=r"no lane 'tile b'; did you mean 'tile B'"):
            excerpt(trace, lanes=["array", "tile b"])


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
