"""What a cell of a row may say: each reader returns the cell as the models take it, or refuses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from simaccel.errors import suggest

Row = Mapping[str, str]
Read = Callable[[str], str]
_MOST = 2**31 - 1


def whole(least: int = 1) -> Read:
    """Return the reader of whole numbers from ``least``; ``64.0`` is one, as tables write it.

    >>> whole()(" 64.0")
    '64'
    """

    def read(cell: str) -> str:
        said = re.fullmatch(r"([0-9]+)(\.0*)?", cell.strip(), re.ASCII)
        if said is None or not least <= int(said[1]) <= _MOST:
            raise ValueError(f"a whole number from {least} to {_MOST}")
        return str(int(said[1]))

    return read


def of(allowed: Iterable[str]) -> Read:
    """Return the reader of one of some words."""
    words = tuple(allowed)

    def read(cell: str) -> str:
        if cell.strip() not in words:
            raise ValueError(suggest(cell, words))
        return cell.strip()

    return read


def like(pattern: str, allowed: str) -> Read:
    """Return the reader of words of a pattern, ``allowed`` in words for people."""

    def read(cell: str) -> str:
        if re.fullmatch(pattern, cell.strip(), re.ASCII) is None:
            raise ValueError(allowed)
        return cell.strip()

    return read


def read_row(row: Mapping[str, str], columns: Mapping[str, Read]) -> Row:
    """Return the cells of a row, as `csv.DictReader` makes it, those that a model reads as it does.

    Raises:
        ValueError: too few or too many cells, or one that isn't allowed; all of them.
    """
    cells = {name: cell for name, cell in row.items() if isinstance(cell, str)}
    if len([name for name in row if isinstance(name, str)]) < len(row):
        raise ValueError("more cells than columns")
    faults = []
    for name, read in columns.items():
        if name not in cells:
            faults.append(f"{name}: no cell")
            continue
        try:
            cells[name] = read(cells[name])
        except ValueError as error:
            faults.append(f"{name}: got {cells[name]!r}; allowed: {error}")
    if faults:
        raise ValueError("; ".join(faults))
    return cells
