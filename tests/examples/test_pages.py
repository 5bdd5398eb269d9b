"""Commands and code of the README and of the guide do what stands there.

SIMACCEL_UPDATE_GOLDEN=1 writes what they print into the pages (`make golden`). Blocks with a
comment such as `<!-- heavy 9 -->` before them, of about so many CPU seconds, are run then and by
`make validate`, and a few of them by CI, for each SIMACCEL_SEED others; one with
`<!-- name.yaml -->` is that file, for the commands of the page. Whatever is searched is remembered
for all pages and tests.
"""

import contextlib
import io
import math
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from importlib import resources
from itertools import pairwise
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from simaccel.cli import main, progress
from tests.draws import DRAWS, SEED
from tests.examples.doctests import shown_again
from tests.examples.documents import Block, blocks, rewrite, session, stable, timeless, trimmed

REPOSITORY = Path(__file__).parents[2]
README = REPOSITORY / "README.md"
GUIDE = REPOSITORY / "docs" / "guide"
JOURNEYS = REPOSITORY / "examples" / "journeys"
PAGES = [README, *sorted(GUIDE.glob("*.md")), *sorted(JOURNEYS.glob("*.md"))]
UPDATE = os.environ.get("SIMACCEL_UPDATE_GOLDEN") == "1"
HEAVY = UPDATE or DRAWS > 1
TURNS = 12
"""Runs of CI until each heavy block has had its turn, with seeds that follow one another."""
MOST_SECONDS = 20
"""CPU seconds of the heavy blocks of a turn."""
README_LINES = 200
MOST_COMMANDS = 8
"""Of a task that is done from the beginning to the end."""
FILES = {"yaml", "text"}

NAMES = [page.relative_to(REPOSITORY).as_posix() for page in PAGES]

each_page = pytest.mark.parametrize("page", PAGES, ids=NAMES)


@pytest.fixture
def _as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands run in this process, with the width of a pipe."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)


def _blocks(page: Path) -> list[Block]:
    return blocks(page.read_text(encoding="utf-8"))


def _turn(seed: int) -> set[tuple[Path, int]]:
    """Return the heavy blocks whose turn it is, with those that write the traces they read."""
    return _turns()[seed % TURNS][1] if seed else set()


@cache
def _turns() -> list[tuple[int, set[tuple[Path, int]]]]:
    """Return the turns, with their seconds: what takes longest first, each to the shortest."""
    heavy = [
        (page, number)
        for page in PAGES
        for number, one in enumerate(_blocks(page))
        if _is_heavy(one)
    ]
    turns: list[tuple[int, set[tuple[Path, int]]]] = [(0, set()) for _ in range(TURNS)]
    for page, number in sorted(heavy, key=lambda one: -_seconds(*one)):
        needed = {(page, n) for n in (number, *_writers(_blocks(page), number))}
        longer = [
            (before + sum(_seconds(*one) for one in needed - due), at)
            for at, (before, due) in enumerate(turns)
        ]
        seconds, at = min(longer)
        turns[at] = seconds, turns[at][1] | needed
    return turns


def _writers(found: list[Block], number: int) -> Iterator[int]:
    """Yield the heavy blocks that write a trace which a later one reads."""
    for n in range(number):
        for name in re.findall(r"--trace (\S+)", found[n].text):
            if _is_heavy(found[n]) and name in found[number].text:
                yield n


def _is_heavy(block: Block) -> bool:
    return block.note.startswith("heavy ")


def _seconds(page: Path, number: int) -> int:
    return int(_blocks(page)[number].note.removeprefix("heavy "))


def _due(page: Path, language: str) -> dict[int, Block]:
    """Return the blocks of a language that are to be run now, by their numbers."""
    return {
        number: block
        for number, block in enumerate(_blocks(page))
        if block.language == language and (HEAVY or not block.note or (page, number) in TURN)
    }


def _write_files(page: Path, folder: Path) -> None:
    """Write the files of a page, and copy the models that are named from onnx's own tests."""
    for name in set(re.findall(r"\blight_\w+\.onnx", page.read_text(encoding="utf-8"))):
        shutil.copy(str(resources.files("onnx") / "backend/test/data/light" / name), folder)
    for block in _blocks(page):
        if block.note and not _is_heavy(block):
            (folder / block.note).write_text(block.text, encoding="utf-8")


TURN = _turn(SEED)
progress.UNSEEN_SECONDS = math.inf  # a page is the same on a slow machine


def _command(line: str) -> list[str]:
    program, *arguments = shlex.split(line)
    assert program == "simaccel", line
    return arguments


def _console(block: Block) -> str:
    """Run the commands of a block; errors and what they print come after them."""
    shown = []
    for line, _ in session(block):
        found = CliRunner().invoke(main, _command(line), prog_name="simaccel")
        if found.exception is not None and not isinstance(found.exception, SystemExit):
            raise found.exception
        assert "\nError: " not in found.output, f"{line}: no such option"
        shown.append(f"$ {line}\n{trimmed(found.output)}")
    return "\n".join(shown)


def _python(page: Path, block: Block) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(block.text, str(page), "exec"), {})  # noqa: S102 - our own page
    return out.getvalue()


def _compare(page: Path, printed: dict[int, str], same: Callable[[str], str]) -> None:
    """Compare blocks, by their numbers, with what was printed now; or write it into them first."""
    found = _blocks(page)
    if UPDATE:
        new = {n: text for n, text in printed.items() if timeless(text) != timeless(found[n].text)}
        rewrite(page, new)
        found = _blocks(page)
    for number, text in printed.items():
        assert same(found[number].text) == same(text)


@each_page
@pytest.mark.usefixtures("_as_written")
def test_commands_print_what_stands_there(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _write_files(page, tmp_path)
    due = _due(page, "console")
    printed = {number: trimmed(_console(block)) for number, block in due.items()}
    _compare(page, printed, stable)


@each_page
@pytest.mark.usefixtures("_as_written")
def test_code_prints_what_stands_there(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    pairs = pairwise(enumerate(_blocks(page)))
    shown = [(code, number) for (_, code), (number, _) in pairs if code.language == "python"]
    printed = {number: trimmed(_python(page, code)) for code, number in shown}
    _compare(page, printed, stable)


@each_page
@pytest.mark.usefixtures("_as_written")
def test_examples_print_what_stands_there(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _write_files(page, tmp_path)
    found = {number: block.text for number, block in _due(page, "pycon").items()}
    _compare(page, shown_again(found, page.name), str)


@each_page
def test_nothing_is_shown_that_was_not_run(page: Path) -> None:
    """Each block is run, is what a run printed, is a file of the page, or is YAML to read."""
    text = page.read_text(encoding="utf-8")
    found = blocks(text)
    for before, block in pairwise([None, *found]):
        assert block
        after_code = before is not None and before.language == "python"
        assert (block.language == "text" and not block.note) == after_code, block.text
        assert block.language in {"console", "python", "pycon", *FILES}, block.text
        if block.note and not _is_heavy(block):
            assert block.language in FILES, block.text
        if block.language == "console":
            assert all(output.strip() for _, output in session(block)), block.text
    assert text.count("\n```") == 2 * len(found), "a fence that is none"
    shown = re.findall(r"^    +\$? ?(simaccel .*)$", text, re.MULTILINE)
    assert set(shown) <= {"simaccel --help"}, "a command that is not run"


@each_page
def test_commands_in_the_text_can_be_given(page: Path) -> None:
    """Every option of a command in backticks exists, and takes such a value."""
    prose = re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    for found in re.findall(r"`(simaccel [^`]+)`", prose.replace("\n", " ")):
        context, arguments = click.Context(main), _command(found)
        command: click.Command = main
        while isinstance(command, click.Group) and arguments:
            name, inner, arguments = command.resolve_command(context, arguments)
            assert name is not None, found
            assert inner is not None, found
            command = inner
            context = click.Context(command, info_name=name, parent=context)
        if arguments and "..." not in arguments:
            # only what matters is shown; a help ends the command
            with contextlib.suppress(click.MissingParameter, click.exceptions.Exit):
                command.make_context(None, arguments)


@cache
def _options(command: click.Command) -> frozenset[str]:
    """Return the options of a command and of those in it."""
    context, inside = click.Context(command), list[click.Command | None]()
    if isinstance(command, click.Group):
        inside = [command.get_command(context, name) for name in command.list_commands(context)]
    own = (name for option in command.params for name in (*option.opts, *option.secondary_opts))
    return frozenset(own).union(*(_options(one) for one in inside if one is not None))


@each_page
def test_options_in_the_text_are_there(page: Path) -> None:
    named = set(re.findall(r"`(--[a-z][a-z-]+)", page.read_text(encoding="utf-8")))
    assert named <= _options(main) | {"--help"}


@each_page
def test_the_guide_lists_its_pages(page: Path) -> None:
    index = (GUIDE / "README.md").read_text(encoding="utf-8")
    assert page.parent != GUIDE or page.name == "README.md" or f"]({page.name})" in index, (
        f"docs/guide/README.md: add a line with a link to {page.name}"
    )


def test_a_task_takes_eight_commands_or_cells_at_most() -> None:
    for page in JOURNEYS.glob("*.md"):
        cells = [one for one in _blocks(page) if one.language in ("console", "pycon")]
        assert 1 <= sum(len(session(one)) or 1 for one in cells) <= MOST_COMMANDS, page.name


def test_each_heavy_block_has_its_turn() -> None:
    turns = [_turn(seed) for seed in range(9, 9 + TURNS)]
    heavy = {(p, n) for p in PAGES for n, one in enumerate(_blocks(p)) if _is_heavy(one)}
    assert set.union(*turns) == heavy
    assert max(seconds for seconds, _ in _turns()) <= MOST_SECONDS
    assert _turn(0) == set()


def test_the_readme_is_short_and_its_blocks_are_run_by_every_run_of_ci() -> None:
    assert not any(map(_is_heavy, _blocks(README)))
    assert len(README.read_text(encoding="utf-8").splitlines()) <= README_LINES


def test_from_python_takes_five_lines() -> None:
    code = next(one for one in _blocks(README) if "import build" in one.text)
    assert len([line for line in code.text.splitlines() if line.strip()]) <= 5


@pytest.mark.parametrize("command", ["make run", "make test"])
def test_the_two_commands_are_targets(command: str) -> None:
    assert f"    {command}" in README.read_text(encoding="utf-8")
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    assert f"\n{command.removeprefix('make ')}: " in makefile


def test_answers_to_questions_are_what_their_commands_print() -> None:
    """Each row of the guide's table: its command is on the page behind it, its answer below it."""
    text = (GUIDE / "README.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| [^|]+\? \| `([^`]+)` \| \*([^|]+)\* \| .*\]\((.+)\) \|$", text, re.MULTILINE
    )
    assert len(rows) == len(re.findall(r"^\| .*\? \|", text, re.MULTILINE)) >= MOST_COMMANDS
    for command, answer, page in rows:
        consoles = [one for one in _blocks(GUIDE / page) if one.language == "console"]
        ran = dict(pair for block in consoles for pair in session(block))
        assert command in ran, command
        lines = (" ".join(line.split()) for line in ran[command].splitlines())
        assert any(line.startswith(answer) for line in lines), answer
