"""Tables, CSV and JSON of MAESTRO directives: their analysis, and their design space."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from simaccel.papers.maestro.analysis.analysis import Effects, LayerAnalysis
from simaccel.papers.maestro.analysis.paper import CORRECTIONS
from simaccel.papers.maestro.analysis.times import CAUSES, LevelLimits
from simaccel.papers.maestro.commands.design_space import DirectedDesigns
from simaccel.report.tables import Column, Row, Table, pick, tabulate, texts
from simaccel.report.units import count_text, large_count, signed_text

if TYPE_CHECKING:
    from simaccel.papers.maestro.analysis.design import Design

_DIMS: Final = "NGMKCRSYX"
_ROLES: Final = ("input", "filter", "output")


def directives_json(
    analysed: Sequence[LayerAnalysis],
    network: str,
    limits: Sequence[Sequence[LevelLimits]],
    effects: Sequence[Effects],
) -> list[dict[str, Any]]:
    """Return layers as JSON, with the column names of published runs as keys."""
    objects = []
    for at, layer_analysis in enumerate(analysed):
        row = _inputs(layer_analysis, network) | layer_analysis.figures()
        row["levels"] = [
            pick(level, "units", "invocations", "cycles", limited_by="cause")
            | pick(level, peak_noc_bw_req="peak_bandwidth", avg_noc_bw_req="mean_bandwidth")
            for level in limits[at]
        ]
        row |= {f"{role}_reuse_factor": reuse(layer_analysis, role) for role in _ROLES}
        row["corrections"] = {
            name: {"defect": (of := CORRECTIONS[name]).defect, "says": of.says, "effect": effect}
            for name, effect in effects[at].items()
        }
        objects.append(row)
    return objects


def reuse(analysed: LayerAnalysis, role: str) -> float | None:
    """Return the L1 reads of a tensor per element that leaves (or enters) L2."""
    figures = analysed.figures()
    way = "write" if role == "output" else "read"
    moved = figures[f"{role}_l2_{way}"]
    reads = figures[f"{role}_l1_read"]
    return reads / moved if moved and reads is not None else None


def room_notes(analysed: Sequence[LayerAnalysis]) -> list[str]:
    """Return notes on layers that need more L1 or L2 than a hardware file has, as the tool does."""
    found = []
    for one in analysed:
        hardware, figures = one.hardware[0], one.figures()
        for level, room in (("L1", hardware.l1_size), ("L2", hardware.l2_size)):
            needed = int(figures[f"{level.lower()}_size_req_total"] or 0)
            if needed > room:
                found.append(f"layer {one.layer.name}: {level} has {room}, needed are {needed}")
    return found


def mac_notes(analysed: Sequence[LayerAnalysis]) -> list[str]:
    """Return notes on layers whose maps overlap or leave gaps, which changes their MACs."""
    found = []
    for one in analysed:
        made, true = (int(one.columns[f"macs_{name}"][0]) for name in ("counted", "true"))
        if made != true:
            how = "overlap: some are made twice" if made > true else "leave gaps"
            counts = f"{made:,} MACs, and its dimensions have {true:,}"
            found.append(f"layer {one.layer.name}: {counts}; its maps {how}")
    return found


def directives_table(analysed: Sequence[LayerAnalysis]) -> Table:
    """Tabulate layers: time, PEs, reuse, buffers, bandwidth and energy."""
    rows: list[Row] = []
    for layer in analysed:  # figures that it has not are 0, but for reuse
        figures = {name: value or 0 for name, value in layer.figures().items()}
        factors = {_REUSE.format(role): reuse(layer, role) for role in _ROLES}
        rows.append({"layer": layer.layer.name, **figures, **factors})
    total = None
    if len(rows) > 1:
        sums = {name: sum(row[name] for row in rows) for name in _SUMMED}
        rate = sums["macs_counted"] / max(sums["runtime_cycles"], 1)
        total = {**dict.fromkeys(rows[0]), **sums, "layer": "total", _RATE: rate}
        total |= dict.fromkeys(map(_REUSE.format, _ROLES), "")
    return tabulate(rows, _LAYERS, total)


def _reuse_text(factor: float | str) -> str:
    return f"{factor:,.1f}" if isinstance(factor, float) else str(factor)


def _whole_text(value: float) -> str:
    return f"{int(value):,}"


_SUMMED: Final = ("macs_counted", "runtime_cycles", "energy_total_xmac")
_RATE: Final = "throughput_macs_per_cycle"
_REUSE: Final = "{}_reuse"
_LAYERS: Final = (
    *texts("layer"),
    Column("MACs", "macs_counted", _whole_text),
    Column("cycles", "runtime_cycles", _whole_text),
    Column("MACs/cycle", _RATE, "{:.1f}".format),
    Column("PEs", "avg_utilized_pes", "{:.1f}".format, missing=""),
    Column("L1", "l1_size_req_total", _whole_text, missing=""),
    Column("L2", "l2_size_req_total", _whole_text, missing=""),
    Column("reuse in", "input_reuse", _reuse_text),
    Column("filter", "filter_reuse", _reuse_text),
    Column("out", "output_reuse", _reuse_text),
    Column("BW peak", "peak_noc_bw_req", _whole_text, missing=""),
    Column("mean", "avg_noc_bw_req", "{:.2f}".format, missing=""),
    Column("energy", "energy_total_xmac", large_count),
)


def limits_table(
    analysed: Sequence[LayerAnalysis], limits: Sequence[Sequence[LevelLimits]]
) -> Table:
    """Tabulate the cluster levels: the contributions to their cycles."""
    rows = [
        {"layer": one.layer.name if depth == 0 else "", "depth": str(depth), "level": level}
        for one, levels in zip(analysed, limits, strict=True)
        for depth, level in enumerate(levels)
    ]
    return tabulate(rows, _LEVELS)


def _cause_share(level: LevelLimits, cause: str) -> str:
    return f"{level.cycles[cause] / max(sum(level.cycles.values()), 1):.1%}"


_LEVELS: Final = (
    *texts("layer"),
    Column("level", "depth", kind="text"),
    Column("units", "level.units"),
    Column("starts", "level.invocations", "count"),
    Column("cycles", "level.cycles", "cycles"),
    *(Column(cause, "level", partial(_cause_share, cause=cause)) for cause in CAUSES),
    Column("BW peak", "level.peak_bandwidth", "count"),
    Column("mean", "level.mean_bandwidth", "{:.2f}".format),
)


def corrections_table(effects: Sequence[Effects]) -> Table:
    """Tabulate the corrections of the default reading, and their effects over all layers."""
    rows = []
    for name, correction in CORRECTIONS.items():
        added: dict[str, float] = {}
        for by_name in effects:
            for figure, n in by_name.get(name, {}).items():
                added[figure] = added.get(figure, 0) + n
        access = sum(n for figure, n in added.items() if "_l2_" in figure and "size" not in figure)
        rows.append({"correction": name, **vars(correction), **added, "access": access})
    columns = (
        *texts("correction", "defect"),
        Column("cycles", lambda row: row.get("runtime_cycles", 0), signed_text),
        Column("L2 access", "access", signed_text),
        Column("energy", lambda row: row.get("energy_total_xmac", 0), signed_text),
        Column("says", "says", kind="wrapped"),
    )
    return tabulate(rows, columns)


def _inputs(analysed: LayerAnalysis, network: str) -> dict[str, Any]:
    """Return the inputs of a published run; what it has no name for is None."""
    layer, hardware = analysed.layer, analysed.hardware[0]
    return {
        "network": network,
        "layer": layer.name,
        "layer_type": layer.kind,
        **{dim: layer.sizes.get(dim) for dim in _DIMS},
        **({"B": layer.sizes["B"]} if "B" in layer.sizes else {}),
        "stride_y": layer.stride[0],
        "stride_x": layer.stride[1],
        "mapping_name": None,
        "mapping_origin": None,
        "directives": "; ".join(map(str, analysed.dataflow)),
        "num_pes": hardware.pes,
        "noc_bw": hardware.noc_bandwidth[0],
        "noc_hop_latency": hardware.noc_latency[0],
        "offchip_bw": hardware.offchip_bandwidth,
        "simd_lanes": hardware.simd_lanes,
        "status": "ok",
    }


_UM2_PER_MM2: Final = 1e6
_CHUNK: Final = 100_000
_OF_DESIGNS: Final = {
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
    """Return the title: what was explored, and within which limits."""
    units = {"area_mm2": "mm2", "power_mw": "mW"}
    given = [f"{most:g} {units[name]}" for name, most in _limits(found).items() if most is not None]
    within = f", within {' and '.join(given)}" if given else ""
    name = found.space.directed.name
    return f"{name} as its directives define: {count_text(found.designs.count, 'design')}{within}"


def _limits(found: DirectedDesigns) -> dict[str, float | None]:
    given = {"area_mm2": found.limits.area_um2 / _UM2_PER_MM2, "power_mw": found.limits.power_mw}
    return {name: most if isfinite(most) else None for name, most in given.items()}


def _on_machine(best: Row, text: Callable[[Design, int], str]) -> str:
    """Return the machine's figure of a design as text; a dash if it does not run."""
    cycles = best["machine_cycles"]
    return "-" if cycles is None else text(best["design"], cycles)


_DESIGN_COLUMNS: Final = (
    Column("best by", lambda best: best["objective"] if best["rank"] == 1 else "", kind="text"),
    Column("PEs", "design.pes", "count"),
    Column("NoC el/cycle", "design.bandwidth", "count"),
    Column("L1", "design.l1_bytes", "B"),
    Column("L2", "design.l2_bytes", "B"),
    Column("MACs/cycle", "design.throughput", "{:.1f}".format),
    Column("machine", partial(_on_machine, text=lambda d, n: f"{d.throughput * d.cycles / n:.1f}")),
    Column("ratio", partial(_on_machine, text=lambda d, n: f"{d.cycles / n:.2f}")),
    Column("energy", "design.energy_xmac", large_count),
    Column("area", lambda best: best["design"].area_um2 / _UM2_PER_MM2, "mm2"),
    Column("power", "design.power_mw", "mW"),
)


def designs_table(found: DirectedDesigns) -> Table:
    """Tabulate the best few designs by each objective, with the machine's cycles."""
    return tabulate(found.best, _DESIGN_COLUMNS, bold=lambda best: best["rank"] == 1)


def designs_lines(found: DirectedDesigns) -> list[str]:
    """Return lines with the number of designs and the meaning of the figures."""
    valid = int(found.designs.is_valid.sum())
    problems = dict.fromkeys(best["problem"] for best in found.best if best["problem"])
    count = count_text(found.designs.count, "design")
    return [
        f"{count}: {valid:,} within the limits, L1 and L2 large enough",
        "machine: MACs/cycle there; ratio: cycles of the analysis / of the machine; energy in MACs",
        f"area and power: {found.prices.source}",
        *(f"not on the machine: {problem}" for problem in problems),
    ]


def designs_csv(found: DirectedDesigns) -> Iterator[str]:
    """Yield CSV lines of all valid designs, ordered by PEs first and L2 last, after a header."""
    yield ",".join(_OF_DESIGNS.values()) + "\n"
    places = np.nonzero(found.designs.is_valid)
    for start in range(0, len(places[0]), _CHUNK):
        columns = found.designs.columns(tuple(at[start : start + _CHUNK] for at in places))
        rows = zip(*(columns[name].tolist() for name in _OF_DESIGNS), strict=True)
        yield "".join(",".join(map(repr, row)) + "\n" for row in rows)


def designs_json(explored: DirectedDesigns) -> dict[str, Any]:
    """Return the space and the best few as one JSON object."""
    layer = explored.space.directed
    return {
        "layer": layer.name,
        "directives": "; ".join(map(str, layer.dataflow)),
        "prices": explored.prices.source,
        "limits": _limits(explored),
        "designs": explored.designs.count,
        "valid": int(explored.designs.is_valid.sum()),
        "best": [
            {name: best[name] for name in ("objective", "rank")}
            | pick(best["design"], **{column: name for name, column in _OF_DESIGNS.items()})
            | {name: best[name] for name in ("machine_cycles", "problem")}
            for best in explored.best
        ],
    }
