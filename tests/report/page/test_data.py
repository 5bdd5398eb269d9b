"""The page's document against the reader, by unrolling it without any cleverness."""

import json
import shutil
from pathlib import Path
from typing import Any

import h5py
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.make_traces import FOLDER, REFERENCES, Reference
from simaccel import load_accelerator
from simaccel.machine.accounts import NO_WAIT, Wait
from simaccel.report import page as data
from simaccel.report.page import document, page_text, run_facts, timeline
from simaccel.study.recording import record
from simaccel.trace import TraceError, TraceReader
from simaccel.trace.schema import KEY
from simaccel.units import Cause
from simaccel.workload import gemm
from tests.refusals import refusal_of
from tests.trace.scripts import SCRIPTS, Again, Row, Script, lengths, padded, write, written

BUSY = (Cause.BUSY, NO_WAIT, 1)
WAITS = (Cause.DRAM_BANDWIDTH, Wait("K", "ready", "array"), 2)
each = pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.name)
Known = tuple[int, int, tuple[int, ...], int]


NOTHING: dict[str, Any] = {"title": ""}
"""For pages of made-up runs."""


def unrolled(document: dict[str, Any], lane: dict[str, Any]) -> list[Known]:
    """All events of a lane: (start, end, activity, served), neighbours of one activity joined."""

    def rows(tree: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
        found: list[tuple[int, int, int]] = []
        for node in tree:
            if "body" in node:
                found += rows(node["body"]) * node["times"]
            else:
                served = node.get("v", [0] * len(node["n"]))
                found += zip(node["n"], node["a"], served, strict=True)
        return found

    events: list[Known] = []
    at = 0
    for cycles, number, more in rows(lane["tree"]):
        activity, start, served = tuple(document["activities"][number]), at, more
        at += cycles
        if events and events[-1][2] == activity:
            start, _, _, before = events.pop()
            served += before
        events.append((start, at, activity, served))
    return events


def told(trace: TraceReader, lane: str, start: int, end: int) -> list[Known]:
    """The same events of a window as the reader tells them."""
    return [
        (row["start"], row["end"], tuple(row[name].item() for name in KEY), row["served"])
        for row in trace.events(start, end, lane)
    ]


def require_same(trace: TraceReader, windows: list[tuple[int, int]]) -> None:
    page = json.loads(json.dumps(timeline(trace)))
    assert {lane["name"]: lane["kind"] for lane in page["lanes"]} == trace.lanes
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
    with TraceReader.open(reference.path) as trace:
        half = trace.cycles // 2
        require_same(trace, [(0, 4000), (half, half + 3000), (trace.cycles - 500, trace.cycles)])


def test_the_page_grows_with_rows_and_not_with_repetitions(tmp_path: Path) -> None:
    def size(times: int) -> int:
        body = Again((Row("array", 3, BUSY), Row("array", 5, WAITS)), 1)
        with write(tmp_path / "t.h5", (Again((body,), times),)) as trace:
            assert trace.cycles == 16 * (times + 1)
            return len(page_text({**NOTHING, **timeline(trace)}))

    assert size(10**14) - size(10) <= 40


def test_a_run_that_javascript_cannot_count_is_refused(tmp_path: Path) -> None:
    script = (Again((Row("array", 8, BUSY),), 2**50 - 1),)
    with write(tmp_path / "t.h5", script) as trace:
        assert trace.cycles == data.MAX_CYCLES
        assert timeline(trace)["cycles"] == 2**53
    with write(tmp_path / "t.h5", (*script, Row("array", 1, BUSY))) as trace:
        said = refusal_of(timeline, trace, error=TraceError)
        path = tmp_path / "t.h5"
        assert said == (
            f"{path}: has 9007199254740993 cycles, which a browser can't count exactly; "
            "allowed: up to 9007199254740992 cycles in a page"
        )


@each
def test_it_says_what_ran_and_where_the_limits_are(reference: Reference) -> None:
    with TraceReader.open(reference.path) as trace:
        said = run_facts(trace)
        for name in ("workload", "accelerator", "dataflow"):
            assert trace.figures[name] in said["title"]
        assert trace.cycles / said["clock_hz"] == pytest.approx(trace.figures["seconds"])
        rates = trace.bandwidth(bins=1).bytes_per_cycle
        assert said["limits"] == {
            lane: rates["dram" if lane.startswith("dram") else lane] for lane in trace.channels
        }


def test_channels_of_a_dram_share_its_limit(tmp_path: Path) -> None:
    accelerator = load_accelerator("toy")
    dram = accelerator.dram.model_copy(update={"channels": 2})
    path = tmp_path / "t.h5"
    record(path, gemm(m=9, k=7, n=5), accelerator.model_copy(update={"dram": dram}), "naive")
    with TraceReader.open(path) as trace:
        limits = run_facts(trace)["limits"]
        total = trace.bandwidth(bins=1).bytes_per_cycle["dram"]
    assert total
    assert limits["dram0"] == limits["dram1"] == total / 2


def test_a_killed_run_is_shown_up_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    shutil.copy(FOLDER / "toy_gemm_naive.h5", path)
    with h5py.File(path, "r+") as file:
        file.attrs["complete"] = False
        del file["totals"], file["header/figures"]
    with TraceReader.open(path) as trace:
        found = document(trace)
    assert found["partial"]
    assert found["utilisation"] is None
    assert found["title"].startswith("gemm on toy, ")
    assert {place["window"] for place in found["loops"]} == {None}
    assert max(place["cycles"] for place in found["loops"]) > 0


def test_a_program_of_another_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    shutil.copy(FOLDER / "toy_gemm_naive.h5", path)
    with h5py.File(path, "r+") as file:
        text = file["header/program"].asstr()[0]
        file["header/program"][0] = text.replace("load B queue 1", "load B queue 0", 1)
    with TraceReader.open(path) as trace, pytest.raises(TraceError) as error:
        document(trace)
    assert str(error.value) == (
        f"{path}: damaged: header/program: the sites are not the commands of the program; "
        "allowed: the program whose run the trace holds"
    )


def test_a_trace_of_no_cycles_is_refused(tmp_path: Path) -> None:
    with (
        write(tmp_path / "t.h5", ()) as trace,
        pytest.raises(TraceError, match="has no cycles; allowed: a trace of at least one cycle"),
    ):
        timeline(trace)


def test_names_cannot_leave_their_element(tmp_path: Path) -> None:
    """A tile that is called like a tag is text, wherever it stands."""
    evil = "</script><script>alert(1)</script>{{style}}"
    with write(tmp_path / "t.h5", padded((Row("array", 1, BUSY),))) as trace:
        page = {**NOTHING, **timeline(trace), "title": evil}
    text = page_text(page)
    assert "<script>alert" not in text
    assert text.count("</script>") == 2
    inside = text.split('<script type="application/json" id="data">')[1].split("</script>")[0]
    assert json.loads(inside)["title"] == evil


def test_colours_and_totals_are_complete(tmp_path: Path) -> None:
    script = padded((Row("array", 4, BUSY), Row("sfu", 6, WAITS)))
    with write(tmp_path / "t.h5", script) as trace:
        page = timeline(trace)
    assert [cause["name"] for cause in page["causes"]] == trace.tables["causes"]
    assert len({cause["colour"] for cause in page["causes"]}) == len(page["causes"])
    assert page["cycles"] == max(lengths(script).values())
