"""Runs of the six programs on `tpu_v1`, layer after layer, and where the array's cycles go."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from simaccel import load_accelerator, simulate
from simaccel.files.documents import parse_document
from simaccel.machine.machine import Machine
from simaccel.program.lowering import lower
from simaccel.schedulers import make_mapping
from simaccel.study.experiment import ExperimentResult
from simaccel.workload import Network, Tensor, Workload, find_network, with_precision
from simaccel.workload.linking import link_nodes
from simaccel.workload.networks import parse_network

HERE: Final = Path(__file__).parent
PROGRAMS: Final = ("mlp0", "mlp1", "lstm0", "lstm1", "cnn0", "cnn1")
INFERRED: Final = "inferred"
"""The shapes that `--workload tpu_v1_...` has, and the numbers of `PRECISION`."""
NARROW: Final = "activations of 8 bits"
PRECISION: Final[Mapping[str, Mapping[str, str]]] = {
    "activations": {"lstm0": "int16", "lstm1": "int16"}
}
"""Numbers that are not int8. LSTMs: 8.2% and 6.3% useful of 92 TOPS are twice the 3.7 and 2.8 TOPS
that were measured, and weights have 8 bits (operations per weight byte are the batch, table 1)."""
_MEMORY: Final = ("dram_bandwidth", "dram_latency", "dram_queue")


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Parts of all cycles, as the chip counts them, and operations per second of useful MACs."""

    cycles: int
    active: float
    useful: float
    weight_stall: float
    weight_shift: float
    rest: float
    raw_stalls: float
    """Part of the rest: results of the layer before are waited for."""
    tops: float


def counters() -> dict[str, dict[str, float]]:
    """Return the published figures: what -> program -> percent, or TOPS."""
    with (HERE / "data" / "counters.csv").open(newline="", encoding="utf-8") as file:
        rows = {row.pop("what"): row for row in csv.DictReader(file)}
    return {what: {name: float(n) for name, n in row.items()} for what, row in rows.items()}


def shapes(program: str) -> dict[str, Network]:
    """Return the inferred layers of a program, and the alternatives, by what they are called."""
    network = find_network(f"tpu_v1_{program}")
    narrow = {NARROW: network} if program in PRECISION["activations"] else {}
    return {INFERRED: network, **alternatives(program), **narrow}


def alternatives(program: str) -> dict[str, Network]:
    """Return other shapes that fit the published counts of a program, by what they are called."""
    files = sorted((HERE / "data" / "alternatives").glob(f"{program}_*.yaml"))
    networks = [parse_network(parse_document(file.read_text(encoding="utf-8"))) for file in files]
    return {network.source: network for network in networks}


def workload(program: str, which: str = INFERRED) -> Workload:
    """Return a program in the numbers that are inferred, or in 8 bits."""
    name = f"tpu_v1_{program}"
    network = shapes(program)[which]
    operators, kinds = link_nodes(network.nodes, network.samples)
    tensors = {one: Tensor(one, 1, kind) for one, kind in kinds.items()}
    found = Workload(name, tuple(operators), tensors)
    wide = (
        {} if which == NARROW else {n: by[program] for n, by in PRECISION.items() if program in by}
    )
    return with_precision(found, wide) if wide else found


def run(program: str, which: str = INFERRED, settings: Sequence[str] = ()) -> ExperimentResult:
    """Run a program on `tpu_v1` with some fields set."""
    return simulate(workload(program, which), load_accelerator("tpu_v1", settings), "strips")


def seconds(program: str, settings: Sequence[str] = ()) -> float:
    """Return the time of a program on `tpu_v1` with some fields set; nothing is estimated."""
    of, on = workload(program), load_accelerator("tpu_v1", settings)
    return on.seconds(Machine(on, lower(of, make_mapping(of, on, "strips"))).run().cycles)


def shares(result: ExperimentResult) -> Shares:
    """Return where the cycles of the array went.

    Active: it multiplies, whatever is useful of that, twice where an operand has 16 bits. Weight
    shift: it is in its own way until weights are in their place. What it needs until the last
    result has left is none of both.
    """
    accelerator, run = result.accelerator, result.run
    array, total = run.engines["array"], run.cycles
    active = run.native_macs / accelerator.array.pes
    stall = sum(n for cause, n in array.stalls.items() if cause in _MEMORY)
    own = array.busy - active + array.stalls.get("array", 0)
    shift = max(own - drained_cycles(result), 0)
    waits = array.stalls.get("drain", 0) + array.stalls.get("sfu", 0)
    useful = active * result.workload.macs / run.macs
    return Shares(
        cycles=total,
        active=active / total,
        useful=useful / total,
        weight_stall=stall / total,
        weight_shift=shift / total,
        rest=1 - (active + stall + shift) / total,
        raw_stalls=waits / total,
        tops=2 * result.workload.macs / accelerator.seconds(total) / 1e12,
    )


def drained_cycles(result: ExperimentResult) -> int:
    """Return the cycles in which the last results of the program leave the array."""
    array = result.accelerator.systolic
    return array.rows + array.cols - 2
