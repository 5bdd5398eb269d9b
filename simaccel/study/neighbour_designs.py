"""Designs next to an accelerator: each differs in one thing, is mapped, and runs.

An infinitely fast resource bounds the gain of a change; these are changes that can be built.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from simaccel.dataflows import DEPLOYED
from simaccel.errors import InputError
from simaccel.hardware import STATIONARITIES, Accelerator, ArraySpec
from simaccel.mapping.tree import Mapping as Tree
from simaccel.schedulers import Options, settle_options
from simaccel.study.points import Axis, Point, Setting, base_point, named_setting
from simaccel.study.space import DesignBuilder, with_mapping
from simaccel.workload import Workload

_TWICE: Final = 2
_OF_CHANNELS: Final = [
    *("channels", "bandwidth_bytes_per_second", "in_flight_bytes", "requests_in_flight")
]
DESIGN: Final = Axis("design", "design", "design", named=True)
_HOLDING: Final = Axis("design", "design", "design", "mapping", named=True)
"""Axis of designs that differ in the array's stationarity."""


def neighbour_designs(
    accelerator: Accelerator, dataflow: str | Tree, options: Options
) -> tuple[Setting, ...]:
    """Return the designs next to an accelerator, as settings.

    They have twice the buffer, twice the channels of each memory off chip, twice the banks if these
    are modelled, half or twice the rows of the array with as many PEs, and the other stationarities
    if one is fixed.
    """
    capacity = accelerator.buffer.capacity_bytes
    rows, cols = accelerator.array.rows, accelerator.array.cols
    buffers = {} if capacity is None else {"buffer.capacity_bytes": _TWICE * capacity}
    shapes = ((rows // _TWICE, cols * _TWICE), (rows * _TWICE, cols // _TWICE))
    return (
        *([named_setting(DESIGN, "twice the buffer", buffers)] if buffers else []),
        *_memories(accelerator),
        *(
            named_setting(DESIGN, f"an array of {a} x {b}", {"array.rows": a, "array.cols": b})
            for a, b in shapes
            if a * b == rows * cols
        ),
        *_stationarities(accelerator, dataflow, options),
    )


def _memories(accelerator: Accelerator) -> Iterator[Setting]:
    beside = {f"memories.{n}": one for n, one in accelerator.memories.by_class().items()}
    for section, memory in {"dram": accelerator.dram, **beside}.items():
        name = section.replace("dram", "DRAM")
        if memory.bandwidth_bytes_per_second is not None:  # each has its bandwidth and requests
            own = {field: getattr(memory, field) for field in _OF_CHANNELS}
            twice = {f"{section}.{field}": _TWICE * n for field, n in own.items() if n is not None}
            yield named_setting(DESIGN, f"twice the channels of {name}", twice)
        if memory.part is not None and memory.model == "banked":
            part = memory.part.model_dump()
            part["banks_per_group"] *= _TWICE
            yield named_setting(DESIGN, f"twice the banks of {name}", {f"{section}.part": part})


def _stationarities(
    accelerator: Accelerator, dataflow: str | Tree, options: Options
) -> Iterator[Setting]:
    """Yield the other stationarities; none if a search chooses it, or none is fixed."""
    if isinstance(dataflow, Tree) or dataflow == DEPLOYED:
        return
    held = settle_options(options, accelerator).stationarity
    field, axis = "stationarity", _HOLDING
    if _fixes_stationarity(accelerator):
        field, axis = "array.stationarity", DESIGN
    held = held or ("ws" if dataflow.partition("-")[0] == "naive" else None)
    for other in STATIONARITIES if held else ():
        if other != held:
            yield named_setting(axis, f"{other} stationarity", {field: other})


def _fixes_stationarity(accelerator: Accelerator) -> bool:
    array = accelerator.array
    return isinstance(array, ArraySpec) and array.stationarity != "free"


def design_points(
    designs: Sequence[Setting], inputs: tuple[Workload, Accelerator, str | Tree], options: Options
) -> list[Point]:
    """Return the points of designs, which map the workload anew; the user's mapping is kept."""
    workload, accelerator, dataflow = inputs
    if _fixes_stationarity(accelerator):
        options = replace(options, stationarity=None)  # a design's array says it
    base = replace(base_point(workload, accelerator), dataflow=dataflow, options=options)
    points = []
    for design in designs:
        point = replace(base, settings=(design,))
        try:
            sized = DesignBuilder().sized_point(point, "design")
            points.append(with_mapping(sized).place_workloads())
        except InputError as error:
            points.append(replace(point, problem=error.faults[0].allowed))
    return points
