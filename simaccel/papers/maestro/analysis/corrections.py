"""Effects of each correction of the default reading, figure by figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from simaccel.errors import SimaccelError
from simaccel.papers.maestro.analysis.analysis import LayerAnalysis, analyse_layer
from simaccel.papers.maestro.analysis.hardware import DirectiveHardware
from simaccel.papers.maestro.analysis.reading import CORRECTIONS

Effects = dict[str, dict[str, float]]
_FIGURES: Final = (
    "macs_counted",
    "runtime_cycles",
    "input_l2_read",
    "filter_l2_read",
    "output_l2_read",
    "output_l2_write",
    "input_l1_write",
    "filter_l1_write",
    "l2_size_req_total",
    "l1_size_req_total",
    "offchip_bw_req",
    "energy_total_xmac",
)


def effects(
    analysed: LayerAnalysis, hardware: Sequence[DirectiveHardware], point: int = 0
) -> Effects:
    """Return, by correction, what it adds to each figure that it changes, at one point."""
    by_correction: Effects = {}
    kept = analysed.figures(point)
    for name, correction in CORRECTIONS.items():
        reading = correction.undo(analysed.reading)
        try:
            other = analyse_layer(
                analysed.layer, analysed.dataflow, [hardware[point]], reading
            ).figures()
        except SimaccelError:
            by_correction[name] = {
                "macs_counted": float(kept["macs_counted"] or 0)
            }  # nothing without it
            continue
        by_correction[name] = {
            figure: (kept[figure] or 0) - (other[figure] or 0)
            for figure in _FIGURES
            if kept[figure] != other[figure]
        }
    return by_correction
