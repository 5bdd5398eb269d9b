"""Documents with one thing wrong: each value dropped, of another type, or out of its range."""

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
    """Give the document with each value dropped, renamed, or replaced.

    It is one object, changed in place: look at it before you ask for the next.
    """
    for place in [*places(document)]:
        *above, last = place
        section = _at(document, above)
        old = copy.copy(section)
        for wrong in WRONG:
            section[last] = wrong
            yield place, document
        section[last] = old[last]
        value = section.pop(last)
        yield place, document
        if isinstance(last, str):
            section[f"{last}x"] = value
            yield place, document
        section.clear()
        (section.update if isinstance(section, dict) else section.extend)(old)


def _at(document: Any, place: list[str | int]) -> Any:  # noqa: ANN401 - plain data
    for key in place:
        document = document[key]
    return document
