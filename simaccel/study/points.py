"""The elements of a study: axes, settings on them, points to run, and their rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from simaccel.errors import WorkerDiedError
from simaccel.plugins import Plugin, Registry
from simaccel.study.placement import place_on

if TYPE_CHECKING:
    from simaccel.hardware import Accelerator
    from simaccel.mapping.tree import Mapping as Tree
    from simaccel.schedulers import Options
    from simaccel.workload import Workload

Value = int | float | str
Of = Literal["accelerator", "workload", "mapping"]
Record = dict[str, Any]
"""Result of a run as plain data."""
Figures = dict[str, float | int | None]
"""Figures by name, which ends with the unit; None: unknown."""
LOST: Final = "its process died; is there enough memory?"


@dataclass(frozen=True)
class Axis:
    """A dimension of a study: ``name`` in options, ``column`` in data, ``label`` in figures.

    ``of``: the object whose fields it sets. ``log``: values are spaced by ratios. ``named``: values
    are names without an order.
    """

    name: str
    column: str
    label: str
    of: Of = "accelerator"
    log: bool = False
    named: bool = False


ACCELERATOR: Final = Axis("accelerator", "accelerator", "accelerator", named=True)
"""The axis of different accelerators."""


@dataclass(frozen=True)
class Setting:
    """One value on an axis, as data and as text, and the fields that it sets.

    ``place``: its position on the axis.
    """

    axis: Axis
    value: Value
    text: str
    fields: Mapping[str, Any] = field(default_factory=dict, compare=False)
    place: float = 0


def named_setting(axis: Axis, name: str, fields: Mapping[str, Any]) -> Setting:
    """Return a value that is a name."""
    return Setting(axis, name, name, fields)


@dataclass(frozen=True)
class WeightedWorkload:
    """A workload and its weight in sums."""

    workload: Workload
    weight: float = 1.0


def default_options() -> Options:
    """Return the default options of a scheduler."""
    from simaccel.schedulers import Options  # noqa: PLC0415 - what only reads does without

    return Options()


@dataclass(frozen=True, kw_only=True)
class Point:
    """One point of a study: its workloads, accelerator, dataflow and options, or its ``problem``.

    ``stages``: of a pipeline, with ``micro_batches`` (None: as many as stages). ``label``: the
    dataflow in tables, if not its name. ``estimate_cycles``: the user's estimate. ``seq_len``:
    sequence length of the model that it is, or is a part of. ``whole``: the workload of which it is
    one operator.
    """

    accelerator: Accelerator
    loads: tuple[WeightedWorkload, ...]
    dataflow: str | Tree = ""
    options: Options = field(default_factory=default_options)
    settings: tuple[Setting, ...] = ()
    problem: str = ""
    stages: int | None = None
    micro_batches: int | None = None
    fast_forward: bool = True
    label: str = ""
    estimate_cycles: float | None = None
    seq_len: int | None = None
    whole: Workload | None = None

    @property
    def workload(self) -> Workload:
        """The first workload."""
        return self.loads[0].workload

    @property
    def runs(self) -> list[Point]:
        """The points of each workload alone, which are run."""
        return [replace(self, loads=(load,)) for load in self.loads]

    @property
    def name(self) -> str:
        """The name of the dataflow in tables."""
        flow = self.dataflow
        return self.label or (flow if isinstance(flow, str) else flow.dataflow)

    def fields(self, of: Of) -> dict[str, Value]:
        """Return the fields of accelerator, workload or mapping that the settings set."""
        chosen = (setting.fields for setting in self.settings if setting.axis.of == of)
        return {name: value for fields in chosen for name, value in fields.items()}

    def place_workloads(self) -> Point:
        """Return the point with its workloads adapted to its accelerator (``place_on``)."""
        loads = (
            replace(
                load,
                workload=place_on(load.workload, self.accelerator, self.dataflow, self.options),
            )
            for load in self.loads
        )
        return replace(self, loads=tuple(loads))

    @property
    def row(self) -> StudyRow:
        """The point's row, without a result."""
        return StudyRow(
            self.name,
            self.seq_len,
            settings=self.settings,
            estimate_cycles=self.estimate_cycles,
            chips=self.accelerator.pod.count,
            tolerance=self.options.tolerance,
            problem=self.problem,
        )


@dataclass(frozen=True)
class StudyRow:
    """A point of a study with its result, or the reason why there is none (``problem``).

    ``dataflow``: its name in tables. ``result``: the run as JSON. ``figures``: of all workloads,
    weighted. ``tolerance``: of the choice among near-ties. ``within``: whether the known figures
    are within all limits. ``frontier``: no other row of its scenario dominates it. ``best``: it has
    the smallest objective on the frontier. ``limit``: the resource or wait that limits it, by its
    name in `LIMITS`. ``chips``: their number. ``overflows``: it doesn't run because tensors exceed
    a chip's memory.
    """

    dataflow: str
    seq_len: int | None = None
    result: Record | None = None
    problem: str = ""
    exit_code: int = 0
    settings: tuple[Setting, ...] = ()
    estimate_cycles: float | None = None
    tolerance: float = 0
    figures: Figures | None = None
    within: bool = True
    frontier: bool = False
    best: bool = False
    limit: str = ""
    chips: int = 1
    overflows: bool = False

    @property
    def run(self) -> Record:
        """The result; only for a row that ran."""
        assert self.result is not None  # noqa: S101 - a caller's promise
        return self.result

    @property
    def outcome(self) -> str:
        """Its cycles in words, or why there are none."""
        cycles = (self.figures or {}).get("cycles")
        return self.problem or ("found" if cycles is None else f"{cycles:,} cycles")

    @property
    def memory_share(self) -> float | None:
        """Share of the fullest memory of a chip that tensors take; None: unknown."""
        return None if self.figures is None else self.figures["memory_share"]

    @property
    def fits(self) -> bool | None:
        """Whether weights, caches and activations fit the memories of a chip; None: unknown."""
        share = self.memory_share
        return False if self.overflows else None if share is None else share <= 1

    @property
    def lead(self) -> Setting | None:
        """The first setting, which is the x axis of figures; None if nothing is varied."""
        return next(iter(self.settings), None)

    @property
    def others(self) -> tuple[Setting, ...]:
        """The settings after the first."""
        return self.settings[1:]

    @property
    def place(self) -> tuple[object, ...]:
        """Key of the rows that it is compared with."""
        return self.settings, self.seq_len

    @property
    def scenario(self) -> tuple[str, ...]:
        """Sizes of the workloads, which are requirements and not choices of a design."""
        return tuple(setting.text for setting in self.settings if setting.axis.of == "workload")

    @property
    def lost(self) -> bool:
        """Whether its process died."""
        return self.exit_code == WorkerDiedError.exit_code


def base_point(workload: Workload, accelerator: Accelerator, *settings: Setting) -> Point:
    """Return the point of a workload on an accelerator, without a dataflow."""
    loads, length = (WeightedWorkload(workload),), seq_len_of(workload)
    return Point(accelerator=accelerator, loads=loads, settings=settings, seq_len=length)


def seq_len_of(workload: Workload) -> int | None:
    """Return the sequence length of a model."""
    length = workload.parameters.get("seq_len")
    return None if length is None else int(length)


def chips_alike(record: Record) -> int:
    """Return how many chips do the same as the one (or one of each kind) that a run shows."""
    count: int = record.get("chips_alike") or record.get("chip_count", 1)
    return count


def memory_share(demands: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the share of the fullest memory that tensors take; None: no capacity is known.

    ``demands``: as in JSON (``result_json``). Above 1 they don't fit.
    """
    sizes = [(each["needed_bytes"], each["capacity_bytes"]) for each in demands]
    return max((needed / capacity for needed, capacity in sizes if capacity), default=None)


@dataclass(frozen=True, kw_only=True)
class Exhibit:
    """A saved study of `compare --exhibit`: what it compares, and what it shows of the runs.

    ``dataflow`` and ``sweep``: what is compared where nothing else is given; without ``sweep`` none
    is allowed. ``find``: what is searched for each point instead of a run, with the share that
    ``--target`` gives, which ``heading`` may name; it returns attributes of the point's row.
    ``rows``: the exhibit's rows, of points and their runs, from which ``table``, ``notes`` (lines
    below it) and ``draw`` (with title and accelerator) are made.
    """

    heading: str
    dataflow: str
    rows: Callable[[Sequence[Point], Sequence[StudyRow]], Sequence[Record]]
    table: Callable[[Sequence[Record]], Any]
    draw: Callable[[Sequence[Record], str, Accelerator], Any]
    notes: Callable[[Sequence[Record]], Sequence[str]] = lambda _: ()
    sweep: str = ""
    find: Callable[[float, Point], Record] | None = None


def _accept(plugged: Plugin, thing: object) -> Exhibit:
    if isinstance(thing, Exhibit):
        return thing
    raise plugged.error("is no Exhibit")


EXHIBITS: Final = Registry[Exhibit]("simaccel.exhibits", {}, _accept)
"""The exhibits by name."""
