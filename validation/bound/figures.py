"""Figures that no run may have, over what is shipped: utilisation, bounds, roofs.

No utilisation is above 100%, of a run or a row; no row takes fewer cycles than its bound, which is
not below the run's; no point of the roofline lies above one of its roofs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

from simaccel import build, compare, load_accelerator
from simaccel.hardware import Accelerator, ArraySpec
from simaccel.hardware.presets import list_accelerators
from simaccel.papers.flat.commands.rows import roofline_points
from simaccel.schedulers import Options
from simaccel.search.effort import Effort
from simaccel.study.placement import compile_for
from simaccel.verbs.comparing import Comparison
from simaccel.workload import Workload

ROUNDED: Final = 1 + 1e-9
"""Ratios are floating-point numbers."""
WORKLOADS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("bert", {"seq_len": 16}),
    ("gpt2", {"phase": "decode", "kv_len": 16}),
    ("gemma2-9b", {"phase": "prefill", "prompt": 8}),
    ("mixtral-8x7b", {"phase": "decode", "kv_len": 16}),
    ("alexnet", {}),
    ("mobilenet_v2", {}),
    ("resnet50", {}),
    ("vgg16", {}),
    ("tpu_v1_mlp0", {}),
)


def impossible(of: Workload, on: Accelerator, ran: Comparison) -> Iterator[str]:
    """Yield what is impossible of a comparison's runs, each with its figures."""
    for row in ran.rows:
        if row.result is not None:
            yield from _below_bounds(row.result)
            workload = compile_for(of, on, row.dataflow)
            for point in roofline_points(row.result, workload, on):
                yield from _above_roofs(point)


def _above_roofs(point: dict[str, Any]) -> Iterator[str]:
    """Yield roofs that a point of a roofline is above."""
    reached = point["macs_per_cycle"]
    for roof in ("roof_macs_per_cycle", "array_macs_per_cycle"):
        if reached > point[roof] * ROUNDED:
            yield f"{reached} MACs a cycle of {point['operator']} above {roof} {point[roof]}"


def _below_bounds(result: dict[str, Any]) -> Iterator[str]:
    """Yield utilisations above 100% and cycles below bounds, of a run and its rows."""
    whole = {"name": "the run", "busy_cycles": result["cycles"]}
    for row in ({**result, **whole}, *result["operators"]):
        name, cycles, bound = row["name"], row["busy_cycles"], row["bound"]["cycles"]
        if row["utilisation"] > ROUNDED:
            yield f"utilisation {row['utilisation']} of {name}"
        if cycles < bound:
            yield f"{cycles} cycles of {name} below its bound {bound}"


def ran_on(of: Workload, on: Accelerator) -> Comparison:
    """Run a workload by rules, or by a short search of a mapspace."""
    if isinstance(on.array, ArraySpec):
        return compare(of, on, "naive")
    return compare(of, on, "pfm", options=Options(effort=Effort(patience=20)))


def main() -> int:
    """Run each workload on each accelerator; the exit code is 1 if anything is impossible."""
    wrong = runs = refused = 0
    for name in list_accelerators():
        on = load_accelerator(name)
        for workload, sizes in WORKLOADS:
            of = build(workload, **sizes)
            ran = ran_on(of, on)
            faults = list(impossible(of, on, ran))
            runs += sum(row.result is not None for row in ran.rows)
            refused += sum(row.result is None for row in ran.rows)
            wrong += len(faults)
            for fault in faults:
                print(f"{name}, {workload}: {fault}", flush=True)
    print(f"{runs} runs, {refused} refused, {wrong} impossible figures")
    return 1 if wrong or not runs else 0


if __name__ == "__main__":
    sys.exit(main())
