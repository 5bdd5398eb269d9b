"""What `simaccel trace plot`, `view` and `export` write, print and refuse."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from examples.make_traces import FOLDER
from simaccel.report.figures import KINDS
from simaccel.trace import TraceReader
from tests.cli.conftest import Call

TRACES = Path(__file__).parents[2] / "traces"
EDGE = TRACES / "edge_bert_flat.h5"
STARTS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


@pytest.mark.parametrize("suffix", STARTS)
def test_the_suffix_says_what_is_written(cli: Call, tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"a.{suffix}"
    shown = cli.printed(f"trace plot {EDGE} -o {target} --kind timeline")
    assert target.read_bytes().startswith(STARTS[suffix])
    assert shown.splitlines() == ["timeline: cycles 0 to 67,999", f"figure: {target}"]


def test_all_kinds_are_one_page_that_says_which_cycles(cli: Call, tmp_path: Path) -> None:
    shown = cli.printed(f"trace plot {EDGE} -o {tmp_path / 'a.svg'}")
    assert shown.splitlines()[:4] == [
        "timeline: cycles 0 to 67,999",
        "bandwidth: cycles 0 to 25,550,299",
        "occupancy: cycles 0 to 67,999",
        "stalls: cycles 0 to 25,550,299",
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_window_and_an_engine_of_ones_own(cli: Call, tmp_path: Path, kind: str) -> None:
    window = "--from 1000 --to 20_000" if kind == "timeline" else "--from 1000 --to 20000"
    shown = cli.printed(
        f"trace plot {EDGE} -o {tmp_path / 'a.svg'} --kind {kind} {window} --engine sfu"
    )
    assert shown.startswith(f"{kind}: cycles 1,000 to 20,000\n")


def test_a_backend_of_the_environment_is_not_asked(tmp_path: Path) -> None:
    target = tmp_path / "a.svg"
    line = [sys.executable, "-m", "simaccel", "trace", "plot", str(EDGE), "-o", str(target)]
    environment = {**os.environ, "MPLBACKEND": "nonsense"}
    done = subprocess.run(
        [*line, "--kind", "timeline"], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert target.exists()


TRACE = FOLDER / "toy_gemm_naive.h5"


def test_it_writes_one_page_and_says_so(cli: Call, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    shown = cli.printed(f"trace view {TRACE} -o {out}")
    said = re.fullmatch(r"page: (\S+) \((\S+) KiB\)\n", shown)
    assert said
    assert said[1] == str(out)
    assert float(said[2]) == pytest.approx(out.stat().st_size / 1024, rel=0.01)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_the_page_needs_nothing_else(cli: Call, tmp_path: Path) -> None:
    """No address, no link, no import; the browser is told to fetch nothing."""
    out = tmp_path / "page.html"
    cli(f"trace view {TRACE} -o {out}")
    text = out.read_text(encoding="utf-8")
    assert not re.findall(r"https?:|//[a-z]+\.|\bsrc=|\bhref=|\bfetch\(|@import|\burl\(", text)
    assert "default-src 'none'" in text
    assert text.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert "{{" not in text


def test_the_same_trace_gives_the_same_page(cli: Call, tmp_path: Path) -> None:
    pages = [tmp_path / "a.html", tmp_path / "b.html"]
    for out in pages:
        cli(f"trace view {TRACE} -o {out}")
    assert pages[0].read_bytes() == pages[1].read_bytes()


def test_too_many_rows_are_refused_before_any_is_read(
    cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simaccel.report.page.MAX_ROWS", 100)
    monkeypatch.setattr("simaccel.trace.rows.EventColumns._read_block", None)
    said = cli.refused(f"trace view {TRACE} -o {tmp_path / 'page.html'}")
    assert "stored rows; allowed: up to 100 stored rows in a page; for a window" in said
    assert "--from and --to" in said
    assert list(tmp_path.iterdir()) == []


TOY = TRACES / "toy_gemm_naive.h5"


def _n_events(start: int, end: int, *kinds: str) -> int:
    with TraceReader.open(TOY) as trace:
        lanes = [lane for lane, kind in trace.lanes.items() if kind in kinds]
        return sum(len(trace.events(start, end, lane)) for lane in lanes)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("perfetto", '{"displayTimeUnit":"ns"'),
        ("csv", "lane,start,"),
        ("vcd", "$comment 1 ns"),
        ("parquet", "PAR1"),
    ],
)
def test_a_window_is_written_to_a_file(cli: Call, tmp_path: Path, name: str, first: str) -> None:
    out = tmp_path / "out"
    result = cli(f"trace export {TOY} --format {name} -o {out} --from 100 --to 200")
    assert (result.exit_code, result.stderr) == (0, "")
    n_events = _n_events(100, 200, "engine", "tile")
    assert result.stdout == f"{out}: {n_events} events of cycles 100 to 200\n"
    assert out.read_bytes().startswith(first.encode())
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_json_says_what_was_written(cli: Call, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = cli(f"trace export {TOY} --format vcd -o {out} --to 8 --json")
    assert json.loads(result.stdout) == {"file": str(out), "events": 9, "from": 0, "to": 8}


@pytest.mark.parametrize(
    ("lanes", "kinds"),
    [("channel", ["channel"]), ("engine,~channel,tile", ["engine", "channel", "tile"])],
)
def test_lanes_are_chosen_by_kind(cli: Call, lanes: str, kinds: list[str]) -> None:
    shown = cli(f"trace export {TOY} --format csv -o - --lanes {lanes}").stdout
    assert shown.count("\n") == 1 + _n_events(0, 473, *kinds)


def test_lanes_are_chosen_by_name(cli: Call) -> None:
    shown = cli(f"trace export {TOY} --format csv -o - --lanes array,tile~A").stdout
    assert {line.partition(",")[0] for line in shown.splitlines()} == {"lane", "array", "tile A"}


def test_a_run_of_too_many_events_gives_a_steady_period(cli: Call, tmp_path: Path) -> None:
    """Of a window that is asked for nothing is left out; of the run what can be shown."""
    asked = f"trace export {TOY} --format vcd -o {tmp_path / 'out.vcd'} --lanes engine"
    found = cli.json(f"{asked} --at-most 100")
    assert 1 < found["events"] <= 100
    assert 0 <= found["from"] < found["to"] < 473


@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_a_table_is_never_a_part_of_what_was_asked_for(
    cli: Call, tmp_path: Path, name: str
) -> None:
    """It is summed; viewers show a steady period instead."""
    out = tmp_path / "out"
    line = f"trace export {TOY} --format {name} -o {out} --lanes engine --at-most"
    n_events = _n_events(0, 473, "engine")
    (message,) = cli.messages(f"{line} {n_events - 1}")
    assert f"{n_events} rows in cycles 0 to 473, more than {n_events - 1}" in message
    assert cli(f"{line} {n_events}").exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_parquet_is_a_file_and_needs_what_writes_it(
    cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (message,) = cli.messages(f"trace export {TOY} --format parquet -o {tmp_path / 'out'}")
    assert "--format: got 'no pyarrow'; allowed: pip install 'simaccel[parquet]'" in message
    assert message.endswith("or --format csv")


def test_a_failed_export_leaves_nothing(
    cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    for failing, code, said in (
        (full, 2, "out: output: got 'No space left on device'"),
        (interrupted, 130, "inter"),
    ):
        monkeypatch.setitem(vars(sys.modules["simaccel.trace.exports"])["FORMATS"], "csv", failing)
        result = cli(f"trace export {TOY} --format csv -o {tmp_path / 'out'}")
        assert result.exit_code == code
        assert said in result.stderr
        assert list(tmp_path.iterdir()) == []


def test_a_reader_that_closes_the_pipe_ends_it_without_a_traceback() -> None:
    line = [sys.executable, "-m", "simaccel", "trace", "export", str(TRACES / "edge_bert_flat.h5")]
    with subprocess.Popen(
        [*line, "--format", "csv", "-o", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"lane,")
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
