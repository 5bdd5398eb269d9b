"""Run the command line: `python -m simaccel`, and what the command `simaccel` starts."""

import atexit
import gc
import os
import signal
import sys
from contextlib import suppress
from types import FrameType

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + SIGINT."""
_ALLOCATIONS = 300_000
"""Python looks for unused cycles of objects after so many, not 700: a tenth of a short command.

Loading the modules of any command makes fewer.
"""
_KEPT_BYTES = 32 << 20
"""Freed memory that the process keeps.

By itself glibc gives back what searches free after each array and asks for it again: of searches of
mapspaces 1 to 7% of the CPU time, beside other busy processes a sixth.
"""
_GLIBC_LIMITS = (-1, -3)
"""The glibc parameters M_TRIM_THRESHOLD and M_MMAP_THRESHOLD (malloc.h)."""
_came: list[int] = []
"""Signals that came: the exception that one raises may be replaced, in numpy for one."""


def main() -> None:
    """Run the command line; SIGTERM ends it as Ctrl-C does, also while modules are loaded."""
    gc.set_threshold(_ALLOCATIONS)
    with suppress(AttributeError, ImportError, OSError, TypeError):  # other systems have their own
        import ctypes  # noqa: PLC0415 - not in every Python

        for limit in _GLIBC_LIMITS:
            ctypes.CDLL(None).mallopt(limit, _KEPT_BYTES)
    # pydantic would look for plug-ins of its own, and end where any package's metadata is damaged
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    atexit.register(gc.freeze)  # or Python looks through all objects as it ends: 40 ms and more
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    try:
        from simaccel.cli import main as command_line  # noqa: PLC0415 - Ctrl-C works from the first moment

        command_line()
    except BaseException as error:
        is_reported = isinstance(error, SystemExit) and error.code in {None, 0, INTERRUPTED}
        if is_reported or not _came:
            raise
        sys.stderr.write("interrupted\n")
        sys.stderr.flush()
        os._exit(INTERRUPTED)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Note that a signal came, and raise KeyboardInterrupt."""
    _came.append(number)
    signal.default_int_handler(number, frame)


if __name__ == "__main__":
    main()
