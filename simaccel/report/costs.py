"""A table of what a run will cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simaccel.experiment.forecast import Calibration, Forecast
from simaccel.report.layout import add_row, make_table
from simaccel.report.units import bytes_text, cycles_text, rounded_count, seconds_text

if TYPE_CHECKING:
    from rich.table import Table


def forecast_table(expected: Forecast) -> Table:
    """Tabulate a forecast, each figure with where it comes from."""
    table = make_table(("cost",), ("figure",), ("source",))
    pace = expected.calibration
    mode = "on" if expected.fast_forward else "off"
    unknown = expected.memory_bytes is None
    rows = (
        ("program", f"{cycles_text(expected.nodes)} nodes", "counted"),
        ("commands", cycles_text(expected.commands), "counted, all executions"),
        ("array folds or passes", cycles_text(expected.folds), "counted, all executions"),
        ("events", f"<= {rounded_count(expected.most_events)}", "bound, without fast-forward"),
        ("rate", f"{rounded_count(pace.events_per_second)}/s", _pace_text(pace)),
        ("scheduling", seconds_text(expected.scheduling_seconds), "measured"),
        ("wall time", seconds_text(pace.wall_seconds), f"{_end(pace)}, fast-forward {mode}"),
        (
            "wall time, trace",
            seconds_text(expected.tracing.wall_seconds),
            f"{_end(expected.tracing)}, with a trace written",
        ),
        (
            "memory",
            "unknown" if unknown else bytes_text(expected.memory_bytes or 0),
            "peak of the calibration; memory does not grow with the run",
        ),
        (
            "trace size",
            f"<= {bytes_text(expected.trace_bytes)}",
            f"rows: {_end(expected.tracing)}; not compressed",
        ),
    )
    for row in rows:
        add_row(table, row)
    return table


def _pace_text(pace: Calibration) -> str:
    return f"measured: {cycles_text(pace.events)} events in {seconds_text(pace.seconds)}"


def _end(pace: Calibration) -> str:
    if pace.done >= 1:
        return "measured, to the end"
    return f"extrapolated from {100 * pace.done:.2g}% of the work"


def forecast_json(expected: Forecast) -> dict[str, Any]:
    """Return a forecast as one JSON object (``simaccel run --dry-run --json``)."""
    return {
        "program_nodes": expected.nodes,
        "commands": expected.commands,
        "array_folds": expected.folds,
        "most_events": expected.most_events,
        "fast_forward": expected.fast_forward,
        "events_per_second": expected.calibration.events_per_second,
        "scheduling_seconds": expected.scheduling_seconds,
        "wall_seconds": expected.calibration.wall_seconds,
        "wall_seconds_with_trace": expected.tracing.wall_seconds,
        "part_of_work_measured": expected.calibration.done,
        "memory_bytes": expected.memory_bytes,
        "most_trace_bytes": expected.trace_bytes,
    }
