"""Commands and code of the README do what it says; SIMACCEL_UPDATE_GOLDEN=1 writes it anew."""

import contextlib
import io
import os
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from simaccel.cli import main
from tests.examples.documents import Block, blocks, rewrite, session, stable, trimmed

REPOSITORY = Path(__file__).parents[2]
README = REPOSITORY / "README.md"


@pytest.fixture
def _one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `compare` run in this process, with the width of a pipe."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)


def _printed(command: str) -> str:
    program, *arguments = shlex.split(command)
    assert program == "simaccel"
    return CliRunner().invoke(main, arguments, prog_name="simaccel").output


def _console(block: Block) -> str:
    """Run the commands of a block; errors and what they print come after them."""
    return "\n".join(f"$ {command}\n{trimmed(_printed(command))}" for command, _ in session(block))


def _python(block: Block) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(block.text, str(README), "exec"), {})  # noqa: S102 - our own README
    return out.getvalue()


def _compare(printed: dict[int, str]) -> None:
    """Compare blocks, by their numbers, with what was printed now; or write it into them first."""
    if os.environ.get("SIMACCEL_UPDATE_GOLDEN") == "1":
        rewrite(README, {number: trimmed(text) for number, text in printed.items()})
    found = _blocks()
    for number, text in printed.items():
        assert stable(found[number].text) == stable(text)


def _blocks() -> list[Block]:
    return blocks(README.read_text(encoding="utf-8"))


@pytest.mark.usefixtures("_one_process")
def test_commands_print_what_stands_in_the_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = enumerate(_blocks())
    printed = {number: _console(one) for number, one in found if one.language == "console"}
    assert printed
    _compare(printed)


def test_code_prints_what_stands_in_the_readme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    pairs = pairwise(enumerate(_blocks()))
    shown = [(code, after) for (_, code), after in pairs if code.language == "python"]
    assert shown
    assert all(after.language == "text" for _, (_, after) in shown)
    _compare({number: _python(code) for code, (number, _) in shown})


def test_from_python_takes_five_lines() -> None:
    code = next(one for one in _blocks() if "import build" in one.text)
    assert len([line for line in code.text.splitlines() if line.strip()]) <= 5


@pytest.mark.parametrize("command", ["make run", "make test"])
def test_the_two_commands_are_targets(command: str) -> None:
    assert f"    {command}" in README.read_text(encoding="utf-8")
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    assert f"\n{command.removeprefix('make ')}: " in makefile
