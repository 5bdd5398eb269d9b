"""Tables of a generation: times, rates, energy, and DRAM bytes by class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simaccel.experiment.generation import Generation, PhaseFigures
from simaccel.experiment.run import Result
from simaccel.experiment.traffic import (
    dram_by_class,
    least_dram_bytes,
    masked_macs,
    roofline_cycles,
)
from simaccel.report.layout import add_row, make_table
from simaccel.report.metrics import rate_of_tokens_text
from simaccel.report.units import (
    bytes_text,
    count_text,
    cycles_text,
    error_text,
    seconds_text,
    share_text,
    work_energy_text,
)
from simaccel.workload import CLASSES

if TYPE_CHECKING:
    from rich.table import Table


def phases_table(found: Generation) -> Table:
    """Tabulate the prefill, the decode steps that were simulated, and all of them together."""
    figures = ("cycles", "time", "energy", "roofline", "of it", *CLASSES)
    table = make_table(("phase",), figures)
    add_row(table, (f"prefill {found.prompt}", *_cells(found, PhaseFigures.of(found.prefill))))
    table.add_section()
    for step in found.steps:
        add_row(table, (f"decode behind {step.kv_len}", *_cells(found, step.figures)))
    if found.steps:
        table.add_section()
        name = f"decode {found.tokens - 1} tokens"
        add_row(table, (name, *_cells(found, found.decode)), style="bold")
    return table


def _cells(found: Generation, one: PhaseFigures) -> tuple[str, ...]:
    return (
        cycles_text(one.cycles),
        seconds_text(found.accelerator.seconds(one.cycles)),
        work_energy_text(one.energy_pj),
        cycles_text(one.roofline_cycles),
        share_text(one.roofline_cycles / one.cycles),
        *(bytes_text(one.dram_bytes[name]) for name in CLASSES),
    )


def generation_lines(found: Generation) -> list[str]:
    """Say times, rates and energy, and how the steps were summed up."""
    lines = [f"time to first token {seconds_text(found.first_token_seconds)}"]
    if not found.steps:
        return lines
    lines[0] += (
        f", time per step {seconds_text(found.token_seconds)} "
        f"(a token of {count_text(found.batch, 'sequence')}), "
        f"{rate_of_tokens_text(found.tokens_per_second)} tokens/s while decoding, "
        f"{rate_of_tokens_text(found.all_tokens_per_second)} with the prefill, "
        f"{work_energy_text(found.token_energy_pj)} per token"
    )
    return [*lines, _rule(found)]


def _rule(found: Generation) -> str:
    simulated, steps = len(found.steps), found.tokens - 1
    if simulated == steps:
        return f"all {steps} decode steps simulated"
    how = f"{simulated} of {steps} decode steps simulated, the others evenly between them"
    if found.spread is None:
        return f"{how} (--lengths 3 or more says how good that is)"
    return f"{how} (with every other one left out the sum changes by {error_text(found.spread)})"


def generation_json(found: Generation) -> dict[str, Any]:
    """Return a generation as one JSON object (``simaccel run --generate N --json``)."""
    return {
        "workload": found.prefill.workload.name,
        "accelerator": found.accelerator.name,
        "dataflow": found.prefill.mapping.dataflow,
        "batch": found.batch,
        "prompt": found.prompt,
        "tokens": found.tokens,
        "first_token_seconds": found.first_token_seconds,
        "token_seconds": found.token_seconds,
        "tokens_per_second": found.tokens_per_second,
        "tokens_per_second_with_prefill": found.all_tokens_per_second,
        "token_energy_pj": found.token_energy_pj,
        "prefill": vars(PhaseFigures.of(found.prefill)),
        "decode": vars(found.decode),
        "steps": [{"kv_len": one.kv_len, **vars(one.figures)} for one in found.steps],
        "spread": found.spread,
    }


def classes_line(result: Result) -> str:
    """Return what classes of tensors a run of a transformer moves, with the least beside it."""
    moved = dram_by_class(result.workload, result.run.moved)
    least = least_dram_bytes(result.workload)
    parts = [
        f"{name} {bytes_text(moved[name])} (compulsory {bytes_text(least[name])})"
        for name in CLASSES
    ]
    roofline = roofline_cycles(result.workload, result.accelerator)
    masked = masked_macs(result.workload)
    share = share_text(masked / result.workload.macs)
    mask = f"; {cycles_text(masked)} MACs ({share}) are behind the mask" if masked else ""
    return (
        f"DRAM by class: {', '.join(parts)}; roofline {cycles_text(roofline)} cycles "
        f"({share_text(roofline / result.run.cycles)} of simulated){mask}"
    )
