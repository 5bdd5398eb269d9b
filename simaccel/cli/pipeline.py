"""`simaccel run --pipeline-parallel N`: layers in stages on groups of chips."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from simaccel.cli.faults import fault, gather, require_none
from simaccel.cli.output import show, show_json
from simaccel.cli.progress import ProgressBar

if TYPE_CHECKING:
    from simaccel.cli.experiment_options import ExperimentOptions
    from simaccel.experiment.pipeline import PipelineRun
    from simaccel.workload import Workload


def pipelines(
    asked: ExperimentOptions,
    stages: int | None,
    micro_batches: int | None,
    others: Mapping[str, object],
    *,
    fast_forward: bool,
    as_json: bool,
    quiet: bool,
) -> bool:
    """Run a pipeline and show it, if ``--pipeline-parallel`` is given; return whether it was.

    ``others`` are options that have no meaning beside it.

    Raises:
        InputError: an option that doesn't go with it, or what `run_pipeline` refuses.

    """
    if stages is None:
        wrong = "nothing without --pipeline-parallel"
        require_none([fault("--micro-batches", micro_batches, wrong)] if micro_batches else [])
        return False
    taken = "nothing with --pipeline-parallel, which runs several workloads"
    faults = [
        fault(option, "given" if value is True else value, taken)
        for option, value in others.items()
        if value
    ]
    faults += [fault("--mapping", asked.mapping, taken)] if asked.mapping else []
    require_none(faults)
    accelerator, (dataflow,), whole = gather(
        asked.accelerator, lambda: asked.names(several=False), asked.workload.read
    )
    from simaccel.experiment.pipeline import run_pipeline

    def build(batch: int) -> Workload:
        return replace(asked.workload, batch=str(batch)).read()

    with ProgressBar("simulating", quiet=quiet) as bar:
        run = run_pipeline(
            build,
            accelerator,
            dataflow,
            stages=stages,
            batch=whole.parameters.get("batch", 1),
            micro_batches=micro_batches,
            options=asked.options,
            progress=lambda _, done: bar.show(done, "a stage"),
            fast_forward=fast_forward,
        )
    _show(run, whole, as_json=as_json, quiet=quiet)
    return True


def _show(run: PipelineRun, whole: Workload, *, as_json: bool, quiet: bool) -> None:
    from simaccel.report.pipeline import pipeline_json, pipeline_lines, pipeline_table
    from simaccel.report.titles import experiment_title

    if as_json:
        show_json(pipeline_json(run))
        return
    dataflow = run.stages[0].result.mapping.dataflow
    if not quiet:
        show(experiment_title(whole, run.accelerator, dataflow), pipeline_table(run))
    show(*pipeline_lines(run))
