"""Tables of a directives' design space: for people, as CSV and JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from simaccel.report.tables import Column, Table, tabulate
from simaccel.report.units import area_text, count_text, rounded_count
from simaccel.study.directed import BestDesign, DirectedDesigns

if TYPE_CHECKING:
    from simaccel.papers.maestro.analysis.design import Design

_UM2_PER_MM2: Final = 1e6
_CHUNK: Final = 100_000
_COLUMNS: Final = {
    "pes": "pes",
    "bandwidth": "noc_elements_per_cycle",
    "l1_bytes": "l1_bytes",
    "l2_bytes": "l2_bytes",
    "cycles": "cycles",
    "throughput": "macs_per_cycle",
    "energy_xmac": "energy_xmac",
    "area_um2": "area_um2",
    "power_mw": "power_mw",
}


def designs_title(found: DirectedDesigns) -> str:
    """Return what was explored, and within which limits."""
    units = {"area_mm2": "mm2", "power_mw": "mW"}
    given = [f"{most:g} {units[name]}" for name, most in _limits(found).items() if most is not None]
    within = f", within {' and '.join(given)}" if given else ""
    name = found.space.directed.name
    return f"{name} as its directives define: {count_text(found.designs.count, 'design')}{within}"


def _limits(found: DirectedDesigns) -> dict[str, float | None]:
    """Return the limits by name, None where there is none."""
    given = {
        "area_mm2": found.limits.area_um2 / _UM2_PER_MM2,
        "power_mw": found.limits.power_mw,
    }
    return {name: most if isfinite(most) else None for name, most in given.items()}


def _on_machine(best: BestDesign, text: Callable[[Design, int], str]) -> str:
    """Write what the machine makes of a design, if it runs."""
    return "-" if best.machine_cycles is None else text(best.design, best.machine_cycles)


_SHOWN: Final = (
    Column("best by", "", lambda best: best.objective if best.rank == 1 else "", "text"),
    Column("PEs", "design.pes", "count"),
    Column("NoC el/cycle", "design.bandwidth", "count"),
    Column("L1", "design.l1_bytes", "B"),
    Column("L2", "design.l2_bytes", "B"),
    Column("MACs/cycle", "design.throughput", "{:.1f}".format),
    Column(
        "machine", "", partial(_on_machine, text=lambda d, n: f"{d.throughput * d.cycles / n:.1f}")
    ),
    Column("ratio", "", partial(_on_machine, text=lambda d, n: f"{d.cycles / n:.2f}")),
    Column("energy", "design.energy_xmac", rounded_count),
    Column("area", "design.area_um2", lambda um2: area_text(um2 / _UM2_PER_MM2)),
    Column("power", "design.power_mw", "mW"),
)


def designs_table(found: DirectedDesigns) -> Table:
    """Tabulate the best few designs by each objective, with what the machine makes of them."""
    return tabulate(found.best, _SHOWN, bold=lambda best: best.rank == 1)


def designs_lines(found: DirectedDesigns) -> list[str]:
    """Return lines with the number of designs and the meaning of the figures."""
    valid = int(found.designs.is_valid.sum())
    problems = dict.fromkeys(one.problem for one in found.best if one.problem)
    count = count_text(found.designs.count, "design")
    return [
        f"{count}: {valid:,} within the limits, L1 and L2 large enough",
        "machine: MACs/cycle there; ratio: cycles of the analysis / of the machine; energy in MACs",
        f"area and power: {found.prices.source}",
        *(f"not on the machine: {problem}" for problem in problems),
    ]


def designs_effort(found: DirectedDesigns) -> str:
    """Return the time of the sweep, the only line that differs in a second run."""
    rate = found.designs.count / max(found.seconds, 1e-9)
    return f"swept in {found.seconds:.2f} s, {rounded_count(rate)} designs a second"


def designs_csv(found: DirectedDesigns) -> Iterator[str]:
    """Yield lines of all valid designs, PEs first and L2 last, after one of names."""
    yield ",".join(_COLUMNS.values()) + "\n"
    places = np.nonzero(found.designs.is_valid)
    for start in range(0, len(places[0]), _CHUNK):
        columns = found.designs.columns(tuple(at[start : start + _CHUNK] for at in places))
        rows = zip(*(columns[name].tolist() for name in _COLUMNS), strict=True)
        yield "".join(",".join(map(repr, row)) + "\n" for row in rows)


def designs_json(found: DirectedDesigns) -> dict[str, Any]:
    """Return the space and the best few as one JSON object."""
    one = found.space.directed
    return {
        "layer": one.name,
        "directives": "; ".join(map(str, one.dataflow)),
        "prices": found.prices.source,
        "limits": _limits(found),
        "designs": found.designs.count,
        "valid": int(found.designs.is_valid.sum()),
        "best": [_best_json(each) for each in found.best],
    }


def _best_json(one: BestDesign) -> dict[str, Any]:
    told = {"machine_cycles": one.machine_cycles, "problem": one.problem or None}
    figures = {column: getattr(one.design, name) for name, column in _COLUMNS.items()}
    return {"objective": one.objective, "rank": one.rank, **figures, **told}
