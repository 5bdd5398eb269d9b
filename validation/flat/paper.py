"""FLAT's evaluation as a closed form, calibrated on its figure 16; it knows nothing of simaccel.

Times are per sample of the batch. Operators run one after another; inside one, T = max(compute,
DRAM). What the paper states is in `EDGE` and `CLOUD`; what was fitted is in `Assumptions` and
`FITTED`, and is not stated anywhere in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Literal

Dataflow = Literal["naive", "flex", "flat"]
Granularity = Literal["m", "b", "h", "r"]
GRANULARITIES: tuple[Granularity, ...] = ("m", "b", "h", "r")
BATCH = 64
"""Section 6.1."""
LENGTHS = (512, 4096, 16384, 65536, 262144)


@dataclass(frozen=True)
class Platform:
    """An accelerator of table 2, with the buffer of section 8."""

    name: str
    side: int
    dram_bytes_per_second: float
    buffer_bytes: int


EDGE = Platform("edge", 32, 50e9, 512 * 2**10)
CLOUD = Platform("cloud", 256, 400e9, 32 * 2**20)
PLATFORMS = {one.name: one for one in (EDGE, CLOUD)}


@dataclass(frozen=True)
class Model:
    """Hidden size and heads; the feed-forward part is four times as wide."""

    name: str
    hidden: int
    heads: int

    @property
    def head_size(self) -> int:
        """Columns of a head."""
        return self.hidden // self.heads


FITTED = {
    one.name: one
    for one in (
        Model("BERT", 768, 12),
        Model("TrXL", 1024, 16),
        Model("FlauBERT", 2048, 16),
        Model("T5", 512, 8),
        Model("XLM", 4096, 16),
    )
}
"""Sizes that fit figure 16 best. BERT, TrXL and T5 are as published; FlauBERT and XLM are not."""
PUBLISHED = FITTED | {
    one.name: one for one in (Model("FlauBERT", 1024, 16), Model("XLM", 2048, 16))
}
"""Sizes of the published checkpoints (FlauBERT: large)."""
FIG_4 = {one.name: one for one in (Model("BERT", 1024, 16), Model("TrXL", 1024, 16))}
FIG_4 |= {"XLM": PUBLISHED["XLM"]}
"""Sizes that give figure 4 exactly: its "BERT(-base)" has those of BERT-large."""


@dataclass(frozen=True)
class Assumptions:
    """What the paper doesn't state.

    ``passes``: how often the logits cross DRAM in flex. ``stripes``: element columns, N long and
    as wide as the array, that a GEMM must hold to read its operands once (input and sums, twice
    each). ``spilled``: elements per ``side`` MACs that cross DRAM where these don't fit (an input
    read, a sum read and written). Energies in pJ per MAC and per byte.
    """

    clock_hz: float = 0.72e9
    bytes_per_element: int = 2
    passes: float = 2
    stripes: int = 4
    spilled: int = 3
    mac_pj: float = 0.4
    buffer_pj: float = 12.0
    dram_pj: float = 37.5


CALIBRATED = Assumptions()


@dataclass(frozen=True)
class Work:
    """MACs and DRAM bytes of one operator, and the share of the array that it can use."""

    macs: float
    dram_bytes: float
    used: float = 1.0

    def seconds(self, platform: Platform, given: Assumptions) -> float:
        """Return the longer of computing and moving."""
        peak = platform.side**2 * given.clock_hz
        return max(self.macs / (peak * self.used), self.dram_bytes / platform.dram_bytes_per_second)

    def energy_pj(self, platform: Platform, given: Assumptions) -> float:
        """Return the energy of MACs, buffer (four elements per ``side`` MACs) and DRAM."""
        touched = self.macs * 4 * given.bytes_per_element / platform.side
        moved = self.dram_bytes * given.dram_pj
        return self.macs * given.mac_pj + touched * given.buffer_pj + moved


def spilled_share(platform: Platform, length: int, given: Assumptions = CALIBRATED) -> float:
    """Return the share of a GEMM's stripes that doesn't fit the buffer.

    >>> spilled_share(EDGE, 512), spilled_share(EDGE, 4096)
    (0.0, 0.5)
    """
    need = given.stripes * platform.side * length * given.bytes_per_element
    return max(0.0, 1 - platform.buffer_bytes / need)


def block(
    platform: Platform,
    model: Model,
    length: int,
    dataflow: Dataflow,
    assumptions: Assumptions = CALIBRATED,
    share: float = 0.0,
) -> dict[str, Work]:
    """Return the work of projections ("proj"), feed-forward ("ff"), "L" and "A", per sample.

    ``share``: the part of the logits that stays on chip in flex (naive keeps none, flat all).
    """
    hidden, width = model.hidden, assumptions.bytes_per_element
    macs = model.heads * length**2 * model.head_size
    used = min(1.0, model.head_size / platform.side)
    spill = assumptions.spilled * spilled_share(platform, length, assumptions)
    again = {"naive": 4.0, "flex": spill, "flat": 0.0}[dataflow] / platform.side
    fc_again = max(again, spill / platform.side)
    passes = {
        "naive": 2 * assumptions.passes,
        "flex": assumptions.passes * (1 - share),
        "flat": 0.0,
    }[dataflow]
    logits = passes / 2 * model.heads * length**2 + 2 * length * hidden
    works = {}
    for name, matrices, streams in (("proj", 4, 8), ("ff", 8, 8)):
        fc = matrices * length * hidden**2
        elements = streams * length * hidden + matrices * hidden**2 / BATCH + fc_again * fc
        works[name] = Work(fc, width * elements)
    works["L"] = Work(macs, width * (logits + again * macs))
    works["A"] = Work(macs, width * (logits + again * macs), used)
    return works


def seconds(work: Mapping[str, Work], platform: Platform, given: Assumptions = CALIBRATED) -> float:
    """Return the time of operators that run one after another; the GEMMs of FC are one."""
    fc = [one for name, one in work.items() if name in ("proj", "ff")]
    parts = [one for name, one in work.items() if name not in ("proj", "ff")]
    if fc:
        parts.append(Work(sum(one.macs for one in fc), sum(one.dram_bytes for one in fc)))
    return sum(one.seconds(platform, given) for one in parts)


def energy_pj(
    work: Mapping[str, Work], platform: Platform, given: Assumptions = CALIBRATED
) -> float:
    """Return the energy of operators."""
    return sum(one.energy_pj(platform, given) for one in work.values())


def gains(
    platform: Platform, model: Model, length: int, given: Assumptions = CALIBRATED
) -> tuple[float, float]:
    """Return speedup and energy ratio of flat over flex, of a whole block (figure 16)."""
    flex, flat = (block(platform, model, length, flow, given) for flow in ("flex", "flat"))
    speedup = seconds(flex, platform, given) / seconds(flat, platform, given)
    return speedup, energy_pj(flat, platform, given) / energy_pj(flex, platform, given)


def table_1(
    model: Model, length: int, granularity: Granularity, *, rows: int = 1, batch: int = BATCH
) -> tuple[int, int]:
    """Return the elements of table 1: (inputs and output, two slots each; the logits).

    >>> table_1(FITTED["BERT"], 512, "h")
    (131072, 262144)
    """
    hidden, d = model.hidden, model.head_size
    return {
        "m": (8 * batch * hidden * length, batch * model.heads * length**2),
        "b": (8 * hidden * length, model.heads * length**2),
        "h": (8 * length * d, length**2),
        "r": (4 * rows * d + 4 * length * d, rows * length),
    }[granularity]


def most_rows(
    platform: Platform, model: Model, length: int, given: Assumptions = CALIBRATED
) -> int:
    """Return the highest row block of table 1's row granularity that fits; 0 if none does."""
    d = model.head_size
    room = platform.buffer_bytes // given.bytes_per_element - 4 * length * d
    return max(0, min(length, room // (4 * d + length)))


def kept_share(
    platform: Platform,
    model: Model,
    length: int,
    dataflow: Dataflow,
    granularity: Granularity,
    assumptions: Assumptions = CALIBRATED,
) -> float:
    """Return the part of the logits that stays on chip at a granularity (our reading of 7.1).

    Flex keeps a part of the whole batch's, FLAT a part of one tile.
    """
    work, tile = table_1(model, length, granularity)
    if granularity == "r":
        return 1.0 if most_rows(platform, model, length, assumptions) else 0.0
    whole = table_1(model, length, "m")[1] if dataflow == "flex" else tile
    return min(
        1.0, max(0.0, (platform.buffer_bytes / assumptions.bytes_per_element - work) / whole)
    )


def at_granularity(
    platform: Platform,
    model: Model,
    length: int,
    dataflow: Dataflow,
    granularity: Granularity,
    assumptions: Assumptions = CALIBRATED,
) -> dict[str, Work]:
    """Return the work of a block whose logits stay on chip as far as a granularity's tile fits."""
    share = kept_share(platform, model, length, dataflow, granularity, assumptions)
    if dataflow == "flex" and granularity == "r":  # rows of one block stay, of B H N rows
        share = most_rows(platform, model, length, assumptions) / (BATCH * model.heads * length)
    flow: Dataflow = "flex" if dataflow == "flat" else dataflow
    return block(platform, model, length, flow, assumptions, share)


def utilisation(
    work: Mapping[str, Work], platform: Platform, given: Assumptions = CALIBRATED
) -> float:
    """Return ideal time over time (section 6.1)."""
    ideal = sum(one.macs for one in work.values()) / (platform.side**2 * given.clock_hz)
    return ideal / seconds(work, platform, given)


def attention_only(work: Mapping[str, Work]) -> dict[str, Work]:
    """Return L and A of a block."""
    return {name: work[name] for name in ("L", "A")}


def optimal(
    platform: Platform,
    model: Model,
    length: int,
    dataflow: Dataflow,
    given: Assumptions = CALIBRATED,
) -> dict[str, Work]:
    """Return the block of the fastest granularity (naive has none)."""
    if dataflow == "naive":
        return block(platform, model, length, dataflow, given)
    every = [at_granularity(platform, model, length, dataflow, one, given) for one in GRANULARITIES]
    return min(every, key=lambda work: seconds(work, platform, given))


def bandwidth_for(
    platform: Platform,
    model: Model,
    length: int,
    dataflow: Dataflow,
    target: float = 0.95,
    assumptions: Assumptions = CALIBRATED,
) -> float:
    """Return the bytes per second at which the hungrier of L and A takes ideal time / target.

    Infinite where the array can't be used that well at any bandwidth.
    """
    bandwidth = 0.0
    for name in ("L", "A"):
        work = block(platform, model, length, dataflow, assumptions)[name]
        if work.used < target:
            return inf
        allowed = work.macs / (platform.side**2 * assumptions.clock_hz) / target
        bandwidth = max(bandwidth, work.dram_bytes / allowed)
    return bandwidth
