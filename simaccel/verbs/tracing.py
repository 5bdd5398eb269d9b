"""`Trace`: a recorded run in Python, with tables and figures for notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simaccel import trace
from simaccel.errors import Fault, InputError, suggest
from simaccel.report.tables import Table
from simaccel.verbs.showing import Plot, Rows, ShownResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from simaccel.study.stall_analysis import StallAnalysis


@dataclass(frozen=True, repr=False)
class StallReport(ShownResult):
    """Cycles of a run by cause, their explanation, and the gain by unlimited resources."""

    title: str
    analysis: StallAnalysis
    operator: str | None

    @property
    def verdict(self) -> str:
        """The verdict in a few sentences."""
        from simaccel.report.stalls import verdicts

        return " ".join(verdicts(self.analysis, self._part))

    @property
    def _part(self) -> Any:  # noqa: ANN401 - a Part, whose module loads h5py
        return self.analysis.diagnosis.part(self.operator)

    def __repr__(self) -> str:
        return f"<StallReport {self.title}: {self.verdict}>"

    def _parts(self) -> Iterator[Table | str]:
        from simaccel.report.stalls import stall_parts

        return (part for part in stall_parts(self.analysis, self.operator) if part != "")

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as plain data (the format of ``simaccel trace stalls --json``)."""
        from simaccel.report.stalls import stalls_json

        return stalls_json(self.analysis, self.operator)

    def _rows(self) -> Rows:
        parts = self.analysis.diagnosis.operators if self.operator is None else (self._part,)
        return [
            {"operator": part.name, "engine": engine, "cause": cause, "cycles": cycles}
            for part in parts
            for engine, causes in part.engines.items()
            for cause, cycles in causes.items()
            if cycles
        ]


class Trace(trace.TraceReader):
    """An open trace: ``Trace(path)`` opens it; a context manager that closes the file."""

    @property
    def title(self) -> str:
        """The title: workload, accelerator and dataflow."""
        from simaccel.report.titles import trace_title

        return trace_title(self)

    def __repr__(self) -> str:
        partial = ", partial" if self.partial else ""
        return f"<Trace {self.title}: {self.cycles:,} cycles, {self.n_rows:,} rows{partial}>"

    def diagnose(self, operator: str | None = None, *, what_if: bool = True) -> StallReport:
        """Return the cycles by cause and, with ``what_if``, the gain by infinitely fast resources.

        Raises:
            InputError: the run has no such operator.
            TraceError: the trace is damaged, or holds no cycle.
        """
        from simaccel.study.stall_analysis import analyse_stalls

        self.check()
        analysis = analyse_stalls(self, operator, what_if=what_if, proposes=False)
        return StallReport(self.title, analysis, operator)

    def plot(
        self,
        kind: str | None = None,
        *,
        operator: str | None = None,
        start: int | None = None,
        end: int | None = None,
    ) -> Plot:
        """Draw a figure of the trace (timeline, bandwidth, occupancy, stalls), or all of them.

        By default it shows a steady period of the run or of an operator, as ``simaccel trace plot``
        does, else the cycles from ``start`` up to ``end``.

        Raises:
            InputError: there is no such figure, operator or window.
        """
        from simaccel.report.figures import KINDS
        from simaccel.report.figures.page import FigureOptions, draw_page, shown_window

        if kind is not None and kind not in KINDS:
            raise InputError([Fault("plot", "kind", kind, suggest(kind, KINDS))])
        kinds = KINDS if kind is None else (kind,)
        figure_options = FigureOptions(
            kinds=kinds, start=start, end=end, operator=operator, columns=2
        )
        shown = shown_window(self, figure_options)

        def draw() -> Figure:
            return draw_page(self, shown, figure_options)

        return Plot(draw)
