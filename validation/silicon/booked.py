"""What the machine books of kernels: what limits each, and its cycles, also of those remembered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Final, ParamSpec, TypeVar

START: Final = "start"
"""What operators cost before their first load, among limits."""
Given = ParamSpec("Given")
Result = TypeVar("Result")
_BOOKS: Final[ContextVar[Counter[str] | None]] = ContextVar("books", default=None)


@contextmanager
def open_books() -> Iterator[Counter[str]]:
    """Collect the cycles of the kernels that are run or remembered inside, by what limits them."""
    books = Counter[str]()
    before = _BOOKS.set(books)
    try:
        yield books
    finally:
        _BOOKS.reset(before)


def book(limit: str, cycles: int) -> None:
    """Add a kernel to the books that are open, if any are."""
    books = _BOOKS.get()
    if books is not None:
        books[limit] += cycles


def remembered(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Return a function that runs once for each of its arguments, and books each time."""
    known: dict[Hashable, tuple[Result, Counter[str]]] = {}

    @wraps(function)
    def again(*args: Given.args, **named: Given.kwargs) -> Result:
        key = args, tuple(sorted(named.items()))
        if key not in known:
            with open_books() as books:
                known[key] = function(*args, **named), books
        result, books = known[key]
        for limit, cycles in books.items():
            book(limit, cycles)
        return result

    return again
