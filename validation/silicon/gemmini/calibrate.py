"""The two constants of ``hwconfigs/gemmini_16.yaml`` that no document gives.

``python -m validation.silicon.gemmini.calibrate`` runs the calibration rows with all values of a
grid and writes ``calibration.csv``: the rows, and each pair of values with its error.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from yaml import safe_dump, safe_load

from simaccel.importers.gemmini import LEVELS, parse_gemmini
from validation.silicon.gemmini.model import MEASURED, Row, simulated
from validation.silicon.gemmini.rows import HERE, measured, read

LATENCIES: Final = (30, 40, 50, 60, 70, 80)
"""Cycles."""
BANDWIDTHS: Final = (6, 7, 8, 9)
"""Bytes per cycle."""
_LEAST_BYTES: Final = 2**14
_SIDE: Final = 16


def calibration_rows() -> Iterator[tuple[int, Row]]:
    """Yield the rows of the train file that are calibrated on, each with its line in the file.

    Of a 16 x 16 array they are those whose 16 rows and 16 columns all work (the others were run by
    an emulation of other arrays that nothing documents), that no array of 256 MACs is too slow for,
    and whose commands load 16 KiB and more: what a command costs the host isn't in the model, so
    that rows of small ones would put it into DRAM. Layers that aren't square were run as square.
    """
    for line, row in enumerate(read("train"), 2):
        nest = parse_gemmini(row["mapping"])
        spread = {
            factor.rank: factor.pieces
            for name in LEVELS
            for factor in nest.levels[name]
            if factor.spatial
        }
        possible = measured(row) * _SIDE * _SIDE >= macs(row)
        square = row["P"] == row["Q"] or row["Q"] == "1"
        full = spread == {"K": _SIDE, "C": _SIDE}
        if full and possible and square and command_bytes(row) >= _LEAST_BYTES:
            yield line, row


def macs(row: Row) -> int:
    """Return the MACs of a row's layer."""
    return math.prod(int(row[name]) for name in "RSPQCKN")


def command_bytes(row: Row) -> int:
    """Return the bytes of inputs and weights that one iteration of the loops at L3 needs."""
    nest = parse_gemmini(row["mapping"])
    outside = {one.rank: one.pieces for one in nest.levels[LEVELS[0]]}
    tile = {name: int(row[name]) // outside.get(name, 1) for name in "RSPQCKN"}
    high = (tile["Q"] - 1) * int(row["stride_h"]) + tile["S"]
    wide = (tile["P"] - 1) * int(row["stride_w"]) + tile["R"]
    weights = tile["R"] * tile["S"] * tile["C"] * tile["K"]
    return tile["N"] * high * wide * tile["C"] + weights


def describe(folder: Path, latency: int, bandwidth: int) -> Path:
    """Write the measured Gemmini with other cycles and bytes a cycle of DRAM; return its file."""
    document = safe_load(MEASURED.read_text(encoding="utf-8"))
    document["dram"] = {
        "latency_cycles": latency,
        "bandwidth_bytes_per_second": f"{bandwidth} GB/s",
    }
    file = folder / f"{latency}_{bandwidth}.yaml"
    file.write_text(safe_dump(document), encoding="utf-8")
    return file


def main() -> None:
    """Run the grid, write ``calibration.csv`` and print what is best."""
    chosen = list(calibration_rows())
    lines = ",".join(str(line) for line, _ in chosen)
    results = []
    for latency in LATENCIES:
        for bandwidth in BANDWIDTHS:
            with TemporaryDirectory() as folder:
                on = describe(Path(folder), latency, bandwidth)
                errors = [abs(simulated(row, on).cycles / measured(row) - 1) for _, row in chosen]
            error = sum(errors) / len(errors)
            results.append((round(error, 4), latency, bandwidth))
            print(f"latency {latency}, {bandwidth} B/cycle: mean error {error:.1%}", flush=True)
    with (HERE / "calibration.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["latency_cycles", "bytes_per_cycle", "mean_error", "lines_of_train"])
        writer.writerows([latency, rate, error, lines] for error, latency, rate in results)
    error, latency, bandwidth = min(results)
    print(f"{len(chosen)} rows; least: {latency} cycles, {bandwidth} B/cycle ({error})")


if __name__ == "__main__":
    main()
