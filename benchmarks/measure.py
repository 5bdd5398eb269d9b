"""What a process costs: CPU seconds, wall seconds and peak memory, seen from outside."""

from __future__ import annotations

import cProfile
import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from types import CodeType
from typing import Any

ROOT = Path(__file__).parents[1]

Point = dict[str, Any]
"""What is measured, as plain data."""
Row = dict[str, Any]
"""A point and its figures."""

_MODULES = 5
"""How many modules are named in a profile."""

_LAUNCHER = """
import json, os, sys
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(pid, 0)
scale = 1 if sys.platform == "darwin" else 1024
figures = [status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * scale]
print(json.dumps(figures), file=sys.stderr)
"""
"""A small process starts the measured one: Linux counts the memory of who starts it as its own."""


class FailedError(Exception):
    """A measured process ended with an error; the message is its last words."""


@dataclass(frozen=True)
class Cost:
    """What a process printed and took."""

    output: str
    cpu_seconds: float
    wall_seconds: float
    peak_rss_bytes: int


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One benchmark: its points, what measures one of them, and the text made of all rows."""

    name: str
    points: Callable[[], list[Point]]
    measure: Callable[[Point], Row]
    report: Callable[[list[Row]], str]


def run_child(command: Sequence[str], cwd: Path = ROOT) -> Cost:
    """Run a command in a process of its own and measure it.

    Raises:
        FailedError: it ended with an error.
    """
    launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER, *command]
    started = time.perf_counter()
    done = subprocess.run(launcher, cwd=cwd, capture_output=True, text=True, check=False)
    wall_seconds = time.perf_counter() - started
    *words, figures = done.stderr.strip().splitlines() or [""]
    if done.returncode:
        raise FailedError(figures)
    status, cpu_seconds, peak_rss_bytes = json.loads(figures)
    if status:
        raise FailedError(words[-1] if words else f"status {status}")
    return Cost(done.stdout, cpu_seconds, wall_seconds, peak_rss_bytes)


def measure_here(module: str, point: Point) -> tuple[Row, Cost]:
    """Run ``python -m benchmarks.<module> <point>``, which prints its row, in a child process."""
    cost = run_child([sys.executable, "-m", f"benchmarks.{module}", json.dumps(point)])
    row: Row = json.loads(cost.output)
    return row, cost


def print_row(work: Callable[[Point], Row]) -> None:
    """Be that child: work on the point of the command line and print the row."""
    print(json.dumps(work(json.loads(sys.argv[1]))))


def shares(work: Callable[[], object]) -> dict[str, float]:
    """Profile work: the share of the time that is spent in each of the first modules."""
    profile = cProfile.Profile()
    profile.runcall(work)
    seconds: defaultdict[str, float] = defaultdict(float)
    for entry in profile.getstats():
        seconds[_module(entry.code)] += entry.inlinetime
    whole = sum(seconds.values())
    most = sorted(seconds.items(), key=itemgetter(1), reverse=True)[:_MODULES]
    return {module: share / whole for module, share in most}


def _module(code: CodeType | str) -> str:
    if isinstance(code, str):
        return "built-in functions"
    path = Path(code.co_filename)
    return "simpy" if path.parent.name == "simpy" else path.name


def share_text(found: dict[str, float]) -> str:
    """Write shares in percent.

    >>> share_text({"turns.py": 0.26, "channel.py": 0.24})
    'turns.py 26%, channel.py 24%'
    """
    return ", ".join(f"{module} {share:.0%}" for module, share in found.items())


def table(head: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    """Write a Markdown table.

    >>> print(table(["a", "b"], [[1, 2]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    rows = [head, ["---"] * len(head), *lines]
    texts = ["|".join(map(str, row)) if row[0] == "---" else _cells(row) for row in rows]
    return "\n".join(f"|{text}|" for text in texts)


def _cells(row: Sequence[object]) -> str:
    return " " + " | ".join(map(str, row)) + " "


def aim(met: bool) -> str:  # noqa: FBT001 - a verdict
    """Say whether an aim is met."""
    return "met" if met else "**missed**"
