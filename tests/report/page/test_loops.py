"""Loop shares and iteration windows against every cycle of a run, counted one by one."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.make_traces import FOLDER
from simaccel import load_accelerator, load_workload
from simaccel.diagnosis.stalls import diagnose
from simaccel.machine.accounts import OUTER_SITES
from simaccel.program.program import Command, Node, Operator, ProgramLoop
from simaccel.program.text import parse_program
from simaccel.report.page import engine_works, loops
from simaccel.report.page.loops import OPERATORS, TreeLine, Work, loop_tree
from simaccel.schedulers import Options
from simaccel.study.recording import record
from simaccel.trace import CommandSite, Event, TraceReader
from simaccel.trace.schema import KEY
from simaccel.trace.track import ChainTrack, RowTrack
from simaccel.units import Cause
from simaccel.workload import ModelDimensions, attention, gemm
from tests.importers.test_scalesim import SHIPPED
from tests.trace.scripts import SCRIPTS, Script, written

SMALL = ModelDimensions(hidden=4, heads=2, head_size=4, ff_size=6)
RUNS = {
    "gemm-naive": (gemm(m=40, k=20, n=12), "naive", False),
    "attention-flat": (attention(SMALL, batch=3, seq_len=29, scope="la"), "flat-r", False),
    "attention-flat-pipelined": (attention(SMALL, batch=1, seq_len=13, scope="la"), "flat-r", True),
    "block-naive-m": (attention(SMALL, batch=1, seq_len=5, scope="block"), "naive-m", False),
    "block-held": (attention(SMALL, batch=1, seq_len=5, scope="block"), "flat", False),
}


@pytest.fixture(scope="module", params=RUNS)
def trace(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TraceReader]:
    workload, dataflow, pipelined = RUNS[request.param]
    path = tmp_path_factory.mktemp("runs") / "run.h5"
    on = load_accelerator("edge" if request.param == "block-held" else "toy")
    record(path, workload, on, dataflow, options=Options(pipeline=pipelined))
    with TraceReader.open(path) as opened:
        yield opened


def _events(trace: TraceReader, engine: str) -> list[Event]:
    """Return what an engine did; what it did early counts as the same command."""
    events = trace.decode(trace.events(lane=engine))
    return [replace(event, site=event.site % OUTER_SITES) for event in events]


def _subtrees(body: tuple[Node, ...], trips: int = 1) -> Iterator[tuple[Node, list[Command], int]]:
    """Each node of a program with the commands in it and how often its body is executed."""
    for node in body:
        if isinstance(node, ProgramLoop | Operator):
            inner = trips * (node.trips if isinstance(node, ProgramLoop) else 1)
            below = list(_subtrees(node.body, inner))
            yield node, [n for n, _, _ in below if not isinstance(n, ProgramLoop | Operator)], inner
            yield from below
        else:
            yield node, [node], trips


def test_the_tree_is_the_text_of_the_program(trace: TraceReader) -> None:
    text = trace.header.program.splitlines()[1:]
    found = [f"{'  ' * (place.depth + 1)}{place.text}" for place in loops(trace)]
    assert found == [line for line in text if not line.strip().startswith("tile ")]


def test_shares_are_what_counting_gives(trace: TraceReader) -> None:
    """A subtree is the critical engine's events whose sites are numbered in it."""
    known = trace.header.sites
    places, sites = loops(trace), [n for n in sorted(known) if known[n].command and n < OUTER_SITES]
    spent: Counter[tuple[str, int]] = Counter()
    worked: Counter[tuple[str, int]] = Counter()
    for engine in trace.engines:
        for event in _events(trace, engine):
            spent[engine, event.site] += (event.end - event.start) * (event.cause != "idle")
            worked[engine, event.site] += (event.end - event.start) * (event.cause == "busy")
    nodes = list(_subtrees(parse_program(trace.header.program).body))
    seen, around = 0, list[tuple[TreeLine, Node]]()
    for place, (node, inside, executions) in zip(places, nodes, strict=True):
        mine = sites[seen : seen + len(inside)]
        seen += not isinstance(node, ProgramLoop | Operator)
        by = {engine: sum(spent[engine, site] for site in mine) for engine in trace.engines}
        assert place.executions == executions
        if isinstance(node, Operator):
            continue
        if place.lane == OPERATORS:
            around.append((place, node))
            continue
        longest = max(by, key=lambda one: by[one]) if any(by.values()) else ""
        assert place.lane == ("array" if by["array"] else longest)
        assert place.cycles == by.get(place.lane, 0)
        assert place.busy == sum(worked[place.lane, site] for site in mine)
    by_name = {p.text.removeprefix("operator "): p for p in places if p.kind == "operator"}
    for place, node in around:
        names = [inner.name for inner, *_ in _subtrees((node,)) if isinstance(inner, Operator)]
        assert place.cycles == sum(by_name[name].cycles for name in names)
        assert place.busy == sum(by_name[name].busy for name in names)
    assert 0 < max(place.cycles for place in places) <= trace.cycles


def test_operators_have_the_cycles_of_the_run_and_of_its_stalls(trace: TraceReader) -> None:
    """One rule says whose each cycle is, also where operators overlap; together they are all."""
    found = {p.text: (p.cycles, p.busy) for p in loops(trace) if p.kind == "operator"}
    assert sum(cycles for cycles, _ in found.values()) == trace.cycles
    told = {part.name: part for part in diagnose(trace).operators}
    for document in trace.figures["operators"]:
        cycles, busy = found[f"operator {document['name']}"]
        assert cycles == document["cycles"] == told[document["name"]].cycles
        assert busy in [one["busy"] for one in document["engines"].values()]


def test_a_layer_has_the_work_of_its_array_and_the_wait_for_its_own_tiles(tmp_path: Path) -> None:
    """Three layers of SCALE-Sim on 32 x 32, weight-stationary: Conv1 has 18 folds of 3,010 cycles.

    FC has 64 of 95. They wait for nothing of each other, so they overlap.
    """
    layers = (
        "Layer, Height, Width, R, S, C, M, stride,\nConv1, 56, 56, 3, 3, 32, 64, 1,\n"
        "Conv2, 28, 28, 1, 1, 64, 128, 2,\nFC, 1, 1, 1, 1, 512, 100, 1,\n"
    )
    (tmp_path / "topology.csv").write_text(layers)
    (tmp_path / "sc.cfg").write_text(SHIPPED.replace("ArrayWidth: 16", "ArrayWidth: 32"))
    on = load_accelerator(str(tmp_path / "sc.cfg"), {"dram": "1 x LPDDR4-3200x32"})
    workload = load_workload(str(tmp_path / "topology.csv"))
    record(tmp_path / "run.h5", workload, on, "flex")
    with TraceReader.open(tmp_path / "run.h5") as opened:
        told = {part.name: part for part in diagnose(opened).operators}
        lines = {place.text: place.cycles for place in loops(opened) if place.kind == "operator"}
    for name, work in (("Conv1", 18 * 3010), ("FC", 64 * 95)):
        assert told[name].engines["array"]["busy"] >= work
        assert lines[f"operator {name}"] == told[name].cycles >= work
    for name, part in told.items():
        assert {w.tile.partition(".")[0] for w in part.waits if w.engine == "array" and w.tile} <= {
            name
        }


def test_array_and_sfu_work_equally_long_each_time(trace: TraceReader) -> None:
    """What iteration windows rest on: where others come between, each visit is seen."""
    places = {place.site: place for place in loops(trace) if place.kind == "command"}
    for engine in ("array", "sfu"):
        visits: dict[int, list[int]] = {}
        for site, group in groupby(_events(trace, engine), key=lambda event: event.site):
            busy = sum(e.end - e.start for e in group if e.cause == "busy")
            if busy:
                visits.setdefault(site, []).append(busy)
        for site, found in visits.items():
            each, rest = divmod(sum(found), places[site].executions)
            assert rest == 0
            assert all(busy % each == 0 for busy in found)


def _starts(trace: TraceReader, engine: str, site: int, executions: int) -> list[tuple[int, int]]:
    """First cycle of each execution of a command, and the cycle after its last, by counting."""
    busy = [
        cycle
        for event in _events(trace, engine)
        if event.site == site and event.cause == "busy"
        for cycle in range(event.start, event.end)
    ]
    each = len(busy) // executions
    return [(busy[n * each], busy[(n + 1) * each - 1] + 1) for n in range(executions)]


def test_a_loop_shows_its_middle_iteration(trace: TraceReader) -> None:
    """From the start of the first command of the array or the SFU to its start the next time."""
    places = loops(trace)
    shown = 0
    for at, place in enumerate(places):
        inside = [p for p in places[at + 1 :][: _n_below(places, at)] if p.kind == "command"]
        commands = [p for lane in ("array", "sfu") for p in inside if p.lane == lane and p.busy]
        if place.kind != "loop" or not commands:
            continue
        first = commands[0]
        trips = int(place.text.split()[2])
        starts = _starts(trace, first.lane, first.site, first.executions)
        starts = starts[:: first.executions // place.executions]
        at_middle = (place.executions // trips - 1) // 2 * trips + (trips - 1) // 2
        assert place.exact
        assert place.window
        assert place.window[0] == starts[at_middle][0]
        if trips > 1:
            assert place.window[1] == starts[at_middle + 1][0]
            shown += 1
        else:
            last = [p for p in commands if p.lane == first.lane][-1]
            ends = _starts(trace, last.lane, last.site, last.executions)
            step = last.executions // place.executions
            assert place.window[1] == ends[(at_middle + 1) * step - 1][1]
    assert shown


def _n_below(places: list[TreeLine], at: int) -> int:
    depth = places[at].depth
    below = 0
    for place in places[at + 1 :]:
        if place.depth <= depth:
            break
        below += 1
    return below


def test_a_command_shows_one_execution(trace: TraceReader) -> None:
    for place in loops(trace):
        if place.kind != "command" or not place.window:
            continue
        start, end = place.window
        assert 0 <= start < end <= trace.cycles
        if place.lane in ("array", "sfu"):
            assert place.exact
            starts = _starts(trace, place.lane, place.site, place.executions)
            assert place.window == starts[(place.executions - 1) // 2]
        else:
            busy = {(e.start, e.end) for e in _events(trace, place.lane) if e.site == place.site}
            assert not place.exact
            assert any(first <= start and end <= last for first, last in busy)


def _sure(place: TreeLine) -> TreeLine:
    """Return a place without a window that is only about where it is."""
    return place if place.exact else replace(place, window=None)


def test_fast_forward_changes_nothing(tmp_path: Path) -> None:
    """Counting in repetitions finds what counting in an unrolled run finds."""
    workload, accelerator = gemm(batch=6, m=14, k=9, n=13), load_accelerator("toy")
    found = []
    for fast_forward in (True, False):
        path = tmp_path / f"{fast_forward}.h5"
        record(path, workload, accelerator, "naive", fast_forward=fast_forward)
        with TraceReader.open(path) as trace:
            found.append([_sure(place) for place in loops(trace)])
            assert bool(trace.n_segments) == fast_forward
    assert found[0] == found[1]


def test_one_iteration_of_a_steady_run_is_one_period() -> None:
    """In the middle of 768 equal heads, what the window shows happens again right after it."""
    with TraceReader.open(FOLDER / "edge_bert_flat.h5") as trace:
        heads = next(place for place in loops(trace) if place.text.startswith("loop bh 768 "))
        assert heads.executions == 768
        assert heads.exact
        assert heads.window
        start, end = heads.window
        length = end - start
        assert length * 768 == pytest.approx(trace.cycles, rel=0.01)
        for engine in trace.engines:
            now = trace.events(start, end, engine)
            then = trace.events(end, end + length, engine)
            assert (now["start"] + length == then["start"]).all()
            assert (now["site"] == then["site"]).all()
        commands = [e.command for e in trace.decode(trace.events(start, end, "array"))]
        assert commands[0].startswith("compute S = Q K over bh=1 q=")
        made = {c.split(" over ")[0].replace("+=", "=") for c in commands}
        assert made == {"compute S = Q K", "compute Z = S V"}


@given(SCRIPTS, st.sampled_from([1, 2, 64]), st.data())
def test_a_busy_cycle_is_found_where_counting_finds_it(
    script: Script, block_rows: int, drawn: st.DataObject
) -> None:
    with written(script, block_rows) as trace:
        engine = drawn.draw(st.sampled_from(trace.engines))
        work = engine_works(trace)[engine]
        for site in (0, 1, 2):
            busy = [
                (cycle, event)
                for event in _events(trace, engine)
                if event.site == site and event.cause == "busy"
                for cycle in range(event.start, event.end)
            ]
            assert work.busy[site] == len(busy)
            assert work.cycles[site] == sum(
                e.end - e.start
                for e in _events(trace, engine)
                if e.site == site and e.cause != "idle"
            )
            for n in range(len(busy)):
                cycle, start, end = work.row(site, n)
                assert cycle == busy[n][0]
                assert busy[n][1].start <= start <= cycle < end <= busy[n][1].end
            with pytest.raises(IndexError):
                work.row(site, len(busy))


class _Rows(dict[str, Any]):
    """Rows of a lane: all that its file has."""

    def part(self, *_: int) -> Self:
        """Return all of them."""
        return self


def _busy_then_waiting(busy: int, waits: int, site: int) -> RowTrack:
    ends = np.array([busy, busy + waits])
    columns = {"start": ends - (busy, waits), "end": ends, "cause": np.array([Cause.BUSY, 2])}
    rows: Any = _Rows(dict.fromkeys(KEY, np.zeros(2, np.int64)) | columns)
    rows["site"] = np.array([site, site])
    return RowTrack(rows, 0, 0, 0, 2, 0, busy + waits)


def test_finding_does_not_take_longer_in_a_longer_run() -> None:
    inner = ChainTrack([_busy_then_waiting(3, 5, site=7)], 8, 10**9 - 1)
    work = Work(ChainTrack([ChainTrack([inner], 8 * 10**9, 10**6 - 1)]))
    assert work.busy == {7: 3 * 10**15}
    assert work.row(7, 3 * 10**15 - 1) == (8 * 10**15 - 6, 8 * 10**15 - 8, 8 * 10**15 - 5)


def test_an_unfinished_run_has_shares_and_no_windows() -> None:
    program = parse_program(PROGRAM)
    sites = {1: CommandSite("o", "load A queue 0")}
    works = {"dma_in0": Work(ChainTrack([_busy_then_waiting(4, 6, site=1)]))}
    operator, loop, load = loop_tree(program, sites, works, complete=False)
    assert {place.window for place in (operator, loop, load)} == {None}
    assert (loop.lane, loop.cycles, loop.busy, loop.executions) == ("dma_in0", 10, 4, 3)
    assert loop_tree(program, sites, works)[2].window == (0, 4)


def test_sites_of_another_program_are_refused() -> None:
    with pytest.raises(ValueError, match="sites are not the commands"):
        loop_tree(parse_program(PROGRAM), {1: CommandSite("o", "load B queue 0")}, {})


PROGRAM = """program p
  operator o
    loop m 3 from 0 step 2
      tile A 2 x1 of A[m=6] 1B
      load A queue 0
"""
