"""Ctrl-C while HDF5 works: it waits, because Python drops an exception inside h5py's callbacks."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let an interrupt wait until the end of the ``with`` block, then handle it as ever.

    h5py forgets its objects in callbacks of weak references, and what is raised there is only
    printed: a Ctrl-C at such a moment would be lost and the run go on.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[tuple[int, FrameType | None]] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: waiting.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if waiting and callable(before):
            before(*waiting[0])
