"""The tour of the code goes where a run goes."""

import os
import re
import sys
from pathlib import Path
from types import FrameType

import pytest

from simaccel import gemm, load_accelerator
from simaccel.experiment.recording import record
from simaccel.trace import TraceReader
from tests.examples.doctests import shown_again
from tests.examples.documents import blocks, rewrite

REPOSITORY = Path(__file__).parents[2]
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
