"""More of a resource, re-scheduled: does the chosen mapping ever take longer on the machine?

``python -m validation.search.monotone [--draws N]`` draws small workloads and accelerators, doubles
or widens one thing, and writes the pairs that got slower to `monotone.csv`.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.program.lowering import lower
from simaccel.schedulers import NothingFitsError, Options
from simaccel.search.effort import Effort
from simaccel.study.scheduling import schedule_workload
from simaccel.study.store import VARIABLE
from simaccel.workload import ModelDimensions, Workload, attention, gemm

TABLE = Path(__file__).with_name("monotone.csv")
FIELDS = ("change", "pairs", "slower", "worst", "worst_case")
DRAWS = 30
MAPSPACES = ("pfm", "ruby-s", "ruby")


@dataclass(frozen=True)
class Case:
    """A workload on `toy` with a buffer of so many bytes and DRAM of so many GB/s."""

    shape: tuple[int, ...]
    dataflow: str
    buffer: int
    bandwidth: int
    pipeline: bool = False

    @property
    def workload(self) -> Workload:
        """A GEMM, or an attention of one head."""
        if len(self.shape) == 3:
            m, k, n = self.shape
            return gemm(m=m, k=k, n=n)
        tokens, size = self.shape
        one = ModelDimensions(hidden=size, heads=1, head_size=size, ff_size=size)
        return attention(one, batch=1, seq_len=tokens, scope="la")

    def cycles(self) -> int:
        """Schedule it and run it.

        Raises:
            NothingFitsError: nothing fits.
        """
        accelerator = load_accelerator(
            "toy",
            [
                f"buffer.capacity_bytes={self.buffer} B",
                f"dram.bandwidth_bytes_per_second={self.bandwidth} GB/s",
                "dram.interleave_bytes=16 B",
            ],
        )
        options = Options(
            tolerance=0.0, pipeline=self.pipeline, effort=Effort(objective="cycles", patience=2_000)
        )
        mapping = schedule_workload(self.workload, accelerator, self.dataflow, options)
        return Machine(accelerator, lower(self.workload, mapping)).run().cycles


def draw(seed: int) -> Case:
    """Draw a case."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    buffer, bandwidth = rng.choice((512, 1024, 2048, 4096)), rng.choice((1, 2, 4, 8, 16))
    if rng.random() < 0.5:
        return Case(tuple(rng.randint(3, 60) for _ in "mkn"), "flex", buffer, bandwidth)
    dataflow = rng.choice(("flat", "flash", "flex"))
    return Case((rng.randint(3, 40), rng.randint(2, 8)), dataflow, buffer, bandwidth)


def larger(case: Case) -> Iterator[tuple[str, Case]]:
    """Yield a case with more of one thing, with what that is called."""
    yield "buffer x2", replace(case, buffer=2 * case.buffer)
    yield "buffer x1.5", replace(case, buffer=3 * case.buffer // 2)
    yield "bandwidth x2", replace(case, bandwidth=2 * case.bandwidth)
    if case.dataflow in ("flat", "flash"):
        yield "two slots allowed", replace(case, pipeline=True)
    if len(case.shape) == 3:
        for name, wider in pairwise(MAPSPACES):
            yield f"{name} to {wider}", replace(case, dataflow=wider)


def compared(case: Case) -> Iterator[tuple[str, int, int]]:
    """Yield (change, cycles before, cycles after) of all that is larger."""
    known: dict[Case, int] = {}

    def cycles(case: Case) -> int:
        if case not in known:
            known[case] = case.cycles()
        return known[case]

    for name, more in larger(case):
        first = replace(case, dataflow=name.split(" to ")[0]) if " to " in name else case
        try:
            yield name, cycles(first), cycles(more)
        except NothingFitsError:  # into a small buffer
            continue


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw, schedule both, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draws", type=int, default=DRAWS, metavar="N")
    asked = parser.parse_args(arguments)
    os.environ[VARIABLE] = "off"
    by_case: dict[str, list[tuple[float, str]]] = {}
    for seed in range(asked.draws):
        case = draw(seed)
        for name, before, after in compared(case):
            by_case.setdefault(name, []).append((after / before, repr(case)))
            if after > before:
                print(f"{after / before:.4f} {name}: {case}")
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        for name, ratios in sorted(by_case.items()):
            worst, text = max(ratios)
            slower = sum(ratio > 1 for ratio, _ in ratios)
            writer.writerow([name, len(ratios), slower, f"{worst:.4f}", text if worst > 1 else ""])
            print(f"{name}: {slower} of {len(ratios)} slower, at worst {worst:.4f}")


if __name__ == "__main__":
    main()
