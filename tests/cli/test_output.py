"""What is printed is whole; where outputs may go, and what they never replace."""

import errno
import io
import json
import os
import shutil
import socket
import sys
from pathlib import Path

import pytest

from simaccel.cli import main
from simaccel.cli.output import show, show_json
from simaccel.cli.progress import ProgressBar
from simaccel.report.tables import Column, tabulate
from tests.cli.conftest import Call


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
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
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


REPOSITORY = Path(__file__).parents[2]
TRACE = REPOSITORY / "traces" / "toy_gemm_naive.h5"
ATTENTION = "--hw toy --workload bert --scope la --seq-len 4"
COMPARE = f"compare {ATTENTION} --dataflow naive --jobs 1"
SEARCH = f"map {GEMM} --mapspace pfm --patience 9"
OUTPUTS = {
    f"run {GEMM} --trace {{0}}": ".h5",
    f"{COMPARE} --csv {{0}}": ".csv",
    f"{COMPARE} --plot {{0}}": ".png",
    f"map {GEMM} -o {{0}}": ".yaml",
    f"{SEARCH} -o {{0}}": ".yaml",
    f"{SEARCH} --plot {{0}}": ".svg",
    f"trace view {TRACE} -o {{0}}": ".html",
    f"trace export {TRACE} --format csv -o {{0}}": ".csv",
    f"trace plot {TRACE} --kind stalls -o {{0}}": ".pdf",
}
"""Every option that names an output, with the ending of its files."""
TEXTS = {line: end for line, end in OUTPUTS.items() if end in {".csv", ".yaml", ".html"}}


@pytest.mark.skipif(os.name == "nt", reason="makes FIFOs and sockets")
@pytest.mark.parametrize(("line", "end"), OUTPUTS.items())
def test_only_regular_files_are_replaced(cli: Call, tmp_path: Path, line: str, end: str) -> None:
    for kind in ("fifo", "socket", "folder", "device"):
        Path(f"link-{kind}{end}").symlink_to(f"{kind}{end}")
    os.mkfifo(f"fifo{end}")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(f"socket{end}")
    Path(f"folder{end}").mkdir()
    Path(f"device{end}").symlink_to("/dev/null")
    for name in sorted(path.name for path in tmp_path.iterdir()):
        before = Path(name).stat()
        said = cli.refused(f"{line.format(name)} --force")
        assert f"{name}: output: got 'a {name.removeprefix('link-').split('.')[0][:4]}" in (
            said.replace("FIFO", "fifo")
        )
        after = Path(name).stat()
        assert (before.st_ino, before.st_mode) == (after.st_ino, after.st_mode)
    assert len([*tmp_path.iterdir()]) == 8


INPUTS = [
    ("hw", "run --hw {0} --workload {1} --trace {out}"),
    ("hw", "map --hw {0} --workload {1} -o {out}"),
    ("hw", "compare --hw {0} --workload {1} --dataflow naive --csv {out}"),
    ("hw", "map --hw {0} --workload {1} --mapspace pfm --patience 9 -o {out}"),
    ("workload", "run --hw {0} --workload {1} --trace {out}"),
    ("workload", "map --hw {0} --workload {1} -o {out}"),
    ("workload", "compare --hw {0} --workload {1} --dataflow naive --csv {out}"),
    ("mapping", "run --hw {0} --workload {1} --mapping {2} --trace {out}"),
    ("trace", "trace view {3} -o {out}"),
    ("trace", "trace export {3} --format csv -o {out}"),
]


@pytest.mark.parametrize("another", ["path", "link", "inode", "dots"])
def test_an_input_is_never_replaced(cli: Call, tmp_path: Path, another: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    files = {name: folder / name for name in ("hw.yaml", "workload.yaml", "mapping.yaml", "t.h5")}
    hw, workload, mapping, trace = files.values()
    shutil.copy(REPOSITORY / "hwconfigs" / "toy.yaml", hw)
    workload.write_text("kind: gemm\nshape: {M: 9, K: 7, N: 5}\n")
    assert cli(f"map --hw {hw} --workload {workload} -o {mapping}").exit_code == 0
    shutil.copy(TRACE, trace)
    texts = [path.read_bytes() for path in files.values()]
    named = {"hw": hw, "workload": workload, "mapping": mapping, "trace": trace}
    for name, line in INPUTS:
        target = _another(named[name], tmp_path, another)
        said = cli.refused(f"{line.format(*files.values(), out=target)} --force")
        assert "output: got 'an input of this command'; allowed: another file than" in said
        assert [path.read_bytes() for path in files.values()] == texts


def _another(path: Path, folder: Path, how: str) -> Path:
    """Give another name of a file."""
    if how == "dots":
        return path.parent / ".." / path.parent.name / path.name
    if how == "path":
        return path
    other = folder / f"{how}-{path.name}"
    if not other.exists():
        other.symlink_to(path) if how == "link" else other.hardlink_to(path)
    return other


def test_a_file_that_comes_with_simaccel_is_an_input(cli: Call) -> None:
    shipped = REPOSITORY / "hwconfigs" / "toy.yaml"
    assert "an input of this command" in cli.refused(f"map {GEMM} -o {shipped} --force")


@pytest.mark.parametrize(("line", "end"), OUTPUTS.items())
def test_standard_output_is_for_texts(cli: Call, tmp_path: Path, line: str, end: str) -> None:
    shown = cli(line.format("-"))
    assert [*tmp_path.iterdir()] == []
    if line not in TEXTS:
        assert (shown.exit_code, shown.stdout) == (2, "")
        assert "-: output: got '-'; allowed: the path of a file" in shown.stderr
        return
    assert shown.exit_code == 0, shown.stderr
    assert cli(line.format(f"./-{end}")).exit_code == 0
    assert Path(f"-{end}").read_bytes() == shown.stdout_bytes


@pytest.mark.parametrize(("line", "end"), OUTPUTS.items())
def test_a_file_that_exists_is_replaced_by_force_only(cli: Call, line: str, end: str) -> None:
    file = Path(f"out{end}")
    file.write_text("precious")
    said = f"{file}: output: got 'a file that exists'; allowed: a new file, or --force"
    for dry in ("", " --dry-run")[: 2 if line.startswith("run") else 1]:
        assert cli.messages(line.format(file) + dry) == [said]
    assert file.read_text() == "precious"
    cli.printed(f"{line.format(file)} --force")
    assert file.read_bytes()[:5] in (b"\x89HDF\r", b"<?xml", b"\x89PNG\r", b"%PDF-", b"<!DOC") or (
        file.read_text(encoding="utf-8").startswith(("workload:", "lane,", "seq_len,"))
    )


def test_two_outputs_are_two_files(cli: Call, tmp_path: Path) -> None:
    (tmp_path / "b.svg").symlink_to("a.svg")
    line = f"{SEARCH} -o {tmp_path}/a.svg --plot {tmp_path}/b.svg --force"
    assert "--plot: got " in cli.refused(line)
    assert not (tmp_path / "a.svg").exists()


@pytest.mark.parametrize(("line", "end"), OUTPUTS.items())
def test_long_names_are_refused_or_written(cli: Call, tmp_path: Path, line: str, end: str) -> None:
    for length in (256, 5000):
        said = cli.refused(line.format("x" * (length - len(end)) + end))
        assert "output: got 'File name too long'; allowed: a file that can be written" in said
    assert "an existing folder" in cli.refused(line.format(f"{'y' * 255}/a{end}"))
    assert [*tmp_path.iterdir()] == []
    longest = "x" * (255 - len(end)) + end
    assert cli(line.format(longest)).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == [longest]


def test_what_a_link_leads_to_is_replaced(cli: Call, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link, file = tmp_path / "link.yaml", tmp_path / "there" / "file.yaml"
    link.symlink_to(file)
    assert cli(f"map {GEMM} -o {link}").exit_code == 0
    assert cli(f"map {GEMM} -o {link} --force").exit_code == 0
    assert link.is_symlink()
    assert file.read_text().startswith("workload:")
    assert [path.name for path in file.parent.iterdir()] == ["file.yaml"]


def test_written_files_are_reported(cli: Call, tmp_path: Path) -> None:
    mapping, table, figure = (tmp_path / name for name in ("b.yaml", "b.csv", "b.svg"))
    line = "bound --workload gemm --shape M=9,K=7,N=5 --set bytes-per-element=1 --buffer 99B"
    shown = cli.printed(f"{line} -o {mapping} --csv {table} --plot {figure}")
    assert shown.endswith(f"\nmapping: {mapping}\ntable: {table}\nfigure: {figure}\n")
    assert all(path.stat().st_size for path in (mapping, table, figure))
    assert cli.printed(f"{line} -o -") == mapping.read_text(encoding="utf-8")
