"""Tables of generations and pipelines: times, rates, energy, DRAM bytes by class, stages."""

from __future__ import annotations

from typing import Any

from simaccel.analytic.floor.compulsory import least_dram_bytes
from simaccel.analytic.memories import dram_by_class, resident_bytes
from simaccel.analytic.native import masked_macs, roofline_cycles
from simaccel.report.pods import busy_shares, rates_text
from simaccel.report.tables import Column, Table, pick, tabulate
from simaccel.report.units import (
    bytes_text,
    count_text,
    error_text,
    figure_text,
    seconds_text,
    short_share_text,
)
from simaccel.schedulers.parallel import degrees_text
from simaccel.study.experiment import ExperimentResult, result_json
from simaccel.study.generation import Generation
from simaccel.study.pipeline import PipelineRun, PipelineStage
from simaccel.study.pipeline_plan import PipelinePlan
from simaccel.units import ARRAY, LINK
from simaccel.workload import CLASSES


def phases_table(generation: Generation) -> Table:
    """Tabulate the prefill, the simulated decode steps, and the total."""
    parts = {f"prefill {generation.prompt}": generation.prefill}
    parts |= {f"decode after {kv_len}": figures for kv_len, figures in generation.steps.items()}
    rows = [{"phase": name, **figures} for name, figures in parts.items()]
    whole = {"phase": f"decode {count_text(generation.tokens - 1, 'token')}", **generation.decode}
    seconds = generation.accelerator.seconds
    bubbles = Column("bubbles", lambda row: row["bubble_cycles"] / row["cycles"], "share")
    columns = (
        Column("phase", "phase", kind="text"),
        Column("cycles", "cycles", "cycles"),
        Column("time", lambda row: seconds(row["cycles"]), "s"),
        *[bubbles] * bool(generation.plan),
        Column("energy", "energy_pj", "pJ"),
        Column("roofline", "roofline_cycles", "cycles"),
        Column("of it", lambda row: row["roofline_cycles"] / row["cycles"], "share"),
        *(Column(name, f"dram_bytes.{name}", "B") for name in CLASSES),
    )
    total = whole if generation.steps else None
    return tabulate(rows, columns, total, lambda row: row["phase"].startswith("prefill"))


def generation_lines(generation: Generation) -> list[str]:
    """Return the lines on times, rates and energy, and on the sum over steps."""
    cut = [] if generation.plan is None else [cut_line(generation.plan)]
    if generation.plan is None and generation.options and generation.accelerator.pod.count > 1:
        cut = [f"cut: {degrees_text(generation.options, generation.accelerator.pod.count)}"]
    line = f"time to first token {seconds_text(generation.first_token_seconds)}"
    if not generation.steps:
        return [*cut, line]
    line += (
        f", time per step {seconds_text(generation.token_seconds)} "
        f"(a token of {count_text(generation.batch, 'sequence')}), "
        f"{figure_text(generation.tokens_per_second, '1/s')} tokens/s while decoding, "
        f"{figure_text(generation.tokens_per_second_with_prefill, '1/s')} with the prefill, "
        f"{figure_text(generation.energy_per_token_pj, 'pJ')} per token"
    )
    return [*cut, line, _rule(generation)]


def _rule(found: Generation) -> str:
    simulated, steps = len(found.steps), found.tokens - 1
    if simulated == steps:
        return f"all {count_text(steps, 'decode step')} simulated"
    how = f"{simulated} of {steps} decode steps simulated, the others evenly between them"
    if found.spread is None:
        return f"{how} (--lengths 3 or more also estimates the error)"
    return f"{how} (without every other step the sum changes by {error_text(found.spread)})"


def generation_json(generation: Generation) -> dict[str, Any]:
    """Return a generation as one JSON object (``simaccel generate --json``)."""
    plan = generation.plan
    return {
        "workload": generation.workload.name,
        "accelerator": generation.accelerator.name,
        **pick(generation, "dataflow", "batch", "prompt", "tokens"),
        **pick(generation, "first_token_seconds", "token_seconds", "tokens_per_second"),
        **pick(generation, "tokens_per_second_with_prefill", "energy_per_token_pj"),
        **pick(generation, "prefill", "decode"),
        "steps": [{"kv_len": kv_len, **step} for kv_len, step in generation.steps.items()],
        "spread": generation.spread,
        **({} if plan is None else {"stages": plan.depth, "micro_batches": plan.micro_batches}),
    }


def classes_line(result: ExperimentResult) -> str:
    """Return the DRAM bytes of a transformer by class of tensors, with the lower bound."""
    moved = dram_by_class(result.workload, result.run.moved)
    least = least_dram_bytes(result.workload)
    parts = [
        f"{name} {bytes_text(moved[name])} (compulsory {bytes_text(least[name])})"
        for name in CLASSES
    ]
    roofline = roofline_cycles(result.workload, result.accelerator)
    masked = masked_macs(result.workload)
    mask = f"; {masked:,} MACs ({masked / result.workload.macs:.1%}) are masked" if masked else ""
    return (
        f"DRAM by class: {', '.join(parts)}; roofline {roofline:,} cycles "
        f"({roofline / result.run.cycles:.1%} of simulated){mask}"
    )


def pipeline_table(run: PipelineRun) -> Table:
    """Tabulate the stages that ran."""
    seconds = run.accelerator.seconds
    columns = (
        Column("stage", "name", kind="text"),
        Column("stages", "count"),
        Column("layers", "layers"),
        Column("cycles", "cycles", "cycles"),
        Column("time", lambda stage: seconds(stage["cycles"]), "s"),
        Column(ARRAY, lambda stage: stage["busy"].get(ARRAY, 0.0), short_share_text),
        Column(LINK, lambda stage: stage["busy"].get(LINK, 0.0), short_share_text),
        Column("dram", "busy.dram", short_share_text),
        Column("memory of a chip", "resident_bytes", "B"),
    )
    return tabulate((_stage_json(run, stage) for stage in run.stages), columns)


def cut_line(plan: PipelinePlan) -> str:
    """Return how chips and batch are divided."""
    group, sequences = plan.group.pod.count, plan.batch // plan.micro_batches
    options = plan.options
    is_plain = options.tensor_parallel == group and not options.sequence_parallel
    cut = "" if is_plain else f" ({degrees_text(options, group)})"
    return (
        f"{count_text(plan.depth, 'stage')} of {count_text(group, 'chip')}{cut}; micro-batches: "
        f"{plan.micro_batches} of {count_text(sequences, 'sequence')}"
    )


def sent_line(plan: PipelinePlan) -> str:
    """Return how chips and batch are divided, and the transfers between stages."""
    sent = bytes_text(plan.message_bytes)
    return f"{cut_line(plan)}; {sent} from each chip to the next stage"


def pipeline_lines(run: PipelineRun) -> list[str]:
    """Return the lines on a step: its time, its bubbles, and tokens per second."""
    time = seconds_text(run.seconds)
    head = f"time per token {time}"
    if run.plan.phase != "decode":
        first = seconds_text(run.accelerator.seconds(run.ends[0]))
        head = f"time to first token {time}, of the first micro-batch {first}"
    rates = rates_text(run.tokens_per_second, run.accelerator.pod.count, run.energy_per_token_pj)
    how = f"({run.cycles:,} cycles, bubbles {run.bubbles:.1%})"
    return [sent_line(run.plan), f"{head} {how}, {rates}"]


def pipeline_json(run: PipelineRun) -> dict[str, Any]:
    """Return a pipeline as one JSON object; engines and operators of a stage as of one run."""
    every = [(stage, result_json(stage.result)) for stage in run.stages]
    return {
        "phase": run.plan.phase,
        "chips": run.accelerator.pod.count,
        **pick(run.plan, "batch", "micro_batches"),
        **pick(run, "cycles", "seconds", "bubbles", "tokens_per_second"),
        **pick(run, "energy_pj", "energy_per_token_pj"),
        "message": {
            "bytes": run.plan.message_bytes,
            "cycles": max((message.cycles for message in run.plan.messages), default=0),
        },
        "micro_batch_ends": list(run.ends),
        "stages": [
            _stage_json(run, stage) | {name: figures[name] for name in ("engines", "operators")}
            for stage, figures in every
        ],
    }


def _stage_json(run: PipelineRun, stage: PipelineStage) -> dict[str, Any]:
    return {
        **pick(stage, "name", "count", "layers", "cycles"),
        "busy": busy_shares(stage.result),
        "resident_bytes": resident_bytes(
            (each.by_part for each in stage.result.memories), run.plan.micro_batches
        ),
    }
