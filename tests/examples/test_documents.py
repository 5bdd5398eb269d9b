"""Blocks of a Markdown file, written anew by several processes at once."""

import multiprocessing
from pathlib import Path

from tests.examples.documents import blocks, rewrite

_BLOCKS = 6
_LONG = "a line\n" * 300


def _rewrite_often(path: Path, number: int) -> None:
    for turn in range(20):
        rewrite(path, {number: f"{number}: {turn}\n" + _LONG * (turn % 3)})
        assert len(blocks(path.read_text(encoding="utf-8"))) == _BLOCKS


def test_blocks_written_by_processes_at_once_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    prose = [f"Text {number}.\n\n```console\nold\n```\n\n" for number in range(_BLOCKS)]
    path.write_text("".join(prose) + "The end.\n", encoding="utf-8")
    start = multiprocessing.get_context("fork")
    writers = [start.Process(target=_rewrite_often, args=(path, number)) for number in (0, 2, 5)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    text = path.read_text(encoding="utf-8")
    last = _LONG * (19 % 3)
    expected = [f"{n}: 19\n{last}" if n in (0, 2, 5) else "old\n" for n in range(_BLOCKS)]
    assert [block.text for block in blocks(text)] == expected
    assert text.endswith("The end.\n")
    assert [one.name for one in tmp_path.iterdir()] == ["page.md"]
