"""A dataflow that may do all that another does: is it ever worse on the machine?

``python -m validation.search.supersets [--draws N] [--chains N] [--flags N]`` draws workloads,
accelerators and objectives, schedules each by dataflows of which one's mappings are among the
other's, and writes the pairs in which the larger one has more of the objective to `supersets.csv`.
Chains are three or four operators one after the other on a small `edge`, where tensors are held
between them. With flags `best` is compared with other dataflows, and with itself, that pipeline or
hold one operand.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from simaccel.hardware import STATIONARITIES, Stationarity
from simaccel.importers.accelerators import load_accelerator
from simaccel.schedulers import NothingFitsError, Options
from simaccel.search.effort import OBJECTIVES, Effort, Objective
from simaccel.study.experiment import energy_pj, simulate
from simaccel.study.store import VARIABLE
from simaccel.workload import ModelDimensions, Operator, Workload, attention, conv2d, gemm
from tests.trees import einsum, vector
from tests.trees import workload as small_workload

TABLE = Path(__file__).with_name("supersets.csv")
FIELDS = ("larger", "smaller", "pairs", "worse", "worst", "worst_case")
DRAWS = 60
CHAINS = FLAGS = 0
ACCELERATORS = ("toy", "edge", "edge_tpu", "cloud", "mxu_128", "tpu_v1")
SCHEDULED = ("naive", "flex", "flat", "flash")
HELD_FREELY = ("edge", "edge_tpu", "edge_banked", "cloud", "mxu_128", "tpu_v5e", "tpu_v6e")
"""Accelerators whose arrays hold any operand; `tda4ah` does, too, on four cores."""
MAPSPACES = (("ruby", "ruby-s"), ("ruby-s", "pfm"), ("ruby", "ruby-t"), ("ruby-t", "pfm"))


@dataclass(frozen=True)
class Case:
    """A workload on an accelerator, and what is to be least."""

    seed: int
    kind: str
    workload: Workload
    hw: str
    settings: tuple[str, ...]
    objective: Objective
    pipeline: bool
    granularities: tuple[str, ...] = ()
    tolerance: float = 0.0
    """What may be given up of the fastest for fewer bytes: so much more counts as no worse."""
    flags: tuple[str, ...] = ()
    """Dataflows that may less than `best`: their names, and what they hold, or `pipeline`."""

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The larger dataflow and the smaller; of chains also `best` with one stationarity."""
        if self.flags:
            return [("best", each) for each in self.flags]
        if self.kind == "chain":
            return [("best", other) for other in ("naive", "flex", f"best {_any_of(self.seed)}")]
        fused = self.kind in ("attention", "block")
        inside = {"flex": self.granularities, "flat": self.granularities} if fused else {}
        found = [(one, f"{one}-{x}") for one, names in inside.items() for x in names]
        alone = SCHEDULED if fused else SCHEDULED[:2]
        found += [("best", one) for one in (*alone, *(smaller for _, smaller in found))]
        return [*found, *MAPSPACES] if self.kind == "gemm" else found

    def figure(self, dataflow: str) -> float:
        """Schedule it and run it; return what the objective is of.

        Raises:
            NothingFitsError: nothing fits.
        """
        on = load_accelerator(self.hw, list(self.settings))
        effort = Effort(objective=self.objective, patience=2_000, exhaustive=5_000)
        name, _, flag = dataflow.partition(" ")
        held = next((kind for kind in STATIONARITIES if kind == flag), None)
        options = Options(
            tolerance=self.tolerance,
            objective=self.objective,
            pipeline=self.pipeline or flag == "pipeline",
            effort=effort,
            stationarity=held,
        )
        result = simulate(self.workload, on, name, options=options)
        run = result.run
        energy = sum(energy_pj(run, on).values())
        return {
            "cycles": run.cycles,
            "energy": energy,
            "edp": energy * run.cycles,
            "dram-bytes": sum(n for (at, _), n in run.moved.items() if at.startswith("dram")),
            "footprint": result.prediction.buffer_bytes,
        }[self.objective]

    def __str__(self) -> str:
        operators = self.workload.operators if self.kind == "chain" else self.workload.operators[:1]
        sizes = ", ".join(
            " ".join(f"{rank}={size}" for rank, size in one.ranks.items()) for one in operators
        )
        piped = ", pipelined" if self.pipeline else ""
        return f"{self.seed}: {self.kind} {sizes} on {self.hw} {self.objective}{piped}"


def draw(seed: int) -> Case:
    """Draw a case; objectives take turns."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    hw, times, settings = rng.choice(ACCELERATORS), 8, list[str]()
    kind = rng.choice(("attention", "attention", "gemm", "block", "conv", "feed-forward"))
    if hw == "toy":
        times = 1
        settings = [
            "dram.interleave_bytes=16 B",
            f"buffer.capacity_bytes={rng.choice((512, 1024, 2048, 4096))} B",
            f"dram.bandwidth_bytes_per_second={rng.choice((1, 2, 4, 8, 16, 32))} GB/s",
        ]
    if rng.random() < 0.3:
        settings.append("compiler.resident=true")
    return Case(
        seed=seed,
        kind=kind,
        workload=_workload(rng, kind, times),
        hw=hw,
        settings=tuple(settings),
        objective=OBJECTIVES[seed % len(OBJECTIVES)],
        pipeline=rng.random() < 0.3,
        granularities=tuple(rng.sample("mbhr", 2)),
    )


def draw_chain(seed: int) -> Case:
    """Draw three or four products and vector operators in a row on an `edge` of another size."""
    rng = random.Random(seed)  # noqa: S311 - no secret

    def size() -> int:
        return rng.choice((rng.randint(3, 24), 8 * rng.randint(1, 16)))

    side, room = rng.choice((4, 8, 16)), rng.choice((16, 24, 32, 48, 64))
    rows, columns, operators = size(), size(), list[Operator]()
    for at in range(rng.choice((3, 3, 4))):
        is_product = at == 0 or rng.random() < 0.6
        width = size() if is_product else columns
        out, inside = f"T{at + 1} m {'n' if is_product else 'k'}", f"T{at} m k"
        if is_product:
            ranks = {"m": rows, "k": columns, "n": width}
            operators.append(einsum(f"one{at}", out, inside, f"W{at} k n", **ranks))
        else:
            kind = rng.choice(("residual", "residual", "gelu", "softmax", "layer_norm"))
            inputs = (inside, f"Q{at} m k") if kind == "residual" else (inside,)
            axis = "k" if kind in ("softmax", "layer_norm") else ""
            operators.append(vector(f"one{at}", kind, out, *inputs, axis=axis, m=rows, k=columns))
        columns = width
    settings = (
        f"buffer.capacity_bytes={room} KiB",
        f"array.rows={side}",
        f"array.cols={side}",
    )
    tolerance = Options().tolerance * (seed % 2)
    workload = small_workload(*operators)
    return Case(
        seed, "chain", workload, "edge", settings, "cycles", pipeline=False, tolerance=tolerance
    )


def draw_flags(seed: int) -> Case:
    """Draw a workload on a shipped accelerator, and a flag for each dataflow."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    hw = rng.choice(HELD_FREELY)
    kind = rng.choice(("attention", "gemm", "block", "conv", "feed-forward"))
    workload = _workload(rng, kind, rng.choice((1, 8, 16)))
    names = [*SCHEDULED[: 4 if kind in ("attention", "block") else 2], "strips", "best"]
    flags = {f"{name} {rng.choice(('pipeline', *STATIONARITIES))}" for name in names}
    return Case(seed, kind, workload, hw, (), "cycles", pipeline=False, flags=tuple(sorted(flags)))


def _any_of(seed: int) -> Stationarity:
    return STATIONARITIES[seed % len(STATIONARITIES)]


def _workload(rng: random.Random, kind: str, times: int) -> Workload:
    if kind == "gemm":
        m, k, n = (rng.randint(3, 40) * times for _ in "mkn")
        return gemm(m=m, k=k, n=n, bytes_per_element=2)
    if kind == "conv":
        m, c = (rng.randint(2, 8) * times for _ in "mc")
        rows, columns = rng.randint(3, 9), rng.randint(3, 9)
        return conv2d(m=m, c=c, p=rows, q=columns, r=3, s=3, bytes_per_element=2)
    heads, size = rng.randint(1, 3), rng.randint(2, 6) * times
    sizes = ModelDimensions(
        hidden=heads * size, heads=heads, head_size=size, ff_size=2 * heads * size
    )
    scope = "la" if kind == "attention" else "block"
    tokens, batch = rng.randint(3, 30) * times, rng.randint(1, 2)
    workload = attention(sizes, batch=batch, seq_len=tokens, scope=scope, bytes_per_element=2)
    return workload.select_operators(["FF1", "FF2"]) if kind == "feed-forward" else workload


def compared(case: Case) -> Iterator[tuple[str, str, float, float]]:
    """Yield (larger, smaller, figure of the larger, of the smaller) where the smaller has one."""
    known: dict[str, float] = {}
    for names in case.pairs:
        for name in names:
            if name not in known:
                try:
                    known[name] = case.figure(name)
                except NothingFitsError:
                    known[name] = float("inf")
        if known[names[1]] < float("inf"):
            yield *names, known[names[0]], known[names[1]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw, schedule by all, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draws", type=int, default=DRAWS, metavar="N")
    parser.add_argument("--chains", type=int, default=CHAINS, metavar="N")
    parser.add_argument("--flags", type=int, default=FLAGS, metavar="N")
    asked = parser.parse_args(arguments)
    os.environ[VARIABLE] = "off"
    by_pair: dict[tuple[str, str], list[tuple[float, str]]] = {}
    counts = {draw: asked.draws, draw_chain: asked.chains, draw_flags: asked.flags}
    for case in (case for make, count in counts.items() for case in map(make, range(count))):
        for larger, smaller, more, less in compared(case):
            # energies are sums in another order
            ratio = round(more / less / (1 + case.tolerance), 9)
            by_pair.setdefault((larger, smaller), []).append((ratio, str(case)))
            if ratio > 1:
                print(f"{ratio:.4f} {larger} of {smaller}: {case}", flush=True)
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        for names, ratios in sorted(by_pair.items()):
            worst, text = max(ratios)
            worse = sum(ratio > 1 for ratio, _ in ratios)
            row = [*names, len(ratios), worse, f"{worst:.4f}", text if worst > 1 else ""]
            writer.writerow(row)
            print(
                f"{names[0]} and {names[1]}: {worse} of {len(ratios)} worse, at worst {worst:.4f}"
            )


if __name__ == "__main__":
    main()
