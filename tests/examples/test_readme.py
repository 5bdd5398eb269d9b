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
from tests.examples.documents import Block, blocks, session, stable, trimmed

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


def _compare(found: list[tuple[Block, str]]) -> None:
    """Compare blocks with what was printed now, or replace them."""
    if os.environ.get("SIMACCEL_UPDATE_GOLDEN") == "1":
        text = README.read_text(encoding="utf-8")
        for block, printed in reversed(found):
            text = text[: block.start] + trimmed(printed) + text[block.end :]
        README.write_text(text, encoding="utf-8")
    for (block, printed), now in zip(found, _blocks_like(found), strict=True):
        assert stable(now.text) == stable(printed), block.text


def _blocks_like(found: list[tuple[Block, str]]) -> list[Block]:
    language = found[0][0].language
    return [one for one in _blocks() if one.language == language]


def _blocks() -> list[Block]:
    return blocks(README.read_text(encoding="utf-8"))


@pytest.mark.usefixtures("_one_process")
@pytest.mark.xfail(reason="the outputs of the last console blocks are to be printed again")
def test_commands_print_what_stands_in_the_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    consoles = [one for one in _blocks() if one.language == "console"]
    assert consoles
    _compare([(block, _console(block)) for block in consoles])


def test_code_prints_what_stands_in_the_readme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    found = _blocks()
    pairs = [(code, printed) for code, printed in pairwise(found) if code.language == "python"]
    assert pairs
    assert all(printed.language == "text" for _, printed in pairs)
    _compare([(printed, _python(code)) for code, printed in pairs])


def test_from_python_takes_five_lines() -> None:
    code = next(one for one in _blocks() if "import build" in one.text)
    assert len([line for line in code.text.splitlines() if line.strip()]) <= 5


@pytest.mark.parametrize("command", ["make run", "make test"])
def test_the_two_commands_are_targets(command: str) -> None:
    assert f"    {command}" in README.read_text(encoding="utf-8")
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    assert f"\n{command.removeprefix('make ')}: " in makefile
