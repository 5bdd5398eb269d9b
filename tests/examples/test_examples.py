"""Every file of `examples/` is run by a test, and the tour; pages have answers and blocks."""

import multiprocessing
import os
import re
import sys
from pathlib import Path
from types import FrameType

import pytest

from examples import picture, trace_picture
from simaccel import gemm, load_accelerator
from simaccel.study.recording import record
from simaccel.trace import TraceReader
from tests.examples.doctests import shown_again
from tests.examples.documents import blocks, rewrite

REPOSITORY = Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "examples"
PNG = b"\x89PNG"


def test_the_picture_of_the_readme_is_drawn(
    tmp_path: Path, searched: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMACCEL_CACHE", str(searched))
    target = tmp_path / "images" / "picture.png"
    for name, value in {"TARGET": target, "LENGTHS": (16, 32), "STACKED": (16, 32)}.items():
        monkeypatch.setattr(picture, name, value)
    monkeypatch.setattr(picture, "BATCH", 1)
    drawn = {name: picture.DATAFLOWS[name] for name in ("naive", "flash")}
    monkeypatch.setattr(picture, "DATAFLOWS", drawn)
    picture.main()
    assert target.read_bytes().startswith(PNG)


def test_the_shares_of_the_picture_are_all_cycles() -> None:
    shares = picture.array_shares(picture.run("naive", 16))
    assert shares.keys() == picture.CAUSES.keys()
    assert all(-1e-9 <= share <= 1 for share in shares.values())
    assert sum(shares.values()) == pytest.approx(1)


def test_the_picture_of_a_trace_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "trace.png"
    monkeypatch.setattr(trace_picture, "TARGET", target)
    trace_picture.main()
    assert target.read_bytes().startswith(PNG)


def test_every_example_is_named_in_a_test() -> None:
    tests = "\n".join(
        path.read_text(encoding="utf-8") for path in (REPOSITORY / "tests").rglob("*.py")
    )
    entries = {path for path in EXAMPLES.iterdir() if path.name[0] not in "_."}
    assert entries
    for path in entries:
        assert path.stem in tests or f"*{path.suffix}" in tests, path.name


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


TOUR = REPOSITORY / "docs" / "tour.md"
SCREEN_LINES = 60
STOP = re.compile(r"^- `(simaccel/[\w/]+\.py)`: `([\w.]+)`", re.MULTILINE)


def _entered(folder: Path) -> dict[tuple[str, str], int]:
    """Return which functions the run of the tour enters, by file, and in which order."""
    order: dict[tuple[str, str], int] = {}
    package = str(REPOSITORY / "simaccel")

    def enter(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(package):
            name = Path(code.co_filename).relative_to(REPOSITORY).as_posix()
            order.setdefault((name, code.co_qualname), len(order))

    sys.setprofile(enter)
    try:
        workload, toy = gemm(m=9, k=7, n=5), load_accelerator("toy")
        record(folder / "tour.h5", workload, toy, "flex")
        with TraceReader.open(folder / "tour.h5") as trace:
            trace.stalls()
    finally:
        sys.setprofile(None)
    return order


def test_each_stage_names_functions_in_the_order_in_which_a_run_enters_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMACCEL_CACHE", "off")
    order = _entered(tmp_path)
    stages = TOUR.read_text(encoding="utf-8").split("\n## ")[1:]
    assert len(stages) == 7
    for stage in stages:
        stops = STOP.findall(stage)
        assert len(stops) >= 2, stage.splitlines()[0]
        assert [stop for stop in stops if stop not in order] == []
        assert stops == sorted(stops, key=lambda stop: order[stop])


def test_files_that_are_named_are_there_and_a_stage_fits_a_screen() -> None:
    text = TOUR.read_text(encoding="utf-8")
    named = re.findall(r"`(simaccel/[\w/]+(?:\.py|/))`", text)
    assert [name for name in named if not (REPOSITORY / name).exists()] == []
    assert max(len(stage.splitlines()) for stage in text.split("\n## ")) <= SCREEN_LINES


def test_blocks_print_what_stands_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written = dict(enumerate(block.text for block in blocks(TOUR.read_text(encoding="utf-8"))))
    shown = shown_again(written, "tour.md")
    if os.environ.get("SIMACCEL_UPDATE_GOLDEN") == "1":
        rewrite(TOUR, shown)
    else:
        assert shown == written
