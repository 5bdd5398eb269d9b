"""Opening of a trace, with checks before anything of it is shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from simaccel.cli.settings import fault
from simaccel.cli.workload_options import number
from simaccel.errors import Fault, require_none

if TYPE_CHECKING:
    from simaccel.trace import TraceReader


def require_files(*files: str) -> None:
    """Refuse files that are not traces, by their first bytes, before slow imports.

    Raises:
        TraceError: the first that is none.
    """
    from simaccel.trace.guard import read_superblock

    for file in files:
        with suppress(OSError):  # which reading the trace reports
            read_superblock(Path(file))


@contextmanager
def checked_trace(
    file: str, *, for_page: bool = False, accounts: bool = False
) -> Iterator[TraceReader]:
    """Open a trace and check that its rows add up to the counts of the run.

    ``for_page``: refuse one too large for a page, before it is read. ``accounts``: of ``check``.

    Raises:
        TraceError: they don't, or it is no trace.
    """
    require_files(file)
    from simaccel.trace import TraceReader

    with TraceReader.open(Path(file)) as trace:
        if for_page:
            from simaccel.report.page import require_small

            require_small(trace)
        trace.check(accounts=accounts)
        yield trace


def read_window(start: str | None, end: str | None, cycles: int) -> tuple[int, int]:
    """Return the first cycle of a window (by default 0) and the one after its last (the run's end).

    Raises:
        InputError: --from or --to is no such cycle.
    """
    first = number((start or "0").replace("_", ""))  # 20_000 is a cycle, too
    last = cycles if end is None else number(end.replace("_", ""))
    faults, highest = list[Fault](), max(cycles - 1, 0)
    if not isinstance(first, int) or not 0 <= first <= highest:
        faults.append(fault("--from", start, f"a cycle from 0 to {highest}"))
        first = 0
    least = min(first + 1, cycles)
    if not isinstance(last, int) or not least <= last <= cycles:
        faults.append(fault("--to", end, f"a cycle from {least} to {cycles}"))
        last = cycles
    require_none(faults)
    return first, last
