"""The title of a run, in the trace commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simaccel.trace import TraceReader


def run_title(trace: TraceReader) -> str:
    """Return the title of a run; its path for a trace without these texts."""
    texts = (trace.header.workload, trace.header.accelerator, trace.header.mapping)
    if not all(texts):
        return str(trace.path)
    from simaccel.report.titles import experiment_title

    return experiment_title(trace.workload(), trace.accelerator(), trace.dataflow())
