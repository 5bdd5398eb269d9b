"""Pipelines of stages on groups of chips: a row for each different stage, and what all do."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from simaccel.experiment.pipeline import PipelineRun, PipelineStage
from simaccel.experiment.pipeline_plan import PipelinePlan
from simaccel.experiment.run import resident_bytes
from simaccel.report.pods import busy_shares
from simaccel.report.tables import Column, Table, tabulate
from simaccel.report.units import (
    bytes_text,
    count_text,
    cycles_text,
    seconds_text,
    share_text,
    short_share_text,
    work_energy_text,
)
from simaccel.units import ARRAY, LINK


def pipeline_table(run: PipelineRun) -> Table:
    """Tabulate the stages that were run."""
    seconds = run.accelerator.seconds
    columns = (
        Column("stage", "name", kind="text"),
        Column("stages", "count"),
        Column("layers", "layers"),
        Column("cycles", "cycles", "cycles"),
        Column("time", "cycles", lambda cycles: seconds_text(seconds(cycles))),
        *(Column(name, "busy", partial(_share_text, name)) for name in (ARRAY, LINK, "dram")),
        Column("memory of a chip", "resident_bytes", "B"),
    )
    return tabulate((_stage_json(run, stage) for stage in run.stages), columns)


def _share_text(name: str, busy: Mapping[str, float]) -> str:
    return short_share_text(busy.get(name, 0.0))


def cut_line(plan: PipelinePlan) -> str:
    """Return how chips and batch are cut."""
    group, sequences = plan.group.pod.count, plan.batch // plan.micro_batches
    return (
        f"{count_text(plan.depth, 'stage')} of {count_text(group, 'chip')}; micro-batches: "
        f"{plan.micro_batches} of {count_text(sequences, 'sequence')}"
    )


def sent_line(plan: PipelinePlan) -> str:
    """Return how chips and batch are cut, and what goes from stage to stage."""
    sent = bytes_text(plan.message_bytes)
    return f"{cut_line(plan)}; {sent} from each chip to the next stage"


def pipeline_lines(run: PipelineRun) -> list[str]:
    """Return the lines of a step: its time, its bubbles, and tokens per second."""
    time = seconds_text(run.seconds)
    head = f"time per token {time}"
    if run.plan.phase != "decode":
        first = seconds_text(run.accelerator.seconds(run.ends[0]))
        head = f"time to first token {time}, of the first micro-batch {first}"
    rate = run.tokens_per_second
    what = (
        f"{head} ({cycles_text(run.cycles)} cycles, bubbles {share_text(run.bubbles)}), "
        f"{rate:,.4g} tokens/s of all chips, {rate / run.accelerator.pod.count:,.4g} of each, "
        f"{work_energy_text(run.token_energy_pj)} per token"
    )
    return [sent_line(run.plan), what]


def pipeline_json(run: PipelineRun) -> dict[str, Any]:
    """Return a pipeline as one JSON object."""
    return {
        "phase": run.plan.phase,
        "chips": run.accelerator.pod.count,
        "batch": run.plan.batch,
        "micro_batches": run.plan.micro_batches,
        "cycles": run.cycles,
        "seconds": run.seconds,
        "bubbles": run.bubbles,
        "tokens_per_second": run.tokens_per_second,
        "energy_pj": run.energy_pj,
        "token_energy_pj": run.token_energy_pj,
        "message": {
            "bytes": run.plan.message_bytes,
            "cycles": max((message.cycles for message in run.plan.messages), default=0),
        },
        "micro_batch_ends": list(run.ends),
        "stages": [_stage_json(run, stage) for stage in run.stages],
    }


def _stage_json(run: PipelineRun, stage: PipelineStage) -> dict[str, Any]:
    return {
        "name": stage.name,
        "count": stage.count,
        "layers": stage.layers,
        "cycles": stage.cycles,
        "busy": busy_shares(stage.result),
        "resident_bytes": resident_bytes(stage.result, run.plan.micro_batches),
    }
