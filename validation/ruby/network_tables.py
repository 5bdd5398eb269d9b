"""Figures 10 to 14 as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from validation.ruby.network_pictures import PAPER

Row = dict[str, Any]
_TITLES: Final = {
    "fig_10": "Fig. 10: ResNet-50, Eyeriss-like",
    "fig_11": "Fig. 11: DeepBench, mean",
    "fig_11_cycles": "Fig. 11: DeepBench, mean, for cycles",
    "fig_12": "Fig. 12: ResNet-50, 15 PEs of 4 x 4",
    "fig_12_9": "Fig. 12: ResNet-50, 9 PEs of 3 x 3",
}
_NAMES: Final = ("edp", "cycles", "energy")


def text(
    tables: Mapping[str, Sequence[Row]],
    sampled: Mapping[str, Sequence[Row]],
    swept: Sequence[Row],
    confirmed: Sequence[Row],
) -> str:
    """Give all tables."""
    parts = [
        ["### Figures 10 to 12: Ruby-S over PFM", "", *_summary(tables, sampled)],
        ["### Fig. 10 by layer type", "", *_layers(tables["fig_10"])],
        ["### Fig. 11 by kernel", "", *_kernels(tables["fig_11"], tables["fig_11_cycles"])],
        ["### Fig. 12 by layer type", "", *_both(tables["fig_12"], tables["fig_12_9"])],
        ["### Figures 13 and 14: arrays", "", *_arrays(swept)],
        ["### Winners on the machine", "", *_machine(confirmed)],
    ]
    return "\n\n".join("\n".join(part) for part in parts)


def overall(rows: Sequence[Row], name: str) -> float:
    """Give a ratio of the network, or its mean over kernels."""
    if rows[-1]["group"] == "network":
        return float(rows[-1][f"{name} over pfm"])
    return sum(float(row[f"{name} over pfm"]) for row in rows) / len(rows)


def missed(rows: Sequence[Row], sampled: Sequence[Row], strategy: str, objective: str) -> float:
    """Give the objective that sampling found over ours: of the network, or the kernels' mean."""
    column = f"{strategy} {'cycles' if objective == 'cycles' else 'edp_j_cycles'}"
    ratios = [there[column] / here[column] for here, there in zip(rows, sampled, strict=True)]
    return float(ratios[-1] if rows[-1]["group"] == "network" else sum(ratios) / len(ratios))


def _objective(key: str) -> str:
    return "cycles" if key.endswith("cycles") else "edp"


def _change(ratio: float | None) -> str:
    return "" if ratio is None else f"{100 * (ratio - 1):+.0f}%"


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    rows = [head, ["---"] * len(head), *lines]
    return [f"| {' | '.join(cells)} |" for cells in rows]


def _summary(
    tables: Mapping[str, Sequence[Row]], sampled: Mapping[str, Sequence[Row]]
) -> list[str]:
    head = ["exhibit", *_NAMES, *(f"paper: {name}" for name in _NAMES)]
    head += [f"searched as there: {name}" for name in _NAMES]
    head += [f"objective, that search over ours: {name}" for name in ("PFM", "Ruby-S")]
    lines = []
    for key, rows in tables.items():
        cells = [_TITLES[key], *(_change(overall(rows, name)) for name in _NAMES)]
        cells += [_change(PAPER[key].get(name)) for name in _NAMES]
        cells += [_change(overall(sampled[key], name)) for name in _NAMES]
        for strategy in ("pfm", "ruby-s"):
            cells.append(_change(missed(rows, sampled[key], strategy, _objective(key))))
        lines.append(cells)
    return _table(head, lines)


def _layers(rows: Sequence[Row]) -> list[str]:
    head = ["layer", "kind", "times", "PFM: utilisation", "Ruby-S: utilisation", *_NAMES]
    return _table(head, [_layer(row) for row in rows])


def _layer(row: Row) -> list[str]:
    used = [
        f"{row[f'{strategy} utilisation']:.0%}" if f"{strategy} utilisation" in row else ""
        for strategy in ("pfm", "ruby-s")
    ]
    ratios = [_change(row[f"{name} over pfm"]) for name in _NAMES]
    return [row["layer"], row["group"], str(row["times"]), *used, *ratios]


def _kernels(by_edp: Sequence[Row], by_cycles: Sequence[Row]) -> list[str]:
    head = ["kernel", "field", "PFM: utilisation", "Ruby-S: utilisation", *_NAMES]
    head.append("for cycles: cycles")
    lines = []
    for row, other in zip(by_edp, by_cycles, strict=True):
        name, field, _, *rest = _layer(row)
        lines.append([name, field, *rest, _change(other["cycles over pfm"])])
    return _table(head, lines)


def _both(fifteen: Sequence[Row], nine: Sequence[Row]) -> list[str]:
    head = ["layer", "times", *(f"15 PEs: {name}" for name in ("PFM util.", "Ruby-S util.", "edp"))]
    head += [f"9 PEs: {name}" for name in ("PFM util.", "Ruby-S util.", "edp")]
    lines = []
    for one, other in zip(fifteen, nine, strict=True):
        name, _, times, *first = _layer(one)
        second = _layer(other)[3:]
        lines.append([name, times, *first[:3], *second[:3]])
    return _table(head, lines)


def _arrays(swept: Sequence[Row]) -> list[str]:
    head = ["workload", "array", "area mm2", "EDP: PFM", "padded", "Ruby-S"]
    head += ["Ruby-S saves of PFM", "of padded", "on the frontier"]
    lines = []
    for row in swept:
        ends = [name for name in ("pfm", "padded", "ruby-s") if row[f"{name} on frontier"]]
        lines.append(
            [
                row["workload"],
                f"{row['columns']} x {row['rows']}",
                f"{row['area_mm2']:.2f}",
                *(f"{row[f'{name} edp']:.4g}" for name in ("pfm", "padded", "ruby-s")),
                f"{row['ruby-s saves']:.1%}",
                f"{row['ruby-s saves over padded']:.1%}",
                ", ".join(ends),
            ]
        )
    return _table(head, lines)


def _machine(confirmed: Sequence[Row]) -> list[str]:
    head = ["figure", "winners", "equal to the closed form", "cycles", "events"]
    lines = [
        [row["figure"], *(f"{row[name]:,}" for name in ("winners", "equal", "cycles", "events"))]
        for row in confirmed
    ]
    return _table(head, lines)
