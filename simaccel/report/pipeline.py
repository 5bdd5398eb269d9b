"""Pipelines of stages on groups of chips: a row for each different stage, and what all do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simaccel.experiment.pipeline import PipelineRun, PipelineStage
from simaccel.report.layout import add_row, make_table
from simaccel.report.pods import busy_shares, resident_bytes
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

if TYPE_CHECKING:
    from rich.table import Table


def pipeline_table(run: PipelineRun) -> Table:
    """Tabulate the stages that were run."""
    figures = ("stages", "layers", "cycles", "time", ARRAY, LINK, "dram", "memory of a chip")
    table = make_table(("stage",), figures)
    for stage in run.stages:
        shares = busy_shares(stage.result)
        add_row(
            table,
            (
                stage.name,
                str(stage.count),
                str(stage.layers),
                cycles_text(stage.cycles),
                seconds_text(run.accelerator.seconds(stage.cycles)),
                *(short_share_text(shares.get(name, 0.0)) for name in (ARRAY, LINK, "dram")),
                bytes_text(resident_bytes(stage.result, run.micro_batches)),
            ),
        )
    return table


def pipeline_lines(run: PipelineRun) -> list[str]:
    """Return the lines of a step: its time, its bubbles, and tokens per second."""
    stages, chips = len(run.stage_cycles), run.accelerator.chips.count
    time = seconds_text(run.seconds)
    head = f"time per token {time}"
    if run.phase != "decode":
        first = seconds_text(run.accelerator.seconds(run.ends[0]))
        head = f"time to first token {time}, of the first micro-batch {first}"
    rate = run.tokens_per_second
    cut = (
        f"{count_text(stages, 'stage')} of {count_text(chips // stages, 'chip')}; micro-batches: "
        f"{run.micro_batches} of {count_text(run.batch // run.micro_batches, 'sequence')}; "
        f"{bytes_text(run.message.n_bytes)} from each chip to the next stage"
    )
    what = (
        f"{head} ({cycles_text(run.cycles)} cycles, bubbles {share_text(run.bubbles)}), "
        f"{rate:,.4g} tokens/s of all chips, {rate / chips:,.4g} of each, "
        f"{work_energy_text(run.token_energy_pj)} per token"
    )
    return [cut, what]


def pipeline_json(run: PipelineRun) -> dict[str, Any]:
    """Return a pipeline as one JSON object."""
    return {
        "phase": run.phase,
        "chips": run.accelerator.chips.count,
        "batch": run.batch,
        "micro_batches": run.micro_batches,
        "cycles": run.cycles,
        "seconds": run.seconds,
        "bubbles": run.bubbles,
        "tokens_per_second": run.tokens_per_second,
        "energy_pj": run.energy_pj,
        "token_energy_pj": run.token_energy_pj,
        "message": {"bytes": run.message.n_bytes, "cycles": run.message.cycles},
        "micro_batch_ends": run.ends,
        "stages": [_stage_json(run, stage) for stage in run.stages],
    }


def _stage_json(run: PipelineRun, stage: PipelineStage) -> dict[str, Any]:
    return {
        "name": stage.name,
        "count": stage.count,
        "layers": stage.layers,
        "cycles": stage.cycles,
        "busy": busy_shares(stage.result),
        "resident_bytes": resident_bytes(stage.result, run.micro_batches),
    }
