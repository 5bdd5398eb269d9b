"""The table of units, and of the causes that an engine works or waits for.

A unit that executes commands has one row here, and a member of `Cause`. Machine, counts, traces,
tables, pages and figures read both; no other module spells the name of a unit out.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, Literal, NamedTuple, get_args

ARRAY: Final = "array"
SFU: Final = "sfu"
LINK: Final = "link"
MAC: Final = "mac"
"""Name of a spatial array, whose PEs have memories, in leaves of mappings."""
LeafUnit = Literal["array", "mac", "sfu"]
LEAF_UNITS: Final[tuple[LeafUnit, ...]] = get_args(LeafUnit)
"""Units that leaves of mappings name."""
LOADING: Final = "array_loading"
UNFILLED: Final = "array_unfilled"


class Cause(IntEnum):
    """An activity of an engine: it works, idles, or waits, by the root of the stall.

    Traces hold these numbers: a new cause takes the next one.
    """

    BUSY = 0
    IDLE = 1
    DRAM_BANDWIDTH = 2
    DRAM_LATENCY = 3
    DRAM_QUEUE = 4
    BUFFER_PORT = 5
    NOC = 6
    ARRAY = 7
    SFU = 8
    DRAIN = 9
    DRAM_BANKS = 10
    START = 11
    LINK = 12
    CORE_NOC = 13


STALLS: Final = tuple(cause for cause in Cause if cause not in (Cause.BUSY, Cause.IDLE))


class NamedCause(NamedTuple):
    """A cause in words and as drawn.

    ``label``: in legends; ``limit``: as the limit of a run; ``awaited``: in sentences ("waits for
    the NoC"); ``colour`` (RGB hex) and ``hatch`` (of matplotlib); ``slice_colour``: a colour of
    chrome://tracing.
    """

    label: str
    limit: str
    awaited: str
    colour: str
    hatch: str
    slice_colour: str


class Unit(NamedTuple):
    """A unit that executes commands. Its engine, its busy cycles and its cause have its name.

    ``kind``: stalls of a run are those of its compute units; others move or rearrange data.
    ``freed``: description of a run in which the unit takes no cycles. ``frees``: the section of an
    accelerator that determines its cycles, and the values of its fields that make them 0.
    """

    kind: Literal["compute", "movement"]
    cause: NamedCause
    freed: str = ""
    frees: tuple[str, Mapping[str, object]] | None = None


# Okabe and Ito's palette, and olive of Paul Tol's "muted" for the ninth. Hatches tell the stalls
# apart in grey as well; of the three without one, each is much lighter than the one before.
# Light blue, blue's neighbour, for what waits for the array: a well-fed array's others all do.
# Dots are few, as each of them is a curve in the file.
UNITS: Final[Mapping[str, Unit]] = {
    ARRAY: Unit(
        "compute",
        NamedCause(
            "array", "MACs of the array", "the array", "#56B4E9", "", "background_memory_dump"
        ),
        "folds and passes take no cycles; their transfers stay",
    ),
    SFU: Unit(
        "compute",
        NamedCause("SFU", "SFU", "the SFU", "#F0E442", "..", "rail_response"),
        "vector operators take no cycles; their use of ports stays",
    ),
    LINK: Unit(
        "movement",
        NamedCause("links", "links between chips", "the links", "#117733", "**", "rail_load"),
        "messages between chips take no cycles; their other transfers stay",
        ("links", {"bytes_per_second": None, "start_cycles": 0, "hop_cycles": 0}),
    ),
}
"""By name, in the order of engines and tables; the first compute unit is the critical one."""
COMPUTE_UNITS: Final = tuple(name for name, unit in UNITS.items() if unit.kind == "compute")

CAUSES: Final[Mapping[str, NamedCause]] = {
    "busy": NamedCause("busy", "", "", "#0072B2", "", "thread_state_running"),
    "dram_bandwidth": NamedCause(
        "DRAM bandwidth", "DRAM bandwidth", "DRAM bandwidth", "#D55E00", "////", "terrible"
    ),
    "dram_latency": NamedCause(
        "DRAM latency", "DRAM latency", "DRAM latency", "#CC79A7", "\\\\\\\\", "bad"
    ),
    "dram_queue": NamedCause(
        "DRAM queue",
        "requests in flight",
        "DRAM to accept requests",
        "#E69F00",
        "xxxx",
        "thread_state_iowait",
    ),
    "dram_banks": NamedCause(
        "DRAM banks", "DRAM banks", "the DRAM's banks", "#882255", "oo", "thread_state_runnable"
    ),
    "buffer_port": NamedCause(
        "buffer port", "buffer ports", "the buffer's ports", "#009E73", "----", "yellow"
    ),
    "noc": NamedCause("NoC", "NoC", "the NoC", "#999933", "++++", "olive"),
    "core_noc": NamedCause(
        "NoC of cores", "NoC of cores", "the NoC between the cores", "#44AA99", "..", "rail_idle"
    ),
    **{name: unit.cause for name, unit in UNITS.items()},
    "drain": NamedCause(
        "drain",
        "drain",
        "the other engines to end",
        "#888888",
        "||||",
        "thread_state_uninterruptible",
    ),
    "start": NamedCause(
        "start of an operator",
        "starts of operators",
        "operators to start",
        "#661100",
        "**",
        "startup",
    ),
    "idle": NamedCause("idle", "nothing", "", "#E8E8E8", "", "thread_state_sleeping"),
}
"""By name, in the order of stacks and legends: work, its waits, nothing to do."""

LIMITS: Final[Mapping[str, str]] = {
    **{name: cause.limit for name, cause in CAUSES.items() if cause.limit},
    LOADING: "loading the array",
    UNFILLED: "part-filled array",
}
"""Names of limits of a run in data -> in text for people."""

FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "dram_bandwidth": ("dram.bandwidth_bytes_per_second",),
    "dram_latency": ("dram.latency_cycles",),
    "dram_queue": ("dram.in_flight_bytes",),
    "dram_banks": ("dram.part",),
    "buffer_port": ("buffer.read_bytes_per_second", "buffer.write_bytes_per_second"),
    "noc": ("noc.distribution", "noc.collection"),
    "core_noc": ("cores.noc",),
    ARRAY: ("array.rows", "array.cols"),
    UNFILLED: ("array.rows", "array.cols"),
    LOADING: ("array.cols",),
    SFU: ("sfu.lanes",),
    LINK: ("links.bytes_per_second",),
    "start": ("compiler.kernel_start_cycles",),
}
"""Fields of an accelerator that set a limit; those of a memory beside the DRAM have its name."""

FREED: Final[Mapping[str, tuple[str, str]]] = {
    "dram_bandwidth": ("DRAM bandwidth", "transfers take no cycles, their latency stays"),
    "dram_latency": ("DRAM latency", "data arrive as soon as the channel has read them"),
    "dram_banks": (
        "DRAM banks",
        "rows, activates and refreshes take no cycles; bandwidth and latency stay",
    ),
    "buffer_ports": ("buffer ports", "reads and writes of the buffer take no cycles"),
    "noc": ("NoC", "pipes of unlimited width, without latency"),
    "core_noc": ("NoC of cores", "links between memories and cores take no cycles"),
    **{name: (unit.cause.label, unit.freed) for name, unit in UNITS.items() if unit.freed},
    LOADING: (
        "loading of the array",
        "operands shift into the array, and sums out of it, in no time",
    ),
    "start": ("starts of operators", "operators begin at once (compiler.kernel_start_cycles 0)"),
    "slots": ("slots", "{slots} slots for each tile, whatever the capacity: not a real design"),
}
"""Resource that can be made infinitely fast -> its name in text, and what that means."""


def cause_text(cause: str) -> str:
    """Return the text for people of a cause, by its name in data.

    >>> cause_text("dram_bandwidth"), cause_text("sfu"), cause_text("drain")
    ('DRAM bandwidth', 'SFU', 'drain')
    """
    return CAUSES[cause].label if cause in CAUSES else cause
