"""`simaccel trace view`: the page it writes and what it refuses."""

import re
from pathlib import Path

import pytest

from examples.make_traces import FOLDER
from tests.cli.conftest import Call

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
    monkeypatch.setattr("simaccel.report.page.data.MAX_ROWS", 100)
    monkeypatch.setattr("simaccel.trace.rows.EventColumns._read_block", None)
    said = cli.refused(f"trace view {TRACE} -o {tmp_path / 'page.html'}")
    assert "stored rows; allowed: up to 100 stored rows in a page; for a window" in said
    assert "--from and --to" in said
    assert list(tmp_path.iterdir()) == []
