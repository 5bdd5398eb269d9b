"""A trace as one self-contained HTML page: no network, no library, no server.

The page shows a document of plain data, in proportion to the stored rows.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from simaccel.files.targets import require_target, writing_text
from simaccel.hardware.resources import channel_rates
from simaccel.report.figures.style import CAUSE_COLOURS, CAUSE_LABELS
from simaccel.report.page.loops import TreeLine, Work, loop_tree
from simaccel.report.page.tree import ActivityTable, lane_json
from simaccel.report.results import dram_text
from simaccel.report.titles import trace_title
from simaccel.report.units import energy_text, short_share_text
from simaccel.study.figure_table import total_of
from simaccel.trace import TraceError, TraceReader
from simaccel.trace.schema import CAUSES

__all__ = ["document", "page_text", "timeline", "write_page"]

_SCRIPTS = ("model.js", "lanes.js", "loops.js", "tip.js", "viewer.js")


def page_text(data: dict[str, Any]) -> str:
    """Return the page around a document."""
    # A "<" in the data, in a tile's name say, could end the script element that holds them.
    parts = {
        "title": html.escape(f"{data['title']} - simaccel"),
        "style": _part("viewer.css"),
        "script": "\n".join(map(_part, _SCRIPTS)),
        "data": json.dumps(data, separators=(",", ":"), sort_keys=True).replace("<", "\\u003c"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _part("page.html"))


def write_page(
    trace: TraceReader, path: str | Path, *, force: bool = False, said: Sequence[str] = ()
) -> int:
    """Write the page of a trace to ``path``, and return its size in bytes.

    ``said``: sentences at the top, such as those of `simaccel trace stalls`.

    Raises:
        InputError: the page can't be written (see ``require_target``), or would replace the trace.
        TraceError: the trace is damaged or too long for a page.
    """
    inputs = (trace.path,)
    require_target(path, force=force, inputs=inputs, text=True)
    text = page_text({**document(trace), "said": list(said)})
    with writing_text(path, force=force, inputs=inputs) as stream:
        stream.write(text)
    return len(text.encode())


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


MAX_CYCLES: Final = 2**53
"""Largest integer that a JavaScript number represents exactly."""
MAX_ROWS: Final = 4_000_000
"""Most stored rows; more make a page of over 30 MB, which browsers open slowly."""

_MOST_PICOJOULES: Final = 1e30


def document(trace: TraceReader) -> dict[str, Any]:
    """Return the page's document: the run, its lanes, and the loop tree, or why there is none.

    Raises:
        TraceError: the rows don't tile the run, the header does not tell what ran, or the run
            is too long or has too many rows for a page.
    """
    missing = trace.unreadable()
    places = [] if missing else [vars(place) for place in loops(trace)]
    return {**run_facts(trace), **timeline(trace), "loops": places, "no_loops": missing}


def run_facts(trace: TraceReader) -> dict[str, Any]:
    """Return what ran, and the most that each channel moves in a cycle.

    Raises:
        TraceError: the header does not tell.
    """
    accelerator = trace.accelerator()
    rates = channel_rates(accelerator, trace.channels)
    return {
        "title": trace_title(trace),
        "version": trace.header.version,
        "clock_hz": accelerator.clock_hz,
        "utilisation": trace.figures.get("utilisation"),
        "energy": _energy(trace.figures.get("energy_pj")),
        "dram": _dram(trace.figures),
        "limits": {name: rate and float(rate) for name, rate in rates.items()},
    }


def _energy(by_level: object) -> str | None:
    energies = list(by_level.values()) if isinstance(by_level, dict) else []
    if not all(isinstance(n, int | float) and 0 <= n <= _MOST_PICOJOULES for n in energies):
        return None
    total = sum(energies)
    if not isinstance(by_level, dict) or not total:
        return None
    largest = sorted(by_level.items(), key=lambda one: -one[1])
    shares = ", ".join(f"{name} {short_share_text(n / total)}" for name, n in largest if n > 0)
    return f"{energy_text(total)} ({shares})"


def _dram(figures: dict[str, Any]) -> str:
    """Return what a run moves with DRAM and has to; nothing of traces that don't know."""
    bound, moved = figures.get("dram_bound"), figures.get("bytes", {}).get("dram", {})
    if not bound:
        return ""
    renamed = {"bound_bytes": bound.get("least_bytes"), **bound}  # as traces before had it
    return dram_text(total_of(moved), renamed)


def timeline(trace: TraceReader) -> dict[str, Any]:
    """Return the rows in the form that the page shows.

    Raises:
        TraceError: as for ``document``, the header apart.
    """
    require_small(trace)
    trace.check()
    activities = ActivityTable()
    lanes = [
        {"name": name, "kind": kind, "tree": lane_json(trace.track(name), activities)}
        for name, kind in trace.lanes.items()
    ]
    return {
        "cycles": trace.cycles,
        "partial": trace.partial,
        "stored_rows": trace.n_rows,
        "causes": [
            {"name": name, "label": CAUSE_LABELS[name], "colour": CAUSE_COLOURS[name][0]}
            for name in CAUSES
        ],
        "tiles": trace.tables["tiles"],
        "kinds": trace.tables["kinds"],
        "holders": trace.tables["lanes"],
        "activities": [list(activity) for activity in activities],
        "sites": {site: [s.operator, s.command] for site, s in trace.header.sites.items()},
        "lanes": lanes,
    }


def loops(trace: TraceReader) -> list[TreeLine]:
    """Return the program's operators, loops and commands, with their cycles.

    Raises:
        TraceError: the program can't be read or is not that of the rows.
    """
    program, sites = trace.program(), trace.header.sites
    try:
        return loop_tree(program, sites, engine_works(trace), complete=not trace.partial)
    except ValueError as error:
        problem = f"damaged: header/program: {error}"
        raise TraceError(trace.path, problem, "the program whose run the trace holds") from None


def engine_works(trace: TraceReader) -> dict[str, Work]:
    """Return the work of each engine by site."""
    return {name: Work(trace.track(name)) for name in trace.engines}


def require_small(trace: TraceReader) -> None:
    """Refuse a trace that is too large for a page, by its counts alone.

    Raises:
        TraceError: it has no cycle, too many, or too many rows; says what to do instead.
    """
    if trace.cycles == 0:
        raise TraceError(trace.path, "has no cycles", "a trace of at least one cycle")
    if trace.cycles > MAX_CYCLES:
        problem = f"has {trace.cycles} cycles, which a browser can't count exactly"
        raise TraceError(trace.path, problem, f"up to {MAX_CYCLES} cycles in a page")
    if trace.n_rows > MAX_ROWS:
        problem = f"has {trace.n_rows} stored rows"
        allowed = (
            f"up to {MAX_ROWS} stored rows in a page; for a window of cycles, `simaccel trace plot`"
            " or `simaccel trace export --format perfetto` with --from and --to"
        )
        raise TraceError(trace.path, problem, allowed)
