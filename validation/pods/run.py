"""A layer of Llama-3-70B over 1 to 64 chips of TPU v5e: what links cost, beside ring formulas.

`python -m validation.pods.run` writes `scaling.csv` and `scaling.png`. Points that are in the table
already are not run again (`--anew` runs all of them); mappings found before come from the cache.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from simaccel import load_accelerator
from simaccel.experiment.run import ExperimentResult, simulate
from simaccel.experiment.what_if import what_if
from simaccel.hardware import Accelerator
from simaccel.mapping.chips.exchanges import Exchange
from simaccel.workload import build

HERE = Path(__file__).parent
TABLE, PICTURE = HERE / "scaling.csv", HERE / "scaling.png"
SIZES = (1, 2, 4, 8, 16, 32, 64)
FIELDS = ("curve", "chips", "cycles", "cycles_with_free_links", "link_cycles", "formula_cycles")


@dataclass(frozen=True)
class Curve:
    """How the work grows with the chips, all of which share the layer (tensor parallel)."""

    name: str
    phase: str
    prompt: int
    batch: int
    weak: bool = False

    def run(self, chips: int) -> ExperimentResult:
        """Run the layer on so many chips."""
        batch = self.batch * (chips if self.weak else 1)
        layer = build(
            "llama3-70b",
            phase=self.phase,
            prompt=self.prompt,
            batch=batch,
            scope="block",
            causal_blocks=1,
        )
        return simulate(layer, load_accelerator("tpu_v5e", [f"chips={chips}"]), "flat")


CURVES = (
    Curve("decode, 16 sequences", "decode", 4096, 16),
    Curve("decode, 2 sequences a chip", "decode", 4096, 2, weak=True),
)


def formula_cycles(exchange: Exchange, accelerator: Accelerator) -> float:
    """Return an all-reduce on a torus as ASTRA-sim and the scaling book have it.

    Dimension by dimension, 2 (n - 1) / n of what is left goes over two links at once; each of
    2 floor(n / 2) steps pays a latency. A ring of two has one link.
    """
    links = accelerator.links
    per_cycle = (links.bytes_per_second or math.inf) / accelerator.clock_hz
    cycles, left = 0.0, float(exchange.n_bytes(exchange.most))
    for n in exchange.rings:
        ways = 1 if n == 2 else 2
        cycles += 2 * (left * (n - 1) / n / (ways * per_cycle) + n // 2 * links.hop_cycles)
        left /= n
    return cycles


def row_of(curve: Curve, chips: int) -> dict[str, object]:
    """Return the figures of a point."""
    result = curve.run(chips)
    freed = what_if(result.accelerator, result.program, [("link",)]).freed
    link = result.run.engines.get("link")
    return {
        "curve": curve.name,
        "chips": chips,
        "cycles": result.run.cycles,
        "cycles_with_free_links": freed[0].cycles if freed else result.run.cycles,
        "link_cycles": link.busy if link else 0,
        "formula_cycles": round(
            sum(formula_cycles(exchange, result.accelerator) for exchange in result.pod.exchanges)
        ),
    }


def rows(*, anew: bool) -> Iterator[dict[str, object]]:
    """Yield all points, those that are known from the table."""
    known: dict[tuple[str, str], dict[str, object]] = {}
    if TABLE.exists() and not anew:
        with TABLE.open() as stream:
            known = {(row["curve"], row["chips"]): dict(row) for row in csv.DictReader(stream)}
    for curve in CURVES:
        for chips in SIZES:
            yield known.get((curve.name, str(chips))) or row_of(curve, chips)


def write(found: list[dict[str, object]]) -> None:
    """Write the table of what has been found so far."""
    with TABLE.open("w") as stream:
        writer = csv.DictWriter(stream, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)


def efficiency(some: list[dict[str, object]], field: str, *, weak: bool) -> list[float]:
    """Return what of the chips' time a curve uses, against one chip."""
    one = int(str(some[0]["cycles"]))
    return [one / int(str(row[field])) / (1 if weak else int(str(row["chips"]))) for row in some]


def draw(found: list[dict[str, object]]) -> None:
    """Draw efficiency with links and with infinitely fast ones, a panel for each curve."""
    figure, panels = plt.subplots(1, len(CURVES), figsize=(9, 3.6))
    for panel, curve in zip(panels, CURVES, strict=True):
        _panel(panel, curve, [row for row in found if row["curve"] == curve.name])
    panels[0].set_ylabel("tokens/s of a chip, against one chip alone")
    panels[-1].legend(frameon=False, fontsize=8)
    figure.suptitle("A layer of Llama-3-70B on TPU v5e, tensor parallel", fontsize=10)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=110)


def _panel(panel: Axes, curve: Curve, points: list[dict[str, object]]) -> None:
    chips = [int(str(row["chips"])) for row in points]
    real = efficiency(points, "cycles", weak=curve.weak)
    free = efficiency(points, "cycles_with_free_links", weak=curve.weak)
    panel.plot(chips, free, "o--", color="#56B4E9", label="links infinitely fast")
    panel.plot(chips, real, "o-", color="#0072B2", label="as they are")
    panel.fill_between(chips, real, free, color="#117733", alpha=0.25, label="lost to links")
    panel.set_xscale("log", base=2)
    panel.set_xticks(chips, [str(n) for n in chips])
    panel.set_ylim(bottom=0)
    panel.set_xlabel("chips")
    panel.set_title(f"{curve.name} ({'weak' if curve.weak else 'strong'})", fontsize=9)
    panel.grid(visible=True, alpha=0.3)


def main() -> None:
    """Run what is missing, and write table and picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--anew", action="store_true", help="run all points again")
    found: list[dict[str, object]] = []
    for row in rows(anew=parser.parse_args().anew):
        found.append(row)
        write(found)
        print(row)
    draw(found)


if __name__ == "__main__":
    main()
