"""What the public tool printed, row by row (`data/README.md`), as descriptions to analyse."""

from __future__ import annotations

import csv
import gzip
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simaccel.papers.maestro.analysis.hardware import DirectiveHardware
from simaccel.papers.maestro.dataflows.reading import DirectedLayer, parse_directives
from validation.maestro.released import analyse_released

DATA = Path(__file__).parent / "data"
Row = Mapping[str, str]
_DIMS = ("N", "G", "M", "K", "C", "R", "S", "Y", "X")
_INPUTS = ("layer_type", *_DIMS, "stride_y", "stride_x", "directives", "num_pes")


@dataclass(frozen=True)
class Runs:
    """Runs of one layer with one dataflow on as many PEs, at several bandwidths."""

    file: str
    rows: tuple[Row, ...]

    @property
    def text(self) -> str:
        """The description that was run."""
        return description(self.rows[0])

    def directed(self) -> DirectedLayer:
        """Read the description."""
        return parse_directives(self.text, self.file).layers[0]

    @property
    def hardware(self) -> list[DirectiveHardware]:
        """The hardware of each run."""
        return [hardware(row) for row in self.rows]


def description(row: Row) -> str:
    """Write the description of a row."""
    sizes = ", ".join(f"{dim}: {row[dim]}" for dim in _DIMS if row[dim])
    directives = "\n".join(f"      {one.strip()};" for one in row["directives"].split(";"))
    stride = f"Stride {{ X: {row['stride_x']}, Y: {row['stride_y']} }}"
    body = f"    {stride}\n    Dimensions {{ {sizes} }}\n    Dataflow {{\n{directives}\n    }}\n"
    layer = f"  Layer {row['layer']} {{\n    Type: {row['layer_type']}\n{body}  }}\n"
    return f"Network {row['network']} {{\n{layer}}}\n"


def hardware(row: Row) -> DirectiveHardware:
    """Give the hardware of a row."""
    return DirectiveHardware(
        pes=int(row["num_pes"]),
        noc_bandwidth=(int(row["noc_bw"]),),
        noc_latency=(int(row["noc_hop_latency"]),),
        offchip_bandwidth=int(row["offchip_bw"]),
        simd_lanes=int(row["simd_lanes"]),
    )


def read_rows(name: str) -> list[Row]:
    """Read a table of the data, packed or not."""
    packed = DATA / f"{name}.csv.gz"
    if packed.is_file():
        with gzip.open(packed, "rt", encoding="utf-8", newline="") as stream:
            return list(csv.DictReader(stream))
    with (DATA / f"{name}.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def tables() -> list[str]:
    """Name the tables of runs."""
    packed = (path.name.removesuffix(".csv.gz") for path in DATA.glob("*.csv.gz"))
    return sorted(packed)


def all_runs(names: Sequence[str] | None = None) -> Iterator[Runs]:
    """Yield the runs of all tables, those of one description and number of PEs together."""
    for name in names or tables():
        groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
        for row in read_rows(name):
            groups[tuple(row[key] for key in (*_INPUTS, "status"))].append(row)
        for rows in groups.values():
            yield Runs(name, tuple(rows))


def is_whole(text: str) -> bool:
    """Say whether a cell is a whole number."""
    return text.lstrip("-").isdigit()


def differences(runs: Runs) -> list[str]:
    """Give columns that differ: whole numbers exactly, others in the six digits printed."""
    (analysis,) = analyse_released([runs.directed()], runs.hardware)
    wrong = []
    for at, row in enumerate(runs.rows):
        for name, value in analysis.figures(at).items():
            wanted = float(row[name])
            if value is None:
                same = not math.isfinite(wanted)
            elif is_whole(row[name]) and isinstance(value, int):
                same = int(row[name]) == value
            else:
                same = math.isclose(wanted, value, rel_tol=2e-5, abs_tol=1e-6)
            if not same:
                wrong.append(f"{row['layer']} {row['mapping_name']} {name}: {value} != {row[name]}")
    return wrong
