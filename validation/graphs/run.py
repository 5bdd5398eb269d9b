"""Random small ONNX graphs by all dataflows: does each run what its graph says?

``python -m validation.graphs.run [--draws N] [--seed S] [--trees T]`` maps N graphs by each
dataflow, the machine judging, runs them, and compares the values of all outputs with plain numpy.
Dataflows that have the same mapping of a graph run it once.
Then it draws T random trees over random graphs, and holds what is legal against a brute force over
positions: both ways. It writes `graphs.csv`, and fails if anything is wrong.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from simaccel import load_accelerator, simulate
from simaccel.dataflows import ON_ANY_ARRAY
from simaccel.diagnosis.check import check
from simaccel.errors import SimaccelError
from simaccel.run.conservation import require_program
from simaccel.schedulers import canonical_dataflow
from simaccel.search.accounts import SearchAccount
from simaccel.study.scheduling import schedule_workload
from simaccel.study.store import OFF, VARIABLE
from simaccel.workload import Workload
from tests.drawn_graphs import drawn_workload
from tests.drawn_trees import draw_mapping
from tests.mapping.oracle import judged

TABLE: Final = Path(__file__).with_name("graphs.csv")
FIELDS: Final = (
    "dataflow",
    "graphs",
    "right",
    "wrong",
    "tracebacks",
    "fused",
    "left_out",
    "cycles",
)
_AT_ONCE: Final = 100
"""Trees of a graph."""
_TOLD: Final = 100
"""Graphs between two lines of how it stands."""


@dataclass(frozen=True)
class Mapped:
    """A graph by a dataflow: what is wrong with it, if anything, and what was fused."""

    seed: int
    dataflow: str
    wrong: str = ""
    traceback: bool = False
    fused: int = 0
    left_out: int = 0
    cycles: int = 0


def mapped(dataflows: Sequence[str], seed: int) -> list[Mapped]:
    """Map a graph by each dataflow, run it, and check its values; those alike once."""
    of = drawn_workload(seed)
    plain = {dataflow: canonical_dataflow(dataflow, of) for dataflow in dataflows}
    results = {name: _mapped(of, seed, name) for name in dict.fromkeys(plain.values())}
    return [replace(results[plain[dataflow]], dataflow=dataflow) for dataflow in dataflows]


def _mapped(of: Workload, seed: int, dataflow: str) -> Mapped:
    accounts: list[SearchAccount] = []
    on = load_accelerator("edge")
    try:
        mapping = schedule_workload(of, on, dataflow, record=accounts.append)
        result = simulate(of, on, mapping)
        require_program(result.workload, mapping, result.program)
        check(of, mapping, result.program)
    except SimaccelError as error:
        return Mapped(seed, dataflow, str(error))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is counted
        return Mapped(seed, dataflow, f"{type(error).__name__}: {error}", traceback=True)
    fused = sum(len(group.operators) > 1 for group in mapping.groups)
    left_out = sum(bool(account.unfused_reason) for account in accounts)
    cycles = result.run.cycles
    return Mapped(seed, dataflow, fused=fused, left_out=left_out, cycles=cycles)


@dataclass(frozen=True)
class Judgements:
    """Random trees: how many are legal, fuse, or are refused though right; and what is wrong."""

    trees: int
    legal: int
    fused: int
    refused: int
    wrong: tuple[str, ...]


def trees(count: int, seed: int) -> Judgements:
    """Hold what is legal of some random trees of a graph against a brute force, both ways."""
    on, of, draw = load_accelerator("edge"), drawn_workload(seed), random.Random(seed)  # noqa: S311
    legal, fused, refused, wrong = 0, 0, 0, []
    for number in range(count):
        mapping = draw_mapping(draw, of, on)
        verdict = judged(of, mapping, on)
        legal += verdict.legal
        refused += verdict.refused
        fused += verdict.legal and any(len(group.operators) > 1 for group in mapping.groups)
        if verdict.wrong:
            wrong.append(f"graph {seed}, tree {number}: {verdict.wrong}")
    return Judgements(count, legal, fused, refused, tuple(wrong))


def _row(dataflow: str, found: Sequence[Mapped]) -> dict[str, object]:
    return {
        "dataflow": dataflow,
        "graphs": len(found),
        "right": sum(not one.wrong for one in found),
        "wrong": sum(bool(one.wrong) and not one.traceback for one in found),
        "tracebacks": sum(one.traceback for one in found),
        "fused": sum(one.fused for one in found),
        "left_out": sum(one.left_out for one in found),
        "cycles": sum(one.cycles for one in found),
    }


def _complaints(found: Sequence[Mapped]) -> Iterator[str]:
    for one in found:
        if one.wrong:
            yield f"graph {one.seed} by {one.dataflow}: {one.wrong}"


def main() -> None:
    """Draw graphs and trees, write the table, and fail if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=2_850, help="graphs by each dataflow")
    parser.add_argument("--seed", type=int, default=100_000, help="the first graph's")
    parser.add_argument("--trees", type=int, default=1_000_000, help="random trees")
    parser.add_argument("--dataflows", default=",".join(ON_ANY_ARRAY), help="some of these")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    asked = parser.parse_args()
    os.environ[VARIABLE] = OFF
    seeds = range(asked.seed, asked.seed + asked.draws)
    complaints: list[str] = []
    dataflows = asked.dataflows.split(",")
    table: list[list[Mapped]] = []
    with ProcessPoolExecutor(asked.processes) as pool:
        for each in pool.map(partial(mapped, dataflows), seeds, chunksize=4):
            table.append(each)
            complaints += _complaints(each)
            if len(table) % _TOLD == 0:
                print(f"{len(table):,} graphs, {len(complaints)} wrong", flush=True)
        rows = [_row(*pair) for pair in zip(dataflows, zip(*table, strict=True), strict=False)]
        print(*rows, sep="\n", flush=True)
        graphs = range(asked.seed, asked.seed + -(-asked.trees // _AT_ONCE))
        drawn = list(pool.map(partial(trees, _AT_ONCE), graphs, chunksize=4))
    complaints += [text for outcome in drawn for text in outcome.wrong]
    counts = {
        name: sum(getattr(outcome, name) for outcome in drawn)
        for name in ("trees", "legal", "fused", "refused")
    }
    print(", ".join(f"{n:,} {name}" for name, n in counts.items()))
    if asked.draws >= parser.get_default("draws"):
        with TABLE.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    if complaints:
        raise SystemExit("\n".join(complaints))


if __name__ == "__main__":
    main()
