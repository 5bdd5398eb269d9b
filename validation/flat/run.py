"""All exhibits of FLAT: `python -m validation.flat.run`; a killed run goes on where it was.

With `--show` nothing is run: pictures and sections of README.md are made again from the CSV files.

Fails where the closed form is farther from figure 16 than README.md says it is.
"""

from __future__ import annotations

import sys
from importlib import import_module

from validation.flat.exhibit import Exhibit, Row, read
from validation.flat.fig_16 import errors

NAMES = (
    "fig_2",
    "fig_4",
    "fig_5",
    "table_1",
    "fig_9",
    "fig_10",
    "fig_11",
    "fig_12",
    "fig_13",
    "fig_14",
    "fig_16",
    "fig_15",
    "fig_17",
    "decode",
    "clock",
    "findings",
)
"""In the order in which they need each other's runs."""
MEAN, WITHIN, CELLS = 0.04, 0.10, 47


def exhibits() -> list[Exhibit]:
    """Return all exhibits."""
    found: list[Exhibit] = [import_module(f"validation.flat.{one}").EXHIBIT for one in NAMES]
    return found


def problems(cells: list[Row]) -> list[str]:
    """Say where the closed form is too far from figure 16."""
    off = errors(cells)
    mean, near = sum(off) / len(off), sum(one <= WITHIN for one in off)
    found = [] if mean <= MEAN else [f"mean error of the closed form: {mean:.1%}"]
    return found + ([] if near >= CELLS else [f"only {near} cells within {WITHIN:.0%}"])


def main() -> int:
    """Make everything; 1 if the closed form is off."""
    for one in exhibits():
        if "--show" in sys.argv:
            one.show()
        else:
            one.make()
    wrong = problems(read(import_module("validation.flat.fig_16").EXHIBIT.table))
    print(*wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
