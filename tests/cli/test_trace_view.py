"""`simaccel trace view`: the page it writes and what it refuses."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from examples.make_traces import FOLDER

Call = Callable[[str], Result]
TRACE = FOLDER / "toy_gemm_naive.h5"


def test_it_writes_one_page_and_says_so(cli: Call, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    result = cli(f"trace view {TRACE} -o {out}")
    assert result.exit_code == 0, result.stderr
    said = re.fullmatch(r"page: (\S+) \((\S+) KiB\)\n", result.stdout)
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


def test_a_page_is_replaced_only_by_force(cli: Call, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    out.write_text("mine")
    result = cli(f"trace view {TRACE} -o {out}")
    assert result.exit_code == 2
    said = f"{out}: output: got 'a file that exists'; allowed: a new file, or --force"
    assert said in result.stderr
    assert out.read_text() == "mine"
    assert cli(f"trace view {TRACE} -o {out} --force").exit_code == 0
    assert out.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_the_trace_itself_is_never_replaced(cli: Call, tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    path.write_bytes(TRACE.read_bytes())
    result = cli(f"trace view {path} -o {path} --force")
    assert result.exit_code == 2
    assert (
        f"{path}: output: got 'an input of this command'; allowed: another file than"
        in result.stderr
    )
    assert path.read_bytes() == TRACE.read_bytes()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("none.h5 -o {0}/p.html", "none.h5: no such file; allowed: a trace file"),
        ("{0}/text -o {0}/p.html", "{0}/text: is not an HDF5 file; allowed: a trace file"),
        (f"{TRACE} -o {{0}}/no/p.html", "{0}/no/p.html: output folder: got '{0}/no'; allowed"),
        (f"{TRACE} -o {{0}}", "{0}: output: got 'a folder'; allowed: the path of a file"),
        (f"{TRACE}", "Missing option '-o' / '--output'"),
    ],
)
def test_what_cannot_be_done_is_refused(cli: Call, tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "text").write_text("no trace")
    result = cli(f"trace view {line.format(tmp_path)}")
    assert result.exit_code == 2
    assert message.format(tmp_path) in result.stderr
    assert "Traceback" not in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_too_many_rows_are_refused_before_any_is_read(
    cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simaccel.report.page.data.MAX_ROWS", 100)
    monkeypatch.setattr("simaccel.trace.rows.EventColumns._read_block", None)
    result = cli(f"trace view {TRACE} -o {tmp_path / 'page.html'}")
    assert result.exit_code == 2
    assert "stored rows; allowed: up to 100 stored rows in a page; for a window" in result.stderr
    assert "--from and --to" in result.stderr
    assert list(tmp_path.iterdir()) == []
