"""Forecasts of searches and runs: a line and JSON, the same for every command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simaccel.experiment.outlook import SearchForecast
from simaccel.report.units import count_text

Outlooks = Sequence[tuple[str, SearchForecast | str]]
"""Searches by name, or the reason why one can't be."""
Files = Mapping[str, str | None]
"""What would be written, by option."""


def outlook_lines(searches: Outlooks, files: Files, *, runs: bool) -> list[str]:
    """Return the sum over searches, those that can't be, and the files that would be written.

    ``runs``: what they find then runs on the machine.
    """
    figures = outlook_json(searches, files, runs=runs)
    able = [each for _, each in searches if isinstance(each, SearchForecast)]
    again, distinct = sum(each.remembered for each in able), sum(each.distinct for each in able)
    operators = sum(each.operators for each in able)
    cost = f"{count_text(operators, 'operator')}, {distinct:,} distinct to search: about "
    cost += f"{_rough_seconds(figures['search_seconds'])} of CPU time"
    cost += ", and what plug-ins take" * any(each.seconds is None for each in able)
    cost += f", {_rough_seconds(figures['run_seconds'])} to run" * runs
    return [
        f"{cost}; {again} of {count_text(len(able), 'mapping')} remembered",
        *(f"{name}: {each}" for name, each in searches if isinstance(each, str)),
        *(f"would write {path} ({option})" for option, path in files.items() if path),
    ]


def outlook_json(searches: Outlooks, files: Files, *, runs: bool) -> dict[str, Any]:
    """Return searches that have not begun as one JSON object (``--dry-run --json``)."""
    able = [each for _, each in searches if isinstance(each, SearchForecast)]
    return {
        "searches": [
            {"name": name, **({"problem": each} if isinstance(each, str) else vars(each))}
            for name, each in searches
        ],
        "search_seconds": sum(each.seconds or 0.0 for each in able),
        "run_seconds": sum(each.run_seconds for each in able) if runs else 0.0,
        "writes": [path for path in files.values() if path],
    }


def _rough_seconds(seconds: float) -> str:
    """Write seconds that are known roughly.

    >>> _rough_seconds(0.042), _rough_seconds(2.71), _rough_seconds(163.5)
    ('0.042 s', '2.7 s', '160 s')
    """
    return f"{float(f'{seconds:.2g}'):,g} s"
