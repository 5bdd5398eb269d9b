"""Forecasts of searches: a table, lines and JSON, the same for every command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from simaccel.experiment.outlook import SearchForecast
from simaccel.report.layout import add_row, make_table
from simaccel.report.units import cycles_text, rounded_count

if TYPE_CHECKING:
    from rich.table import Table

Outlooks = Sequence[tuple[str, SearchForecast | str]]
"""Searches by name, or the reason why one can't be."""
Files = Mapping[str, str | None]
"""What would be written, by option."""


def outlook_table(searches: Outlooks) -> Table:
    """Tabulate searches that have not begun."""
    figures = ("operators", "distinct", "candidates", "CPU time")
    table = make_table(("search",), figures, ("source",))
    for name, outlook in searches:
        if isinstance(outlook, str):
            add_row(table, (name, "", "", "", "", outlook))
            continue
        about = "unknown" if outlook.seconds is None else _rough_seconds(outlook.seconds)
        counts = (
            cycles_text(outlook.operators),
            cycles_text(outlook.distinct),
            rounded_count(outlook.space),
        )
        if outlook.remembered:
            counts, about = (counts[0], "", ""), "0 s"
        add_row(table, (name, *counts, about, outlook.how))
    return table


def outlook_lines(searches: Outlooks, files: Files, *, runs: bool) -> list[str]:
    """Return the sum over searches, and the files that would be written.

    ``runs``: what they find then runs on the machine.
    """
    able = _able(searches)
    again = sum(outlook.remembered for outlook in able)
    about = f"about {_rough_seconds(_search_seconds(able))} of CPU time to search"
    if runs:
        about += f", {_rough_seconds(_run_seconds(able))} to run"
    lines = [f"{about}; {again} of {_number(able, 'mapping')} remembered"]
    folders = {
        str(outlook.kept) for outlook in able if outlook.kept is not None and not outlook.remembered
    }
    lines += [f"mappings that are found are kept in {folder}" for folder in sorted(folders)]
    return [*lines, *written_lines(files)]


def written_lines(files: Files) -> list[str]:
    """Return the files that would be written."""
    return [f"would write {path} ({name})" for name, path in files.items() if path]


def _number(many: Sequence[object], what: str) -> str:
    return f"{len(many)} {what}{'s' * (len(many) != 1)}"


def outlook_json(searches: Outlooks, files: Files, *, runs: bool) -> dict[str, Any]:
    """Return searches that have not begun as one JSON object (``--dry-run --json``)."""
    able = _able(searches)
    return {
        "searches": [
            {"name": name, "problem": outlook}
            if isinstance(outlook, str)
            else {
                "name": name,
                "operators": outlook.operators,
                "distinct": outlook.distinct,
                "candidates": outlook.space,
                "seconds": outlook.seconds,
                "how": outlook.how,
                "remembered": outlook.remembered,
            }
            for name, outlook in searches
        ],
        "search_seconds": _search_seconds(able),
        "run_seconds": _run_seconds(able) if runs else 0.0,
        "writes": [path for path in files.values() if path],
    }


def _search_seconds(searches: Sequence[SearchForecast]) -> float:
    """Sum CPU seconds where they are known."""
    return sum(one.seconds or 0.0 for one in searches)


def _run_seconds(searches: Sequence[SearchForecast]) -> float:
    return sum(one.run_seconds for one in searches)


def _rough_seconds(seconds: float) -> str:
    """Write seconds that are known roughly.

    >>> _rough_seconds(0.042), _rough_seconds(2.71), _rough_seconds(163.5)
    ('0.042 s', '2.7 s', '160 s')
    """
    return f"{float(f'{seconds:.2g}'):,g} s"


def _able(searches: Outlooks) -> list[SearchForecast]:
    return [one for _, one in searches if isinstance(one, SearchForecast)]
