"""The table of what an engine does or waits for, and of what can be freed; this loads nothing.

A unit that others can wait for has a line here: reports, pages and figures read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

ARRAY: Final = "array"
SFU: Final = "sfu"
LOADING: Final = "array_loading"
UNFILLED: Final = "array_unfilled"


class NamedCause(NamedTuple):
    """A cause in words and as drawn.

    ``label``: in legends; ``limit``: as what limits a run; ``awaited``: in sentences ("waits for
    the NoC"); ``colour`` (RGB hex) and ``hatch`` (of matplotlib).
    """

    label: str
    limit: str
    awaited: str
    colour: str
    hatch: str


# Okabe and Ito's palette, and olive of Paul Tol's "muted" for the ninth. Hatches tell the stalls
# apart in grey as well; of the three without one, each is much lighter than the one before.
# Light blue, blue's neighbour, for what waits for the array: a well-fed array's others all do.
# Dots are few, as each of them is a curve in the file.
CAUSES: Final[Mapping[str, NamedCause]] = {
    "busy": NamedCause("busy", "", "", "#0072B2", ""),
    "dram_bandwidth": NamedCause(
        "DRAM bandwidth", "DRAM bandwidth", "DRAM bandwidth", "#D55E00", "////"
    ),
    "dram_latency": NamedCause(
        "DRAM latency", "DRAM latency", "DRAM latency", "#CC79A7", "\\\\\\\\"
    ),
    "dram_queue": NamedCause(
        "DRAM queue", "requests in flight", "DRAM to accept requests", "#E69F00", "xxxx"
    ),
    "dram_banks": NamedCause("DRAM banks", "DRAM banks", "the DRAM's banks", "#882255", "oo"),
    "buffer_port": NamedCause(
        "buffer port", "buffer ports", "the buffer's ports", "#009E73", "----"
    ),
    "noc": NamedCause("NoC", "NoC", "the NoC", "#999933", "++++"),
    ARRAY: NamedCause("array", "MACs of the array", "the array", "#56B4E9", ""),
    SFU: NamedCause("SFU", "SFU", "the SFU", "#F0E442", ".."),
    "link": NamedCause("links", "links between chips", "the links", "#117733", "**"),
    "drain": NamedCause("drain", "drain", "the other engines to end", "#888888", "||||"),
    "start": NamedCause(
        "start of an operator", "starts of operators", "operators to start", "#661100", "**"
    ),
    "idle": NamedCause("idle", "nothing", "", "#E8E8E8", ""),
}
"""By name, in the order of stacks and legends: work, its waits, nothing to do."""

LIMITS: Final[Mapping[str, str]] = {
    **{name: cause.limit for name, cause in CAUSES.items() if cause.limit},
    LOADING: "loading the array",
    UNFILLED: "part-filled array",
}
"""Limits of a run as data has them, and as people read them."""

FREED: Final[Mapping[str, tuple[str, str]]] = {
    "dram_bandwidth": ("DRAM bandwidth", "transfers take no cycles, their latency stays"),
    "dram_latency": ("DRAM latency", "data arrive as soon as they are read"),
    "dram_banks": (
        "DRAM banks",
        "rows, activates and refreshes cost nothing; bandwidth and latency stay",
    ),
    "buffer_ports": ("buffer ports", "reads and writes of the buffer take no cycles"),
    "noc": ("NoC", "pipes without limit of width and without latency"),
    SFU: ("SFU", "softmax takes no cycles; its port use stays"),
    ARRAY: ("array", "folds and passes take no cycles; what they move stays"),
    "link": ("links", "messages between chips take no cycles; what they move stays"),
    LOADING: (
        "loading of the array",
        "operands shift into the array, and sums out of it, in no time",
    ),
    "slots": ("slots", "{slots} slots a tile, whatever the buffer holds: no design"),
}
"""What can be freed in a run, as people read it, and what that means."""
