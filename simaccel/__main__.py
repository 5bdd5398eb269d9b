"""Run the command line: `python -m simaccel`, and what the command `simaccel` starts."""

import _thread
import os
import signal
import sys
import threading
from functools import partial

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + SIGINT."""
_MOMENT_SECONDS = 0.005
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main() -> None:
    """Run the command line; SIGTERM ends it as Ctrl-C does, also while modules are loaded."""
    heard = [one for one in _SIGNALS if signal.getsignal(one) is not signal.SIG_IGN]
    for one in heard:
        signal.signal(one, _leave)
    from simaccel.cli import main as command_line  # noqa: PLC0415 - takes a second

    for one in heard:
        signal.signal(one, signal.default_int_handler)
        sys.unraisablehook = partial(_again, one)
    command_line()


def _leave(_number: int, _frame: object) -> None:
    """End at once: an exception could be lost in the modules that are being loaded."""
    sys.stderr.write("interrupted\n")
    sys.stderr.flush()
    os._exit(INTERRUPTED)


def _again(number: int, unraisable: "sys.UnraisableHookArgs") -> None:
    """Interrupt once more, a moment later, where Python could only print the exception.

    h5py forgets its objects in callbacks of weak references: a Ctrl-C there would be lost.
    """
    if unraisable.exc_type is KeyboardInterrupt:
        timer = threading.Timer(_MOMENT_SECONDS, _interrupt_main, (number,))
        timer.daemon = True
        timer.start()
    else:
        sys.__unraisablehook__(unraisable)


def _interrupt_main(number: int) -> None:
    """Send the main thread a signal: unlike ``interrupt_main`` it ends a wait, too."""
    main_thread = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main_thread is not None:
        signal.pthread_kill(main_thread, number)
    else:
        _thread.interrupt_main(number)


if __name__ == "__main__":
    main()
