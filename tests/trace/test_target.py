"""Text files are written whole or not at all."""

from pathlib import Path

import pytest

from simaccel.trace import TraceError
from simaccel.trace.target import writing_text


def test_a_text_takes_the_target_s_place_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    target.write_text("old")
    with writing_text(target, force=True) as stream:
        stream.write("né\r\n")
        assert target.read_text() == "old"
        (partial,) = set(tmp_path.iterdir()) - {target}
        assert partial.name.startswith("out.txt.")
    assert target.read_bytes() == "né\r\n".encode()
    assert list(tmp_path.iterdir()) == [target]


def _write(target: Path, text: str, error: type[BaseException]) -> None:
    with writing_text(target) as stream:
        stream.write(text)
        raise error


def _write_slowly(target: Path) -> None:
    with writing_text(target) as stream:
        stream.write("mine")
        target.write_text("theirs")


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_nothing_is_left_of_a_text_that_is_not(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error):
        _write(tmp_path / "out.txt", "half", error)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_comes_meanwhile_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    with pytest.raises(TraceError, match=r"out.txt: exists already; allowed: a new file, or --f"):
        _write_slowly(target)
    assert target.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [target]
