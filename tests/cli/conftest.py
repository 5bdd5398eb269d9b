"""The command line as tests call it: in this process, without a terminal."""

from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from simaccel.cli import main

Call = Callable[[str], Result]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> Call:
    """Run a command line; arguments are separated by blanks, `~` stands for a blank."""
    monkeypatch.setenv("COLUMNS", "100")

    def call(line: str) -> Result:
        arguments = [part.replace("~", " ") for part in line.split()]
        return CliRunner().invoke(main, arguments, prog_name="simaccel")

    return call
