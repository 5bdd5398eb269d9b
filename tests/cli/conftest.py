"""The command line as tests call it: in this process, without a terminal."""

import os
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from simaccel.cli import main

Call = Callable[[str], Result]


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
