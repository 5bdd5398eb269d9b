"""The command line as tests call it: in this process, without a terminal."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from simaccel.cli import main
from simaccel.workload import MODELS, ModelDimensions
from tests.small_pods import SMALL

Call = Callable[[str], Result]
FIELDS = ("hidden", "layers", "heads", "kv_heads", "head_size", "ff_size", "vocabulary")


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run a command line; arguments are separated by blanks, `~` stands for a blank.

    Without --jobs it starts no processes, as on a computer with one processor.
    """
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(os, "cpu_count", lambda: 1)

    def call(line: str) -> Result:
        arguments = [part.replace("~", " ") for part in line.split()]
        return CliRunner().invoke(main, arguments, prog_name="simaccel")

    return call


@pytest.fixture
def small_model(tmp_path: Path) -> Path:
    """Write the file of a small transformer."""
    lines = [f"{name}: {getattr(SMALL, name)}" for name in FIELDS]
    path = tmp_path / "small.yaml"
    path.write_text("\n".join(["kind: transformer", "name: small", *lines, ""]))
    return path


@pytest.fixture
def small_bert(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let bert have 2 heads of 4 values, which are searched in a fifth of the time."""
    sizes = ModelDimensions(hidden=8, heads=2, head_size=4, ff_size=16, layers=2)
    monkeypatch.setitem(MODELS._read, "bert", replace(MODELS.find("bert"), dimensions=sizes))
