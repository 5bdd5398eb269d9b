"""Design spaces: the product of axes, samples of it, and points with their settings applied."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from simaccel.dataflows import DEPLOYED
from simaccel.errors import Fault, InputError, gather, require_none, suggest
from simaccel.hardware import Accelerator
from simaccel.hardware.load import with_values
from simaccel.hardware.spatial import SpatialArraySpec
from simaccel.numbers import plain
from simaccel.search.effort import require_energies
from simaccel.study.points import (
    Axis,
    Point,
    Setting,
    Value,
    WeightedWorkload,
    default_options,
    named_setting,
)
from simaccel.workload import Workload

if TYPE_CHECKING:
    from simaccel.schedulers import Options

Draw = Literal["latin", "random"]
DATAFLOW, MAPSPACE = "flat", "ruby-s"
"""Default schedulers: on a systolic array, and on a spatial one."""
_KEPT = 4096
"""Most accelerators and workloads that designs share."""
HARDWARE: Final = Axis("hw", "accelerator", "accelerator", named=True)
FLOWS: Final = Axis("dataflow", "dataflow", "dataflow", "mapping", named=True)
Settings = tuple[Setting, ...]
"""All settings of an axis."""
Made = TypeVar("Made")


@dataclass(frozen=True)
class DesignSpace:
    """Accelerators, weighted workloads and axes, whose product is explored.

    ``loads``: workloads with their weights. ``dataflows``: names of dataflows and mapspaces; if
    empty, `deployed` on chips whose compiler is described, `flat` on other systolic arrays and
    `ruby-s` on spatial ones. ``options`` of the scheduler, ``stages`` and ``micro_batches`` of a
    pipeline: for designs whose axes don't set them.
    """

    accelerators: tuple[Accelerator, ...]
    loads: tuple[WeightedWorkload, ...]
    axes: tuple[Settings, ...] = ()
    dataflows: tuple[str, ...] = ()
    options: Options = field(default_factory=default_options)
    stages: int | None = None
    micro_batches: int | None = None

    @property
    def dimensions(self) -> tuple[Settings, ...]:
        """All dimensions: accelerators and dataflows, if there are several, and the axes."""
        flows = (named_setting(FLOWS, name, {"dataflow": name}) for name in self.dataflows)
        chips = (named_setting(HARDWARE, one.name, {}) for one in self.accelerators)
        first = tuple(chips), tuple(flows)
        return (*(settings for settings in first if len(settings) > 1), *self.axes)

    def require_energies(self, objective: str) -> None:
        """Refuse an objective that needs energies which neither files nor axes give.

        Raises:
            InputError: as of ``require_energies`` of an accelerator.
        """
        fields = [field for axis in self.axes for one in axis for field in one.fields]
        if not any(field.startswith("energy.") for field in fields):
            gather(*(partial(require_energies, one, objective) for one in self.accelerators))

    @property
    def size(self) -> int:
        """Number of designs in the product."""
        return prod(map(len, self.dimensions))

    def designs(self, numbers: Iterable[int]) -> Iterator[Point]:
        """Yield the designs of these numbers in the product; the last axis varies fastest.

        A design that can't be built has the first line of the error as its ``problem``.
        """
        make = DesignBuilder()
        dimensions = self.dimensions
        bases = {hardware.name: self._base(hardware) for hardware in self.accelerators}
        several = len(bases) > 1
        for number in numbers:
            places = _places(number, [*map(len, dimensions)])
            chosen = tuple(axis[at] for axis, at in zip(dimensions, places, strict=True))
            name = str(chosen[0].value) if several else self.accelerators[0].name
            base = replace(bases[name], settings=chosen)
            flow = base.fields("mapping").get("dataflow")
            base = replace(base, dataflow=base.dataflow if flow is None else str(flow))
            try:
                yield make.point(base, "design").place_workloads()
            except InputError as error:
                yield replace(base, problem=str(error).partition("\n")[0])

    def _base(self, hardware: Accelerator) -> Point:
        """Return the design on an accelerator before any setting of an axis."""
        spatial = isinstance(hardware.array, SpatialArraySpec)
        alone = MAPSPACE if spatial else DEPLOYED if hardware.compiler.described else DATAFLOW
        return Point(
            accelerator=hardware,
            loads=self.loads,
            dataflow=self.dataflows[0] if self.dataflows else alone,
            options=self.options,
            stages=self.stages,
            micro_batches=self.micro_batches,
        )


def draw(space: DesignSpace, count: int | None, how: Draw = "latin", seed: int = 0) -> list[int]:
    """Return the numbers of ``count`` drawn designs, ascending; without a count, of all.

    ``random``: each design is equally likely. ``latin``: a Latin hypercube (McKay, Beckman and
    Conover, Technometrics 1979), in which the settings of an axis occur equally often, give or take
    one.
    """
    if count is None or count >= space.size:
        return list(range(space.size))
    chance = random.Random(seed)  # noqa: S311 - to be repeatable
    if how == "random":
        return sorted(chance.sample(range(space.size), count))
    sizes = [*map(len, space.dimensions)]
    return sorted(_number(at, sizes) for at in _latin(sizes, count, chance))


_TRIES = 100
"""Most exchanges tried for each design that was drawn twice."""


def _latin(sizes: Sequence[int], count: int, chance: random.Random) -> list[tuple[int, ...]]:
    """Draw distinct designs: those drawn twice exchange a setting, which keeps all frequencies."""
    columns = [_column(size, count, chance) for size in sizes]
    rows = [list(row) for row in zip(*columns, strict=True)]
    times = Counter(map(tuple, rows))
    for row in rows:
        for _ in range(_TRIES if times[tuple(row)] > 1 else 0):
            axis, other = chance.randrange(len(sizes)), rows[chance.randrange(count)]
            if _exchange_setting(row, other, axis, times):
                break
    return sorted({tuple(row) for row in rows})


def _exchange_setting(
    row: list[int], other: list[int], axis: int, times: Counter[tuple[int, ...]]
) -> bool:
    """Exchange a setting between two rows, if both become new rows."""
    before = [tuple(row), tuple(other)]
    row[axis], other[axis] = other[axis], row[axis]
    after = [tuple(row), tuple(other)]
    if after[0] == after[1] or any(times[number] for number in after):
        row[axis], other[axis] = other[axis], row[axis]
        return False
    times.subtract(before)
    times.update(after)
    return True


def _column(size: int, count: int, chance: random.Random) -> list[int]:
    """Use each of ``size`` settings ``count / size`` times, rounded up for some, in any order."""
    whole, rest = divmod(count, size)
    column = [at for at in range(size) for _ in range(whole)]
    column += chance.sample(range(size), rest)
    chance.shuffle(column)
    return column


def _places(number: int, sizes: Sequence[int]) -> list[int]:
    """Return the index on each axis of the design of a number."""
    at = []
    for size in reversed(sizes):
        number, place = divmod(number, size)
        at.append(place)
    return at[::-1]


def _number(places: Sequence[int], sizes: Sequence[int]) -> int:
    """Return the number of the design with these indices on the axes."""
    number = 0
    for place, size in zip(places, sizes, strict=True):
        number = number * size + place
    return number


class DesignBuilder:
    """A builder of points from settings; equal accelerators and workloads are built once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], Any] = {}

    def point(self, base: Point, source: str) -> Point:
        """Return ``base`` with its settings applied.

        Raises:
            InputError: no accelerator can have these values, a workload has no such parameter, or
                the degrees of parallelism are not those of the chips.
        """
        made = with_mapping(self.sized_point(base, source))
        require_degrees(made)
        return made

    def sized_point(self, base: Point, source: str) -> Point:
        """Return ``base`` with its settings of accelerator and workloads applied.

        Raises:
            InputError: no accelerator can have these values, or a workload has no such parameter.
        """
        hardware = self._make(with_values, base.accelerator, base.fields("accelerator"), source)
        sizes = base.fields("workload")
        loads = tuple(
            replace(load, workload=self._make(_resize_workload, load.workload, sizes, source))
            for load in base.loads
        )
        return replace(base, accelerator=hardware, loads=loads)

    def _make(
        self, make: Callable[..., Made], base: Made, values: Mapping[str, Value], source: str
    ) -> Made:
        if not values:
            return base
        key = id(base), repr(sorted(values.items()))
        if key not in self._known:
            if len(self._known) >= _KEPT:
                self._known.clear()
            try:
                self._known[key] = make(base, values, source)
            except InputError as error:
                self._known[key] = error
        made = self._known[key]
        if isinstance(made, InputError):
            raise made
        return made  # type: ignore[no-any-return]


def with_mapping(point: Point) -> Point:
    """Return a point with its settings of the scheduler and of stages applied."""
    words = {"true": True, "false": False}
    changed: dict[str, Any] = {
        name: words.get(str(value), value)
        for name, value in point.fields("mapping").items()
        if name != "dataflow"
    }
    counts = {name: changed.pop(field) for name, field in _COUNTS.items() if field in changed}
    if "patience" in changed:
        changed["effort"] = replace(point.options.effort, patience=changed["patience"])
    return replace(point, options=replace(point.options, **changed), **counts)


def _resize_workload(workload: Workload, values: Mapping[str, Value], source: str) -> Workload:
    """Return a workload with other values of parameters that it has.

    Raises:
        InputError: it has none of these parameters, or not with this value.
    """
    from simaccel.workload import parse_workload  # noqa: PLC0415 - reading a space does without

    own = {name: value for name, value in values.items() if name in sizes_of(workload)}
    if not own:
        return workload
    document = plain(workload.parameters)
    inside = {name: own.pop(name) for name in [*own] if name not in document}
    shape = {"shape": {**document["shape"], **inside}} if inside else {}
    return parse_workload({**document, **own, **shape}, source)


def sizes_of(workload: Workload) -> dict[str, Any]:
    """Return the parameters of a workload that have one value each, and the sizes of its shape."""
    parameters = workload.parameters
    every = {**parameters, **parameters.get("shape", {})}
    return {name: value for name, value in every.items() if not isinstance(value, Mapping)}


def require_sizes(option: str, axes: Sequence[Settings], loads: Sequence[WeightedWorkload]) -> None:
    """Refuse axes of parameters that no workload has.

    Raises:
        InputError: names each of them.
    """
    faults = []
    for axis in axes:
        for name in axis[0].fields if axis[0].axis.of == "workload" else ():
            if not any(name in sizes_of(load.workload) for load in loads):
                every = sorted({key for load in loads for key in sizes_of(load.workload)})
                allowed = f"a parameter of a workload; {suggest(name, every)}"
                faults.append(Fault("command line", option, axis[0].axis.name, allowed))
    require_none(faults)


DEGREES: Final = ("tensor_parallel", "data_parallel", "expert_parallel")
"""Degrees of parallelism within a layer, among the scheduler's options."""
_COUNTS: Final = {"stages": "pipeline_parallel", "micro_batches": "micro_batches"}
"""The axis of each count of a point."""


def require_degrees(point: Point) -> None:
    """Refuse degrees of parallelism that don't match chips, layers and batch.

    Raises:
        InputError: the degree, and what chips, layers or batch allow.
    """
    degrees, micro_batches = [getattr(point.options, name) for name in DEGREES], point.micro_batches
    if point.stages is None and micro_batches is not None:
        allowed = "nothing without --pipeline-parallel"
        raise InputError([Fault("--micro-batches", "micro-batches", micro_batches, allowed)])
    if point.stages is not None:
        from simaccel.study.pipeline_plan import require_stages  # noqa: PLC0415 - as in space

        for run in point.runs:
            require_stages(run)
    elif point.accelerator.pod.count > 1 and any(degrees):
        from simaccel.schedulers.parallel import degrees_of  # noqa: PLC0415

        degrees_of(point.accelerator.pod, *degrees)
