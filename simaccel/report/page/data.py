"""A trace as the document that the page shows: plain data, as large as the stored rows."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import yaml

from simaccel.mapping.program import ProgramError
from simaccel.mapping.text import parse_program
from simaccel.report.page.loops import Place, Work, loop_tree
from simaccel.report.page.tree import Activities, Again, Tree, lane_tree
from simaccel.trace import Trace, TraceError
from simaccel.trace.schema import CAUSES, KEY

MAX_CYCLES: Final = 2**53
"""Up to here a number of JavaScript is an exact integer."""
MAX_ROWS: Final = 4_000_000
"""More stored rows make a page of more than some 30 MB, which browsers open slowly."""

# Okabe and Ito's colours, which colour-blind people can tell apart; the same as in the figures.
COLOURS: Final = {
    "busy": "#0072B2",
    "dram_bandwidth": "#D55E00",
    "dram_latency": "#CC79A7",
    "dram_queue": "#E69F00",
    "buffer_port": "#009E73",
    "noc": "#999933",
    "array": "#56B4E9",
    "sfu": "#F0E442",
    "drain": "#888888",
    "idle": "#E8E8E8",
}


def document(trace: Trace) -> dict[str, Any]:
    """Give the page's document: the time line and the loop tree.

    Raises:
        TraceError: the rows don't tile the run, the program is not that of the rows, or the
            run is too long or has too many rows for a page.

    """
    return timeline(trace) | {"loops": [vars(place) for place in loops(trace)]}


def timeline(trace: Trace) -> dict[str, Any]:
    """Give the document without the loop tree.

    Raises:
        TraceError: as for ``document``, the program apart.

    """
    _require_small(trace)
    trace.check()
    activities = Activities()
    lanes = [
        {"name": name, "kind": "engine", "tree": _plain(engine_tree(trace, name, activities))}
        for name in trace.engines
    ]
    return {
        **_about(trace),
        "causes": [{"name": name, "colour": COLOURS[name]} for name in CAUSES],
        **{name: trace.tables[name] for name in ("tiles", "kinds", "engines")},
        "activities": [list(activity) for activity in activities],
        "sites": {site: [s.operator, s.command] for site, s in trace.header.sites.items()},
        "lanes": lanes,
    }


def loops(trace: Trace) -> list[Place]:
    """Measure the program's operators, loops and commands.

    Raises:
        TraceError: the program can't be read or is not that of the rows.

    """
    activities = Activities()
    trees = {name: engine_tree(trace, name, activities) for name in trace.engines}
    numbers = np.array(list(activities), dtype=np.int64).reshape(-1, len(KEY))
    causes, sites = (numbers[:, KEY.index(name)] for name in ("cause", "site"))
    works = {name: Work(tree, causes, sites) for name, tree in trees.items()}
    try:
        return loop_tree(parse_program(trace.header.program), trace.header.sites, works)
    except (ProgramError, ValueError) as error:
        problem = f"damaged: header/program: {error}"
        raise TraceError(trace.path, problem, "the program whose run the trace holds") from None


def engine_tree(trace: Trace, name: str, activities: Activities) -> Tree:
    """Give the tree of one engine."""
    return lane_tree(trace._tracks[name], activities, with_amounts=False, holds=False)


def _require_small(trace: Trace) -> None:
    if trace.cycles > MAX_CYCLES:
        problem = f"has {trace.cycles} cycles, which a browser can't count exactly"
        raise TraceError(trace.path, problem, f"up to {MAX_CYCLES} cycles in a page")
    if trace.n_rows > MAX_ROWS:
        problem = f"has {trace.n_rows} stored rows"
        raise TraceError(trace.path, problem, f"up to {MAX_ROWS} stored rows in a page")


def _about(trace: Trace) -> dict[str, Any]:
    figures = trace.figures
    accelerator = yaml.safe_load(trace.header.accelerator) or {}
    return {
        **{name: figures.get(name, "") for name in ("workload", "accelerator", "dataflow")},
        "version": trace.header.version,
        "cycles": trace.cycles,
        "clock_hz": accelerator.get("clock_hz"),
        "utilisation": figures.get("utilisation"),
        "stored_rows": trace.n_rows,
    }


def _plain(tree: Tree) -> list[dict[str, Any]]:
    """Write a tree with lists: rows as {n: lengths, a: activities, v: amounts if any}."""
    plain: list[dict[str, Any]] = []
    for node in tree:
        if isinstance(node, Again):
            plain.append({"times": node.times, "body": _plain(node.body)})
        else:
            rows = {"n": node.lengths.tolist(), "a": node.activities.tolist()}
            plain.append(rows | ({"v": node.amounts.tolist()} if node.amounts.any() else {}))
    return plain
