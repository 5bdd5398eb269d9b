"""Tables of mappings on hierarchies: what they are, what they cost, and what limits them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table

from simaccel.hardware.levels import ROLES, Spatial
from simaccel.mapspace.nests import Mapped
from simaccel.report.layout import add_row, make_table
from simaccel.report.units import bytes_text, cycles_text, energy_text, share_text


def mapped_table(mapped: Sequence[Mapped]) -> Table:
    """Tabulate the best mapping of each operator."""
    table = make_table(
        ("operator", "mapspace"),
        ("cycles", "util.", "energy", "EDP (J cycles)", "mappings", "tried"),
        ("bound by", "search ended by"),
    )
    for one in mapped:
        costs, found = one.costs, one.found
        add_row(
            table,
            (
                one.target.einsum.name,
                one.target.strategy,
                cycles_text(int(costs.cycles[0])),
                share_text(one.utilisation),
                energy_text(float(costs.energy_pj[0])),
                f"{float(costs.edp[0]) * 1e-12:.4g}",
                _count(found.size),
                _count(found.gone),
                ", ".join(one.bounds),
                found.ended,
            ),
        )
    return table


def _count(n: int) -> str:
    return f"{n:,}" if n < 10**9 else f"{n:.2e}"


def loops_text(mapped: Mapped) -> str:
    """Write the nest, a line for each level, from the outermost.

    ``q7;6`` is a rank in 7 pieces, 6 the last time.
    """
    lines = []
    hierarchy = mapped.target.hierarchy
    width = max(map(len, hierarchy.names))
    for at, (level, given) in enumerate(zip(hierarchy.levels, mapped.mapping.levels, strict=True)):
        factors = dict(given.factors) if at else _outermost(mapped)
        order = [*given.order, *(rank for rank in factors if rank not in given.order)]
        loops = " ".join(_loop(mapped, at, rank) for rank in order if factors.get(rank, 1) > 1)
        kind = "at once" if isinstance(level, Spatial) else f"keeps {', '.join(given.keep)}"
        lines.append(f"{level.name:{width}}  {loops or '-'}  ({kind})")
    return "\n".join(lines)


def _outermost(mapped: Mapped) -> dict[str, int]:
    return {rank: _tiles(mapped, 0, rank) for rank in mapped.target.einsum.ranks}


def _tiles(mapped: Mapped, at: int, rank: str) -> int:
    """Count the tiles of a rank that arrive at a level."""
    size = mapped.mapping.padded.get(rank, mapped.target.einsum.ranks[rank])
    for given in mapped.mapping.levels[:at:-1]:
        size = -(-size // given.factors.get(rank, 1))
    return size


def _loop(mapped: Mapped, at: int, rank: str) -> str:
    arriving = _tiles(mapped, at, rank)
    pieces = mapped.mapping.levels[at].factors.get(rank, arriving)
    last = (arriving - 1) % pieces + 1
    return f"{rank}{pieces}" if last == pieces else f"{rank}{pieces};{last}"


def accesses_table(mapped: Mapped) -> Table:
    """Tabulate what each memory reads and writes of each operand, and what that costs."""
    table = make_table(
        ("level", "operand"), ("reads", "writes", "tile", "capacity", "energy", "of all")
    )
    total = float(mapped.costs.energy_pj[0])
    for level, role, figures in _accesses(mapped):
        capacity = figures["capacity_bytes"]
        add_row(
            table,
            (
                level,
                role,
                bytes_text(figures["read_bytes"]),
                bytes_text(figures["write_bytes"]),
                bytes_text(figures["tile_bytes"]),
                "-" if capacity is None else bytes_text(capacity),
                energy_text(figures["energy_pj"]),
                share_text(figures["energy_pj"] / total if total else 0.0),
            ),
        )
    macs = int(mapped.costs.macs[0]) * mapped.target.hierarchy.mac_pj
    share = share_text(macs / total if total else 0.0)
    add_row(table, ("MACs", "", "", "", "", "", energy_text(macs), share))
    return table


def _accesses(mapped: Mapped) -> Iterator[tuple[str, str, dict[str, Any]]]:
    costs = mapped.costs
    for at, level in enumerate(mapped.target.hierarchy.memories):
        for index, role in enumerate(ROLES):
            memory = level.memory(role)
            if role == "weight" and len(mapped.target.einsum.inputs) == 1:
                continue
            if memory is None or role not in mapped.mapping.levels[_place(mapped, at)].keep:
                continue
            reads, writes = int(costs.reads[0, at, index]), int(costs.writes[0, at, index])
            energy = reads * memory.read_pj_per_byte + writes * memory.write_pj_per_byte
            yield (
                level.name,
                role,
                {
                    "read_bytes": reads,
                    "write_bytes": writes,
                    "tile_bytes": int(costs.tile_bytes[0, at, index]),
                    "capacity_bytes": memory.capacity_bytes,
                    "energy_pj": energy,
                },
            )


def _place(mapped: Mapped, at: int) -> int:
    return mapped.target.hierarchy.temporal[at]


def fanouts_table(mapped: Mapped) -> Table:
    """Tabulate how much of each fan-out is used."""
    table = make_table(("level", "split"), ("used", "fan-out", "in use"))
    hierarchy = mapped.target.hierarchy
    for at, level in enumerate(hierarchy.fanouts):
        place = hierarchy.spatial[at]
        used = int(mapped.costs.instances[0, at])
        ranks = [rank for rank, n in mapped.mapping.levels[place].factors.items() if n > 1]
        split = " ".join(_loop(mapped, place, rank) for rank in ranks)
        cells = (level.name, split, str(used), str(level.fanout), share_text(used / level.fanout))
        add_row(table, cells)
    return table


def mapped_json(mapped: Mapped) -> dict[str, Any]:
    """Give a mapping and its figures as one JSON object."""
    costs, found = mapped.costs, mapped.found
    return {
        "operator": mapped.target.einsum.name,
        "mapspace": mapped.target.strategy,
        "cycles": int(costs.cycles[0]),
        "steps": int(costs.steps[0]),
        "bound_by": list(mapped.bounds),
        "macs": int(costs.macs[0]),
        "ineffectual_macs": int(costs.ineffectual[0]),
        "utilisation": mapped.utilisation,
        "energy_pj": float(costs.energy_pj[0]),
        "edp_j_cycles": float(costs.edp[0]) * 1e-12,
        "mapspace_size": found.size,
        "mappings_tried": found.gone,
        "mappings_valid": found.valid,
        "search_ended_by": found.ended,
        "convergence": [{"mappings": n, "objective": value} for n, value in found.curve],
        "accesses": [
            {"level": level, "operand": role, **figures}
            for level, role, figures in _accesses(mapped)
        ],
        "instances": {
            level.name: int(costs.instances[0, at])
            for at, level in enumerate(mapped.target.hierarchy.fanouts)
        },
        "mapping": mapped.mapping.model_dump(mode="json"),
    }
