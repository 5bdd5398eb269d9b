"""The rows of figures 10 to 14: mapspaces side by side, by layer and over arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from simaccel.hardware.area.parts import area_of
from simaccel.search.effort import Objective, Strategy
from validation.ruby.kernels import Layer, deepbench, resnet50
from validation.ruby.points import FOLDER, Point, Result, Search, hardware, solve

Row = dict[str, object]
LAYERS: Final = Search(patience=50_000, seeds=2)
"""Of figures 10 to 12."""
SWEEP: Final = Search(patience=20_000)
"""Of figures 13 and 14, for each layer on each array."""
SAMPLED: Final = Search(patience=24 * 3000, sampled=True)
"""As in the paper: at random, 3,000 failures in each of 24 threads."""
BOTH: Final[tuple[Strategy, ...]] = ("pfm", "ruby-s")
ALL: Final[tuple[Strategy, ...]] = ("pfm", "padded", "ruby-s")
ARRAYS: Final = (
    (2, 7), (4, 6), (4, 8), (6, 8), (8, 8), (9, 10), (12, 10), (12, 12), (14, 12), (14, 14),
    (15, 15), (16, 16),
)  # fmt: skip
"""Columns and rows: the paper's first and last, Eyeriss with 14 x 12, and others of our choice."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Layers on one accelerator through several mapspaces, with the same effort for each."""

    layers: tuple[Layer, ...]
    accelerator: str
    search: Search
    strategies: tuple[Strategy, ...] = BOTH
    objective: Objective = "edp"
    array: tuple[int, int] | None = None

    def groups(self) -> Iterator[tuple[Point, ...]]:
        """Give the points, those of one layer together."""
        for layer in self.layers:
            yield tuple(self.point(layer, strategy) for strategy in self.strategies)

    def point(self, layer: Layer, strategy: Strategy) -> Point:
        """Give one point."""
        return Point(
            shape=layer.shape,
            accelerator=self.accelerator,
            strategy=strategy,
            search=self.search,
            array=self.array,
            objective=self.objective,
        )


@dataclass(frozen=True)
class Total:
    """Cycles and energy of layers, each as often as it is there."""

    cycles: int
    energy_pj: float

    @property
    def edp(self) -> float:
        """Energy times delay of the whole, in J cycles."""
        return self.energy_pj * self.cycles * 1e-12


def fig_10(search: Search = LAYERS) -> Comparison:
    """Give ResNet-50 on the baseline."""
    return Comparison(layers=tuple(resnet50()), accelerator="eyeriss_like", search=search)


def fig_11(objective: Objective = "edp", search: Search = LAYERS) -> Comparison:
    """Give the selection of DeepBench on the baseline."""
    return Comparison(
        layers=tuple(deepbench()), accelerator="eyeriss_like", search=search, objective=objective
    )


def fig_12(accelerator: str, search: Search = LAYERS) -> Comparison:
    """Give ResNet-50 on one of the two Simba-like accelerators."""
    return Comparison(layers=tuple(resnet50()), accelerator=accelerator, search=search)


def sweep(layers: Sequence[Layer], search: Search = SWEEP) -> list[Comparison]:
    """Give layers on arrays of all sizes."""
    return [
        Comparison(
            layers=tuple(layers),
            accelerator="eyeriss_like",
            search=search,
            strategies=ALL,
            array=array,
        )
        for array in ARRAYS
    ]


def full_sweeps() -> dict[str, list[Comparison]]:
    """Give the sweeps of figures 13 and 14."""
    return {
        "ResNet-50": sweep(resnet50()),
        "DeepBench": sweep(deepbench(subset=True)),
    }


def solved(one: Comparison, folder: Path = FOLDER) -> dict[str, dict[Strategy, Result]]:
    """Give the results by the name of the layer and the mapspace."""
    return {
        layer.name: {
            strategy: solve(one.point(layer, strategy), folder) for strategy in one.strategies
        }
        for layer in one.layers
    }


def total(one: Comparison, found: Mapping[str, Mapping[Strategy, Result]], of: Strategy) -> Total:
    """Add up a network."""
    return Total(
        cycles=sum(layer.times * found[layer.name][of].cycles for layer in one.layers),
        energy_pj=sum(layer.times * found[layer.name][of].energy_pj for layer in one.layers),
    )


def as_the_paper(one: Comparison) -> Comparison:
    """Give the same comparison with a search as the paper's."""
    return replace(one, search=SAMPLED)


def by_layer(comparison: Comparison, folder: Path = FOLDER, *, network: str = "") -> list[Row]:
    """Give a row for each layer, and one for the network if these are the layers of one."""
    solutions = solved(comparison, folder)
    rows = []
    for layer in comparison.layers:
        row: Row = {"layer": layer.name, "group": layer.group, "times": layer.times}
        for strategy in comparison.strategies:
            result = solutions[layer.name][strategy]
            row |= _columns(strategy, result)
            row[f"{strategy} utilisation"] = round(result.utilisation, 4)
            row[f"{strategy} mappings"] = result.tried
            row[f"{strategy} spread"] = _digits(max(result.scores) / min(result.scores) - 1)
        row["ruby-s is pfm"] = solutions[layer.name]["ruby-s"].taken
        rows.append(row | _ratios(row))
    if network:
        row = {"layer": network, "group": "network", "times": 1}
        for strategy in comparison.strategies:
            row |= _columns(strategy, total(comparison, solutions, strategy))
        rows.append(row | _ratios(row))
    return rows


def _columns(strategy: Strategy, found: Result | Total) -> Row:
    return {
        f"{strategy} cycles": found.cycles,
        f"{strategy} energy_uj": _digits(found.energy_pj * 1e-6),
        f"{strategy} edp_j_cycles": _digits(found.edp),
    }


def _ratios(row: Row) -> Row:
    """Give Ruby-S over PFM."""
    return {
        f"{name} over pfm": _digits(
            float(str(row[f"ruby-s {column}"])) / float(str(row[f"pfm {column}"]))
        )
        for name, column in (
            ("edp", "edp_j_cycles"),
            ("cycles", "cycles"),
            ("energy", "energy_uj"),
        )
    }


def over_arrays(sweeps: Mapping[str, Sequence[Comparison]], folder: Path = FOLDER) -> list[Row]:
    """Give a row for each array and set of layers: area, EDP by mapspace, and what is saved.

    EDP of the network: of its whole. Of kernels, which are no network: the geometric mean.
    """
    rows: list[Row] = []
    for name, comparisons in sweeps.items():
        swept = [_swept(name, comparison, folder) for comparison in comparisons]
        ends = frontier([(row["area_mm2"], row[f"{s} edp"]) for row in swept for s in ALL])  # type: ignore[misc]
        for row in swept:
            for strategy in ALL:
                edp = float(str(row[f"{strategy} edp"]))
                row[f"{strategy} on frontier"] = (row["area_mm2"], edp) in ends
            pfm, padded, ruby = (float(str(row[f"{s} edp"])) for s in ALL)
            row["padded saves"] = _digits(1 - padded / pfm)
            row["ruby-s saves"] = _digits(1 - ruby / pfm)
            row["ruby-s saves over padded"] = _digits(1 - ruby / padded)
        rows += swept
    return rows


def _swept(name: str, comparison: Comparison, folder: Path) -> Row:
    assert comparison.array is not None
    columns, n_rows = comparison.array
    pes = columns * n_rows
    row: Row = {"workload": name, "columns": columns, "rows": n_rows, "pes": pes}
    row["area_mm2"] = _digits(area_mm2(pes))
    solutions = solved(comparison, folder)
    for strategy in ALL:
        if any(layer.times > 1 for layer in comparison.layers):
            row[f"{strategy} edp"] = _digits(total(comparison, solutions, strategy).edp)
        else:
            logs = [np.log(solutions[layer.name][strategy].edp) for layer in comparison.layers]
            row[f"{strategy} edp"] = _digits(float(np.exp(np.mean(logs))))
    return row


def area_mm2(pes: int) -> float:
    """Give the area of the baseline with so many PEs."""
    found = hardware("eyeriss_like")
    um2 = area_of(found).by_part
    return (um2["buffer"] + (um2["mac"] + um2["pe"]) / found.array.pes * pes) * 1e-6


def frontier(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Give the points that no other beats in one figure without being worse in the other."""
    found: list[tuple[float, float]] = []
    for area, edp in sorted(set(points)):
        if not found or edp < found[-1][1]:
            found.append((area, edp))
    return found


def smaller(one: Comparison, names: Sequence[str], search: Search) -> Comparison:
    """Give a few layers of a comparison with less effort."""
    layers = tuple(layer for layer in one.layers if layer.name in names)
    return replace(one, layers=layers, search=search)


def _digits(value: float) -> float:
    return float(f"{value:.6g}")
