"""The guide's table of questions: each command and its answer stand on the page behind them."""

import re

import pytest

from tests.examples.test_pages import GUIDE

_PAGE = GUIDE / "README.md"
_ROW = re.compile(
    r"^\| [^|]+\? \| `(simaccel [^`]+)` \| \*([^*]+)\* \| \[[^]]+\]\(([^)]+)\) \|$", re.MULTILINE
)
_ROWS = _ROW.findall(_PAGE.read_text(encoding="utf-8"))


def test_the_questions_are_read() -> None:
    assert len(_ROWS) >= 9
    text = _PAGE.read_text(encoding="utf-8")
    assert len(_ROWS) == len(re.findall(r"^\| [^|]+\? \|", text, re.MULTILINE))


@pytest.mark.parametrize(("command", "answer", "page"), _ROWS)
def test_a_page_has_the_command_and_its_answer(command: str, answer: str, page: str) -> None:
    """The answer is one line of the output, or its beginning, with columns one blank apart."""
    text = (_PAGE.parent / page).resolve().read_text(encoding="utf-8")
    _, _, behind = text.partition(f"$ {command}\n")
    printed = [" ".join(line.split()) for line in behind.partition("\n```")[0].splitlines()]
    assert any(line.startswith(answer) for line in printed), printed
