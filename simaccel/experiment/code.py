"""The code that decides what comes out of an experiment, as a key for what is kept."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Final

_SHOWS: Final = ("cli", "report", "trace")
"""Packages that show results, and don't make them."""


@lru_cache
def code_digest() -> str:
    """Return the digest of the sources that decide a result: all but those that show it."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if name.parts[0] not in _SHOWS:
            digest.update(name.as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
