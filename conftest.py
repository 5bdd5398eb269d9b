"""Settings of all tests, of those in `tests` and those beside what they check in `validation`.

Hypothesis profiles (`ci` unless `--hypothesis-profile` names another), a store of mappings for
the session, and a time after which a test fails. pytest reads settings for both folders here.
"""

import compileall
import faulthandler
import gc
import os
import shutil
import signal
import tempfile
import threading
from collections import Counter
from importlib import import_module
from pathlib import Path
from types import FrameType, FunctionType
from typing import Final

import pytest
from _pytest import runner
from hypothesis import core, settings
from hypothesis.internal.conjecture import providers

from tests.draws import DRAWS, SEED

_ALONE = "PYTEST_XDIST_WORKER" not in os.environ
if _ALONE:  # what one test finds in a search, others need not search again; it goes at the end
    os.environ["SIMACCEL_CACHE"] = tempfile.mkdtemp(prefix="simaccel-tests-")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # two processes on two cores: none to wait for
gc.set_threshold(1_000_000, 10, 50)  # what lives on in caches is looked at seldom
TEST_SECONDS: Final = 1200 * DRAWS
"""No test lasts longer, on a machine that ten others use, too: it fails, or its process ends."""

# Who starts tests in the background of a script ignores Ctrl-C for them, and for the commands that
# they start and interrupt.
if threading.current_thread() is threading.main_thread():
    for _signal in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(_signal) is signal.SIG_IGN:
            signal.signal(
                _signal,
                signal.default_int_handler if _signal is signal.SIGINT else signal.SIG_DFL,
            )


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile the package once: each command line that a test starts would do it again.

    Python does not keep byte code where PYTHONDONTWRITEBYTECODE is set. Runs are checked wholly.
    """
    if not hasattr(session.config, "workerinput"):
        compileall.compile_dir(Path(__file__).parent / "simaccel", quiet=2)
    import_module("tests.whole_checks")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave what is marked `long` to `make validate`."""
    if DRAWS == 1:
        left = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if not item.get_closest_marker("long")]


def pytest_collection_finish() -> None:
    """Keep what is there when tests begin from being looked at by each garbage collection."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Forget the mappings that were found.

    pytest collects garbage five times when all is done, each time through all that caches hold.
    """
    gc.freeze()
    if _ALONE:
        shutil.rmtree(os.environ["SIMACCEL_CACHE"], ignore_errors=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how to draw the same again, and what tests need that were skipped for want of it."""
    if SEED:
        terminalreporter.write_line(f"random tests drew with SIMACCEL_SEED={SEED}")
    reasons = Counter(
        reason
        for report in terminalreporter.stats.get("skipped", ())
        if (reason := report.longrepr[2].removeprefix("Skipped: ")).startswith("needs ")
    )
    if reasons:
        texts = [f"{count} x {reason}" for reason, count in sorted(reasons.items())]
        terminalreporter.write_line(f"to run what was skipped: {'; '.join(texts)}")


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search anew, where what is tested is that two searches find the same."""
    monkeypatch.setenv("SIMACCEL_CACHE", "off")


def _too_long(_number: int, _frame: FrameType | None) -> None:
    raise TimeoutError(f"the test took more than {TEST_SECONDS} seconds")


def _call(item: pytest.Item, next_item: pytest.Item | None) -> object:
    return runner.pytest_runtest_protocol(item, next_item)


_call_with_room = FunctionType(_call.__code__.replace(co_stacksize=2**16), globals())
"""Python 3.11 keeps frames in chunks of 16 KiB, and frees the last one when its frames return.

Where a loop's calls cross from one chunk to the next, each asks the system for memory: a test takes
up to twice as long, by how deep it is called. This frame gets a chunk with room for all in it.
"""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> object:
    """Fail a test that takes too long; end its process if it goes on, say in a call of C."""
    if not hasattr(signal, "setitimer") or threading.current_thread().name != "MainThread":
        return _call_with_room(item, nextitem)
    signal.signal(signal.SIGALRM, _too_long)
    signal.setitimer(signal.ITIMER_REAL, TEST_SECONDS)
    faulthandler.dump_traceback_later(TEST_SECONDS + 10, exit=True)
    try:
        return _call_with_room(item, nextitem)
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)


if DRAWS == 1:
    # Draws would depend on the constants in whatever a process has imported so far; to read them
    # all takes hypothesis six seconds in each process.
    vars(providers)["_get_local_constants"] = lambda: providers._local_constants
settings.register_profile(
    "ci", derandomize=not SEED, deadline=None, max_examples=4 * DRAWS, database=None
)
if SEED:
    vars(core)["global_force_seed"] = SEED
settings.register_profile("long", max_examples=2000, deadline=None)
settings.load_profile("ci")
