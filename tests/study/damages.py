"""What can happen to a file of a store: it is as good as none then, and never waited for."""

import json
import os
from functools import partial
from pathlib import Path

from simaccel.study.store import digest


def _replaced(data: bytes, path: Path) -> None:
    path.write_bytes(data)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def _fifo(path: Path) -> None:
    """Reading it would wait for a writer."""
    path.unlink()
    os.mkfifo(path)


def _endless(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def _extra(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {"more": 1}))


def _holding(found: object, path: Path) -> None:
    """Replace what an entry holds, with the digest that belongs to it."""
    entry = {"key": path.stem, "found": found}
    text = json.dumps(entry, sort_keys=True)
    path.write_text(json.dumps({**entry, "sha256": digest(text)}))


_TEXTS = (b"", b"{", b"null", b"[]", b"{}", b"\xff\xfe", b'{"found": {}}', b"[" * 200_000)
_FOUND: tuple[object, ...] = (None, 3, [], {}, {"mapping": "x", "searches": 3})
_SPECIAL = (_fifo, _endless) if hasattr(os, "mkfifo") else ()
FILE_DAMAGES = (*(partial(_replaced, text) for text in _TEXTS), _cut, _extra, *_SPECIAL)
DAMAGES = (*FILE_DAMAGES, *(partial(_holding, found) for found in _FOUND))
"""Each takes the path of a file, and damages it."""
