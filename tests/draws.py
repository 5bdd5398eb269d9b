"""How much random tests draw: as CI has time for, or SIMACCEL_DRAWS times as much."""

import os
from collections.abc import Iterable
from typing import Final, TypeVar

DRAWS: Final = int(os.environ.get("SIMACCEL_DRAWS", "1"))
"""`make validate` takes more, and the profile `long` of hypothesis."""
_Case = TypeVar("_Case")


def some(cases: Iterable[_Case], each: int = 4) -> list[_Case]:
    """Return one in ``each`` of cases that are alike; all of them where more is drawn."""
    return list(cases)[:: 1 if DRAWS > 1 else each]
