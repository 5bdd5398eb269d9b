"""`simulate` and `record`: one run on the machine, and its tables in a notebook."""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from simaccel.diagnosis.what_if import speedups_of
from simaccel.errors import Fault, InputError, name_arguments, suggest
from simaccel.hardware.presets import Settings
from simaccel.report import results
from simaccel.report.accounts import given_up_lines
from simaccel.report.pods import core_line, pod_json, pod_lines, start_lines
from simaccel.report.rows import activities, engine_rows, operator_rows, stall_rows
from simaccel.report.tables import Table
from simaccel.report.titles import experiment_title
from simaccel.report.units import short_names, short_share_text
from simaccel.run.run import Progress
from simaccel.schedulers import Options
from simaccel.search.effort import Objective
from simaccel.study import experiment
from simaccel.study.experiment import result_json
from simaccel.study.figures import run_figures
from simaccel.study.points import StudyRow
from simaccel.verbs.inputs import (
    AcceleratorLike,
    DataflowLike,
    WorkloadLike,
    as_inputs,
    as_options,
    check_types,
)
from simaccel.verbs.showing import ShownResult, frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pandas as pd
    from matplotlib.figure import Figure

    from simaccel.diagnosis.what_if import LimitSpeedups
    from simaccel.study.points import Figures

_MOST_BARS: Final = 40
_JOULES: Final = 1e-12
"""Joules of a picojoule."""


class Result(ShownResult, experiment.ExperimentResult):
    """The result of one run; a notebook displays it as tables."""

    def __repr__(self) -> str:
        return f"<Result {self.title}: {results.against_bound(self)}>"

    def _parts(self) -> Iterable[Table | str]:
        engines = results.engines_table(activities(self), self.run.cycles)
        return (*self.parts(), engines, results.buffer_line(self))

    def parts(
        self, estimates: Mapping[str, float] | None = None, top: int | None = results.TOP
    ) -> list[Table | str]:
        """Return what ``simaccel run`` prints below the title: lines, and the longest rows."""
        lost = given_up_lines(self.to_dict(), self.tolerance) if self.given_up else []
        return [
            *results.answer_lines(self, self.speedups),
            *start_lines(self),
            results.operators_table(self, estimates, top),
            *(results.traffic_line(self), results.energy_line(self)),
            *(*core_line(self), *pod_lines(self), *lost),
        ]

    @cached_property
    def speedups(self) -> LimitSpeedups:
        """Speedups without each of its limits; up to three further runs of the program."""
        return speedups_of(self, self.limit)

    def summary(self) -> str:
        """Return what ``simaccel run`` prints, without the table: one line for each figure."""
        return "\n".join([self.title, *(part for part in self.parts() if isinstance(part, str))])

    @property
    def cycles(self) -> int:
        """Cycles of the run."""
        return self.run.cycles

    @property
    def seconds(self) -> float:
        """Time of the run on the accelerator, in seconds."""
        return self.accelerator.seconds(self.run.cycles)

    @property
    def energy_joules(self) -> float | None:
        """Energy of all chips in joules (the figure ``energy_pj``); None: unknown."""
        pj = self.figures["energy_pj"]
        return None if pj is None else pj * _JOULES

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens (for networks images) per second of all chips; None if it processes none."""
        return self.figures["tokens_per_second"]

    @cached_property
    def figures(self) -> Figures:
        """Figures of all chips by column, which ends with the unit; None: unknown."""
        return run_figures(self)

    @property
    def title(self) -> str:
        """The title: what ran on what."""
        return experiment_title(self.workload, self.accelerator, self.mapping.dataflow)

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as plain data (the format of ``simaccel run --json``)."""
        return {**result_json(self), **pod_json(self), **self.given_up}

    def to_pandas(self, what: str = "operators") -> pd.DataFrame:
        """Return a data frame with a row for each of ``operators``, ``engines`` or ``stalls``.

        Raises:
            InputError: there is no such table.
            ImportError: pandas is not installed.
        """
        kinds = {"operators": operator_rows, "engines": engine_rows, "stalls": stall_rows}
        if what not in kinds:
            raise InputError([Fault("to_pandas", "what", what, suggest(what, kinds))])
        return frame(kinds[what](self))

    def _draw(self) -> Figure:
        from simaccel.report.figures.comparison import draw_comparison

        figures = result_json(self)
        parts = figures["operators"]
        longest = sorted(range(len(parts)), key=lambda at: -parts[at]["cycles"])[:_MOST_BARS]
        whole = max(sum(part["cycles"] for part in parts), 1)
        drawn = [parts[at] for at in sorted(longest)]
        rows = [
            StudyRow(f"{name} ({short_share_text(part['cycles'] / whole)})", result=part)
            for name, part in zip(short_names([row["name"] for row in drawn]), drawn, strict=True)
        ]
        rows += [StudyRow("total", result=figures)] if len(parts) > 1 else []
        shortened = len(longest) < len(parts)
        more = f", the {len(longest)} longest operators of {len(parts)}" if shortened else ""
        return draw_comparison(rows, f"{self.title}{more}")


def wrap_result(found: experiment.ExperimentResult) -> Result:
    """Return a result of an experiment as one that a notebook displays."""
    return Result(**{field.name: getattr(found, field.name) for field in fields(found)})


@name_arguments()
@check_types("workload", "accelerator", "dataflow")
def simulate(
    workload: WorkloadLike,
    accelerator: AcceleratorLike,
    dataflow: DataflowLike = None,
    *,
    objective: Objective | None = None,
    settings: Settings = (),
    options: Options | None = None,
    progress: Progress | None = None,
    fast_forward: bool = True,
) -> Result:
    """Run a workload on an accelerator, and predict its counts and its lower bound.

    ``dataflow``: the name of a scheduler, a mapping or the Path of its file; None: the default of
    the array. ``objective``: the figure that a search minimises. ``settings``: values for fields of
    the accelerator, by path. ``options``: all options of the scheduler. ``progress`` is called with
    the cycle and the completed share.

    >>> from simaccel import gemm
    >>> simulate(gemm(9, 7, 5), "toy", objective="energy", settings={"array.rows": 8}).cycles
    63

    Raises:
        SimaccelError: what can't be read, nothing fits, a deadlock.
    """
    options = as_options(options, objective)
    inputs = as_inputs(workload, accelerator, dataflow, settings, options)
    result = experiment.simulate(
        *inputs, options=options, progress=progress, fast_forward=fast_forward
    )
    return wrap_result(result)


@name_arguments()
@check_types("workload", "accelerator", "dataflow")
def record(  # noqa: PLR0913 - one keyword an option of the command
    path: str | Path,
    workload: WorkloadLike,
    accelerator: AcceleratorLike,
    dataflow: DataflowLike = None,
    *,
    force: bool = False,
    objective: Objective | None = None,
    settings: Settings = (),
    options: Options | None = None,
    progress: Progress | None = None,
    fast_forward: bool = True,
) -> Result:
    """Run as ``simulate`` does, and write the trace to ``path``; ``Trace.open`` reads it.

    Raises:
        SimaccelError: as for ``simulate``.
        InputError: the file exists and ``force`` is not given, or it can't be written.
    """
    from simaccel.study import recording  # h5py only where it is needed

    options = as_options(options, objective)
    inputs = as_inputs(workload, accelerator, dataflow, settings, options)
    result = recording.record(
        path, *inputs, force=force, options=options, progress=progress, fast_forward=fast_forward
    )
    return wrap_result(result)
