"""Options with which several workloads run: generations and pipelines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from simaccel.cli.choices import LENGTHS
from simaccel.cli.generation import run_and_show_generation
from simaccel.cli.pipeline import StageCounts, run_and_show_pipeline
from simaccel.cli.search_options import DEGREES
from simaccel.cli.settings import OF_CHIPS, MovedOption, SettingOption

if TYPE_CHECKING:
    from simaccel.cli.experiment_options import ExperimentOptions


@dataclass(frozen=True)
class SeveralRuns:
    """Tokens to generate, and lengths to simulate; stages of a pipeline, and its micro-batches."""

    tokens: int | None = None
    lengths: int | None = None
    stages: str | None = None
    micro_batches: int | None = None

    def run_and_show(self, asked: ExperimentOptions, **how: bool) -> bool:
        """Run and show a generation or a pipeline, if one is given; return whether it was.

        ``how``: as of ``run_and_show_generation``.

        Raises:
            InputError: what is wrong with the runs.

        """
        stages = None if self.stages is None else int(self.stages)
        counts = StageCounts(stages, self.micro_batches)
        if self.tokens is not None:
            sizes = {} if self.lengths is None else {"lengths": self.lengths}
            run_and_show_generation(asked, {"tokens": self.tokens, **sizes}, counts, **how)
        elif stages is not None:
            run_and_show_pipeline(asked, counts, **how)
        return self.tokens is not None or stages is not None


def pipeline_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of pipelines; the command gets ``stages`` and ``micro_batches``."""
    parts = click.option(
        "--micro-batches",
        type=click.IntRange(min=1),
        metavar="N",
        help="Of a pipeline: parts of the batch (default: the number of stages, if"
        " it divides the batch).",
        cls=SettingOption,
        topic=OF_CHIPS,
    )
    stages = click.option(
        "--pipeline-parallel",
        "stages",
        type=DEGREES,
        metavar="N",
        help="For transformers (--scope model) on several chips: cut the layers into N "
        "stages, each on a group of chips.",
        cls=SettingOption,
        topic=OF_CHIPS,
    )
    return stages(parts(command))


def several_runs_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add options of pipelines, and the old ones of generations; the command gets ``several``."""
    moved = {"--generate": "tokens", "--lengths": "lengths"}
    for option, name in moved.items():
        now = f"`simaccel generate` with --{name}"
        command = click.option(option, name, type=int, cls=MovedOption, now=now)(command)
    return _take_several(command)


def generation_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a generation, which may be cut in stages; the command gets ``several``."""
    tokens = click.option(
        "--tokens",
        type=int,
        required=True,
        metavar="N",
        help="Tokens that are generated, after a prefill of --prompt tokens.",
    )
    lengths = click.option(
        "--lengths",
        type=int,
        metavar="K",
        help=f"Decode steps that are simulated (default {LENGTHS}).",
    )
    return tokens(lengths(_take_several(command)))


def _take_several(command: Callable[..., None]) -> Callable[..., None]:
    @wraps(command)
    def run_command(**options: Any) -> None:  # noqa: ANN401 - what click passes
        chosen = {each.name: options.pop(each.name) for each in fields(SeveralRuns)}
        command(several=SeveralRuns(**chosen), **options)

    return pipeline_options(run_command)
