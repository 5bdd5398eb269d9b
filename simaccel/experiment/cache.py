"""The folder of what is remembered from one command to the next.

It is the user's cache folder, or what ``SIMACCEL_CACHE`` says; ``off`` remembers nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

VARIABLE: Final = "SIMACCEL_CACHE"
OFF: Final = "off"


def cache_folder() -> Path | None:
    """Return where results are kept; None where nothing is to be remembered."""
    given = os.environ.get(VARIABLE)
    if given == OFF:
        return None
    if given:
        return Path(given)
    from platformdirs import user_cache_path  # noqa: PLC0415 - only where it is needed

    try:
        return user_cache_path("simaccel") / "mappings"
    except RuntimeError:  # no HOME, and a user that the system doesn't know
        return None
