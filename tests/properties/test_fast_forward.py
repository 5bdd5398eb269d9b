"""With fast-forward every figure is the same integer, and the trace tells the same story."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simaccel.machine.accounts import Wait
from simaccel.machine.machine import Machine, Run
from simaccel.units import Cause
from tests.draws import DRAWS
from tests.machine.trees import Case, cases

SEEDS_PER_CHUNK = 26 * DRAWS
CHUNKS = 4
"""Nearly half of these seeds give a valid, short program; validation/fast_forward draws more."""

Told = tuple[int, int, Cause | bool | int, Wait | None, int, int]
"""Start, end, what is done (a cause, whether in use, bytes held), wait, site, cycles of service."""


@dataclass
class Heard:
    """A listener that keeps what it hears: rows, and repeated stretches as nested rows."""

    rows: list["Row | Repeated"] = field(default_factory=list)

    def interval(
        self, engine: str, start: int, end: int, cause: Cause, wait: Wait, site: int
    ) -> None:
        """Keep a row."""
        self.rows.append(Row(engine, (start, end, cause, wait, site, 0)))

    def note_service(self, channel: str, start: int, reported: int, uses: Sequence[int]) -> None:
        """Keep rows; without a pause a use goes on with the next."""
        since, before = start, reported
        for at in range(0, len(uses), 3):
            idle, end, total = uses[at : at + 3]
            assert start <= idle <= end
            assert start < idle or at == 0
            assert 0 <= total - reported <= idle - start
            start, reported = end, total
            if idle < end or at + 3 == len(uses):
                rows = [Row(channel, (since, idle, True, None, 0, total - before))]
                self.rows += rows * (since < idle)
                self.rows += [Row(channel, (idle, end, False, None, 0, 0))] * (idle < end)
                since, before = end, total

    def note_held(self, tile: str, start: int, end: int, n_bytes: int) -> None:
        """Keep a row."""
        self.rows.append(Row(tile, (start, end, n_bytes, None, 0, 0)))

    def announce(self, lanes: Mapping[str, str]) -> None:
        """Know the lanes."""
        self.lanes = lanes

    def checkpoint(self, now: int) -> None:
        """Everybody has told all up to now."""
        ends = {row.engine: row.told[1] for row in self.expanded()}
        assert ends == dict.fromkeys(self.lanes, now)

    def position(self) -> int:
        """Give the number of the next row; a repeated stretch is one."""
        return len(self.rows)

    def repeat(self, first_row: int, period_cycles: int, times: int) -> None:
        """Put a stretch into one row."""
        assert first_row < len(self.rows)
        assert times > 0
        self.rows[first_row:] = [Repeated(self.rows[first_row:], period_cycles, times)]

    def expanded(self) -> Iterator["Row"]:
        """Every row of the full run, in the order in which each engine told it."""
        return _expand(self.rows, 0)


@dataclass(frozen=True)
class Row:
    """One interval of one engine."""

    engine: str
    told: Told


@dataclass(frozen=True)
class Repeated:
    """Rows, and how often they come again."""

    rows: list["Row | Repeated"]
    period_cycles: int
    times: int


def _expand(rows: list[Row | Repeated], shift: int) -> Iterator[Row]:
    for row in rows:
        if isinstance(row, Row):
            start, end, what, wait, site, served = row.told
            yield Row(row.engine, (start + shift, end + shift, what, wait, site, served))
            continue
        for time in range(row.times + 1):
            yield from _expand(row.rows, shift + time * row.period_cycles)


def merged(rows: Iterator[Row]) -> dict[str, list[Told]]:
    """Intervals by engine without gaps, neighbours of the same kind as one."""
    merged: dict[str, list[Told]] = defaultdict(list)
    for row in rows:
        line = merged[row.engine]
        start, end, what, wait, site, served = row.told
        assert start == (line[-1][1] if line else 0)
        if line and line[-1][2:-1] == row.told[2:-1]:
            start, *_, before = line.pop()
            served += before
        line.append((start, end, what, wait, site, served))
    return merged


def _require_true(heard: Heard, run: Run) -> None:
    """What lanes tell of channels and of the buffer are the figures of the run."""
    lanes = merged(heard.expanded())
    assert set(lanes) == set(heard.lanes)
    for channel, cycles in run.served_cycles.items():
        assert sum(row[-1] for row in lanes[channel]) == cycles
    tiles = [
        lanes[name]
        for name, kind in heard.lanes.items()
        if kind == "tile" and not name.startswith("tile pe.")
    ]
    changes = Counter[int]()
    for line in tiles:
        for start, end, held, *_ in line:
            changes[start] += int(held)
            changes[end] -= int(held)
    levels = list(accumulate(changes[cycle] for cycle in sorted(changes)))
    assert max(levels, default=0) <= run.peak_buffer_bytes
    assert levels[-1:] in ([], [0])


def _skips(case: Case) -> bool:
    """Hold a run against the one without fast-forward; tell whether anything was skipped."""
    on = Machine(case.on, case.program).run()
    differ = {
        name: (found, expected)
        for name, expected in vars(case.run).items()
        if name != "events" and (found := getattr(on, name)) != expected
    }
    assert differ == {}, f"seed {case.seed}"
    return on.events < case.run.events


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_figure_is_the_same(chunk: int) -> None:
    seeds = range(chunk * SEEDS_PER_CHUNK, (chunk + 1) * SEEDS_PER_CHUNK)
    skips = [_skips(case) for case in cases(seeds)]
    assert len(skips) > SEEDS_PER_CHUNK // 6
    assert sum(skips) > len(skips) // 3


@settings(max_examples=7 * DRAWS)
@given(st.integers(min_value=1 << 20))
def test_every_figure_is_the_same_anywhere(seed: int) -> None:
    for case in cases(range(seed, seed + 1)):
        _skips(case)


def test_the_trace_tells_the_same() -> None:
    segments = 0
    for case in cases(range(40 * DRAWS)):
        full, told = Heard(), Heard()
        Machine(case.on, case.program, full, fast_forward=False).run()
        assert replace(Machine(case.on, case.program, told).run(), events=0) == replace(
            case.run, events=0
        )
        assert merged(told.expanded()) == merged(full.expanded()), f"seed {case.seed}"
        _require_true(full, case.run)
        segments += sum(isinstance(row, Repeated) for row in told.rows)
    assert segments > 20
