"""`simulate` and `record`: one run on the machine, and what it shows in a notebook."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from simaccel.experiment import run as experiment
from simaccel.experiment.run import Progress, result_json
from simaccel.report.units import short_names, short_share_text
from simaccel.schedulers import Options
from simaccel.verbs.inputs import AcceleratorLike, DataflowLike, WorkloadLike, as_inputs
from simaccel.verbs.showing import Plot, frame, select_rows

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_MOST_BARS: Final = 40


class Result(experiment.ExperimentResult):
    """The result of one run; a notebook shows it as tables."""

    def __repr__(self) -> str:
        from simaccel.report.results import against_bound

        return f"<Result {self.title}: {against_bound(self)}>"

    def _repr_html_(self) -> str:
        from simaccel.report import results
        from simaccel.report.html import parts_html

        lines = (results.traffic_line, results.energy_line, results.buffer_line)
        return parts_html(
            self.title,
            (
                results.answer_line(self),
                *results.room_lines(self),
                results.operators_table(self),
                results.engines_table(self),
                *(line(self) for line in lines),
            ),
        )

    @property
    def title(self) -> str:
        """The title: what ran on what."""
        from simaccel.report.titles import experiment_title

        return experiment_title(self.workload, self.accelerator, self.mapping.dataflow)

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as plain data (the format of ``simaccel run --json``)."""
        return result_json(self)

    def to_pandas(self, what: str = "operators") -> pd.DataFrame:
        """Return a data frame: a row for each of ``operators``, ``engines`` or ``stalls``.

        Raises:
            InputError: there is no such table.
            ImportError: pandas is not installed.

        """
        from simaccel.report import rows

        kinds = {
            "operators": lambda: rows.operator_rows(self),
            "engines": lambda: rows.engine_rows(self),
            "stalls": lambda: rows.stall_rows(self),
        }
        return frame(select_rows(what, kinds))

    def plot(self) -> Plot:
        """Draw utilisation and where the cycles of the array went, a bar for each operator."""
        return Plot(self._draw)

    def _draw(self) -> Figure:
        from simaccel.report.comparison import Axis, ComparisonRow, SweepPoint
        from simaccel.report.figures.comparison import draw_comparison

        figures, axis = result_json(self), Axis("operator", "operator", "operator", named=True)
        parts = figures["operators"]
        longest = sorted(range(len(parts)), key=lambda at: -parts[at]["cycles"])[:_MOST_BARS]
        whole = max(sum(part["cycles"] for part in parts), 1)
        drawn = [parts[at] for at in sorted(longest)]
        named = [
            (f"{name} ({short_share_text(part['cycles'] / whole)})", part)
            for name, part in zip(short_names([row["name"] for row in drawn]), drawn, strict=True)
        ]
        named += [("total", figures)] if len(parts) > 1 else []
        rows = [
            ComparisonRow(
                self.mapping.dataflow, result=result, point=SweepPoint(axis, name, name, at)
            )
            for at, (name, result) in enumerate(named)
        ]
        shortened = len(longest) < len(parts)
        more = f", the {len(longest)} longest operators of {len(parts)}" if shortened else ""
        return draw_comparison(rows, f"{self.title}{more}")


def wrap_result(found: experiment.ExperimentResult) -> Result:
    """Return a result as one that a notebook shows."""
    return Result(**{field.name: getattr(found, field.name) for field in fields(found)})


def simulate(
    workload: WorkloadLike,
    accelerator: AcceleratorLike,
    dataflow: DataflowLike = None,
    *,
    options: Options | None = None,
    progress: Progress | None = None,
    fast_forward: bool = True,
) -> Result:
    """Run a workload on an accelerator, beside what is predicted of it.

    ``dataflow``: of a scheduler, a mapping or the Path of its file; None takes what suits the
    array. ``options`` are the scheduler's options; ``progress`` is called with cycle and share.

    Raises:
        SimaccelError: what can't be read, nothing fits, a deadlock.

    """
    inputs = as_inputs(workload, accelerator, dataflow)
    result = experiment.simulate(
        *inputs, options=options, progress=progress, fast_forward=fast_forward
    )
    return wrap_result(result)


def record(
    path: str | Path,
    workload: WorkloadLike,
    accelerator: AcceleratorLike,
    dataflow: DataflowLike = None,
    *,
    force: bool = False,
    options: Options | None = None,
    progress: Progress | None = None,
    fast_forward: bool = True,
) -> Result:
    """Do what ``simulate`` does and write the trace to ``path``; ``Trace.open`` reads it.

    Raises:
        SimaccelError: as for ``simulate``.
        InputError: the file exists and ``force`` is not given, or it can't be written.

    """
    from simaccel.experiment import recording  # h5py only where it is needed

    inputs = as_inputs(workload, accelerator, dataflow)
    result = recording.record(
        path,
        *inputs,
        force=force,
        options=options,
        progress=progress,
        fast_forward=fast_forward,
    )
    return wrap_result(result)
