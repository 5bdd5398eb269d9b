"""Made-up runs: what engines do, with nested repetitions, told to a writer or unrolled."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import strategies as st

from simaccel.machine.accounts import NO_WAIT, EngineCycles, Wait
from simaccel.trace import CommandSite, TraceHeader, TraceReader, TraceWriter
from simaccel.units import STALLS, Cause

ENGINES = ("dma_in", "array", "sfu")
WAITS = (NO_WAIT, Wait("K", "ready", "dma_in"), Wait("S", "free", "sfu"))
SITES = {1: CommandSite("L", "compute S = Q K"), 2: CommandSite("softmax", "sfu S")}
HEADER = TraceHeader(
    accelerator="name: toy",
    workload="name: w",
    mapping="dataflow: x",
    program="program é\n",
    version="0.1.0",
    seed=7,
    sites=SITES,
)

Activity = tuple[Cause, Wait, int]
Interval = tuple[str, int, int, Activity]


@dataclass(frozen=True)
class Row:
    """One engine does one thing for some cycles."""

    engine: str
    cycles: int
    activity: Activity


@dataclass(frozen=True)
class Again:
    """A body that happens ``times`` more times; all its engines take ``period`` cycles."""

    body: tuple[Row | Again, ...]
    times: int

    @property
    def period(self) -> int:
        """Cycles of one repetition: those of any of its engines."""
        return max(lengths(self.body).values())


Script = Sequence[Row | Again]


def lengths(script: Script) -> Counter[str]:
    """Cycles by engine."""
    found: Counter[str] = Counter()
    for item in script:
        if isinstance(item, Row):
            found[item.engine] += item.cycles
        else:
            for engine, cycles in lengths(item.body).items():
                found[engine] += cycles * (item.times + 1)
    return found


def padded(script: Script, engines: Sequence[str] | None = None) -> tuple[Row | Again, ...]:
    """Add a last row to engines that have fewer cycles than others."""
    found = lengths(script)
    longest = max(found.values(), default=0)
    missing = {e: longest - found[e] for e in engines or found}
    idle = (Cause.IDLE, NO_WAIT, 0)
    return (*script, *(Row(e, cycles, idle) for e, cycles in missing.items() if cycles))


def unrolled(script: Script) -> dict[str, list[Interval]]:
    """All intervals by engine, neighbours that are the same activity joined."""
    found: dict[str, list[Interval]] = defaultdict(list)
    for row in flat(script):
        done = found[row.engine]
        start = end = done[-1][2] if done else 0
        if done and done[-1][3] == row.activity:
            start = done.pop()[1]
        done.append((row.engine, start, end + row.cycles, row.activity))
    return found


def tell(writer: TraceWriter, script: Script, clock: Counter[str] | None = None) -> None:
    """Tell a script to a writer as a machine that skips repetitions does."""
    clock = Counter() if clock is None else clock
    for item in script:
        if isinstance(item, Row):
            start = clock[item.engine]
            clock[item.engine] += item.cycles
            writer.interval(item.engine, start, clock[item.engine], *item.activity)
        else:
            first = writer.position()
            tell(writer, item.body, clock)
            writer.repeat(first, item.period, item.times)
            for engine in lengths(item.body):
                clock[engine] += item.period * item.times


def flat(script: Script) -> list[Row]:
    """Unroll a script into rows."""
    found: list[Row] = []
    for item in script:
        if isinstance(item, Row):
            found.append(item)
        else:
            found += flat(item.body) * (item.times + 1)
    return found


def totals(script: Script) -> dict[str, EngineCycles]:
    """Cycles by engine and cause."""
    by: dict[str, Counter[Cause]] = defaultdict(Counter)

    def walk(items: Script, times: int) -> None:
        for item in items:
            if isinstance(item, Row):
                by[item.engine][item.activity[0]] += item.cycles * times
            else:
                walk(item.body, times * (item.times + 1))

    walk(script, 1)
    return {
        engine: EngineCycles(
            n[Cause.BUSY], n[Cause.IDLE], {c.name.lower(): n[c] for c in STALLS if n[c]}
        )
        for engine, n in by.items()
    }


def write(path: Path, script: Script, block_rows: int = 16) -> TraceReader:
    """Write a script and open the trace."""
    with TraceWriter(path, HEADER, force=True, block_rows=block_rows) as writer:
        tell(writer, script)
        cycles = max(lengths(script).values(), default=0)
        writer.finish(cycles, totals(script), {"cycles": cycles})
    return TraceReader.open(path)


@contextmanager
def written(script: Script, block_rows: int) -> Iterator[TraceReader]:
    """Write a script to a folder that goes away, and open the trace."""
    with TemporaryDirectory() as folder, write(Path(folder) / "t.h5", script, block_rows) as trace:
        yield trace


ACTIVITIES = st.one_of(
    st.just((Cause.BUSY, NO_WAIT, 1)),
    st.tuples(st.sampled_from(list(Cause)), st.sampled_from(WAITS), st.integers(0, 2)),
)
ROWS = st.builds(Row, st.sampled_from(ENGINES), st.integers(1, 9), ACTIVITIES)


def agains(inner: st.SearchStrategy[tuple[Row | Again, ...]]) -> st.SearchStrategy[Again]:
    """Repetitions of bodies, made to take as long for each of their engines."""
    return st.builds(Again, inner.map(padded), st.integers(0, 4))


BODIES: st.SearchStrategy[tuple[Row | Again, ...]] = st.recursive(
    st.lists(ROWS, min_size=1, max_size=5).map(tuple),
    lambda inner: st.lists(st.one_of(ROWS, agains(inner)), min_size=1, max_size=4).map(tuple),
    max_leaves=6,
)
SCRIPTS = BODIES.map(lambda body: padded(body, ENGINES))
