"""The command line as tests call it: in this process, without a terminal."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from simaccel.cli import main
from simaccel.workload import MODELS, ModelDimensions
from tests.small_pods import SMALL

FIELDS = (
    *("hidden", "layers", "heads", "kv_heads", "head_size", "ff_size", "vocabulary"),
    *("gated", "rotary"),
)


def _commands(group: click.Group, *words: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _commands(command, *words, name)
        else:
            yield (*words, name), command


COMMANDS = [*_commands(main)]
"""The words of each command, and the command."""


class Call:
    """Runs command lines: arguments are separated by blanks, `~` stands for a blank."""

    def __call__(self, line: str) -> Result:
        """Run a command line."""
        arguments = [part.replace("~", " ") for part in line.split()]
        return CliRunner().invoke(main, arguments, prog_name="simaccel")

    def printed(self, line: str) -> str:
        """Return what a command prints that succeeds."""
        result = self(line)
        assert result.exit_code == 0, result.output
        return result.stdout

    def json(self, line: str) -> Any:  # noqa: ANN401 - what JSON is
        """Return what a command prints as JSON."""
        return json.loads(self.printed(f"{line} --json"))

    def refused(self, line: str) -> str:
        """Return the messages of a refusal: nothing else is printed."""
        result = self(line)
        assert (result.exit_code, result.stdout) == (2, ""), result.output
        assert "Traceback" not in result.stderr
        return result.stderr

    def messages(self, line: str) -> list[str]:
        """Return the messages of a refusal, each without its beginning."""
        return [text.removeprefix("error: ") for text in self.refused(line).splitlines()]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    """Return what runs command lines, in a folder of the test's own.

    Without --jobs it starts no processes, as on a computer with one processor.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    return Call()


@pytest.fixture
def small_model(tmp_path: Path) -> Path:
    """Write the file of a small transformer."""
    lines = [f"{name}: {json.dumps(getattr(SMALL, name))}" for name in FIELDS]
    path = tmp_path / "small.yaml"
    path.write_text("\n".join(["kind: transformer", "name: small", *lines, ""]))
    return path


@pytest.fixture
def small_bert(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let bert have 2 heads of 4 values, which are searched in a fifth of the time."""
    sizes = ModelDimensions(hidden=8, heads=2, head_size=4, ff_size=16, layers=2)
    monkeypatch.setitem(MODELS._read, "bert", replace(MODELS.find("bert"), dimensions=sizes))
