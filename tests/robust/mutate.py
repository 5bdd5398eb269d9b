"""Documents with one thing wrong: each value dropped, of another type, or out of its range."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

WRONG: tuple[Any, ...] = (
    None, -1, 0, 2**70, 1.5, float("nan"), float("inf"), True, "", "no", "1:30:00", "\x1b[31m",
    "a b", [], {}, [1], {"x": 1},
)  # fmt: skip
"""What takes the place of a value."""

Place = tuple[str | int, ...]


def places(document: object, above: Place = ()) -> Iterator[Place]:
    """Give the place of each value, of sections too."""
    pairs: Any = ()
    if isinstance(document, dict):
        pairs = document.items()
    elif isinstance(document, list):
        pairs = enumerate(document)
    for key, value in pairs:
        yield (*above, key)
        yield from places(value, (*above, key))


def mutants(document: Any) -> Iterator[tuple[Place, object]]:  # noqa: ANN401 - plain data
    """Give the document with each value dropped, renamed, or replaced."""
    for place in places(document):
        *above, last = place
        for wrong in WRONG:
            changed = copy.deepcopy(document)
            _at(changed, above)[last] = wrong
            yield place, changed
        dropped = copy.deepcopy(document)
        value = _at(dropped, above).pop(last)
        yield place, dropped
        if isinstance(last, str):
            renamed = copy.deepcopy(dropped)
            _at(renamed, above)[f"{last}x"] = value
            yield place, renamed


def _at(document: Any, place: list[str | int]) -> Any:  # noqa: ANN401 - plain data
    for key in place:
        document = document[key]
    return document
