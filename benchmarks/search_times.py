"""CPU seconds of whole searches as a distribution, over a draw that is named here.

Every search begins with nothing known: a judge of its own, and no mapping from disk. Each is a
process of its own; what is measured of the points is kept in ``out/search_times.json``, so that a
run that is stopped goes on as long as the sources are the same. ``SIMACCEL_SEARCHES=N`` takes about
N points, evenly from the whole draw.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.measure import ROOT, Benchmark, Point, Row, measure_here, print_row, table
from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.schedulers import Options, make_mapping
from simaccel.search.effort import Effort
from simaccel.study.store import OFF, VARIABLE, code_digest
from simaccel.workload import Workload, build, network
from simaccel.workload.language.build import transformer
from validation.bound.points import draw

KEPT: Final = ROOT / "out" / "search_times.json"
SOME: Final = "SIMACCEL_SEARCHES"
DRAWN: Final = 400
"""Points of the dataflow draw, of which every fifth is taken."""
HARDWARE: Final = ("edge", "cloud", "mxu_128", "edge_tpu")
FLOWS: Final = ("best", "flat", "flash", "flex", "flex-m", "flex-b", "flex-h", "flex-r")
LENGTHS: Final = (128, 512, 2048, 8192)
BATCHES: Final = (1, 8, 64)
MODELS: Final = ("llama2-7b", "qwen2.5-7b", "mixtral-8x7b")
LAYERS: Final = (
    ("eyeriss_like", "resnet50", "res3b_branch2b"),
    ("eyeriss_like", "alexnet", "conv2"),
    ("simba_like", "resnet50", "res4a_branch2b"),
    ("simba_like", "alexnet", "fc8"),
    ("edge", "mobilenet_v2", "block_6_project"),
)
KINDS: Final = {
    "drawn": "every fifth point of the dataflow draw",
    "bert": "BERT block",
    "language": "blocks of language models",
    "resnet50": "ResNet-50",
    "mapspace": "mapspaces of layers",
}
AIMS: Final = {"median": 0.5, "95%": 2.0, "worst": 6.0}
"""CPU seconds."""
_WORST: Final = 10


def points() -> list[Point]:
    """Return the draw, or as many of it as are asked for."""
    every = [*_every()]
    some = int(os.environ.get(SOME, len(every)))
    if some >= len(every):
        return every
    return [every[int(at)] for at in np.linspace(0, len(every) - 1, some)]


def _every() -> Iterator[Point]:
    for number in range(0, DRAWN, 5):
        yield {"kind": "drawn", "number": number}
    for hw, flow, length, batch in product(HARDWARE, FLOWS, LENGTHS, BATCHES):
        yield {"kind": "bert", "hw": hw, "dataflow": flow, "seq_len": length, "batch": batch}
    for hw, flow, model, phase in product(
        HARDWARE, ("flat", "best"), MODELS, ("prefill", "decode")
    ):
        yield {"kind": "language", "hw": hw, "dataflow": flow, "model": model, "phase": phase}
    for hw in HARDWARE:
        yield {"kind": "resnet50", "hw": hw, "dataflow": "flex"}
    for (hw, name, layer), mapspace in product(LAYERS, ("pfm", "ruby-s")):
        yield {"kind": "mapspace", "hw": hw, "network": name, "layer": layer, "dataflow": mapspace}


def problem(point: Point) -> tuple[Workload, Accelerator, str, Options]:
    """Return what is searched: workload, accelerator, dataflow, options."""
    kind, options = point["kind"], Options()
    if kind == "drawn":
        drawn = draw(DRAWN)[point["number"]]
        options = Options(pipeline=drawn.pipeline)
        return drawn.workload(), drawn.accelerator(), drawn.dataflow, options
    if kind == "bert":
        of = build("bert", batch=point["batch"], seq_len=point["seq_len"], scope="block")
    elif kind == "language":
        of = transformer(point["model"], phase=point["phase"], prompt=point.get("prompt", 512))
    elif kind == "resnet50":
        of = network("resnet50", layer=point.get("layer"))
    else:
        of = network(point["network"], layer=point["layer"])
        options = Options(effort=Effort(patience=point.get("patience", 20_000)))
    return of, load_accelerator(point["hw"]), point["dataflow"], options


def search(point: Point) -> Row:
    """Search once; a point that has no mapping says why."""
    os.environ[VARIABLE] = OFF
    of, on, dataflow, options = problem(point)
    why, started = "", time.process_time()
    try:
        make_mapping(of, on, dataflow, options)
    except SimaccelError as error:
        why = str(error)
    return point | {"cpu_seconds": time.process_time() - started, "nothing_fits": why}


def measure(point: Point, kept: Path = KEPT) -> Row:
    """Return what is known of a point by these sources, or search in a process of its own."""
    digest, known = code_digest()[:12], {}
    if kept.exists():
        known = json.loads(kept.read_text(encoding="utf-8"))
    rows: dict[str, Row] = known.get(digest, {})
    name = json.dumps(point)
    if name not in rows:
        rows[name] = measure_here("search_times", point)[0]
        kept.parent.mkdir(exist_ok=True)
        partial = kept.with_suffix(".partial")
        partial.write_text(json.dumps({digest: rows}), encoding="utf-8")
        partial.replace(kept)
    return rows[name]


def name_of(row: Row) -> str:
    """Return what a point is called."""
    if row["kind"] == "drawn":
        one = draw(DRAWN)[row["number"]]
        flow = f"{one.dataflow}{', pipelined' * one.pipeline}"
        sizes = f"{one.hw} {one.buffer_bytes:,} B, {one.dram_bytes_per_second / 1e9:g} GB/s"
        return f"{sizes}: {one.model} {one.scope} B={one.batch} N={one.seq_len}, {flow}"
    others = (str(n) for key, n in row.items() if key in _NAMING)
    return f"{row['hw']}: {KINDS[row['kind']]} {' '.join(others)}, {row['dataflow']}"


_NAMING: Final = ("seq_len", "batch", "model", "phase", "network", "layer")


def _line(name: str, rows: list[Row]) -> list[object]:
    seconds = np.array([row["cpu_seconds"] for row in rows])
    cells = [f"{np.percentile(seconds, q):.2f}" for q in (50, 90, 95, 100)]
    return [name, len(rows), *cells, f"{seconds.sum():.0f}"]


def report(rows: list[Row]) -> str:
    """Write the distribution, and the longest searches."""
    ran = [row for row in rows if not row["nothing_fits"]]
    kinds = [name for name in KINDS if any(row["kind"] == name for row in ran)]
    lines = [_line("all", ran)]
    lines += [_line(KINDS[kind], [row for row in ran if row["kind"] == kind]) for kind in kinds]
    flows = dict.fromkeys(row["dataflow"] for row in ran if row["kind"] == "bert")
    for flow in flows:
        flow_rows = [row for row in ran if row["kind"] == "bert" and row["dataflow"] == flow]
        lines.append(_line(f"BERT block, {flow}", flow_rows))
    worst = sorted(ran, key=lambda row: -row["cpu_seconds"])[:_WORST]
    most = [[f"{row['cpu_seconds']:.2f}", name_of(row)] for row in worst]
    aims = ", ".join(f"{name} {seconds:g}" for name, seconds in AIMS.items())
    return (
        "## Search times\n\n"
        f"CPU seconds of a search with nothing known, {len(ran)} of the draw's {len([*_every()])} "
        f"points ({len(rows) - len(ran)} more have no mapping): every fifth of {DRAWN} dataflow "
        f"points; a BERT block by {', '.join(FLOWS)} on {', '.join(HARDWARE)} at "
        f"{', '.join(map(str, LENGTHS))} tokens, batch {', '.join(map(str, BATCHES))}; blocks of "
        f"{', '.join(MODELS)}, prefill and decode of 512; ResNet-50 by flex; mapspaces of "
        f"{len(LAYERS)} layers. Aims: {aims}.\n\n"
        + table(["", "searches", "median", "90%", "95%", "worst", "sum"], lines)
        + "\n\nThe longest:\n\n"
        + table(["CPU s", "search"], most)
    )


BENCHMARK = Benchmark(name="search_times", points=points, measure=measure, report=report)

if __name__ == "__main__":
    print_row(search)
