"""Fast-forward on against off over random programs and mappings: every figure, and traces.

``python -m validation.fast_forward.run [--cases N] [--seed S]`` draws the cases, compares them in
parallel and prints a table. A run of at least the default size, or with ``--write``, writes it to
``summary.csv`` and between the markers of ``README.md``. A difference fails the run and prints the
smallest program that shows it, with its accelerator.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import yaml

from simaccel.cli.progress import ProgressBar
from simaccel.hardware import Accelerator
from simaccel.program.program import Program
from simaccel.program.text import program_text
from simaccel.study.documents import accelerator_document
from simaccel.study.parallel import open_workers
from validation.fast_forward.check import Outcome, draw, fails, measure
from validation.fast_forward.shrink import smallest

HERE = Path(__file__).parent
CASES = 20_000
_HEAD = (
    "by", "value", "cases", "traces", "repeating", "events", "events_fast", "skipped", "different"
)  # fmt: skip
Line = tuple[str, str, int, int, int, int, int, str, int]


def measure_all(seed: int, count: int, processes: int) -> list[Outcome]:
    """Measure in parallel, in the order of the cases, with progress."""
    with ProgressBar("cases") as bar, open_workers(processes) as team:
        return team.run(partial(measure, seed), range(count), bar.show)


def summary(outcomes: Sequence[Outcome]) -> list[Line]:
    """Count the cases by what they are."""
    groups: defaultdict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups["all", ""].append(outcome)
        groups["program", outcome.kind].append(outcome)
        groups["levels", str(outcome.levels)].append(outcome)
        groups["operators", str(outcome.operators)].append(outcome)
        groups["most trips", f"up to {10 ** len(str(max(outcome.most_trips - 1, 1))):,}"].append(
            outcome
        )
        groups["periodic", "yes" if outcome.repeats else "no"].append(outcome)
    order = ["all", "program", "levels", "operators", "most trips", "periodic"]
    names = sorted(groups, key=lambda name: (order.index(name[0]), len(name[1]), name[1]))
    return [_line(*name, groups[name]) for name in names]


def _line(by: str, value: str, group: Sequence[Outcome]) -> Line:
    events, fast = sum(o.events for o in group), sum(o.fast_events for o in group)
    return (
        by,
        value,
        len(group),
        sum(o.traced for o in group),
        sum(o.repeats for o in group),
        events,
        fast,
        f"{1 - fast / events:.4f}",
        sum(bool(o.fault) for o in group),
    )


def table(lines: Sequence[Line]) -> str:
    """Write the summary as Markdown."""
    head = ["by", "", "cases", "traces", "repeating", "events", "with fast-forward", "skipped"]
    rows = [f"| {' | '.join([*head, 'different'])} |", "|" + "---|" * (len(head) + 1)]
    for by, value, cases, traces, repeating, events, fast, skipped, different in lines:
        rows.append(
            f"| {by} | {value} | {cases:,} | {traces:,} | {repeating:,} | {events:,} | {fast:,} "
            f"| {float(skipped):.1%} | {different} |"
        )
    return "\n".join(rows)


def write(lines: Sequence[Line], text: str) -> None:
    """Write ``summary.csv`` and the figures of the README."""
    with (HERE / "summary.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_HEAD)
        writer.writerows(lines)
    path, start, end = HERE / "README.md", "<!-- figures -->\n", "<!-- end of figures -->"
    head, rest = path.read_text(encoding="utf-8").split(start)
    path.write_text(f"{head}{start}{text}\n{end}{rest.split(end)[1]}", encoding="utf-8")


def reproduction(on: Accelerator, program: Program) -> str:
    """Give the smallest program that fails, and the accelerator on which it does."""
    small = smallest(program, partial(fails, on))
    document = yaml.safe_dump(accelerator_document(on), sort_keys=False)
    return f"program:\n{program_text(small)}\naccelerator:\n{document}"


def report_failures(outcomes: Sequence[Outcome], seed: int) -> None:
    """Name the cases that differ and reproduce the shortest of them."""
    numbers = [number for number, one in enumerate(outcomes) if one.fault]
    for number in numbers:
        sys.stderr.write(f"case {number} differs:\n{outcomes[number].fault}\n")
    _, shortest = draw(seed, min(numbers, key=lambda number: outcomes[number].events))
    sys.stderr.write(reproduction(shortest.on, shortest.program))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write, judge."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=_positive, default=CASES, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--processes", type=_positive, default=os.cpu_count(), metavar="N")
    parser.add_argument("--write", action="store_true", help="write the figures of few cases too")
    asked = parser.parse_args(arguments)
    outcomes = measure_all(asked.seed, asked.cases, asked.processes)
    lines = summary(outcomes)
    text = f"{asked.cases:,} cases from seed {asked.seed}.\n\n{table(lines)}"
    print(text)
    if asked.write or asked.cases >= CASES:
        write(lines, text)
    if any(outcome.fault for outcome in outcomes):
        report_failures(outcomes, asked.seed)
        return 1
    return 0


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not allowed; at least 1 is")
    return number


if __name__ == "__main__":
    sys.exit(main())
