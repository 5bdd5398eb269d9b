"""`--pipeline-parallel N`: layers in stages on groups of chips, run or estimated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simaccel.cli.faults import gather
from simaccel.cli.output import show, show_json
from simaccel.cli.progress import ProgressBar

if TYPE_CHECKING:
    from simaccel.cli.experiment_options import ExperimentOptions
    from simaccel.experiment.pipeline import PipelineRun
    from simaccel.hardware import Accelerator
    from simaccel.workload import Workload


@dataclass(frozen=True)
class StageCounts:
    """The stages of a pipeline and its micro-batches, as given."""

    stages: int | None = None
    micro_batches: int | None = None


def run_and_show_pipeline(
    asked: ExperimentOptions,
    counts: StageCounts,
    *,
    dry_run: bool,
    fast_forward: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run a pipeline and show it; with ``dry_run`` estimate what is to be searched and run.

    Raises:
        InputError: what `run_pipeline` refuses.

    """
    accelerator, (dataflow,), whole = gather(
        asked.accelerator, lambda: asked.names(several=False), asked.workload.read
    )
    dataflow = asked.choose_dataflow(dataflow, whole, accelerator)
    cut: dict[str, Any] = {**vars(counts), "options": asked.options}
    if dry_run:
        _forecast(whole, accelerator, dataflow, cut, as_json=as_json)
        return
    from simaccel.experiment.pipeline import run_pipeline

    with ProgressBar("simulating", quiet=quiet) as bar:
        run = run_pipeline(
            whole,
            accelerator,
            dataflow,
            **cut,
            progress=lambda _, done: bar.show(done, "stages"),
            fast_forward=fast_forward,
        )
    _show(run, whole, as_json=as_json, quiet=quiet)


def _forecast(
    whole: Workload,
    accelerator: Accelerator,
    dataflow: str,
    cut: Mapping[str, Any],
    *,
    as_json: bool,
) -> None:
    from simaccel.cli.outlook import show_outlook
    from simaccel.experiment.outlook import outlooks
    from simaccel.experiment.pipeline_plan import plan_pipeline
    from simaccel.report.pipeline import sent_line
    from simaccel.report.titles import experiment_title

    line = sent_line(plan_pipeline(whole, accelerator, **cut))
    searches = outlooks(whole, accelerator, dataflow, **cut)
    title = experiment_title(whole, accelerator, dataflow)
    show_outlook(title, searches, {}, runs=True, as_json=as_json, lines=[line])


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
