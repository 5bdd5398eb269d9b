"""The picture of figures 4 and 5: which PE has which element when, as the machine runs it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from validation.ruby.pictures import COLOURS, plots
from validation.ruby.small_runs import Work

_IDLE = "#EEEEEE"


def draw_schedules(schedules: Sequence[tuple[str, str, list[Work]]], pes: int, path: Path) -> None:
    """Draw a panel for each (title, mapspace, work); idle PEs are grey."""
    plt = plots()
    figure, panels = plt.subplots(
        len(schedules), 1, figsize=(7.0, 1.6 * len(schedules)), sharex=True, layout="constrained"
    )
    longest = max(item.cycle for _, _, work in schedules for item in work) + 1
    for axes, (title, mapspace, work) in zip(panels, schedules, strict=True):
        cycles = max(item.cycle for item in work) + 1
        busy = np.zeros((pes, cycles), dtype=bool)
        for item in work:
            busy[item.pe, item.cycle] = True
            box = plt.Rectangle(
                (item.cycle, item.pe), 1, 1, facecolor=COLOURS[mapspace], alpha=0.35
            )
            axes.add_patch(box)
            axes.text(
                item.cycle + 0.5, item.pe + 0.5, item.element, ha="center", va="center", size=6
            )
        for pe, cycle in np.argwhere(~busy):
            axes.add_patch(plt.Rectangle((cycle, pe), 1, 1, facecolor=_IDLE))
        axes.vlines(range(longest + 1), 0, pes, color="white", linewidth=0.8)
        axes.hlines(range(pes + 1), 0, longest, color="white", linewidth=0.8)
        axes.set(xlim=(0, longest), ylim=(pes, 0), ylabel="PE", title=f"{title}: {cycles} cycles")
        axes.set_yticks(np.arange(pes) + 0.5, [str(pe) for pe in range(pes)])
        axes.title.set_fontsize(9)
        axes.tick_params(length=0)
        for side in axes.spines.values():
            side.set_visible(False)
    panels[-1].set_xticks(range(0, longest + 1, 5))
    panels[-1].set_xlabel("cycle (the number in a box: the element; grey: idle)")
    figure.savefig(path, dpi=150)
    plt.close(figure)
