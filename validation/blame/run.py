"""Stalls by cause against what freeing each cause saves, over random programs.

``python -m validation.blame.run [--cases N]`` writes ``blame.csv`` (a line per program and cause),
``blame.png`` and the figures between the markers of ``README.md``. The programs are those of
``validation.fast_forward``: trees of commands, and lowered mappings of small workloads.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from simaccel.diagnosis.what_if import free, what_if
from simaccel.hardware import Accelerator
from simaccel.hardware.cores import without_core
from simaccel.hardware.load import with_values
from simaccel.machine.machine import Machine, Run
from simaccel.program.program import Program
from simaccel.units import ARRAY, SFU
from tests.machine.trees import Case
from validation.bound.gaps import markdown
from validation.bound.readme import write_figures
from validation.fast_forward.cases import cases

HERE: Final = Path(__file__).parent
TABLE: Final = HERE / "blame.csv"
CASES: Final = 8000
MOST_STEPS: Final = 2000
LEAST_CYCLES: Final = 100
"""Shorter runs are nearly all fill."""
BOOKED: Final[Mapping[str, tuple[str, ...]]] = {
    "dram_bandwidth": ("dram_bandwidth",),
    "dram_latency": ("dram_latency", "dram_queue"),
    "dram_banks": ("dram_banks",),
    "buffer_ports": ("buffer_port",),
    "noc": ("noc",),
    "sfu": ("sfu",),
}
"""What is freed, and the causes that are booked to it: no latency, no bytes in flight to wait for.

Not here: the array (its work is no stall of its own) and draining, which nothing frees.
"""
SMALL: Final = 0.01
"""A part of the run below which a cause, or a saving, is called none."""
NEAR: Final = 0.9
"""The most booked cause is a good advice where freeing it saves so much of the largest saving."""
SLOWER: Final = 0.001
"""What a freed resource may cost and be called harmless."""
_ADVICE: Final = "best", "taken over", "silent"
_HEAD: Final = [
    "cause",
    "programs",
    "rank correlation",
    "booked",
    "saved",
    "saves more",
    "saves less",
    "least saved",
]
Row = dict[str, Any]


def rows_of(kind: str, case: Case) -> list[Row]:
    """Run a program with each cause freed; return a row for each that takes time at all."""
    booked = booked_by(case.run)
    saved = savings(case.on, case.program, [(name,) for name in BOOKED])
    rows: list[Row] = [
        {
            "seed": case.seed,
            "kind": kind,
            "cycles": case.run.cycles,
            "cause": name,
            "booked": booked[name] / case.run.cycles,
            "saved": saved[name,],
            "taken_over_by": "",
            "without_turns": "",
        }
        for name in BOOKED
        if (name,) in saved
    ]
    top, most = most_booked(rows), most_saving(rows)
    if top["saved"] < NEAR * most["saved"]:
        top["taken_over_by"] = taken_over(case, top["cause"])
    for row in rows:
        if row["saved"] < -SLOWER:
            group_key = (row["cause"],)
            row["without_turns"] = savings(without_turns(case.on), case.program, [group_key])[
                group_key
            ]
    return rows


def unit_of(run: Run) -> str:
    """Return the unit that works most: an array, or an SFU where it has more to do."""
    units = (name for name in run.engines if without_core(name) in (ARRAY, SFU))
    return max(units, key=lambda name: run.engines[name].busy)


def booked_by(run: Run) -> dict[str, int]:
    """Return the cycles of the unit that works most that are booked to what can be freed."""
    stalls = run.engines[unit_of(run)].stalls
    return {name: sum(stalls.get(one, 0) for one in causes) for name, causes in BOOKED.items()}


def taken_over(case: Case, freed: str) -> str:
    """Return what is booked most of the waits that stay when one cause is freed.

    What it does not save is booked to others then: an engine is always in one activity. Nobody,
    where it saves all that was booked to it, and another saves more.
    """
    unit = unit_of(case.run)
    runs = case.run, Machine(*free(case.on, case.program, (freed,))).run()
    before, after = ({"nobody": 0, **run.engines[unit].stalls} for run in runs)
    return max(after, key=lambda name: (after[name] - before.get(name, 0), name))


def savings(
    on: Accelerator, program: Program, asked: Sequence[tuple[str, ...]]
) -> dict[tuple[str, ...], float]:
    """Return the part of a run's cycles that each case saves."""
    found = what_if(on, program, asked)
    return {one.resources: 1 - one.cycles / found.base.cycles for one in found.freed}


def without_turns(on: Accelerator) -> Accelerator:
    """Return an accelerator whose channel may change direction at no cost."""
    return with_values(on, {"dram.turnaround_cycles": 0}, "without turns")


def most_booked(program: Sequence[Row]) -> Row:
    """Return the row of the cause that is booked most."""
    return max(program, key=lambda row: (row["booked"], row["saved"]))


def most_saving(program: Sequence[Row]) -> Row:
    """Return the row of the cause whose freeing saves most."""
    return max(program, key=lambda row: row["saved"])


def measured(count: int) -> Iterator[Row]:
    """Yield the rows of all programs that are long enough."""
    for kind, case in cases(range(count), MOST_STEPS):
        if case.run.cycles >= LEAST_CYCLES:
            yield from rows_of(kind, case)


def ranks(values: Sequence[float]) -> npt.NDArray[np.float64]:
    """Return ranks from 0 on; equal values have the mean of theirs."""
    _, which, many = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    found: npt.NDArray[np.float64] = (np.cumsum(many) - (many + 1) / 2)[which]
    return found


def spearman(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the rank correlation; NaN where one of them has one value only.

    >>> spearman([1, 2, 3], [10, 20, 90])
    1.0
    >>> round(spearman([1, 2, 3, 4], [2, 1, 4, 3]), 3)
    0.6
    """
    a, b = ranks(one), ranks(other)
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size else float("nan")


def by_program(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows of each program."""
    found: dict[int, list[Row]] = {}
    for row in rows:
        found.setdefault(row["seed"], []).append(row)
    return list(found.values())


def advice(program: Sequence[Row]) -> str:
    """Say how good the most booked cause of a program is as advice on what to free.

    ``none``: nothing can be saved; ``best``: it saves at least ``NEAR`` of the most that freeing
    one cause saves; ``silent``: nothing is booked; else ``taken over`` by another wait.
    """
    top, most = most_booked(program), most_saving(program)
    if most["saved"] < SMALL:
        return "none"
    if top["saved"] >= NEAR * most["saved"]:
        return "best"
    return "silent" if top["booked"] < SMALL else "taken over"


def summary(rows: Sequence[Row]) -> str:
    """Give the figures as Markdown."""
    programs = by_program(rows)
    within = [spearman(*columns(program)) for program in programs]
    within = [share for share in within if not np.isnan(share)]
    said = [advice(program) for program in programs]
    told = {name: said.count(name) for name in (*_ADVICE, "none")}
    asked = len(said) - told["none"]
    intro = (
        f"{len(programs):,} programs of at least {LEAST_CYCLES} cycles. Rank correlation over all "
        f"causes of all programs {spearman(*columns(rows)):.2f}; within a program, over its "
        f"causes, {np.mean(within):.2f} in the mean and {np.median(within):.2f} in the median of "
        f"{len(within):,}."
    )
    asks = (
        f"Where freeing one cause saves at least {SMALL:.0%} ({asked:,} programs), the cause that "
        "is booked most is:"
    )
    kinds = [[name, f"{told[name]:,}", f"{told[name] / asked:.0%}"] for name in _ADVICE]
    lines = [
        intro,
        markdown(_HEAD, [_line(rows, name) for name in BOOKED]),
        asks,
        markdown(["the most booked cause", "programs", "part"], kinds),
        "Who takes over, of the waits that a freed cause leaves:",
        markdown(["booked most", "taken over by"], _takers(programs)),
        _slower(rows),
    ]
    return "\n\n".join(lines)


def _line(rows: Sequence[Row], name: str) -> list[str]:
    """Return the line of a cause."""
    cause_rows = [row for row in rows if row["cause"] == name]
    booked, saved = columns(cause_rows)
    more = sum(row["saved"] > row["booked"] + SMALL for row in cause_rows)
    less = sum(row["saved"] < row["booked"] - SMALL for row in cause_rows)
    return [
        name,
        f"{len(cause_rows):,}",
        f"{spearman(booked, saved):.2f}",
        f"{np.mean(booked):.1%}",
        f"{np.mean(saved):.1%}",
        f"{more / len(cause_rows):.0%}",
        f"{less / len(cause_rows):.0%}",
        f"{min(saved):.1%}",
    ]


def _takers(programs: Sequence[Sequence[Row]]) -> list[list[str]]:
    """Return, by the most booked cause, who takes over how often."""
    found: dict[str, Counter[str]] = {}
    for one in programs:
        if advice(one) == "taken over":
            for row in one:
                if row["taken_over_by"]:
                    found.setdefault(row["cause"], Counter())[row["taken_over_by"]] += 1
    return [
        [name, ", ".join(f"{taker} {count}" for taker, count in takers.most_common())]
        for name, takers in sorted(found.items(), key=lambda one: -one[1].total())
    ]


def columns(rows: Sequence[Row]) -> tuple[list[float], list[float]]:
    """Return what is booked to causes, and what freeing them saves."""
    return [row["booked"] for row in rows], [row["saved"] for row in rows]


def _slower(rows: Sequence[Row]) -> str:
    """Say how often a freed resource costs cycles, and how often only by the channel's turns."""
    slow = [row for row in rows if row["saved"] < -SLOWER]
    turned = sum(row["without_turns"] >= -SLOWER for row in slow)
    return (
        f"In {len(slow):,} of {len(rows):,} runs a freed resource costs more than {SLOWER:.1%}; "
        f"where the channel changes direction at no cost, in {len(slow) - turned:,} of these."
    )


def drawn(rows: Sequence[Row]) -> Figure:
    """Draw what is saved over what is booked, a panel a cause."""
    figure = Figure(figsize=(9, 6), layout="constrained")
    for panel, name in zip(figure.subplots(2, 3).flat, BOOKED, strict=True):
        mine = [row for row in rows if row["cause"] == name]
        booked, saved = ([100 * row[key] for row in mine] for key in ("booked", "saved"))
        panel.plot([0, 100], [0, 100], color="0.6", linewidth=0.8)
        panel.scatter(booked, saved, s=4, alpha=0.4, linewidths=0, color="#0072B2")
        panel.set(title=name, xlim=(-3, 100), ylim=(-10, 100))
        panel.set(xlabel="booked to it (% of the run)", ylabel="saved by freeing it (%)")
    return figure


def read() -> list[Row]:
    """Return the rows of the CSV."""
    with TABLE.open(encoding="utf-8") as file:
        return [
            {
                key: float(value) if "." in value else int(value) if value.isdigit() else value
                for key, value in row.items()
            }
            for row in csv.DictReader(file)
        ]


def main() -> None:
    """Measure, and write everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=CASES, help="how many are drawn")
    count = parser.parse_args().cases
    rows = list(measured(count))
    if count < CASES:
        print(summary(rows))
        return
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow(
                {
                    key: f"{cell:.6f}" if isinstance(cell, float) else cell
                    for key, cell in row.items()
                }
            )
    rows = read()
    drawn(rows).savefig(HERE / "blame.png", dpi=120)
    write_figures("blame", summary(rows), HERE / "README.md")
    print(summary(rows))


if __name__ == "__main__":
    main()
