"""How much random tests draw: as CI has time for, or SIMACCEL_DRAWS times as much.

With SIMACCEL_SEED, which CI sets to another number each day, and pytest prints at its end, they
draw what is new: hypothesis all of its examples, loops over seeds a few more.
"""

import os
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

DRAWS: Final = int(os.environ.get("SIMACCEL_DRAWS", "1"))
"""`make validate` takes more, and the profile `long` of hypothesis."""
SEED: Final = int(os.environ.get("SIMACCEL_SEED", "0"))
"""Of draws that are new; 0: those of always."""
_OLD: Final = 4
"""Seeds of always for each new one."""
_Case = TypeVar("_Case")


def some(cases: Iterable[_Case], each: int = 4) -> list[_Case]:
    """Return one in ``each`` of cases that are alike; all of them where more is drawn."""
    return list(cases)[:: 1 if DRAWS > 1 else each]


def seeds(count: int, chunk: int = 0, chunks: int = 1) -> Iterator[int]:
    """Give every ``chunks``-th of so many seeds from ``chunk`` on, and of a few new ones."""
    yield from range(chunk, count * DRAWS, chunks)
    yield from new_seeds(count * DRAWS // _OLD, chunk, chunks)


def new_seeds(count: int, chunk: int = 0, chunks: int = 1) -> range:
    """Return the same of new seeds alone, at least one; none without a SEED."""
    first = SEED * 1_000_000
    return range(first + chunk, first + max(chunks, count) if SEED else 0, chunks)
