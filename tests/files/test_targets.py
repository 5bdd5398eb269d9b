"""Files are written whole or not at all."""

import os
import re
from pathlib import Path

import pytest

from simaccel.errors import InputError
from simaccel.files.targets import partial_path, require_target, writing_text


def write_text(path: Path, text: str, *, force: bool = False) -> Path:
    with writing_text(path, force=force) as stream:
        stream.write(text)
    return path


def refused(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        require_target(path)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_a_text_is_written_as_it_is(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.csv", "a,b\r\n\N{GREEK SMALL LETTER MU},2\n")
    assert path.read_bytes() == b"a,b\r\n\xce\xbc,2\n"
    assert list(tmp_path.iterdir()) == [path]


def test_what_exists_is_replaced_by_force_only(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.csv", "old")
    with pytest.raises(InputError, match=r"a\.csv: output: got 'a file that exists'; allowed: a"):
        write_text(path, "new")
    assert path.read_text() == "old"
    write_text(path, "new", force=True)
    assert path.read_text() == "new"


def test_paths_that_can_not_be_written_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refused(tmp_path) == (f"{tmp_path}: output: got 'a folder'; allowed: the path of a file")
    assert "got " in refused(tmp_path / "no" / "a.csv")
    assert refused(tmp_path / "no" / "a.csv").endswith("allowed: an existing folder")
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert refused(tmp_path / "a.csv").endswith("allowed: a writable folder")


@pytest.mark.parametrize("problem", [OSError("disk full"), KeyboardInterrupt()])
def test_what_fails_leaves_the_target_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: BaseException
) -> None:
    path = write_text(tmp_path / "a.csv", "old")

    def fail(*_: object) -> None:
        raise problem

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises((InputError, KeyboardInterrupt)):
        write_text(path, "new", force=True)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


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
    with pytest.raises(
        InputError, match=r"out.txt: output: got 'a file that exists'; allowed: a n"
    ):
        _write_slowly(target)
    assert target.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [target]


def test_the_next_that_writes_a_target_removes_what_killed_ones_left(tmp_path: Path) -> None:
    target, own, nobody = tmp_path / "out.txt", f".{os.getpid()}-", f".{2**22 + 1}-"
    now = [partial_path(target) for _ in range(2)]
    other_host = re.sub(r"-[0-9a-f]{8}-", "-01234567-", now[0].name)
    kept = [
        now[0].name,  # this process lives
        now[0].name.replace(own, ".1-"),
        other_host.replace(own, nobody),  # perhaps it lives there
        f"other.{now[0].name}".replace(own, nobody),
        f"{now[0].name}.csv".replace(own, nobody),
        "out.txt.partial",
    ]
    left = [one.name.replace(own, nobody) for one in now]
    for name in (*kept, *left):
        (tmp_path / name).write_text("half")
    write_text(target, "new")
    assert {path.name for path in tmp_path.iterdir()} == {"out.txt", *kept}
