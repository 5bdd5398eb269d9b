"""The catalogue's networks and models by dataflows that fuse: is what runs what they are?

``python -m validation.graphs.catalogue [--only NAMES] [--dataflows A,B] [--quick]`` maps whole
networks, and blocks of models in prefill and decode, on `edge` with unlimited DRAM, runs each, and
writes `catalogue.csv`. A run is held to its workload as all are (`simaccel.run.conservation`: MACs,
elements, stored positions, bytes with DRAM, the bound); beside it stand figures of the workload
alone: its MACs, and the bytes that every mapping moves. It fails where a run is refused.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from simaccel import load_accelerator, load_workload, simulate
from simaccel.analytic.floor.floor import floors_of, on_chip_bytes
from simaccel.errors import SimaccelError
from simaccel.hardware.memory import dram_bytes
from simaccel.run.conservation import require_program
from simaccel.schedulers import Options, canonical_dataflow
from simaccel.study.scheduling import schedule_workload
from simaccel.workload import Workload
from validation.searches import QUICK

TABLE: Final = Path(__file__).with_name("catalogue.csv")
NETWORKS: Final = (
    *("alexnet", "mobilenet_v2", "resnet50", "resnet50-v1", "vgg16", "deepbench"),
    *(f"tpu_v1_{name}" for name in ("cnn0", "cnn1", "lstm0", "lstm1", "mlp0", "mlp1")),
)
ENCODERS: Final = ("bert", "flaubert", "flaubert-large", "t5", "trxl", "xlm")
TRANSFORMERS: Final = (
    *("gemma2-9b", "gpt2", "gpt3-175b", "gpt3-6.7b", "llama2-7b", "llama3-70b", "llama3-8b"),
    *("mistral-7b", "mixtral-8x7b", "qwen2.5-7b", "vit-b16"),
)
PROMPT: Final = 512
"""Tokens of a prefill, and of a cache in decode."""
FIELDS: Final = (
    *("workload", "phase", "dataflow", "macs", "cycles", "dram_bytes", "least_dram_bytes"),
    *("fused", "problem"),
)


def cases(only: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the name of each workload, its phase, and its sizes."""
    names = only.split(",") if only else (*NETWORKS, *ENCODERS, *TRANSFORMERS)
    for name in names:
        if name in NETWORKS:
            yield name, "", {}
        elif name in ENCODERS:
            yield name, "prefill", {"seq_len": PROMPT}
        else:
            yield name, "prefill", {"prompt": PROMPT}
            if name != "vit-b16":
                yield name, "decode", {"phase": "decode", "kv_len": PROMPT}


def ran(of: Workload, dataflow: str, options: Options) -> dict[str, Any]:
    """Map a workload on `edge` and run it; return its figures, or why it was refused."""
    on = load_accelerator("edge", ["dram.capacity_bytes=unlimited"])  # holds all of DeepBench
    try:
        mapping = schedule_workload(of, on, dataflow, options)
        result = simulate(of, on, mapping)
        require_program(result.workload, mapping, result.program)
    except SimaccelError as error:
        return {"problem": str(error)}
    run = result.run
    least = sum(floor.least_bytes for _, floor in floors_of(of, mapping, on_chip_bytes(on)))
    done = "" if run.macs == of.macs else f"{run.macs} MACs"
    return {
        "macs": of.macs,
        "cycles": run.cycles,
        "dram_bytes": dram_bytes(run.moved),
        "least_dram_bytes": least,
        "fused": sum(len(group.operators) > 1 for group in mapping.groups),
        "problem": done,
    }


def rows(only: str, dataflows: str, options: Options) -> Iterator[dict[str, Any]]:
    """Yield a row of each workload and dataflow; those that have the same mapping run once.

    So do models whose blocks have the same shapes, such as BERT and FlauBERT.
    """
    known: dict[tuple[str, str], dict[str, Any]] = {}
    for name, phase, sizes in cases(only):
        of = load_workload(name, **sizes)
        for dataflow in dataflows.split(","):
            key = of.fingerprint, canonical_dataflow(dataflow, of)
            if key not in known:
                known[key] = ran(of, key[1], options)
            yield {"workload": name, "phase": phase, "dataflow": dataflow, **known[key]}


def main() -> None:
    """Write the table row by row, and fail if a run was refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names of networks and models")
    parser.add_argument("--dataflows", default="flex,flat,flash,best")
    parser.add_argument(
        "--quick", action="store_true", help="fewest bytes by counts: searches of seconds"
    )
    parser.add_argument("--table", type=Path, default=TABLE)
    asked = parser.parse_args()
    wrong = []
    with asked.table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        for row in rows(asked.only, asked.dataflows, QUICK if asked.quick else Options()):
            writer.writerow(row)
            file.flush()
            print(row, flush=True)
            wrong += [str(row)] if row["problem"] else []
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
