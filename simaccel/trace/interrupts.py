"""Ctrl-C while HDF5 works: it waits, because Python drops an exception inside h5py's callbacks."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""What ends a run; see ``simaccel.__main__``."""


@contextmanager
def defer_interrupts() -> Iterator[None]:
    """Defer an interrupt to the end of the ``with`` block, and handle it then.

    h5py forgets its objects in callbacks of weak references, and what is raised there is only
    printed: a Ctrl-C at such a moment would be lost and the run go on.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[tuple[int, FrameType | None]] = []
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    handled = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in handled:
        signal.signal(number, lambda caught, frame: waiting.append((caught, frame)))
    try:
        yield
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler)
        for caught, frame in waiting[:1]:
            handled[signal.Signals(caught)](caught, frame)
