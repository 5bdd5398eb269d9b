"""The reference's runs as patterns, and where they were measured."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from simaccel.hardware.dram.part import DramPart
from simaccel.hardware.dram.parts import PARTS
from validation.dram.patterns import Pattern

DATA = Path(__file__).parent / "data"
CONFIGS = {
    "ddr4_3200_x64_1r_bgil": ("DDR4-3200x64", "bgil"),
    "hbm2_x128_1r_ship": ("HBM2", "rgbc"),
    "ddr4_3200_x64_1r_rbc": ("DDR4-3200x64", "rbc"),
    "ddr4_3200_x64_2r_ship": ("DDR4-3200x64-2R", "rbc"),
    "hbm2_x128_1r_bgil": ("HBM2", "bgil"),
    "ram2_ddr4_3200_1r_bgil": ("DDR4-3200x64", "bgil"),
    "ram2_ddr4_3200_1r_rbc": ("DDR4-3200x64", "rbc"),
    "ram2_ddr4_3200_1r_mopxor": ("DDR4-3200x64", "mopxor"),
    "ram2_hbm2_2pc_lowil": ("HBM2-PC", "lowil"),
}
"""Part and address map of each config of the reference."""
BUILT_ON = ("ddr4_3200_x64_1r_bgil", "hbm2_x128_1r_ship")
"""Configs whose figures were looked at while the controller was written."""
KINDS = {"alternating_rw": "alternating"}
_WRITES = {
    "read": 0.0,
    "write": 1.0,
    "mixed": 1 / 3,
    "read+read": 0.0,
    "read+write": 0.5,
    "read_then_write": 0.5,
}


@dataclass(frozen=True)
class Point:
    """One run of the reference."""

    simulator: str
    config: str
    kind: str
    pattern: Pattern
    refresh: bool
    efficiency: float
    latency_ns: float | None

    @property
    def part(self) -> DramPart:
        """The part that it ran on."""
        return PARTS[CONFIGS[self.config][0]]

    @property
    def mapping(self) -> str:
        """Its address map."""
        return CONFIGS[self.config][1]

    @property
    def controller(self) -> str:
        """The controller that is like the simulator's."""
        return "banks" if self.simulator == "DRAMsim3" else "window"

    @property
    def group(self) -> str:
        """What the model was built on, and what it was tested on."""
        if self.simulator != "DRAMsim3":
            return "Ramulator 2.1"
        return "built on" if self.config in BUILT_ON else "held out"


def throughputs() -> Iterator[Point]:
    """Read the throughputs."""
    for row in read("throughput.csv"):
        kind = KINDS.get(row["pattern"], row["pattern"].replace("_", "-"))
        limit, rows = row["max_outstanding_reads"], row["tile_rows"]
        pattern = Pattern(
            kind=kind,
            chunk=_number(row["tile_or_chunk_bytes"]),
            row=_number(row["row_bytes"]),
            pitch=_number(row["pitch_bytes"]),
            tile_rows=int(rows) if rows else 64,
            write_fraction=_WRITES[row["direction"]],
            reads_in_flight=None if limit == "unlimited" else int(limit),
            waits=row["waits_for_reads"] == "yes",
            apart=row["stream_offset"] == "disjoint",
        )
        latency = row["avg_read_latency_ns"]
        yield Point(
            row["simulator"],
            row["config"],
            kind,
            pattern,
            row["refresh"] == "on",
            float(row["efficiency"]),
            float(latency) if latency else None,
        )


def loads() -> Iterator[Point]:
    """Read the latencies under loads that the part can carry."""
    for row in read("loaded_latency.csv"):
        if row["saturated"] == "yes":
            continue
        pattern = Pattern(
            kind=row["pattern"].replace("_", "-"),
            chunk=int(row["chunk_bytes"]),
            write_fraction=float(row["write_fraction"]),
            load=float(row["offered_fraction_of_peak"]),
        )
        yield Point(
            row["simulator"],
            row["config"],
            "loaded latency",
            pattern,
            True,  # noqa: FBT003 - refresh
            float(row["achieved_fraction_of_peak"]),
            float(row["mean_ns"]),
        )


def read(name: str) -> list[dict[str, str]]:
    """Read a file of the reference."""
    with (DATA / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _number(text: str) -> int:
    return int(text) if text else 0
