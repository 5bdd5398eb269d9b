"""`simaccel trace export`: files, the standard output, and what is refused."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from simaccel.trace import TraceReader
from tests.cli.conftest import Call

TRACES = Path(__file__).parents[2] / "traces"
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


def test_the_whole_run_goes_to_the_standard_output(cli: Call, tmp_path: Path) -> None:
    shown = cli(f"trace export {TOY} --format csv -o -")
    assert (shown.exit_code, shown.stderr) == (0, "")
    cli(f"trace export {TOY} --format csv -o {tmp_path / 'out.csv'}")
    assert shown.stdout_bytes == (tmp_path / "out.csv").read_bytes()
    assert shown.stdout.count("\n") == 1 + _n_events(0, 473, "engine", "tile")


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
    (message,) = cli.messages(f"trace export {TOY} --format parquet -o -")
    assert "got '-'; allowed: the path of a file; what is written is no text" in message
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
