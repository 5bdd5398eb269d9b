"""Axes of the mapping: options of the scheduler, degrees of parallelism, stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from simaccel.errors import Fault, InputError
from simaccel.hardware import Accelerator
from simaccel.study.points import Value
from simaccel.workload import Workload

if TYPE_CHECKING:
    from simaccel.schedulers import Options

DEGREES: Final = ("tensor_parallel", "data_parallel", "expert_parallel")
"""Degrees of parallelism of a layer, which the scheduler's options have."""
STAGES: Final = ("pipeline_parallel", "micro_batches")
"""Stages of a pipeline (None: no pipeline), and micro-batches (None: as many)."""


def options_with(options: Options, values: Mapping[str, Value]) -> Options:
    """Return options with the values of axes."""
    changed: dict[str, Any] = {
        name: values[name] in (True, "true")
        for name in ("pipeline", "sequence_parallel", "shard_weights")
        if name in values
    }
    changed |= {name: int(values[name]) for name in DEGREES if name in values}
    if "stationarity" in values:
        changed["stationarity"] = values["stationarity"]
    if "patience" in values:
        changed["effort"] = replace(options.effort, patience=int(values["patience"]))
    return replace(options, **changed)


def counts_with(
    stages: int | None, micro_batches: int | None, values: Mapping[str, Value]
) -> tuple[int | None, int | None]:
    """Return the counts of a pipeline with the values of axes."""
    given = zip(STAGES, (stages, micro_batches), strict=True)
    found = (values.get(name, count) for name, count in given)
    first, second = (None if count is None else int(count) for count in found)
    return first, second


def require_degrees(
    workloads: Sequence[Workload],
    accelerator: Accelerator,
    options: Options,
    stages: int | None,
    micro_batches: int | None,
) -> None:
    """Refuse degrees of parallelism that aren't those of chips, layers and batch.

    Raises:
        InputError: says why.

    """
    degrees = [getattr(options, name) for name in DEGREES]
    if stages is None and micro_batches is not None:
        allowed = "nothing without --pipeline-parallel"
        raise InputError([Fault("--micro-batches", "micro-batches", micro_batches, allowed)])
    if stages is not None:
        from simaccel.experiment.pipeline_plan import require_stages  # noqa: PLC0415 - as in space

        for workload in workloads:
            require_stages(workload, accelerator, stages, micro_batches, options)
    elif accelerator.pod.count > 1 and any(degrees):
        from simaccel.schedulers.parallel import degrees_of  # noqa: PLC0415

        degrees_of(accelerator.pod, *degrees)
