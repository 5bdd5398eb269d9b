"""The page's document against the reader, by unrolling it without any cleverness."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.make_traces import REFERENCES, Reference
from simaccel.machine.accounts import NO_WAIT, Cause, Wait
from simaccel.report.page import data, document, page_text, timeline
from simaccel.trace import Trace, TraceError
from simaccel.trace.schema import KEY
from tests.trace.scripts import SCRIPTS, Again, Row, Script, lengths, padded, write, written

BUSY = (Cause.BUSY, NO_WAIT, 1)
WAITS = (Cause.DRAM_BANDWIDTH, Wait("K", "ready", "dma_in"), 2)
each = pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.name)
Known = tuple[int, int, tuple[int, ...]]


def unrolled(document: dict[str, Any], lane: dict[str, Any]) -> list[Known]:
    """All events of a lane: (start, end, activity), neighbours that are the same joined."""

    def rows(tree: list[dict[str, Any]]) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for node in tree:
            if "body" in node:
                found += rows(node["body"]) * node["times"]
            else:
                found += zip(node["n"], node["a"], strict=True)
        return found

    events: list[Known] = []
    at = 0
    for cycles, number in rows(lane["tree"]):
        activity, start = tuple(document["activities"][number]), at
        at += cycles
        if events and events[-1][2] == activity:
            start = events.pop()[0]
        events.append((start, at, activity))
    return events


def told(trace: Trace, lane: str, start: int, end: int) -> list[Known]:
    """The same events of a window as the reader tells them."""
    events = trace.events(start, end, lane)
    return [(row["start"], row["end"], tuple(row[name].item() for name in KEY)) for row in events]


def require_same(trace: Trace, windows: list[tuple[int, int]]) -> None:
    page = json.loads(json.dumps(timeline(trace)))
    assert [lane["name"] for lane in page["lanes"]] == list(trace.engines)
    for lane in page["lanes"]:
        events = unrolled(page, lane)
        for start, end in windows:
            mine = [event for event in events if event[0] < end and event[1] > start]
            assert mine == told(trace, lane["name"], start, end)


@given(SCRIPTS, st.sampled_from([1, 2, 3, 64]), st.data())
def test_the_document_unrolls_to_what_the_reader_tells(
    script: Script, block_rows: int, drawn: st.DataObject
) -> None:
    with written(script, block_rows) as trace:
        starts = drawn.draw(st.lists(st.integers(0, trace.cycles - 1), max_size=3))
        windows = [(start, drawn.draw(st.integers(start + 1, trace.cycles))) for start in starts]
        require_same(trace, [(0, trace.cycles), *windows])


@each
def test_reference_traces_unroll_to_what_the_reader_tells(reference: Reference) -> None:
    with Trace.open(reference.path) as trace:
        half = trace.cycles // 2
        require_same(trace, [(0, 4000), (half, half + 3000), (trace.cycles - 500, trace.cycles)])


def test_the_page_grows_with_rows_and_not_with_repetitions(tmp_path: Path) -> None:
    def size(times: int) -> int:
        body = Again((Row("array", 3, BUSY), Row("array", 5, WAITS)), 1)
        with write(tmp_path / "t.h5", (Again((body,), times),)) as trace:
            assert trace.cycles == 16 * (times + 1)
            return len(page_text(timeline(trace) | {"loops": []}))

    assert size(10**14) - size(10) <= 40


def test_a_run_that_javascript_cannot_count_is_refused(tmp_path: Path) -> None:
    script = (Again((Row("array", 8, BUSY),), 2**50 - 1),)
    with write(tmp_path / "t.h5", script) as trace:
        assert trace.cycles == data.MAX_CYCLES
        assert timeline(trace)["cycles"] == 2**53
    with write(tmp_path / "t.h5", (*script, Row("array", 1, BUSY))) as trace:
        with pytest.raises(TraceError) as error:
            timeline(trace)
        path = tmp_path / "t.h5"
        assert str(error.value) == (
            f"{path}: has 9007199254740993 cycles, which a browser can't count exactly; "
            "allowed: up to 9007199254740992 cycles in a page"
        )


def test_too_many_rows_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "MAX_ROWS", 1)
    with (
        write(tmp_path / "t.h5", (Row("array", 1, BUSY), Row("array", 1, WAITS))) as trace,
        pytest.raises(TraceError, match="has 2 stored rows; allowed: up to 1 stored rows"),
    ):
        timeline(trace)


def test_a_program_of_another_run_is_refused(tmp_path: Path) -> None:
    with (
        write(tmp_path / "t.h5", (Row("array", 1, BUSY),)) as trace,
        pytest.raises(TraceError) as error,
    ):
        document(trace)
    assert str(error.value) == (
        f"{tmp_path / 't.h5'}: damaged: header/program: the sites are not the commands of the "
        "program; allowed: the program whose run the trace holds"
    )


def test_names_cannot_leave_their_element(tmp_path: Path) -> None:
    """A tile that is called like a tag is text, wherever it stands."""
    evil = "</script><script>alert(1)</script>{{style}}"
    with write(tmp_path / "t.h5", padded((Row("array", 1, BUSY),))) as trace:
        page = timeline(trace) | {"loops": [], "workload": evil}
    text = page_text(page)
    assert "<script>alert" not in text
    assert text.count("</script>") == 2
    inside = text.split('<script type="application/json" id="data">')[1].split("</script>")[0]
    assert json.loads(inside)["workload"] == evil


def test_colours_and_totals_are_complete(tmp_path: Path) -> None:
    script = padded((Row("array", 4, BUSY), Row("sfu", 6, WAITS)))
    with write(tmp_path / "t.h5", script) as trace:
        page = timeline(trace)
    assert [cause["name"] for cause in page["causes"]] == trace.tables["causes"]
    assert len({cause["colour"] for cause in page["causes"]}) == len(page["causes"])
    assert page["cycles"] == max(lengths(script).values())
