"""A free search against the same one with something fixed: is the narrower one ever faster?

``python -m validation.search.narrowed [--draws N] [--seed S]`` draws small operators on small
accelerators, searches them freely, and again with a few of the options that narrow a search: what
the array holds, the number of pieces, their order, the ranks on its sides, the number of slots.
What is faster by more than is given up anyway goes to `narrowed.csv`; if anything is, it fails.
Ctrl-C ends the draws, and the table is of those before.
"""

from __future__ import annotations

import argparse
import csv
import random
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations, product
from pathlib import Path
from typing import Any

from simaccel.analytic.family import Family, ints
from simaccel.errors import InputError
from simaccel.hardware import STATIONARITIES, Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.space import mergeable, space_of
from simaccel.mapping.tree import Group, Keep
from simaccel.schedulers.einsums import einsum_families
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.goal import Goal
from simaccel.search.judge import ScoredTree
from simaccel.search.problems import NothingFitsError, Options
from simaccel.workload import Workload, conv2d, gemm

TABLE = Path(__file__).with_name("narrowed.csv")
FIELDS = ("option", "pairs", "faster", "worst", "worst_case")
DRAWS = 30
_EACH = 6
"""Options of each draw: of about 50, which would take minutes."""
TOLERANCE = 0.01
"""What is given up of the fastest for fewer bytes, by default."""


@dataclass(frozen=True)
class Case:
    """An operator on an accelerator; ``settings`` of it."""

    seed: int
    hw: str
    settings: tuple[str, ...]
    kind: str
    shape: tuple[tuple[str, int], ...]

    @property
    def accelerator(self) -> Accelerator:
        """The accelerator."""
        return load_accelerator(self.hw, self.settings)

    @property
    def workload(self) -> Workload:
        """The operator."""
        sizes: dict[str, Any] = dict(self.shape)
        made = gemm if self.kind == "gemm" else conv2d
        return made(bytes_per_element=2, **sizes)

    def __str__(self) -> str:
        sizes = ",".join(f"{rank}={size}" for rank, size in self.shape)
        return f"{self.seed}: {self.kind} {sizes} on {self.hw} {' '.join(self.settings)}"


def draw(seed: int) -> Case:
    """Draw a case."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    side = rng.choice((4, 8, 16))
    settings = (
        f"array.rows={side}",
        f"array.cols={side}",
        f"buffer.capacity_bytes={rng.choice((2, 4, 8, 16, 64))} KiB",
        f"dram.bandwidth_bytes_per_second={rng.choice((4, 8, 20, 60))} GB/s",
    )
    shape: dict[str, int]
    kind = rng.choice(("gemm", "conv", "conv"))
    if kind == "gemm":
        shape = {rank: rng.choice((rng.randint(3, 80), 16 * rng.randint(1, 8))) for rank in "mkn"}
    else:
        reach = rng.choice((1, 1, 3))
        shape = {"m": rng.randint(2, 40), "c": rng.randint(2, 40)}
        shape |= {rank: rng.randint(3, 20) for rank in "pq"}
        shape |= {
            "r": reach,
            "s": reach,
            "n": rng.choice((1, 1, 2)),
            "stride": rng.choice((1, 1, 2)),
        }
    return Case(
        seed, rng.choice(("edge", "cloud", "edge_tpu")), settings, kind, tuple(shape.items())
    )


def found(case: Case, slots: int | None = None, **options: Any) -> ScoredTree | None:  # noqa: ANN401
    """Return the best mapping by some options; None if nothing fits or is as they say."""
    workload, on = case.workload, case.accelerator
    goal = Goal.from_options(on, Options(**options), workload)
    trees = einsum_families if slots is None else partial(_with_slots, slots)
    try:
        return TreeSearch(goal, trees).fastest(workload, workload.operators[0].name)[1]
    except (NothingFitsError, InputError):
        return None


def _with_slots(slots: int, *given: Any, **more: Any) -> list[Family]:  # noqa: ANN401
    """Return the families of an einsum, with one number of slots of all its tensors."""
    families = []
    for family in einsum_families(*given, **more):
        branch = tuple(
            replace(node, slots=ints(slots)) if isinstance(node, Keep) else node
            for node in family.branch
        )
        families.append(replace(family, branch=branch))
    return families


def narrower(case: Case) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what may be fixed: the option's kind, and its value."""
    rng, workload = random.Random(case.seed), case.workload  # noqa: S311 - no secret
    name = workload.operators[0].name
    merged = mergeable(workload, [name])
    space = space_of(workload, Group(operators=(name,), tree=(), merged=merged))
    ranks = [rank for rank, size in space.sizes.items() if size > 1]
    for kind in STATIONARITIES:
        yield f"--stationarity {kind}", {"stationarity": kind}
    for count in (1, 2, 3):
        yield f"{count} slots", {"slots": count}
    for rank in ranks:
        pieces = rng.randint(1, min(6, space.sizes[rank]))
        yield "--constrain dram.RANK=N", {"constraints": (f"dram.{rank}={pieces}",)}
        yield "--constrain dram.RANK<=N", {"constraints": (f"dram.{rank}<={pieces}",)}
        yield "--constrain dram=RANK", {"constraints": (f"dram={rank}",)}
    for pair in permutations(ranks, 2):
        yield "--constrain dram.order", {"constraints": (f"dram.order={','.join(pair)}",)}
    for side, rank in product(("rows", "cols"), ranks):
        yield f"--constrain {side}", {"constraints": (f"{side}={rank}",)}


def compared(case: Case) -> Iterator[tuple[str, str, float]]:
    """Yield (kind, value, cycles of the free choice relative to the narrowed one)."""
    free, every = found(case), list(narrower(case))
    options_of_draw = random.Random(case.seed).sample(every, _EACH)  # noqa: S311 - no secret
    for kind, options in options_of_draw if free is not None else ():
        fixed = found(case, **options)
        if free is not None and fixed is not None:
            value = " ".join(options.get("constraints", ()))
            yield kind, value, free.cycles / fixed.cycles


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw, search freely and narrowed, write the table, and judge."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draws", type=int, default=DRAWS, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    by_kind: dict[str, list[tuple[float, str]]] = {}
    with suppress(KeyboardInterrupt):
        for case in map(draw, range(asked.seed, asked.seed + asked.draws)):
            for kind, value, ratio in compared(case):
                by_kind.setdefault(kind, []).append((ratio, f"{value} {case}".strip()))
                if ratio > 1 + TOLERANCE:
                    print(f"{ratio:.4f} {kind} {value}: {case}", flush=True)
            print(f"draw {case.seed}: {time.process_time():.0f} CPU s", file=sys.stderr)
    rows = []
    for kind, ratios in sorted(by_kind.items()):
        worst, text = max(ratios)
        faster = sum(ratio > 1 + TOLERANCE for ratio, _ in ratios)
        rows.append([kind, len(ratios), faster, f"{worst:.4f}", text if faster else ""])
        print(f"{kind}: {faster} of {len(ratios)} faster, at worst {worst:.4f}")
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([FIELDS, *rows])
    return int(any(row[2] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
