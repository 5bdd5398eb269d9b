"""Pipelines: layers of a transformer in stages on groups of chips, a batch in micro-batches.

A stage is run on the machine as a pod of its own, with one micro-batch: the first one (with the
embedding), one of those between, which are equal, and the last one (with the logits). What a stage
makes goes to the next one as a message from each chip to its neighbour. How micro-batches follow
one another is a recurrence of these times: a stage begins with a micro-batch when it is done with
the one before and when that one has come; a link sends one message at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from simaccel.errors import Fault, InputError
from simaccel.experiment.precision import place_on
from simaccel.experiment.run import ExperimentResult, energy_pj, simulate
from simaccel.hardware import Accelerator
from simaccel.hardware.chips import ChipsSpec
from simaccel.numbers import BYTE
from simaccel.schedulers import Options
from simaccel.schedulers.parallel import degrees_of
from simaccel.workload import Workload

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


@dataclass(frozen=True, kw_only=True)
class PipelineStage:
    """Equal stages of which one was run: how many there are, and the layers of each."""

    name: str
    count: int
    layers: int
    result: ExperimentResult

    @property
    def cycles(self) -> int:
        """Cycles of a micro-batch."""
        return self.result.run.cycles


@dataclass(frozen=True, kw_only=True)
class PipelineRun:
    """A step of a pipeline. ``batch``: sequences of all micro-batches; ``accelerator``: all chips.

    ``back``: what goes from the last stage to the first between two decode steps.
    """

    accelerator: Accelerator
    phase: str
    batch: int
    rows: int
    micro_batches: int
    stages: tuple[PipelineStage, ...]
    message: PipelineMessage
    back: PipelineMessage

    @property
    def stage_cycles(self) -> list[int]:
        """Cycles of a micro-batch in each stage."""
        return [stage.cycles for stage in self.stages for _ in range(stage.count)]

    @property
    def ends(self) -> list[int]:
        """When each micro-batch leaves the last stage, of a pipeline that was empty."""
        return micro_batch_ends(self.stage_cycles, self.micro_batches, self.message)

    @property
    def cycles(self) -> int:
        """Cycles to the first token of all sequences, or of a decode step once all is going on."""
        return self.cycles_of(self.stage_cycles)

    def cycles_of(self, stages: Sequence[int]) -> int:
        """Return these cycles where stages take so many for a micro-batch."""
        if self.phase == "decode":
            return step_cycles(stages, self.micro_batches, self.message, self.back)
        return micro_batch_ends(stages, self.micro_batches, self.message)[-1]

    @property
    def seconds(self) -> float:
        """Time of these cycles."""
        return self.accelerator.seconds(self.cycles)

    @property
    def bubbles(self) -> float:
        """Share of the stages' time in which they have no micro-batch."""
        stages = self.stage_cycles
        return 1 - self.micro_batches * sum(stages) / (len(stages) * self.cycles)

    @property
    def tokens_per_second(self) -> float:
        """Tokens that all chips take in a second."""
        return self.batch * self.rows / self.seconds

    @property
    def energy_pj(self) -> float:
        """Energy of all chips for all micro-batches, messages between stages included."""
        chips = self.stages[0].result.accelerator.chips.count
        price = self.accelerator.chips.pj_per_bit
        sent = self.message.n_bytes * (len(self.stage_cycles) - 1) * BYTE
        links = sent * (math.nan if price is None else price) if sent else 0.0
        of_stages = (
            stage.count * sum(energy_pj(stage.result.run, stage.result.accelerator).values())
            for stage in self.stages
        )
        return self.micro_batches * chips * (sum(of_stages) + links)

    @property
    def token_energy_pj(self) -> float:
        """Energy of a token."""
        return self.energy_pj / (self.batch * self.rows)


def micro_batch_ends(
    stages: Sequence[int], micro_batches: int, message: PipelineMessage
) -> list[int]:
    """Return when each micro-batch leaves the last stage.

    By hand: 3 cycles, 1 on the link and 2 more until it is there, 5 cycles; then every 5.

    >>> micro_batch_ends([3, 5], 3, PipelineMessage(8, 1, 2))
    [11, 16, 21]
    """
    come = [0] * micro_batches
    for at, cycles in enumerate(stages):
        done, sent = 0, 0
        for number in range(micro_batches):
            done = max(done, come[number]) + cycles
            sent = max(sent, done) + message.link_cycles
            come[number] = done if at == len(stages) - 1 else sent + message.latency_cycles
    return come


def step_cycles(
    stages: Sequence[int], micro_batches: int, message: PipelineMessage, back: PipelineMessage
) -> int:
    """Return the cycles from one token of a sequence to its next, once all is going on.

    A micro-batch goes through all stages and back; a stage or a link has all micro-batches in that
    time. The longest of these ways round is what all others wait for, exactly: each of them is a
    token long, so that every other way round, which mixes them, is a mean of them.

    >>> step_cycles([3, 5], 1, PipelineMessage(8, 1, 2), PipelineMessage(4, 1, 2))
    14
    >>> step_cycles([3, 5], 4, PipelineMessage(8, 1, 2), PipelineMessage(4, 1, 2))
    20
    """
    if len(stages) == 1:
        return micro_batches * stages[0]
    round_trip = sum(stages) + (len(stages) - 1) * message.cycles + back.cycles
    return max(round_trip, micro_batches * max(*stages, message.link_cycles, back.link_cycles))


def run_pipeline(
    build: Callable[[int], Workload],
    accelerator: Accelerator,
    dataflow: str,
    *,
    stages: int,
    batch: int,
    micro_batches: int | None = None,
    options: Options | None = None,
    **how: Any,  # noqa: ANN401 - as of `simulate`
) -> PipelineRun:
    """Run each different stage of a pipeline once, and follow micro-batches through all of them.

    ``build`` makes the whole model with a batch. Without ``micro_batches``: as many as stages, or
    the most that divide both.

    Raises:
        InputError: layers, chips or the batch can't be cut so.
        SimaccelError: as of ``simulate``.

    """
    chosen = math.gcd(batch, stages) if micro_batches is None else micro_batches
    if batch % chosen:
        allowed = f"a number that divides the batch of {batch}"
        raise InputError([Fault("--micro-batches", "micro-batches", chosen, allowed)])
    whole = place_on(build(batch // chosen), accelerator)
    _require_stages(whole, stages)
    alone = _stage_accelerator(accelerator, stages)
    asked = options or Options()
    degrees = degrees_of(
        alone.chips, asked.tensor_parallel, asked.data_parallel, asked.expert_parallel
    )
    different = tuple(
        PipelineStage(
            name=name,
            count=count,
            layers=workload.repeat,
            result=simulate(workload, alone, dataflow, options=options, **how),
        )
        for name, count, workload in _stage_workloads(whole, stages)
    )
    rows = 1 if whole.parameters["phase"] == "decode" else whole.parameters["prompt"]
    handed = whole.tensor_bytes(_handover_tensor(whole))
    return PipelineRun(
        accelerator=accelerator,
        phase=whole.parameters["phase"],
        batch=batch,
        rows=rows,
        micro_batches=chosen,
        stages=different,
        message=_message(accelerator, -(-handed // degrees.batch)),
        back=_message(accelerator, -(-batch // (chosen * degrees.batch)) * _TOKEN_BYTES),
    )


def _message(accelerator: Accelerator, n_bytes: int) -> PipelineMessage:
    chips = accelerator.chips
    link = chips.link_rate(accelerator.clock_hz).cycles(n_bytes)
    return PipelineMessage(n_bytes, link, chips.latency_cycles)


def _require_stages(whole: Workload, stages: int) -> None:
    given, faults = whole.parameters, []
    if given.get("kind") != "transformer" or given.get("scope") != "model":
        allowed = "a transformer with --scope model"
        faults.append(Fault("--pipeline-parallel", "workload", whole.name, allowed))
    elif whole.repeat % stages:
        allowed = f"a number that divides the {whole.repeat} times that layers of {whole.name} run"
        faults.append(Fault("--pipeline-parallel", "stages", stages, allowed))
    if faults:
        raise InputError(faults)


def _stage_accelerator(accelerator: Accelerator, stages: int) -> Accelerator:
    """Return an accelerator with the chips of one stage.

    Of a torus, stages are places in its first dimensions; of a ring, chips.

    Raises:
        InputError: chips can't be cut into so many groups that are linked alike.

    """
    chips = accelerator.chips
    sizes: list[int] = [*(chips.shape or (chips.count,))]
    if chips.topology in ("all_to_all", "switch"):
        can, possible = chips.count % stages == 0, f"a number that divides {chips.count} chips"
        shape = None
    else:
        products = [math.prod(sizes[:at]) for at in range(len(sizes) + 1)]
        can = stages in products
        words = ", ".join(map(str, dict.fromkeys(products)))
        possible = f"one of {words}, the first dimensions of the {chips.topology}"
        shape = tuple(sizes[products.index(stages) :]) if can else None
    if not can:
        raise InputError([Fault("--pipeline-parallel", "stages", stages, possible)])
    fields = {name: getattr(accelerator, name) for name in Accelerator.model_fields}
    count = chips.count // stages
    own = chips.model_dump(exclude_unset=True) | {"count": count}
    if chips.topology == "torus":
        own |= {"shape": shape or (1,)}
    return Accelerator.model_construct(**{**fields, "chips": ChipsSpec.model_validate(own)})


def _handover_tensor(whole: Workload) -> str:
    """Return the tensor that goes from layer to layer, as the first one reads it."""
    before, layer, _ = _parts(whole)
    made = {whole.operator(name).output.tensor for name in before}
    read = {given.tensor for name in layer for given in whole.operator(name).inputs}
    return next(name for name in whole.tensors if name in made & read)


def _parts(whole: Workload) -> tuple[list[str], list[str], list[str]]:
    """Return the operators before all layers, of a layer, and after all layers."""
    names = [operator.name for operator in whole.operators]
    layer = [name for name in names if name not in whole.once]
    first = names.index(layer[0])
    before = [name for name in names[:first] if name in whole.once]
    behind = [name for name in names if name in whole.once and name not in before]
    return before, layer, behind


def _stage_workloads(whole: Workload, stages: int) -> list[tuple[str, int, Workload]]:
    """Return each different stage: its name, how many there are, and what one of them does."""
    before, layer, behind = _parts(whole)
    kinds = [
        ("first", 1, [*before, *layer]),
        ("between", stages - 2, layer),
        ("last", 1, [*layer, *behind]),
    ]
    if stages == 1:
        kinds = [("only", 1, [*before, *layer, *behind])]
    return [
        (
            name,
            count,
            replace(
                whole.select_operators(names),
                repeat=whole.repeat // stages,
                once=frozenset(whole.once & set(names)),
                parameters=whole.parameters,
            ),
        )
        for name, count, names in kinds
        if count
    ]
