"""Generations and pipelines, which run several workloads: options, runs and cost forecasts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from simaccel.cli.choices import LENGTHS
from simaccel.cli.command import Command
from simaccel.cli.options import (
    dry_run_option,
    experiment_options,
    fast_forward_option,
    json_option,
    option_group,
    overflow_option,
)
from simaccel.cli.output import show, show_json
from simaccel.cli.progress import ProgressBar
from simaccel.cli.search_options import DEGREES
from simaccel.cli.settings import OF_CHIPS, MovedOption, option, take_fields
from simaccel.errors import gather

if TYPE_CHECKING:
    from simaccel.cli.experiment_options import ExperimentOptions
    from simaccel.study.points import Point
    from simaccel.workload import Workload


@dataclass(frozen=True)
class SeveralRuns:
    """The options of a generation (tokens, lengths to simulate) and of a pipeline (stages)."""

    tokens: int | None = None
    lengths: int | None = None
    stages: str | None = None
    micro_batches: int | None = None

    def run_and_show(
        self,
        experiment: ExperimentOptions,
        *,
        dry_run: bool,
        fast_forward: bool,
        as_json: bool,
        quiet: bool,
    ) -> None:
        """Run and show a generation or a pipeline; with ``dry_run``, only estimate the cost."""
        model = experiment.workload
        accelerator, (dataflow,), read = gather(
            experiment.accelerator,
            lambda: experiment.names(several=False),
            model.read if self.tokens is None else model.require_transformer,
        )
        first, decodes = (read, {}) if self.tokens is None else self._phases(experiment)
        dataflow = experiment.choose_dataflow(dataflow, first, accelerator)
        from simaccel.report import generation as report
        from simaccel.report.titles import experiment_title
        from simaccel.report.units import count_text
        from simaccel.study.points import base_point

        varied = () if self.tokens is None else ("phase",)
        title = experiment_title(first, accelerator, dataflow, varied=varied)
        title += "" if self.tokens is None else f", {count_text(self.tokens, 'token')}"
        how: dict[str, Any] = {"options": experiment.options, "fast_forward": fast_forward}
        how |= self.counts
        point = replace(base_point(first, accelerator), dataflow=dataflow, **how)
        if dry_run:
            _forecast(title, point, decodes, self.tokens, as_json=as_json)
            return
        run: Any
        with ProgressBar("simulating", quiet=quiet) as bar:
            if self.tokens is None:
                from simaccel.study.pipeline import run_pipeline

                run = run_pipeline(point, lambda _, done: bar.show(done, "stages"))
                makers: Any = report.pipeline_json, report.pipeline_table, report.pipeline_lines
            else:
                from simaccel.study.generation import run_phases

                run = run_phases(point, decodes, self.tokens, bar.show)
                makers = report.generation_json, report.phases_table, report.generation_lines
        document, table, lines = makers
        if as_json:
            show_json(document(run))
        else:
            show(*(() if quiet else (title, table(run))), *lines(run))

    @property
    def counts(self) -> dict[str, int | None]:
        """The numbers of stages and micro-batches."""
        stages = None if self.stages is None else int(self.stages)
        return {"stages": stages, "micro_batches": self.micro_batches}

    def _phases(self, experiment: ExperimentOptions) -> tuple[Workload, dict[int, Workload]]:
        from simaccel.study.generation import planned_phases

        given = {"tokens": self.tokens, "lengths": self.lengths}
        sizes: dict[str, Any] = {name: n for name, n in given.items() if n is not None}
        return experiment.workload.generation(
            lambda model, figures: planned_phases(model, **sizes, **figures)
        )


def _forecast(
    title: str,
    point: Point,
    decodes: Mapping[int, Workload],
    tokens: int | None,
    *,
    as_json: bool,
) -> None:
    """Estimate the searches of each phase, of a pipeline those of each stage."""
    from simaccel.cli.forecast import forecasts_of, show_forecast
    from simaccel.report.generation import cut_line, sent_line
    from simaccel.study.generation import settle_phases
    from simaccel.study.points import WeightedWorkload

    phases = {"prefill" if tokens else "": point.workload}
    phases |= {f"decode after {kv_len}": step for kv_len, step in decodes.items()}
    point, plan = settle_phases(point, [*decodes.values()], tokens or 1)
    lines = [] if plan is None else [(cut_line if tokens else sent_line)(plan)]
    points = [
        replace(point, loads=(WeightedWorkload(phase),)).place_workloads()
        for phase in phases.values()
    ]
    searches = forecasts_of(points, [*phases])
    show_forecast(title, searches, {}, runs=True, as_json=as_json, lines=lines)


PIPELINE_OPTIONS = (
    option(
        "--pipeline-parallel N",
        "For transformers (--scope model) on several chips: cut the layers into N "
        "stages, each on a group of chips.",
        OF_CHIPS,
        to="stages",
        type=DEGREES,
    ),
    option(
        "--micro-batches N",
        "Of a pipeline: parts of the batch (default: the number of stages, if"
        " it divides the batch).",
        OF_CHIPS,
        type=click.IntRange(min=1),
    ),
)


_take_several = partial(take_fields, SeveralRuns)
_MOVED = (
    click.option(old, name, type=int, cls=MovedOption, now=f"`simaccel generate` with --{name}")
    for old, name in (("--generate", "tokens"), ("--lengths", "lengths"))
)
several_runs_options = option_group("several", _take_several, *PIPELINE_OPTIONS, *_MOVED)
"""Options of pipelines, and old ones of generations."""


@click.command(
    cls=Command, examples=("generate --hw tpu_v5e --workload llama3-8b --prompt 512 --tokens 128",)
)
@experiment_options
@option(
    "--tokens N",
    "Tokens that are generated, after a prefill of --prompt tokens.",
    type=int,
    required=True,
)
@option("--lengths K", f"Decode steps that are simulated (default {LENGTHS}).", type=int)
@option_group("several", _take_several, *PIPELINE_OPTIONS)
@dry_run_option
@fast_forward_option
@overflow_option
@json_option
@click.option("--quiet", is_flag=True, hidden=True)
def generate(
    *,
    experiment: ExperimentOptions,
    several: SeveralRuns,
    dry_run: bool,
    fast_forward: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Generate tokens with a transformer: a prefill, and a decode step for each token.

    The first lines have the time to the first token, the time of a token, and tokens a second.
    A few decode steps are simulated, at lengths that are spread over the generation.
    """
    how = {"fast_forward": fast_forward, "as_json": as_json, "quiet": quiet}
    several.run_and_show(experiment, dry_run=dry_run, **how)
