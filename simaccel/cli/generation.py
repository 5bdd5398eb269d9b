"""A prefill and the decode steps after it, run or estimated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from simaccel.cli.faults import gather
from simaccel.cli.output import show, show_json
from simaccel.cli.progress import ProgressBar

if TYPE_CHECKING:
    from simaccel.cli.experiment_options import ExperimentOptions
    from simaccel.cli.pipeline import StageCounts
    from simaccel.experiment.generation import Generation
    from simaccel.hardware import Accelerator
    from simaccel.workload import Workload


def run_and_show_generation(
    asked: ExperimentOptions,
    sizes: Mapping[str, Any],
    counts: StageCounts,
    *,
    dry_run: bool,
    fast_forward: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run a generation and show it; with ``dry_run`` estimate what is to be searched and run.

    ``sizes``: its tokens and lengths.

    Raises:
        InputError: what `generate` refuses.

    """
    accelerator, (dataflow,), _ = gather(
        asked.accelerator, lambda: asked.names(several=False), asked.workload.require_transformer
    )
    from simaccel.experiment.generation import planned_phases

    prefill, decodes = asked.workload.generation(
        lambda model, figures: planned_phases(model, **sizes, **figures)
    )
    dataflow = asked.choose_dataflow(dataflow, prefill, accelerator)
    cut: dict[str, Any] = {**vars(counts), "options": asked.options}
    if dry_run:
        phases = {"prefill": prefill, **{f"decode after {n}": step for n, step in decodes.items()}}
        _forecast(phases, accelerator, dataflow, sizes["tokens"], cut, as_json=as_json)
        return
    from simaccel.experiment.generation import generate

    with ProgressBar("simulating", quiet=quiet) as bar:
        generation = asked.workload.generation(
            lambda model, figures: generate(
                model,
                accelerator,
                dataflow,
                progress=bar.show,
                fast_forward=fast_forward,
                **cut,
                **sizes,
                **figures,
            )
        )
    _show(generation, as_json=as_json, quiet=quiet)


def _forecast(
    phases: Mapping[str, Workload],
    accelerator: Accelerator,
    dataflow: str,
    tokens: int,
    cut: Mapping[str, Any],
    *,
    as_json: bool,
) -> None:
    """Estimate the searches of the prefill and of the decode steps, of each stage."""
    from simaccel.cli.outlook import show_outlook
    from simaccel.experiment.outlook import outlooks
    from simaccel.experiment.pipeline_plan import plan_pipeline
    from simaccel.experiment.precision import place_on
    from simaccel.report.pipeline import cut_line
    from simaccel.report.titles import experiment_title

    searches = [
        (f"{name}, {part}" if part else name, forecast)
        for name, phase in phases.items()
        for part, forecast in outlooks(place_on(phase, accelerator), accelerator, dataflow, **cut)
    ]
    is_cut = cut["stages"] is not None
    lines = [cut_line(plan_pipeline(phases["prefill"], accelerator, **cut))] if is_cut else []
    title = experiment_title(phases["prefill"], accelerator, dataflow, varied=("phase",))
    show_outlook(f"{title}, {tokens} tokens", searches, {}, runs=True, as_json=as_json, lines=lines)


def _show(generation: Generation, *, as_json: bool, quiet: bool) -> None:
    from simaccel.report.generation import generation_json, generation_lines, phases_table
    from simaccel.report.titles import experiment_title

    if as_json:
        show_json(generation_json(generation))
        return
    found = generation.workload, generation.accelerator, generation.dataflow
    title = experiment_title(*found, varied=("phase",))
    if not quiet:
        show(f"{title}, {generation.tokens} tokens", phases_table(generation))
    show(*generation_lines(generation))
