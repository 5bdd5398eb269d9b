"""Run the command line: `python -m simaccel`, and what the command `simaccel` starts."""

import os
import signal
import sys

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 + SIGINT."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main() -> None:
    """Run the command line; SIGTERM ends it as Ctrl-C does, also while modules are loaded."""
    heard = [one for one in _SIGNALS if signal.getsignal(one) is not signal.SIG_IGN]
    for one in heard:
        signal.signal(one, _leave)
    from simaccel.cli import main as command_line  # noqa: PLC0415 - takes a second

    for one in heard:
        signal.signal(one, signal.default_int_handler)
    command_line()


def _leave(_number: int, _frame: object) -> None:
    """End at once: an exception could be lost in the modules that are being loaded."""
    sys.stderr.write("interrupted\n")
    sys.stderr.flush()
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
