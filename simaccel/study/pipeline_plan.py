"""Plans of pipelines: each different stage with its workload, chips and messages.

Layers of a transformer are cut into stages, of which none has two layers more than another, chips
into as many equal groups, a batch into micro-batches. Nothing is searched or run here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from simaccel.errors import Fault, InputError, gather, require_none
from simaccel.files.limits import MAX_OPERATORS, require_at_most
from simaccel.hardware import Accelerator
from simaccel.hardware.collectives import LinkAxis
from simaccel.hardware.cores import PIPELINE
from simaccel.hardware.links import shape_text
from simaccel.mapping.chips.exchanges import Exchange
from simaccel.mapping.chips.layout import ChipLayout
from simaccel.mapping.tree import Mapping
from simaccel.numbers import in_bytes
from simaccel.schedulers import Options
from simaccel.schedulers.chip_share import settle_loads, with_split
from simaccel.schedulers.parallel import degrees_of
from simaccel.study.placement import place_on
from simaccel.study.points import Point
from simaccel.workload import Workload
from simaccel.workload.stages import (
    STAGE_INPUT,
    STAGE_OUTPUT,
    kinds_of_layers,
    layer_count,
    stage_of,
    with_parameters,
)

_TOKEN_BYTES = 4
"""Bytes of the number of a token, which goes from the last stage to the first."""


@dataclass(frozen=True)
class PipelineMessage:
    """A message from a chip to one of the next stage: cycles on the link, and those after."""

    n_bytes: int
    link_cycles: int
    latency_cycles: int

    @property
    def cycles(self) -> int:
        """Cycles until all of it is there."""
        return self.link_cycles + self.latency_cycles


@dataclass(frozen=True)
class PlannedStage:
    """Equal stages: their numbers, the layers of each, and what one does with a micro-batch.

    ``message``: what a chip sends and receives meanwhile, of the micro-batches before and behind.
    """

    places: tuple[int, ...]
    layers: int
    workload: Workload
    name: str = ""
    message: Exchange | None = None

    @property
    def count(self) -> int:
        """Number of equal stages."""
        return len(self.places)


@dataclass(frozen=True, kw_only=True)
class PipelinePlan:
    """A step of a pipeline before it is run.

    ``batch``: sequences of all micro-batches; ``accelerator``: all chips, ``group``: those of a
    stage, which ``options`` cut alike in all stages. ``messages`` go from each stage to the next
    one, as far as that is away, ``back`` from the last one to the first between two decode steps.
    """

    accelerator: Accelerator
    group: Accelerator
    dataflow: str
    options: Options
    phase: str
    batch: int
    rows: int
    micro_batches: int
    stages: tuple[PlannedStage, ...]
    messages: tuple[PipelineMessage, ...]
    back: PipelineMessage

    @property
    def depth(self) -> int:
        """The number of stages."""
        return sum(stage.count for stage in self.stages)

    @property
    def message_bytes(self) -> int:
        """Bytes that a chip sends to the next stage; of one stage none."""
        return max((message.n_bytes for message in self.messages), default=0)


def plan_pipeline(point: Point) -> PipelinePlan:
    """Cut the workload of a point, a whole model with its batch, into stages and micro-batches.

    All stages have equal degrees of parallelism, by default the fastest of the dataflow over all
    ``loads`` of the point by their weights (`settle_loads`); the plan is that of the first.
    The default of ``micro_batches`` is the largest divisor of both stages and batch.

    Raises:
        InputError: layers, chips or the batch can't be cut so, or a mapping is given.
    """
    workload, options, stages = point.workload, point.options, point.stages or 1
    dataflow = point.dataflow
    if isinstance(dataflow, Mapping):
        allowed = "a dataflow, as a pipeline runs several workloads"
        raise InputError([Fault("--pipeline-parallel", "mapping", dataflow.dataflow, allowed)])
    accelerator, group, chosen = require_stages(point)
    batch: int = workload.parameters["batch"]
    parts = [with_parameters(load.workload, batch=batch // chosen) for load in point.loads]
    if options.expert_parallel:
        parts = [with_split(part, accelerator, options, dataflow) for part in parts]
    whole = place_on(parts[0], accelerator)
    phase = whole.parameters["phase"]
    planned, *others = (_planned_stages(part, accelerator, stages) for part in parts)
    loads = (
        (stage.workload, stage.count * Fraction(load.weight))
        for load, each in zip(point.loads, (planned, *others), strict=True)
        for stage in each
    )
    options = settle_loads(options, group, loads, dataflow)
    degrees = degrees_of(group.pod, *options.degrees, copies=options.copies)
    handed = -(-math.prod(whole.shapes[STAGE_INPUT]) // degrees.batch)
    sequences, size = -(-batch // (chosen * degrees.batch)), group.pod.count
    routes = [accelerator.pod.route(at * size, (at + 1) * size) for at in range(stages - 1)]
    bits = whole.tensors[STAGE_INPUT].bits
    linked = [part for stage in planned for part in _with_messages(stage, routes, handed, bits)]
    return PipelinePlan(
        accelerator=accelerator,
        group=group,
        dataflow=dataflow,
        options=options,
        phase=phase,
        batch=batch,
        rows=1 if phase == "decode" else whole.parameters["prompt"],
        micro_batches=chosen,
        stages=tuple(_name_stages(linked, layer_count(whole), stages)),
        messages=tuple(_message(accelerator, in_bytes(handed, bits), way) for way in routes),
        back=_message(
            accelerator,
            sequences * _TOKEN_BYTES,
            accelerator.pod.route((stages - 1) * size, 0),
        ),
    )


def require_stages(point: Point) -> tuple[Accelerator, Accelerator, int]:
    """Return all chips, those of a stage, and the number of micro-batches.

    Raises:
        InputError: layers or the batch can't be cut so, or chips into as many groups of the degrees
            that are asked for.
    """
    workload, options, stages = point.workload, point.options, point.stages or 1
    _, (turned, group), chosen = gather(
        partial(_require_layers, workload, stages),
        partial(_group_of, point.accelerator, stages),
        partial(_micro_batches, workload.parameters.get("batch", 1), stages, point.micro_batches),
    )
    degrees_of(point.accelerator.pod, *options.degrees, stages=stages, copies=options.copies)
    return turned, group, chosen


def _micro_batches(batch: int, stages: int, requested: int | None) -> int:
    """Return the number of micro-batches, by default the largest divisor of batch and stages."""
    chosen = math.gcd(batch, stages) if requested is None else requested
    require_at_most("--micro-batches", "micro-batches", chosen, MAX_OPERATORS, "micro-batches")
    if batch % chosen:
        allowed = f"a number that divides the batch of {batch}"
        raise InputError([Fault("--micro-batches", "micro-batches", chosen, allowed)])
    return chosen


def _message(accelerator: Accelerator, n_bytes: int, way: tuple[LinkAxis, ...]) -> PipelineMessage:
    """Return a message from one chip to another: over links, and a network if that is between."""
    pod = accelerator.pod
    busy = max((n for _, n in pod.link_cycles("send", n_bytes, way)), default=0)
    return PipelineMessage(n_bytes, busy, pod.lag_cycles("send", way) if way else 0)


def _require_layers(whole: Workload, stages: int) -> None:
    parameters = whole.parameters
    faults = []
    if parameters.get("kind") != "transformer" or parameters.get("scope") != "model":
        allowed = "a transformer with --scope model"
        faults.append(Fault("--pipeline-parallel", "workload", whole.name, allowed))
    elif stages > (layers := layer_count(whole)):
        allowed = f"1 to {layers}, the layers of {whole.name}"
        faults.append(Fault("--pipeline-parallel", "stages", stages, allowed))
    require_none(faults)


def _group_of(accelerator: Accelerator, stages: int) -> tuple[Accelerator, Accelerator]:
    """Return all chips, with the dimensions of stages first, and the chips of one stage.

    Of a torus, stages are places in some of its dimensions; of a ring, chips.

    Raises:
        InputError: chips can't be cut into so many groups that are linked alike.
    """
    chips = accelerator.pod
    possible = dict[int, Accelerator]()
    for order in chips.orders:
        turned = accelerator.with_sections(chips=tuple(chips.shape[at] for at in order))
        for size in turned.pod.group_sizes:
            possible.setdefault(chips.count // size, turned)
    if stages not in possible:
        parts = ((number, possible[number].pod.group(chips.count // number)) for number in possible)
        each = ", ".join(f"{number} of {shape_text(part.shape)}" for number, part in sorted(parts))
        allowed = f"one of {each} chips: a stage has whole dimensions of the {chips.topology}"
        if chips.topology in ("all_to_all", "switch"):
            allowed = f"a number that divides {chips.count}, the number of chips"
        if stages > chips.count:
            allowed = f"at most {chips.count}, the number of chips"
        raise InputError([Fault("--pipeline-parallel", "chips", stages, allowed)])
    turned = possible[stages]
    group = turned.pod.group(chips.count // stages)
    return turned, turned.with_sections(chips=(1,) * group.before + group.shape)


def _planned_stages(part: Workload, accelerator: Accelerator, stages: int) -> list[PlannedStage]:
    """Return each different stage of a model's run, in the order of the first one of each."""
    layers = layer_count(part)
    alike: dict[tuple[object, int, bool, bool], list[int]] = {}
    for at in range(stages):
        first, stop = _first_layer(layers, stages, at), _first_layer(layers, stages, at + 1)
        kinds = kinds_of_layers(part, first, stop - first)
        alike.setdefault((kinds, stop - first, first == 0, stop == layers), []).append(at)
    planned = []
    for (_, count, *_), places in alike.items():
        stage = stage_of(part, _first_layer(layers, stages, places[0]), count)
        planned.append(PlannedStage(tuple(places), count, place_on(stage, accelerator)))
    return planned


def _first_layer(layers: int, stages: int, at: int) -> int:
    """Return the first layer of a stage; none has two layers more than another."""
    least, more = divmod(layers, stages)
    return least * at + min(at, more)


def _with_messages(
    stage: PlannedStage, routes: Sequence[tuple[LinkAxis, ...]], elements: int, bits: int
) -> Iterator[PlannedStage]:
    """Yield equal stages by the links that messages take; ``routes``: from each stage to the next.

    What a chip receives keeps the links of a dimension as busy as what it sends; at the same time
    if both go through this dimension.
    """
    ways: dict[tuple[bool, tuple[LinkAxis, ...]], list[int]] = {}
    for at in stage.places:
        sent, come = (routes[n] if 0 <= n < len(routes) else () for n in (at, at - 1))
        own = {axis.number for axis in sent}
        more = (axis._replace(size=0) for axis in come if axis.number not in own)
        ways.setdefault((bool(come), (*sent, *more)), []).append(at)
    for (is_behind, axes), places in ways.items():
        is_before = any(axis.size for axis in axes)
        message = Exchange(
            kind="send_receive",
            tensor=STAGE_INPUT,
            source=f"{STAGE_OUTPUT}.before",
            target=f"{STAGE_INPUT}.next",
            elements=(elements * is_before, elements * is_behind),
            bits=bits,
            digits=(),
            axes=axes,
            after="",
            source_layout=ChipLayout(()),
            target_layout=ChipLayout(()),
            cores=range(PIPELINE, PIPELINE + 1),
        )
        yield replace(stage, places=tuple(places), message=message if axes else None)


def _name_stages(
    planned: Sequence[PlannedStage], layers: int, stages: int
) -> Iterator[PlannedStage]:
    """Yield the stages with names: those between by their layers, if they differ."""
    ends = [{0, stages - 1}.intersection(stage.places) for stage in planned]
    for stage, known in zip(planned, ends, strict=True):
        first = _first_layer(layers, stages, stage.places[0]) + 1
        last = first + stage.layers - 1
        name = f"layers {first}-{last}" if last > first else f"layer {first}"
        name = "between" if ends.count(set()) == 1 else name
        if known:
            name = "only" if stages == 1 else "first" if 0 in known else "last"
        yield replace(stage, name=name)
