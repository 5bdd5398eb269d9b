"""Bad inputs by the hundred: what each of them may do, and nothing else."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from simaccel.cli import main
from tests.robust.processes import Server, serving

MOST_SECONDS: Final = 20
"""No bad input takes longer, on a slow machine either."""

Attempt = Callable[..., str]


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Start the process that all others are forked from."""
    with serving(tmp_path_factory.mktemp("server")) as one:
        yield one


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Attempt:
    """Try a command line in a folder; give what it said, or nothing if it was accepted.

    What is refused ends with 2, a message that has the words given and nothing on standard
    output. What is accepted gives an output. Neither leaves a file, nor a traceback.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def call(*line: str, names: str = "") -> str:
        before = {path.name for path in tmp_path.iterdir()}
        started = time.monotonic()
        done = CliRunner().invoke(main, line, prog_name="simaccel")
        assert time.monotonic() - started < MOST_SECONDS, line
        assert {path.name for path in tmp_path.iterdir()} == before, line
        if done.exit_code == 0:
            assert done.stdout, line
            return ""
        assert isinstance(done.exception, SystemExit), (line, done.exception)
        assert done.exit_code == 2, (line, done.output)
        assert done.stdout == "", line
        assert done.stderr.startswith(("error: ", "Usage: ")), (line, done.stderr)
        assert names in done.stderr, (line, done.stderr)
        assert all(one.isprintable() or one == "\n" for one in done.stderr), line
        return str(done.stderr)

    return call
