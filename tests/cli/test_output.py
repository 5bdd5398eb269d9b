"""What is printed is whole, however narrow the terminal."""

import json

import pytest

from simaccel.cli.output import show, show_json
from simaccel.report.layout import add_row, make_table


@pytest.mark.parametrize("columns", ["10", "40", "100"])
def test_no_figure_is_cut(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    table = make_table(("name",), ("two words",), ("text",))
    add_row(table, ("operator[0]", "1,234,567,890", "words that may wrap"))
    line = "a line of more than ten or even forty columns"
    show(table, line)
    printed = capsys.readouterr().out
    assert "…" not in printed
    for word in ("operator[0]", "two words", "1,234,567,890", "words", "wrap"):
        assert word in printed
    assert line in printed.splitlines()


def test_json_is_all_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    show_json({"cycles": 7})
    assert json.loads(capsys.readouterr().out) == {"cycles": 7}
