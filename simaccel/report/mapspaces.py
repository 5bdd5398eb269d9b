"""The best mappings of mapspaces as tables and JSON: bytes by level, fan-outs in use, costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from simaccel.hardware.area.parts import edp_js
from simaccel.mapping.text import tree_lines
from simaccel.mapping.tree import Loop, Spread
from simaccel.report.tables import Column, Table, figure_columns, pick, tabulate, texts
from simaccel.report.units import energy_text, large_count
from simaccel.search.mapspace.nests import NestResult

if TYPE_CHECKING:
    from simaccel.analytic.prediction import GroupPrediction
    from simaccel.workload import Workload

_MAPPED: Final = (
    *texts("operator", "mapspace"),
    *figure_columns("cycles", "utilisation", "energy_pj", "edp_js"),
    Column("mappings", "mapspace_size", large_count),
    Column("tried", "mappings_tried", large_count),
    Column("busiest", "bound_by", ", ".join, "wrapped"),
    Column("search ended by", "search_ended_by", kind="wrapped"),
)


def mapped_table(mapped: Sequence[NestResult], vectors: Sequence[GroupPrediction] = ()) -> Table:
    """Tabulate the best mapping of each einsum, and the vector operators, which aren't searched."""
    none = dict.fromkeys(("mapspace", "utilisation", "edp_js", "mapspace_size", "mappings_tried"))
    rows = [*map(mapped_json, mapped)]
    rows += [
        {**none, "search_ended_by": None, **_vector_json(vector), "bound_by": [vector.bound_by]}
        for vector in vectors
    ]
    return tabulate(rows, _MAPPED)


def accesses_table(mapped: NestResult) -> Table:
    """Tabulate the reads and writes of each level by tensor, and their cost.

    The NoC reads what it distributes and writes what it collects.
    """
    total, prices = mapped.energy_pj, mapped.target.accelerator.prices
    energy = int(mapped.totals.counts.native_macs) * prices.mac_pj if total > 0 else None
    blank = dict.fromkeys(("tensor", "read_bytes", "write_bytes", "tile_bytes"))
    columns = (
        *texts("level", "tensor"),
        Column("reads", "read_bytes", "B"),
        Column("writes", "write_bytes", "B"),
        Column("tile", "tile_bytes", "B"),
        Column("energy", "energy_pj", energy_text, missing="unknown"),
        Column(
            "of all", lambda row: (row["energy_pj"] or 0.0) / total if total > 0 else 0.0, "share"
        ),
    )
    return tabulate([*_accesses(mapped), {"level": "MACs", **blank, "energy_pj": energy}], columns)


def _accesses(mapped: NestResult) -> list[dict[str, Any]]:
    counts, accelerator = mapped.totals.counts, mapped.target.accelerator
    accesses: dict[tuple[str, str], dict[str, Any]] = {}
    for (where, tensor), n in counts.moved.items():
        level, _, direction = where.rpartition("_")
        tile = counts.tiles.get((level, tensor))
        access = accesses.setdefault(
            (level, tensor),
            {
                "level": level,
                "tensor": tensor,
                "read_bytes": 0,
                "write_bytes": 0,
                "tile_bytes": None if tile is None else int(tile[0]),
                "energy_pj": None if accelerator.unknown_energies else 0.0,
            },
        )
        outward = direction in ("read", "distribution")
        access["read_bytes" if outward else "write_bytes"] += int(n)
        if access["energy_pj"] is not None:
            prices = accelerator.energy_by_level(0, 0, {(where, tensor): int(n)})
            access["energy_pj"] += float(sum(prices.values()))
    return [access for access in accesses.values() if access["read_bytes"] or access["write_bytes"]]


def _spreads(mapped: NestResult) -> dict[str, list[tuple[str, int, int]]]:
    """Return (rank, pieces, size of a piece) of each rank that a fan-out splits, by fan-out."""
    sizes = dict(mapped.totals.units.family.space.sizes)
    found: dict[str, list[tuple[str, int, int]]] = {}
    for node in mapped.group.tree:
        if isinstance(node, Loop | Spread):
            if isinstance(node, Spread):
                pieces = -(-sizes[node.rank] // node.tile)
                found.setdefault(node.level, []).append((node.rank, pieces, node.tile))
            sizes[node.rank] = min(sizes[node.rank], node.tile)
    return found


def _instances(mapped: NestResult) -> dict[str, int]:
    spreads = _spreads(mapped)
    return {
        level.name: math.prod(pieces for _, pieces, _ in spreads.get(level.name, []))
        for level in mapped.target.hierarchy.fanouts
    }


def fanouts_table(mapped: NestResult) -> Table:
    """Tabulate the utilisation of each fan-out."""
    spreads, used = _spreads(mapped), _instances(mapped)
    columns = (
        Column("level", "name", kind="text"),
        Column(
            "split",
            lambda level: ", ".join(
                f"{rank} in {n} of {tile}" for rank, n, tile in spreads.get(level.name, [])
            ),
            kind="text",
        ),
        Column("used", lambda level: used[level.name]),
        Column("fan-out", "fanout"),
        Column("in use", lambda level: used[level.name] / level.fanout, "share"),
    )
    return tabulate(mapped.target.hierarchy.fanouts, columns)


def mapspace_json(
    workload: Workload,
    mapped: Sequence[NestResult],
    vectors: Sequence[GroupPrediction],
) -> dict[str, Any]:
    """Return the figures of all operators, and their sums over repetitions, as one JSON object."""
    einsums = [*map(mapped_json, mapped)]
    others = [_vector_json(vector) for vector in vectors]
    times = [*(workload.times(nest.target.einsum.name) for nest in mapped), *[1] * len(others)]
    rows = list(zip([*einsums, *others], times, strict=True))
    cycles = sum(row["cycles"] * runs for row, runs in rows)
    energy = sum(row["energy_pj"] * runs for row, runs in rows)
    return {
        "cycles": cycles,
        "energy_pj": energy,
        "edp_js": edp_js(energy, mapped[0].target.accelerator.seconds(cycles)),
        "operators": einsums,
        "vectors": others,
    }


def _vector_json(vector: GroupPrediction) -> dict[str, Any]:
    """Return the cycles (without waits) and energy of a vector operator, over all repetitions."""
    return {
        "operator": vector.name,
        "cycles": vector.resource_bound_cycles,
        "bound_by": vector.bound_by,
        "energy_pj": sum(vector.energy_pj.values()),
    }


def mapped_json(mapped: NestResult) -> dict[str, Any]:
    """Return a mapping and its figures as one JSON object."""
    search = mapped.found
    return {
        **pick(mapped, operator="target.einsum.name", mapspace="target.strategy"),
        **pick(mapped, "cycles", "steps", bound_by="bounds"),
        **pick(mapped, "macs", ineffectual_macs="ineffectual"),
        **pick(mapped, "utilisation", "energy_pj", "edp_js"),
        **pick(search, mapspace_size="size", mappings_tried="tried", mappings_valid="valid"),
        "search_ended_by": search.ended,
        "accesses": _accesses(mapped),
        "instances": _instances(mapped),
        "mapping": {"padded": dict(mapped.group.padded), "tree": tree_lines(mapped.group.tree)},
    }
