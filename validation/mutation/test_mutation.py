"""Random changes of a figure: which places they have, and what the table says of them."""

import sys
from pathlib import Path

import pytest

from validation.mutation import run
from validation.mutation.changes import changes
from validation.mutation.run import COUNT, MOST_MISSED, read

CODE = '''\
def cost(a: int, b: int) -> int:
    """Say 1 + 1."""
    if a < 0x10:
        raise ValueError(f"{a + 1} of 2")
    return max(a, b) - b
'''


def test_each_place_changes_once_and_texts_never() -> None:
    made = [(change.line, change.old, change.new) for change in changes(CODE)]
    assert made == [
        (3, "<", "<="),
        (3, "0x10", "17"),
        (5, "max", "min"),
        (5, "a, b", "b, a"),
        (5, "-", "+"),
    ]
    texts = [change.made(CODE).splitlines()[change.line - 1].strip() for change in changes(CODE)]
    assert texts == [
        "if a <= 0x10:",
        "if a < 17:",
        "return min(a, b) - b",
        "return max(b, a) - b",
        "return max(a, b) + b",
    ]


def test_a_change_whose_line_is_gone_is_not_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = {
        0: run.Mutant(0, "simaccel/a.py", 1, "1 -> 2 in here = 1", "", ""),
        1: run.Mutant(1, "simaccel/b.py", 1, "1 -> 2 in here = 1", "tests/test_b.py", ""),
    }
    monkeypatch.setattr(run, "read", lambda: dict(table))
    monkeypatch.setattr(run, "draw", lambda _: (Path("simaccel/pareto.py"), changes(CODE)[0]))
    monkeypatch.setattr("shutil.copytree", lambda *_, **__: None)
    monkeypatch.setattr(sys, "argv", ["run", "--count", "2", "--again"])
    assert run.main() == 0
    shown = capsys.readouterr().out
    assert "0: not counted: simaccel/a.py has no more: 1 -> 2 in here = 1" in shown
    assert "1 of 1 changes were noticed" in shown


def test_what_was_missed_is_told_from_what_changes_no_figure() -> None:
    rows = read().values()
    assert len(rows) == COUNT
    assert not any(row.noticed and row.equivalent for row in rows)
    assert sum(not row.noticed and not row.equivalent for row in rows) <= MOST_MISSED
