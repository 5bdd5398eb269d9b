"""Draw the README's picture of a trace: `python -m examples.trace_picture` (a few seconds)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from examples.make_traces import FOLDER
from simaccel.report.figures.page import FigureOptions, plot_trace
from simaccel.trace import TraceReader

TARGET: Final = Path(__file__).parents[1] / "docs" / "images" / "trace.png"


def main() -> None:
    """Draw the reference trace of a fused attention block: one steady period with its fill."""
    with TraceReader.open(FOLDER / "edge_bert_flat.h5") as trace:
        plot_trace(
            trace, TARGET, FigureOptions(kinds=("timeline", "occupancy"), columns=2), force=True
        )


if __name__ == "__main__":
    main()
