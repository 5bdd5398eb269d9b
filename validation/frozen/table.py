"""Both tables side by side: who got faster or slower, moves more or less, costs more or less."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from validation.frozen.points import Point, Row, Table

_WORST: Final = 12
SLOWER: Final = 0.001
"""Part of the cycles by which a pick may be slower than the one that was kept."""


@dataclass(frozen=True)
class Pair:
    """One point, before and after."""

    point: Point
    before: Row
    after: Row

    @property
    def cycles(self) -> float:
        """Ratio of cycles, after to before."""
        return (self.after.cycles or 0) / (self.before.cycles or 1)

    def ratio(self, figure: str) -> float:
        """Ratio of another figure; 1 where it isn't any."""
        one, two = getattr(self.before, figure), getattr(self.after, figure)
        return float(two / one) if one else 1.0

    @property
    def flow(self) -> str:
        """Name of the dataflow."""
        return f"{self.point.dataflow}{', pipelined' * self.point.pipeline}"


def pairs_of(before: Table, after: Table) -> list[Pair]:
    """Pair the totals of points that both have."""
    return [Pair(point, before[point][-1], after[point][-1]) for point in before if point in after]


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def summary(before: Table, after: Table) -> str:
    """Write all that is to be said of the two tables."""
    pairs = pairs_of(before, after)
    both = [pair for pair in pairs if not pair.before.error and not pair.after.error]
    only = [pair for pair in pairs if bool(pair.before.error) != bool(pair.after.error)]
    neither = len(pairs) - len(both) - len(only)
    many = f"{len(pairs)} of {len(before)} points"
    text = [f"{many}: {len(both)} ran before and run now, {neither} do in neither."]
    for pair in only:
        say = (
            f"now {pair.after.error}"
            if pair.after.error
            else f"now runs; before {pair.before.error}"
        )
        text.append(f"- {_name(pair.point)}: {say[:160]}")
    if both:
        text += ["", "By dataflow:", "", _by(both, lambda pair: pair.flow)]
        text += ["", "By accelerator:", "", _by(both, lambda pair: pair.point.hardware)]
        text += ["", "Most slowed down:", "", _extremes(both, -1)]
        text += ["", "Most sped up:", "", _extremes(both, 1)]
        text += ["", "What it takes, over all these points:", "", _costs(both)]
    return "\n".join(text)


def slower(kept: Table, now: Table) -> list[str]:
    """Name the points whose pick is slower than the one that was kept by more than `SLOWER`."""
    found = []
    for one in pairs_of(kept, now):
        if one.before.error:
            continue
        if one.after.error:
            found.append(f"{_name(one.point)}: {one.after.error}")
        elif one.cycles > 1 + SLOWER:
            cycles = f"{one.after.cycles:,} for {one.before.cycles:,} cycles"
            found.append(f"{_name(one.point)}: {cycles}, {one.cycles - 1:+.2%}")
    return found


def gate(kept: Table, now: Table) -> str:
    """Say how the picks of now compare with those that were kept."""
    ratios = [
        pair.cycles
        for pair in pairs_of(kept, now)
        if not pair.before.error and not pair.after.error
    ]
    if not ratios:
        return "No pick to compare."
    many = [sum(r < 1 for r in ratios), sum(r == 1 for r in ratios)]
    return (
        f"{len(ratios)} picks beside those of after.csv: {many[0]} faster, {many[1]} the same, "
        f"{len(ratios) - sum(many)} slower; cycles {min(ratios):.4f} to {max(ratios):.4f} of "
        f"those, {_mean(ratios)} in the mean; {len(slower(kept, now))} beyond +{SLOWER:.1%}."
    )


def _name(point: Point) -> str:
    size = "" if point.seq_len is None else f" N={point.seq_len} {point.scope}"
    flow = f"{point.dataflow}{', pipelined' * point.pipeline}"
    return f"{point.hardware}, {point.workload} B={point.batch}{size}, {flow}"


def _mean(values: Iterable[float]) -> str:
    logs = [math.log(one) for one in values]
    return f"{math.exp(sum(logs) / len(logs)):.4f}"


def _by(pairs: Sequence[Pair], key: Callable[[Pair], str]) -> str:
    names = dict.fromkeys(map(key, pairs))
    head = ["", "points", "faster", "same", "slower", "cycles: mean ratio", "least", "most"]
    rows = []
    for name in ("all", *names):
        selected = [pair for pair in pairs if name in ("all", key(pair))]
        ratios = [pair.cycles for pair in selected]
        counts = [sum(r < 1 for r in ratios), sum(r == 1 for r in ratios)]
        rows.append(
            [
                name,
                len(selected),
                *counts,
                len(selected) - sum(counts),
                _mean(ratios),
                f"{min(ratios):.3f}",
                f"{max(ratios):.3f}",
                *(
                    _mean(pair.ratio(figure) for pair in selected)
                    for figure in ("dram_bytes", "buffer_bytes", "energy_uj")
                ),
            ]
        )
    return markdown([*head, "DRAM bytes", "buffer bytes", "energy"], rows)


def _extremes(pairs: Sequence[Pair], sign: int) -> str:
    chosen = sorted(pairs, key=lambda pair: sign * pair.cycles)[:_WORST]
    rows = [
        [
            _name(pair.point),
            f"{pair.before.cycles:,}",
            f"{pair.after.cycles:,}",
            f"{pair.cycles - 1:+.1%}",
            f"{pair.ratio('dram_bytes') - 1:+.1%}",
            f"{pair.ratio('energy_uj') - 1:+.1%}",
        ]
        for pair in chosen
        if sign * pair.cycles < sign
    ]
    return markdown(["", "cycles before", "now", "cycles", "DRAM bytes", "energy"], rows)


def _costs(pairs: Sequence[Pair]) -> str:
    rows = []
    for name, figure, form in (
        ("events", "events", ",.0f"),
        ("machine, CPU s", "machine_seconds", ",.1f"),
        ("scheduling, CPU s", "schedule_seconds", ",.1f"),
    ):
        before, two = (
            [getattr(row, figure) or 0 for row in rows_]
            for rows_ in ([p.before for p in pairs], [p.after for p in pairs])
        )
        ratios = [b / a for a, b in zip(before, two, strict=True) if a]
        rows.append(
            [
                name,
                format(sum(before), form),
                format(sum(two), form),
                f"{sum(two) / sum(before):.2f}",
                f"{median(ratios):.2f}",
            ]
        )
    return markdown(["", "before", "now", "ratio of sums", "median ratio"], rows)
