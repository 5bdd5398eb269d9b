"""Help texts and choices that belong to modules which take long to load.

Each is also in the module that it belongs to; a test keeps both equal.
"""

from __future__ import annotations

from typing import Final

from simaccel.search import effort

DIRECTIVES: Final = "directives"
STRATEGIES: Final = effort.STRATEGIES
OBJECTIVES: Final = effort.OBJECTIVES
STATIONARITIES: Final = ("ws", "os", "is")
WITHIN: Final = 0.01
"""Default tolerance of a search, relative to its best objective."""
PATIENCE: Final = effort.Effort.patience
SCOPES: Final = ("la", "block", "model")
PHASES: Final = ("prefill", "decode")
CAUSAL_BLOCKS: Final = 8
LENGTHS: Final = 5
GROUPED: Final = "grouped"
"""The distribution of tokens to experts that are spread over chips."""
SWEPT: Final = (
    *("buffer", "buffer-bandwidth", "dram-bandwidth", "dram-latency"),
    *("array", "clock", "seq-len", "batch", "precision"),
)
EXPERTS_AXIS: Final = "expert-parallel="
SEQ_LEN: Final = 512
BATCH: Final = 1
SCOPE: Final = "block"
FRONT_FIGURES: Final = ("cycles", "utilisation", "energy", "edp", "dram-bytes", "footprint")
EACH: Final = ("operator",)
METRIC_NAMES: Final = (
    *("cycles", "time", "utilisation", "tokens/s", "tokens/s/chip", "tokens/s/user"),
    "energy/token",
    *("energy", "power", "edp", "area"),
    *("dram-bytes", "reads", "writes", "weights", "activations", "cache", "footprint"),
    "fits",
)
TOP: Final = 10
"""Default number of rows of a table."""
MOST_SHOWN: Final = 20
"""Default number of designs that `explore` prints."""
TARGET: Final = 0.95
EXPLORED: Final = ("cycles", "energy", "edp", "dram-bytes", "footprint", "area", "power")
LANES: Final = "engine,tile"
"""Lanes that an export shows by default: channels have ten times as many events."""
BINS: Final = 1000
AT_MOST: Final = 500_000
"""Events that viewers open without trouble."""
TRACE_FORMATS: Final = ("perfetto", "csv", "vcd", "parquet")
DESIGN_AXES: Final = ("pes", "noc-bandwidth", "l1", "l2")
"""Axes of a MAESTRO description's own design space."""
PRICES: Final = ("present", "paper")
FUSIONS: Final = (
    *("none", "untiled", "full", "tiled-k", "tiled-n", "tiled-kn", "flat", "flash", "best"),
)
UNFUSED: Final = "none"
PATTERNS: Final = (
    *("sequential", "random-chunk", "strided-tile", "alternating", "two-streams"),
    "idle",
)
