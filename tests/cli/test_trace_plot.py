"""What `simaccel trace plot` writes, prints and refuses."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simaccel.report.figures import KINDS
from tests.cli.conftest import Call

TRACES = Path(__file__).parents[2] / "traces"
EDGE = TRACES / "edge_bert_flat.h5"
STARTS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


@pytest.mark.parametrize("suffix", STARTS)
def test_the_suffix_says_what_is_written(cli: Call, tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"a.{suffix}"
    shown = cli.printed(f"trace plot {EDGE} -o {target} --kind timeline")
    assert target.read_bytes().startswith(STARTS[suffix])
    assert shown.splitlines() == ["timeline: cycles 0 to 67,999", f"figure: {target}"]


def test_all_kinds_are_one_page_that_says_which_cycles(cli: Call, tmp_path: Path) -> None:
    shown = cli.printed(f"trace plot {EDGE} -o {tmp_path / 'a.svg'}")
    assert shown.splitlines()[:4] == [
        "timeline: cycles 0 to 67,999",
        "bandwidth: cycles 0 to 25,550,299",
        "occupancy: cycles 0 to 67,999",
        "stalls: cycles 0 to 25,550,299",
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_window_and_an_engine_of_ones_own(cli: Call, tmp_path: Path, kind: str) -> None:
    window = "--from 1000 --to 20_000" if kind == "timeline" else "--from 1000 --to 20000"
    shown = cli.printed(
        f"trace plot {EDGE} -o {tmp_path / 'a.svg'} --kind {kind} {window} --engine sfu"
    )
    assert shown.startswith(f"{kind}: cycles 1,000 to 20,000\n")


def test_a_backend_of_the_environment_is_not_asked(tmp_path: Path) -> None:
    target = tmp_path / "a.svg"
    line = [sys.executable, "-m", "simaccel", "trace", "plot", str(EDGE), "-o", str(target)]
    environment = {**os.environ, "MPLBACKEND": "nonsense"}
    done = subprocess.run(
        [*line, "--kind", "timeline"], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert target.exists()
