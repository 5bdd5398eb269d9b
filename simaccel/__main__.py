"""Run the command line: `python -m simaccel`, and what the command `simaccel` starts."""

import _thread
import atexit
import gc
import os
import signal
import sys
import threading
import time
from functools import partial
from types import CodeType, FrameType

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + SIGINT."""
_MOMENT_SECONDS = 0.005
_ALLOCATIONS = 300_000
"""Python looks for unused cycles of objects after so many, not 700: a tenth of a short command.

Loading the modules of any command makes fewer.
"""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_came: list[int] = []
"""Signals that came: the exception that one raises may be lost or replaced, in numpy for one."""


def main() -> None:
    """Run the command line; SIGTERM ends it as Ctrl-C does, also while modules are loaded."""
    gc.set_threshold(_ALLOCATIONS)
    # pydantic would look for plug-ins of its own, and end where any package's metadata is damaged
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    atexit.register(gc.freeze)  # or Python looks through all objects as it ends: 40 ms and more
    heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, _leave)
    from simaccel.cli import main as command_line  # noqa: PLC0415 - Ctrl-C works from the first moment

    try:
        for number in heard:
            signal.signal(number, _interrupt)
            sys.unraisablehook = partial(_interrupt_again, number)
        command_line()
    except BaseException as error:
        told = isinstance(error, SystemExit) and error.code in {None, 0, INTERRUPTED}
        if isinstance(error, KeyboardInterrupt) or (_came and not told):
            _leave()
        raise


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Note that a signal came, and raise KeyboardInterrupt."""
    _came.append(number)
    signal.default_int_handler(number, frame)


def _leave(*_: object) -> None:
    """End at once: an exception could be lost in the modules that are being loaded."""
    sys.stderr.write("interrupted\n")
    sys.stderr.flush()
    os._exit(INTERRUPTED)


def _interrupt_again(number: int, unraisable: "sys.UnraisableHookArgs") -> None:
    """Interrupt once more, a moment later, where Python could only print the exception.

    h5py forgets its objects in callbacks of weak references: a Ctrl-C there would be lost.
    """
    if unraisable.exc_type is KeyboardInterrupt:
        _thread.start_new_thread(_interrupt_main, (number,))
    else:
        sys.__unraisablehook__(unraisable)


def _interrupt_main(number: int) -> None:
    """Send the main thread a signal when it has left the hook, where it would be lost again.

    Unlike ``interrupt_main`` a signal ends a wait, too.
    """
    main_thread = threading.main_thread().ident or 0
    time.sleep(_MOMENT_SECONDS)
    while _runs(main_thread, _interrupt_again.__code__):
        time.sleep(_MOMENT_SECONDS)
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main_thread, number)
    else:
        _thread.interrupt_main(signal.Signals(number))


def _runs(thread: int, code: CodeType) -> bool:
    """Whether a function is being called in a thread."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - there is no other way to ask
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


if __name__ == "__main__":
    main()
