"""Operators whose run is far from the work of their busiest resource, with what they wait for.

``python -m validation.search.far [WORD ...]`` maps each workload on each accelerator whose names
have all of these words, and writes to `far.csv` what takes more than 1.25 times that and 0.3% of
its run. The bound of a mapping has waits that another mapping may not have: what is held against
is the work of the busiest resource, and a start with a latency of DRAM. In a run whose operators
overlap others' work is in a row, so what seems far is run alone. It fails if anything is far then.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from simaccel.diagnosis.limits import waiting_by_cause
from simaccel.errors import SimaccelError
from simaccel.importers.accelerators import load_accelerator
from simaccel.schedulers import Options
from simaccel.study.experiment import result_json, simulate
from simaccel.workload import build

TABLE = Path(__file__).with_name("far.csv")
FIELDS = ("hw", "workload", "operator", "cycles", "work_and_start", "ratio", "share", "waits_for")
FAR = 1.25
SHARE = 0.003
ACCELERATORS = ("edge", "cloud", "edge_tpu", "mxu_128", "tpu_v4", "tpu_v5e", "tpu_v6e")
WORKLOADS: dict[str, dict[str, Any]] = {
    "bert prefill": {"name": "bert", "seq_len": 512, "batch": 8},
    "llama3-8b prefill": {"name": "llama3-8b", "phase": "prefill", "prompt": 512},
    "llama3-8b decode 1": {"name": "llama3-8b", "phase": "decode", "kv_len": 1024},
    "llama3-8b decode 64": {"name": "llama3-8b", "phase": "decode", "kv_len": 1024, "batch": 64},
    "llama3-70b decode 8": {"name": "llama3-70b", "phase": "decode", "kv_len": 1024, "batch": 8},
    "mobilenet_v2": {"name": "mobilenet_v2", "scope": "model"},
    "alexnet": {"name": "alexnet", "scope": "model"},
}
"""Attentions, products of few rows and many, norms, rotations, depthwise convolutions, windows."""
DATAFLOW = "flex"
"""Each operator a group of its own, as all others have those that they don't fuse."""


def far(hw: str, workload: str) -> Iterator[list[Any]]:
    """Yield the rows of the table of one workload on one accelerator."""
    accelerator = load_accelerator(hw)
    made = build(**WORKLOADS[workload])
    result = simulate(made, accelerator, DATAFLOW, options=Options())
    whole = result.run.cycles
    for row in result_json(result)["operators"]:
        if row["cycles"] <= max(FAR * max(row["work_cycles"].values()), SHARE * whole):
            continue
        alone = simulate(made.select_operators(row["name"].split("+")), accelerator, DATAFLOW)
        (group,), cycles = alone.prediction.groups, alone.run.cycles
        start = accelerator.compiler.kernel_start_cycles + accelerator.dram.latency_cycles
        least = group.resource_bound_cycles + start
        if cycles > FAR * least:
            waits = waiting_by_cause(alone.run, alone.prediction.bound_terms)
            longest = max(waits, key=lambda cause: waits[cause], default="")
            ratio, share = f"{cycles / least:.3f}", f"{row['cycles'] / whole:.4f}"
            yield [hw, workload, row["name"], cycles, least, ratio, share, longest]


def main(arguments: Sequence[str] | None = None) -> int:
    """Map all, write the table, and judge."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", metavar="WORD")
    words = parser.parse_args(arguments).words
    rows: list[list[Any]] = []
    for hw, workload in product(ACCELERATORS, WORKLOADS):
        if not all(word in f"{hw} {workload}" for word in words):
            continue
        try:
            rows += far(hw, workload)
        except SimaccelError as error:
            print(f"{hw} {workload}: {error}", flush=True)
            continue
        for row in rows[::-1]:
            if row[:2] != [hw, workload]:
                break
            print(*row, flush=True)
    if not words:
        with TABLE.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([FIELDS, *rows])
    return int(bool(rows))


if __name__ == "__main__":
    sys.exit(main())
