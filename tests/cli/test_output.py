"""What is printed is whole, however narrow the terminal."""

import errno
import io
import json
import sys
from pathlib import Path

import pytest

from simaccel.cli import main
from simaccel.cli.output import show, show_json
from simaccel.cli.progress import ProgressBar
from simaccel.report.tables import Column, tabulate


@pytest.mark.parametrize("columns", ["10", "40", "100"])
def test_no_figure_is_cut(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    row = {"name": "operator[0]", "number": 1234567890, "text": "words that may wrap"}
    parts = (
        Column("name", "name", kind="text"),
        Column("two words", "number", "count"),
        Column("text", "text", kind="wrapped"),
    )
    table = tabulate([row], parts)
    line = "a line of more than ten or even forty columns"
    show(table, line)
    printed = capsys.readouterr().out
    assert "…" not in printed
    for word in ("operator[0]", "two words", "1,234,567,890", "words", "wrap"):
        assert word in printed
    assert line in printed.splitlines()


def test_json_is_all_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    show_json({"cycles": 7})
    assert json.loads(capsys.readouterr().out) == {"cycles": 7}


class _Full(io.StringIO):
    """An output on a device that is full, with or without a buffer."""


def _refuse(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


GEMM = "--hw toy --workload gemm --shape M=9,K=7,N=5"


@pytest.mark.parametrize(
    "line",
    [
        f"run {GEMM}",
        f"run {GEMM} --json",
        f"run {GEMM} --csv -",
        f"compare {GEMM} --jobs 1 --csv -",
        f"map {GEMM} -o -",
        "hw list",
        "hw list --help",
        "--version",
    ],
)
@pytest.mark.parametrize("refused", ["write", "flush"])
def test_an_output_that_takes_nothing_is_said(
    line: str, refused: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_Full, refused, _refuse)
    monkeypatch.setattr(sys, "stdout", _Full())
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    sys.stdout.flush()  # as Python does when it ends
    assert ended.value.code == 1
    said = "error: standard output can't be written: No space left on device\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("line", [f"run {GEMM} --trace t.h5", "hw list", "--version"])
def test_nothing_runs_where_the_output_is_closed(
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert ended.value.code == 1
    assert capsys.readouterr().err == "error: standard output can't be written: it is closed\n"
    assert not [*tmp_path.iterdir()]


def test_no_progress_where_the_errors_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert ProgressBar("simulating").hidden
