"""Collectives beside measured ones, and beside those of ASTRA-sim.

`python -m validation.pods.run` runs each row of `measured.csv` and `astra_sim.csv` on the machine,
from DRAM to DRAM, and writes `beside_measured.csv` and `beside_astra_sim.csv`.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from simaccel.hardware import Accelerator
from simaccel.hardware.chips import ChipAxis
from simaccel.hardware.collectives import COLLECTIVES, Collective
from simaccel.importers.accelerators import load_accelerator
from validation.pods.collective import collective_of, least_cycles, run_collective

HERE: Final = Path(__file__).parent
ASTRA_GB: Final = 2**30
"""Bytes of what ASTRA-sim's analytical backend calls a GB."""
_CLOCK_HZ: Final = 10**9
Row = dict[str, str]


def table(name: str) -> list[Row]:
    """Read a table."""
    with (HERE / name).open() as stream:
        return list(csv.DictReader(stream))


def kind_of(text: str) -> Collective:
    """Return a collective by its name."""
    return next(kind for kind in COLLECTIVES if kind == text.replace("-", "_"))


def microseconds(
    accelerator: Accelerator, kind: Collective, n_bytes: int, axis: ChipAxis | None = None
) -> tuple[float, float]:
    """Return what a collective takes, and what its bytes take of all links of all chips."""
    exchange = collective_of(kind, n_bytes, accelerator, axis)
    cycles = run_collective(exchange, accelerator).cycles, least_cycles(exchange, accelerator)
    run, least = (accelerator.seconds(n) * 10**6 for n in cycles)
    return run, least


def beside_measured(row: Mapping[str, str]) -> Row:
    """Return a measured collective with what it takes here."""
    on = load_accelerator(row["chip"], [f"chips={row['shape']}"])
    slices = ChipAxis(on.pod.count // on.pod.slices, on.pod.slices)
    axis = {"last": ChipAxis(1, on.pod.shape[-1]), "slices": slices}.get(row["axis"])
    run, least = microseconds(on, kind_of(row["kind"]), int(row["bytes"]), axis)
    off = 100 * (run / float(row["measured_us"]) - 1)
    fields = ("chip", "shape", "axis", "kind", "bytes", "measured_us")
    figures = {"us": f"{run:.2f}", "all_links_us": f"{least:.2f}", "off_percent": f"{off:.1f}"}
    return {name: row[name] for name in fields} | figures | {"set_by": row["set_by"]}


def astra_pod(row: Mapping[str, str], *, alike: bool) -> Accelerator:
    """Return the chips of a row of ASTRA-sim, with memories that take no time.

    ASTRA-sim sends round a ring one way, and through one dimension after the other; ``alike``: on
    links that have together the bandwidth which it has in use at a time.
    """
    sizes = [int(n) for n in row["npus"].split("x")]
    form = {"Switch": "switch", "FullyConnected": "all_to_all"}.get(row["topology"], "torus")
    rate = float(row["link_gb_per_s"]) * ASTRA_GB
    if alike and form == "torus":
        rate /= sum(2 if size > 2 else 1 for size in sizes)
    elif alike and form == "all_to_all":
        rate /= sizes[0] - 1
    return load_accelerator(
        "toy",
        [
            f"chips={'x'.join(map(str, sizes))}",
            f"links.topology={form}",
            *([f"links.dimensions={len(sizes)}"] if form == "torus" else ()),
            f"links.bytes_per_second={math.ceil(rate)} B/s",
            f"links.hop_cycles={int(float(row['link_latency_ns']))}",
            f"clock_hz={_CLOCK_HZ} Hz",
            "buffer.capacity_bytes=unlimited",
            "buffer.read_bytes_per_second=unlimited",
            "buffer.write_bytes_per_second=unlimited",
            "dram.bandwidth_bytes_per_second=unlimited",
            "dram.latency_cycles=0",
        ],
    )


def beside_astra_sim(row: Mapping[str, str]) -> Row:
    """Return a collective of ASTRA-sim with what it takes here on links alike, and on all links."""
    kind, n_bytes = kind_of(row["collective"]), int(row["comm_size_bytes"])
    if kind == "all_gather":  # given is the shard of one chip
        n_bytes *= math.prod(int(n) for n in row["npus"].split("x"))
    alike, all_links = (
        microseconds(astra_pod(row, alike=alike), kind, n_bytes)[0] for alike in (True, False)
    )
    known = float(row["astra_sim_ns"]) / 1000
    off = 100 * (alike / known - 1)
    fields = ("collective", "topology", "npus", "comm_size_bytes")
    return {name: row[name] for name in fields} | {
        "astra_sim_us": f"{known:.2f}",
        "us": f"{alike:.2f}",
        "off_percent": f"{off:.1f}",
        "on_all_links_us": f"{all_links:.2f}",
    }


def write(name: str, rows: Iterable[Row]) -> Iterator[Row]:
    """Write a table, and yield its rows."""
    found = list(rows)
    with (HERE / name).open("w") as stream:
        writer = csv.DictWriter(stream, list(found[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)
    yield from found


def main() -> None:
    """Write both tables."""
    for row in write("beside_measured.csv", map(beside_measured, table("measured.csv"))):
        print(*row.values())
    for row in write("beside_astra_sim.csv", map(beside_astra_sim, table("astra_sim.csv"))):
        print(*row.values())


if __name__ == "__main__":
    main()
