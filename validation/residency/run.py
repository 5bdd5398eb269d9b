"""Whole networks with and without what stays on chip between layers, beside published latencies.

`python -m validation.residency.run` writes `networks.csv`. Mappings that were found before come
from the cache of mappings; the first run searches them and takes minutes. `--only NAME` runs one
network, and writes nothing.
"""

from __future__ import annotations

import argparse
import csv
import time
from dataclasses import dataclass
from pathlib import Path

from simaccel import load_accelerator
from simaccel.analytic.prediction import predict
from simaccel.machine.machine import Machine
from simaccel.program.lowering import lower
from simaccel.schedulers import default_dataflow
from simaccel.study.scheduling import schedule_workload
from simaccel.workload import network

HERE = Path(__file__).parent
MIB = 2**20
USB = "dram.bandwidth_bytes_per_second=500 MB/s"
"""A Coral module has no DRAM of its own, and reaches the host's at about that."""


@dataclass(frozen=True)
class Point:
    """A network on an accelerator; ``published_ms``: a latency of one image, if one is known."""

    accelerator: str
    overrides: tuple[str, ...]
    network: str
    batch: int
    bytes_per_element: int
    published_ms: float | None = None

    @property
    def name(self) -> str:
        """The accelerator with what is overridden."""
        return " ".join((self.accelerator, *(one.rpartition("=")[2] for one in self.overrides)))


POINTS = (
    Point("edge_tpu", (), "resnet50", 1, 1),
    Point("edge_tpu", (USB,), "resnet50", 1, 1, 49.0),
    Point("edge_tpu", (USB,), "mobilenet_v2", 1, 1, 2.6),
    Point("mxu_128", (), "resnet50", 1, 2),
    Point("edge_tpu", (USB,), "vgg16", 1, 1, 296.0),
)
"""Published: Coral's page of benchmarks, with the USB accelerator (see the README)."""


def row_of(point: Point, *, resident: bool) -> dict[str, object]:
    """Run a network once; bytes of weights are what is loaded of them."""
    held = f"compiler.resident={str(resident).lower()}"
    sets = [*point.overrides, "compiler.epilogues=false", held]
    on = load_accelerator(point.accelerator, sets)
    of = network(
        point.network,
        batch=point.batch,
        scope="model",
        bytes_per_element=point.bytes_per_element,
    )
    start = time.process_time()
    mapping = schedule_workload(of, on, default_dataflow(on, of))
    searched = time.process_time() - start
    run = Machine(on, lower(of, mapping)).run()
    prediction = predict(of, mapping, on)
    moved = {key: n for key, n in run.moved.items() if key[0].startswith("dram")}
    assert moved == {key: n for key, n in prediction.moved.items() if key[0].startswith("dram")}
    assert prediction.bound_cycles <= run.cycles
    weights = sum(n for (_, name), n in moved.items() if of.tensors[name].kind == "weight")
    print(f"{point.name} {point.network} {resident}: searched in {searched:.1f} s", flush=True)
    return {
        "accelerator": point.name,
        "network": point.network,
        "batch": point.batch,
        "resident": resident,
        "dram_mib": f"{sum(moved.values()) / MIB:.2f}",
        "weights_mib": f"{weights / MIB:.2f}",
        "cycles": run.cycles,
        "bound_cycles": prediction.bound_cycles,
        "peak_kib": f"{run.peak_buffer_bytes / 1024:.0f}",
        "ms": f"{1e3 * on.seconds(run.cycles):.2f}",
        "published_ms": "" if point.published_ms is None else f"{point.published_ms:.2f}",
    }


def main() -> None:
    """Run the points and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", metavar="NETWORK")
    only = parser.parse_args().only
    rows = [
        row_of(point, resident=resident)
        for point in POINTS
        if only in (None, point.network)
        for resident in (False, True)
    ]
    if only is None:
        with (HERE / "networks.csv").open("w", newline="") as stream:
            writer = csv.DictWriter(stream, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    for row in rows:
        print(" ".join(str(value) for value in row.values()))


if __name__ == "__main__":
    main()
