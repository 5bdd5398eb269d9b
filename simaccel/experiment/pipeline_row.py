"""A pipeline among runs that are compared: the figures of a chip, as the mean of all stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from simaccel.experiment.pipeline import PipelineRun
from simaccel.experiment.run import result_json
from simaccel.hardware.area.parts import power_mw
from simaccel.run.memories import MemoryDemand
from simaccel.units import LINK

_ADDED: Final = (
    *("macs", "native_macs", "bytes", "dram_by_class", "energy_pj", "work_cycles"),
    *("served_cycles", "energy_by_tensor_pj"),
)
"""Figures of a stage that add up over micro-batches."""
_LARGEST: Final = ("peak_buffer_bytes", "footprint_bytes")


def pipeline_row(run: PipelineRun) -> dict[str, Any]:
    """Return a pipeline as the result of a run on one chip (``result_json``), the mean of all.

    Of engines what is neither work nor a stall is idle, bubbles included. The bound is that of the
    stages' bounds, the limit that of the slowest stage.
    """
    every = [result_json(stage.result) for stage in run.stages]
    counts = [stage.count for stage in run.stages]
    slowest = every[max(range(len(every)), key=lambda at: run.stages[at].cycles)]

    def mean(name: str) -> Any:  # noqa: ANN401 - a number, or a table of them
        return _mean([result[name] for result in every], counts, run.plan.micro_batches)

    added = {name: mean(name) for name in _ADDED}
    engines = mean("engines")
    for engine in engines.values():
        engine["idle"] = run.cycles - engine["busy"] - sum(engine["stalls"].values())
    energy, chips = added["energy_pj"], run.accelerator.pod.count
    energy[LINK] = energy.get(LINK, 0.0) + run.energy_pj / chips - sum(energy.values())
    room = slowest["dram_bound"]["on_chip_bytes"]
    ideal = run.plan.micro_batches * sum(
        result["utilisation"] * result["cycles"] * n
        for result, n in zip(every, counts, strict=True)
    )
    power = power_mw(energy, run.seconds)
    return {
        **slowest,
        **added,
        "engines": engines,
        "dram_bound": mean("dram_bound") | {"on_chip_bytes": room},
        "cycles": run.cycles,
        "seconds": run.seconds,
        "utilisation": ideal / (sum(counts) * run.cycles),
        "bound": _bound(run),
        "power_mw": sum(power.values()),
        "chip_power_mw": sum(power.values()) - power.get("dram", 0.0),
        **{name: max(result[name] for result in every) for name in _LARGEST},
        "operators": [],
        "memories": [vars(demand) for demand in _fullest_memories(run)],
        "chip_count": chips,
    }


def _fullest_memories(run: PipelineRun) -> list[MemoryDemand]:
    """Return of each memory the most that a stage needs, with caches of all micro-batches."""
    fullest: dict[str, MemoryDemand] = {}
    for demand in (each for stage in run.stages for each in stage.result.memories):
        others = (run.plan.micro_batches - 1) * demand.by_part.get("cache", 0)
        parts = dict(demand.by_part)
        parts |= {"cache": parts["cache"] + others} if others else {}
        whole = replace(demand, needed_bytes=demand.needed_bytes + others, by_part=parts)
        known = fullest.setdefault(demand.memory, whole)
        fullest[demand.memory] = max(known, whole, key=lambda one: one.needed_bytes)
    return [*fullest.values()]


def _mean(values: Sequence[Any], counts: Sequence[int], times: int) -> Any:  # noqa: ANN401
    """Return the mean of numbers, or of tables of them, ``times``; what a table lacks is nothing.

    >>> _mean([{"a": 3}, {"a": 5, "b": 4}], [1, 1], 2)
    {'a': 8, 'b': 4}
    """
    tables = [value for value in values if isinstance(value, Mapping)]
    if tables:
        every = [value if isinstance(value, Mapping) else {} for value in values]
        names = dict.fromkeys(name for table in tables for name in table)
        return {name: _mean([table.get(name) for table in every], counts, times) for name in names}
    total = times * sum((n or 0) * count for n, count in zip(values, counts, strict=True))
    return total // sum(counts) if isinstance(total, int) else total / sum(counts)


def _bound(run: PipelineRun) -> dict[str, Any]:
    bounds = [
        stage.result.prediction.bound_cycles for stage in run.stages for _ in range(stage.count)
    ]
    cycles = run.cycles_of(bounds)
    waiting = run.cycles - cycles
    return {
        "cycles": cycles,
        "terms": {"stages": cycles},
        "by": "stages",
        "waiting_cycles": waiting,
        "waiting_by_cause": {},
    }
