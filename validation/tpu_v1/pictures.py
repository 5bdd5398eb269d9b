"""Pictures: counters beside the machine, and figure 11."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from validation.tpu_v1.programs import PROGRAMS, Shares
from validation.tpu_v1.sensitivity import RESOURCES, SCALES

_PARTS: Final = {
    "active": ("array active", "#009E73", ""),
    "weight_stall": ("weight stall", "#D55E00", "////"),
    "weight_shift": ("weight shift", "#E69F00", "...."),
    "rest": ("the rest", "#BBBBBB", ""),
}
_COLOURS: Final = ("#D55E00", "#56B4E9", "#0072B2", "#CC79A7", "#882255")


def draw_shares(
    counted: Mapping[str, Mapping[str, float]], ours: Mapping[str, Shares], path: Path
) -> None:
    """Draw the parts of the cycles, two bars for each program."""
    figure, axes = plt.subplots(figsize=(9, 4.2), layout="constrained")
    places = np.arange(len(PROGRAMS))
    for shift, label in ((-0.2, "chip"), (0.2, "simaccel")):
        bottom = np.zeros(len(PROGRAMS))
        for part, (name, colour, hatch) in _PARTS.items():
            if label == "chip":
                sizes = np.array([counted[part][program] for program in PROGRAMS])
            else:
                sizes = np.array([100 * getattr(ours[program], part) for program in PROGRAMS])
            axes.bar(
                places + shift,
                sizes,
                0.36,
                bottom,
                label=name if label == "chip" else None,
                color=colour,
                hatch=hatch,
                edgecolor="white",
            )
            bottom += sizes
        for at, program in enumerate(PROGRAMS):
            tops = counted["tops"][program] if label == "chip" else ours[program].tops
            axes.text(at + shift, 101, f"{tops:.1f}", ha="center", fontsize=8)
    names = [f"{program.upper()}\nchip | simaccel" for program in PROGRAMS]
    axes.set(xticks=places, xticklabels=names, ylabel="% of cycles", ylim=(0, 108))
    axes.set_title("Where the cycles of TPU v1's array go; TOPS above", fontsize=10)
    figure.legend(loc="outside lower center", ncols=len(_PARTS), frameon=False)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def draw_sensitivity(rows: Sequence[Mapping[str, object]], path: Path) -> None:
    """Draw the speed over the scale of each resource, a panel for each program."""
    figure, panels = plt.subplots(2, 3, figsize=(9, 5.6), layout="constrained", sharex=True)
    scales = [float(scale) for scale in SCALES]
    for program, axes in zip(PROGRAMS, panels.flat, strict=True):
        for resource, colour in zip(RESOURCES, _COLOURS, strict=True):
            resource_rows = [
                r for r in rows if (r["program"], r["resource"]) == (program, resource)
            ]
            speeds = [float(str(row["speed"])) for row in resource_rows]
            dashed = "--" if "accumulators" in resource else "-"
            axes.plot(scales, speeds, dashed, marker="o", ms=3, color=colour, label=resource)
        axes.set_xscale("log", base=2)
        axes.set_xticks(scales, ["1/4", "1/2", "1", "2", "4"])
        axes.set_ylim(0, 4.1)
        axes.set_title(program.upper(), fontsize=10)
        axes.grid(color="#DDDDDD", lw=0.5)
    figure.suptitle(
        "Speed over how many times the chip's resource; both are 1 on the chip", fontsize=10
    )
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=len(RESOURCES), frameon=False, fontsize=8
    )
    figure.savefig(path, dpi=120)
    plt.close(figure)
