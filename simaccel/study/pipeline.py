"""Pipelines: layers of a transformer in stages on groups of chips, a batch in micro-batches.

A stage is run on the machine as a pod of its own, with one micro-batch: the first one (with the
embedding), one of each kind between, and the last one (with the logits). What a stage makes goes to
the next one as a message from each chip to its neighbour. A run is that of a full pipeline: beside
its work on a micro-batch a chip sends what it made of the one before, and receives the next one.
How micro-batches follow one another follows from these times: a stage begins with a micro-batch
when it is done with the one before and when that one has come; a link sends one message at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from simaccel.analytic.memories import MemoryDemand
from simaccel.hardware import Accelerator
from simaccel.hardware.area.parts import power_figures
from simaccel.run.run import Progress
from simaccel.study.experiment import (
    ExperimentResult,
    result_json,
    simulate,
    total_energy_pj,
)
from simaccel.study.figure_table import combine_tables
from simaccel.study.pipeline_plan import (
    PipelineMessage,
    PipelinePlan,
    PlannedStage,
    plan_pipeline,
)
from simaccel.study.points import Point


@dataclass(frozen=True, kw_only=True)
class PipelineStage(PlannedStage):
    """Equal stages of a pipeline, of which one was run."""

    result: ExperimentResult

    @property
    def cycles(self) -> int:
        """Cycles of a micro-batch."""
        return self.result.run.cycles


@dataclass(frozen=True, kw_only=True)
class PipelineRun:
    """A step of a pipeline: its plan, and the runs of its stages."""

    plan: PipelinePlan
    stages: tuple[PipelineStage, ...]

    @property
    def accelerator(self) -> Accelerator:
        """The accelerator with all chips."""
        return self.plan.accelerator

    @property
    def tokens(self) -> int:
        """Number of tokens of all sequences that the step makes or reads."""
        return self.plan.batch * self.plan.rows

    @property
    def stage_cycles(self) -> list[int]:
        """Cycles of a micro-batch in each stage."""
        return self.stage_figures(lambda result: result.run.cycles)

    def stage_figures(self, figure: Callable[[ExperimentResult], int]) -> list[int]:
        """Return a figure of the run of each stage."""
        return [figure(stage.result) for stage in self.stages for _ in range(stage.count)]

    @property
    def ends(self) -> range:
        """Cycles at which each micro-batch leaves the last stage of a pipeline that was empty."""
        return micro_batch_ends(self.stage_cycles, self.plan.micro_batches, self.plan.messages)

    @property
    def cycles(self) -> int:
        """Cycles to the first token of all sequences, or of a decode step in a full pipeline."""
        return self.cycles_of(self.stage_cycles)

    def cycles_of(self, stages: Sequence[int]) -> int:
        """Return `cycles` if a micro-batch took ``stages`` cycles in each stage."""
        if self.plan.phase == "decode":
            return step_cycles(stages, self.plan.micro_batches, self.plan.messages, self.plan.back)
        return micro_batch_ends(stages, self.plan.micro_batches, self.plan.messages)[-1]

    @property
    def seconds(self) -> float:
        """Seconds of the step."""
        return self.accelerator.seconds(self.cycles)

    @property
    def bubbles(self) -> float:
        """Share of the stages' time in which they have no micro-batch."""
        stages = self.stage_cycles
        return 1 - self.plan.micro_batches * sum(stages) / (len(stages) * self.cycles)

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second of all chips."""
        return self.tokens / self.seconds

    @property
    def energy_pj(self) -> float:
        """Energy of all chips for all micro-batches, messages between stages included."""
        chips = self.stages[0].result.accelerator.pod.count
        of_stages = (
            stage.count * total_energy_pj(stage.result.run, stage.result.accelerator)
            for stage in self.stages
        )
        return self.plan.micro_batches * chips * sum(of_stages)

    @property
    def energy_per_token_pj(self) -> float:
        """Energy per token in pJ."""
        return self.energy_pj / self.tokens


def micro_batch_ends(
    stages: Sequence[int], micro_batches: int, messages: Sequence[PipelineMessage]
) -> range:
    """Return when each micro-batch leaves the last stage.

    ``messages``: from each stage to the next one. Times are constant and all micro-batches are
    there at the start: after the first one they come as fast as the slowest stage or link.

    By hand: 3 cycles, 1 on the link and 2 more until it is there, 5 cycles; then every 5.

    >>> list(micro_batch_ends([3, 5], 3, [PipelineMessage(8, 1, 2)]))
    [11, 16, 21]
    """
    first = sum(stages) + sum(message.cycles for message in messages)
    step = max(*stages, *(message.link_cycles for message in messages), 0)
    return range(first, first + micro_batches * step, step)


def step_cycles(
    stages: Sequence[int],
    micro_batches: int,
    messages: Sequence[PipelineMessage],
    back: PipelineMessage,
) -> int:
    """Return the cycles from one token of a sequence to its next in a full pipeline.

    In that time a micro-batch goes through all stages and back, and each stage and each link serves
    all micro-batches. The cycles are exactly the longest of these cyclic dependences: each spans
    one token, so any other cycle, a combination of them, has a mean of their lengths per token.

    >>> step_cycles([3, 5], 1, [PipelineMessage(8, 1, 2)], PipelineMessage(4, 1, 2))
    14
    >>> step_cycles([3, 5], 4, [PipelineMessage(8, 1, 2)], PipelineMessage(4, 1, 2))
    20
    """
    if len(stages) == 1:
        return micro_batches * stages[0]
    sent = [*messages, back]
    round_trip = sum(stages) + sum(message.cycles for message in sent)
    return max(round_trip, micro_batches * max(*stages, *(message.link_cycles for message in sent)))


def run_pipeline(point: Point, progress: Progress | None = None) -> PipelineRun:
    """Run each different stage of a pipeline once, and time micro-batches through all stages.

    Raises:
        InputError: as of ``plan_pipeline``.
        SimaccelError: as of ``simulate``.
    """
    plan = plan_pipeline(point)

    def run(at: int, stage: PlannedStage) -> PipelineStage:
        def tell(cycle: int, done: float) -> None:
            if progress:
                progress(cycle, (at + done) / len(plan.stages))

        result = simulate(
            stage.workload,
            plan.group,
            plan.dataflow,
            options=plan.options,
            beside=() if stage.message is None else (stage.message,),
            progress=tell,
            fast_forward=point.fast_forward,
        )
        return PipelineStage(**vars(stage), result=result)

    stages = tuple(run(at, stage) for at, stage in enumerate(plan.stages))
    return PipelineRun(plan=plan, stages=stages)


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

    def mean_of(values: Sequence[Any]) -> Any:  # noqa: ANN401 - a number
        total = run.plan.micro_batches * sum(n * k for n, k in zip(values, counts, strict=True))
        return total // sum(counts) if isinstance(total, int) else total / sum(counts)

    def mean(name: str) -> Any:  # noqa: ANN401 - a number, or a table of them
        return combine_tables([result[name] for result in every], mean_of)

    added = {name: mean(name) for name in _ADDED}
    engines = mean("engines")
    for engine in engines.values():
        engine["idle"] = run.cycles - engine["busy"] - sum(engine["stalls"].values())
    room = slowest["dram_bound"]["on_chip_bytes"]
    ideal = run.plan.micro_batches * sum(
        result["utilisation"] * result["cycles"] * n
        for result, n in zip(every, counts, strict=True)
    )
    return {
        **slowest,
        **added,
        "engines": engines,
        "dram_bound": mean("dram_bound") | {"on_chip_bytes": room},
        "cycles": run.cycles,
        "seconds": run.seconds,
        "utilisation": ideal / (sum(counts) * run.cycles),
        "bound": _bound_of_stages(run),
        **power_figures(added["energy_pj"], run.seconds),
        **{name: max(result[name] for result in every) for name in _LARGEST},
        "operators": [],
        "memories": [vars(demand) for demand in _fullest_memories(run)],
        "chip_count": run.accelerator.pod.count,
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


def _bound_of_stages(run: PipelineRun) -> dict[str, Any]:
    cycles = run.cycles_of(run.stage_figures(lambda result: result.prediction.bound_cycles))
    return {
        "cycles": cycles,
        "terms": {"stages": cycles},
        "by": "stages",
        "waiting_cycles": run.cycles - cycles,
        "waiting_by_cause": {},
    }
