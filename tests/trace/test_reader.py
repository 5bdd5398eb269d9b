import re
from ast import literal_eval
from collections.abc import Callable
from pathlib import Path
from shutil import copyfile
from typing import Any

import h5py
import pytest

from simaccel.machine.accounts import NO_WAIT, Wait
from simaccel.trace import SCHEMA_VERSION, Event, TraceError, TraceReader, schema
from simaccel.trace.rows import _CACHED_BLOCKS, BlockRows, EventColumns
from simaccel.trace.schema import OPENED
from simaccel.units import Cause
from tests.trace.scripts import ENGINES, Again, Row, padded, write

BUSY = (Cause.BUSY, NO_WAIT, 1)
WAITING = (Cause.DRAM_BANDWIDTH, Wait("K", "ready", "dma_in"), 2)
INNER = Again((Row("array", 2, BUSY), Row("array", 3, WAITING), Row("sfu", 5, WAITING)), 3)
OUTER = Again((INNER, Row("array", 1, BUSY), Row("sfu", 1, BUSY)), 2)
SCRIPT = padded([Row("array", 1, WAITING), OUTER], ENGINES)
SOUND = "; allowed: an unchanged trace that was written to its end"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write(tmp_path / "t.h5", SCRIPT, 4).close()
    return tmp_path / "t.h5"


def test_a_path_opens_a_trace(path: Path, tmp_path: Path) -> None:
    with TraceReader(str(path)) as trace:
        assert trace.cycles == 64
    with pytest.raises(TraceError, match=r"none\.h5"):
        TraceReader(tmp_path / "none.h5")


def test_events_have_names(path: Path) -> None:
    with TraceReader.open(path) as trace:
        events = trace.decode(trace.events(3, 4, "array"))
    assert events == [
        Event(
            lane="array",
            start=3,
            end=6,
            cause="dram_bandwidth",
            tile="K",
            kind="ready",
            waits_for="dma_in",
            site=2,
            operator="softmax",
            command="sfu S",
        )
    ]


def test_unknown_names_are_answered_with_what_is_known(path: Path) -> None:
    with TraceReader.open(path) as trace:
        with pytest.raises(TraceError, match="no lane 'aray'; did you mean 'array'"):
            trace.events(lane="aray")
        with pytest.raises(TraceError, match="no 'x'; allowed: one of engine, operator, site"):
            trace.stalls(by=["x"])


@pytest.mark.parametrize(
    "options", [{}, {"bins": 0}, {"bins": 100_001}, {"bin_cycles": 0}, {"bins": 1, "bin_cycles": 1}]
)
def test_bins_must_be_possible(path: Path, options: dict[str, int]) -> None:
    with TraceReader.open(path) as trace:
        assert trace.cycles == 64
        with pytest.raises(
            TraceError, match="allowed: 1 to 100000 bins, or bins of at least 1 cycles"
        ):
            trace.utilisation(**options)
        assert len(trace.utilisation(bins=65).edges) == 65
        with pytest.raises(TraceError, match="cycles 3 to 3; allowed: a part of cycles 0 to 64"):
            trace.utilisation(bins=1, start=3, end=3)


def _refused(path: Path) -> str:
    with pytest.raises(TraceError) as caught:
        TraceReader.open(path)
    assert caught.value.exit_code == 2
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value).removeprefix(f"{path}: ")


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    assert _refused(tmp_path / "t.h5") == "no such file; allowed: a trace file"
    assert _refused(tmp_path) == "is a folder; allowed: a trace file"
    text = tmp_path / "text"
    text.write_text("x" * 10_000)
    assert _refused(text) == "is not an HDF5 file; allowed: a trace file"
    text.write_text("")
    assert _refused(text) == "is not an HDF5 file; allowed: a trace file"
    foreign = tmp_path / "foreign.h5"
    h5py.File(foreign, "w").close()
    assert _refused(foreign) == "is an HDF5 file but no trace; allowed: a trace file"


@pytest.mark.parametrize(
    ("version", "age"), [(SCHEMA_VERSION + 1, "a newer"), (OPENED[0] - 1, "an older")]
)
def test_other_schema_versions_are_refused(path: Path, version: int, age: str) -> None:
    with h5py.File(path, "r+") as file:
        file.attrs["schema_version"] = version
        del file["events"]
    allowed = f"allowed: schema version {OPENED[0]} or {SCHEMA_VERSION}"
    assert _refused(path) == f"has schema version {version}, of {age} simaccel; {allowed}"


def test_a_trace_of_schema_2_opens_and_says_what_it_lacks() -> None:
    with TraceReader.open(Path(__file__).parent / "data" / "schema_2.h5") as trace:
        trace.check()
        assert trace.schema_version == 2
        assert trace.dataflow() == "flat"
        assert trace.workload().macs > 0
        assert trace.accelerator().name == "toy"
        assert "language of schema version 2" in trace.unreadable()
        for read in (trace.mapping, trace.program):
            with pytest.raises(TraceError, match="language of schema version 2; allowed: schema"):
                read()


def test_a_partial_trace_has_no_totals(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file.attrs["complete"] = False
        del file["totals"], file["header/figures"]
    with TraceReader.open(path) as trace:
        trace.check()
        assert trace.partial
        assert (trace.totals, trace.served, trace.figures) == ({}, {}, {})


def test_truncated_files_are_refused(path: Path) -> None:
    whole = path.read_bytes()
    for n in range(0, len(whole), 97):
        path.write_bytes(whole[:n])
        assert "allowed: " in _refused(path)
    path.write_bytes(whole[:-1])
    assert _refused(path).endswith(SOUND)


def test_a_flipped_bit_in_a_column_is_noticed(path: Path) -> None:
    with h5py.File(path) as file:
        offset = file["events/cause"].id.get_chunk_info(0).byte_offset
    data = bytearray(path.read_bytes())
    data[offset + 5] ^= 4
    path.write_bytes(data)
    with pytest.raises(TraceError, match="damaged"):
        _check(path)


Change = Callable[[Any], None]


def _check(path: Path) -> None:
    with TraceReader.open(path) as trace:
        trace.check()


def _set(name: str, at: object, value: object) -> Change:
    def change(file: Any) -> None:  # noqa: ANN401 - h5py has no types
        file[name][at] = value

    return change


def _remove(name: str) -> Change:
    def change(file: Any) -> None:  # noqa: ANN401 - h5py has no types
        del file[name]

    return change


def _attribute(name: str, value: object) -> Change:
    def change(file: Any) -> None:  # noqa: ANN401 - h5py has no types
        file.attrs[name] = value

    return change


CHANGES: list[tuple[Change, str]] = [
    (_set("events/end", 0, 2), "ends at cycle 2, the next starts at 1"),
    (
        _set("events/start", 1, 2),
        "of rows 1 to 6, 2 more times every 21 cycles, goes on after cycle 64",
    ),
    (_set("events/end", 2, 2**62), "in rows 0 and on: the index tells another last_end"),
    (
        _set("events/cause", 1, 3),
        "array: its rows have 24 cycles of dram_latency, the run counted 0",
    ),
    (_set("events/cause", 1, 99), "cause 99 is not in the table"),
    (_set("events/lane", 1, 99), "lane 99 is not in the table"),
    (_set("events/lane", 1, 2), "the index tells another rows"),
    (_set("events/wait_tile", 1, 99), "wait_tile 99 is not in the table"),
    (_set("events/wait_kind", 1, 99), "wait_kind 99 is not in the table"),
    (_set("events/wait_engine", 1, 99), "wait_engine 99 is not in the table"),
    (_set("segments/repeats", 0, 4), "goes on after|the next starts at"),
    (_set("segments/repeats", 0, 2), "the next starts at"),
    (_set("segments/repeats", 0, 2**62), "is longer than 64 cycles"),
    (_set("segments/repeats", 0, -1), "is outside 8 rows"),
    (_set("segments/period_cycles", 0, 4), "has 5 of 4 cycles"),
    (_set("segments/period_cycles", 0, 0), "is outside 8 rows"),
    (_set("segments/first_row", 0, 99), "is outside 8 rows"),
    (_set("segments/end_row", 1, 3), "crosses"),
    (_set("totals/cycles", (0, 0), 5), "the run counted 5"),
    (_set("totals/engine", 0, 99), "index out of range"),
    (_set("index/rows", (0, 0), 9), "the index does not describe 8 rows"),
    (_set("tables/causes", 0, b"lazy"), "damaged: causes"),
    (_set("header/figures", 0, ord("x")), "damaged"),
    (_attribute("cycles", 65), "is of 64 cycles, the run has 65"),
    (_attribute("block_rows", 0), "damaged"),
    (_attribute("block_rows", 3), "the index does not describe 8 rows"),
    (_remove("events/site"), "damaged"),
    (_remove("segments"), "damaged"),
    (_remove("totals"), "damaged"),
    (_remove("header/mapping"), "damaged"),
]


@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_check_notices_what_was_changed(path: Path, change: Change, message: str) -> None:
    with h5py.File(path, "r+") as file:
        change(file)
    with pytest.raises(TraceError, match=message) as caught:
        _check(path)
    assert str(caught.value).endswith(SOUND)


def test_check_names_engines_without_a_total_and_shows_five_faults(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        n = file["totals/engine"][:]
        cycles = file["totals/cycles"][:] + 1
        del file["totals"]
        file["totals/engine"], file["totals/cycles"] = n[:2], cycles[:2]
        file["totals/channel"], file["totals/served"] = n[:0], cycles[:0, 0]
    with pytest.raises(TraceError, match=r"; .*; .*; .*; .* and 24 more; allowed"):
        _check(path)
    with h5py.File(path, "r+") as file:
        file["totals/cycles"][:] = cycles[:2] - 1
    with pytest.raises(TraceError, match=r"damaged: dma_in: has rows and no total"):
        _check(path)


def test_each_block_is_read_once_for_all_lanes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = tuple(
        Row(e, 3, (cause, NO_WAIT, 1)) for cause in (Cause.BUSY, Cause.IDLE) for e in ENGINES
    )
    script = padded([*(Again(turn, 2) for _ in range(100)), *turn * 100], ENGINES)
    read: list[int] = []
    stored = EventColumns._read_block

    def counted(rows: EventColumns, block: int) -> BlockRows:
        read.append(block)
        return stored(rows, block)

    monkeypatch.setattr(EventColumns, "_read_block", counted)
    write(tmp_path / "t.h5", script, 8).close()
    with TraceReader.open(tmp_path / "t.h5") as trace:
        blocks = trace._rows.n_blocks
        assert blocks > 2 * _CACHED_BLOCKS
        for ask in (
            lambda: None,
            trace.check,
            trace.account,
            lambda: trace.utilisation(bins=7),
            lambda: trace.utilisation(bins=3 * blocks),
            lambda: trace.account(start=5, end=trace.cycles - 5),
        ):
            read.clear()
            ask()
            assert len(read) <= blocks + 2 * len(ENGINES)
    with TraceReader.open(tmp_path / "t.h5") as trace:
        trace.check(accounts=True)
        read.clear()
        assert trace.account()
        assert not read


README = Path(__file__).parents[2] / "traces" / "README.md"
IDLE = (Cause.IDLE, NO_WAIT, 0)


def _run_example(pattern: str) -> None:
    found = re.search(pattern, README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert found
    lines = [line.removeprefix("    ") if pattern[0] == "^" else line for line in
             found[1].splitlines()]  # fmt: skip
    exec(compile("\n".join(lines), str(README), "exec"), {})  # noqa: S102 - our own README


def test_the_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = Again((Row("array", 2, BUSY), Row("array", 1, IDLE)), 1)
    write(tmp_path / "run.h5", padded([Again((inner, Row("array", 3, BUSY)), 1)], ENGINES)).close()
    monkeypatch.chdir(tmp_path)
    _run_example(r"```python\n(.*?)```")
    assert capsys.readouterr().out.splitlines() == [
        "array busy 14", "array idle 4", "dma_in idle 18", "sfu idle 18",
        "0 2 busy", "3 5 busy", "9 11 busy", "12 14 busy",
        "2 3 idle", "5 6 idle", "11 12 idle", "14 15 idle",
        "6 9 busy", "15 18 busy",
    ]  # fmt: skip
    copyfile(README.parent / "toy_gemm_naive.h5", tmp_path / "run.h5")
    _run_example(r"^(    from simaccel import Trace\n.*?)^[A-Z]")
    summed, counted = map(literal_eval, capsys.readouterr().out.splitlines())
    assert summed == {engine: cycles for engine, cycles in counted.items() if cycles}
    assert summed["array"] > 0
    _run_example(r"^## What it is\n.*?^(    from simaccel import Trace\n.*?)^##")
    assert capsys.readouterr().out.startswith("Event(lane='dma_in0', start=0, end=")


def test_every_column_and_version_is_documented() -> None:
    text = README.read_text(encoding="utf-8")
    for name in (*schema.COLUMNS, *schema.SEGMENT_FIELDS, *schema.TABLES, *schema.TEXTS):
        assert f"`{name}`" in text
    assert f"| `schema_version` | {schema.SCHEMA_VERSION}." in text
