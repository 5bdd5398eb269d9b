"""Tables of what there is: accelerators, workloads, and what a trace holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from simaccel.hardware import Accelerator
from simaccel.hardware.load import peak_macs_per_second
from simaccel.report.tables import add_row, make_table
from simaccel.report.units import bytes_text, cycles_text, rate_text
from simaccel.workload import Model, Network, OperatorRow, Transformer, network

if TYPE_CHECKING:
    from rich.table import Table


def accelerators_table(accelerators: Sequence[Accelerator]) -> Table:
    """Tabulate accelerators, one a row: of a chip its peak, memory and bandwidth, and its use."""
    table = make_table(
        ("name",), ("TOPS", "memory", "bandwidth", "buffer"), ("what it is; what it is good for",)
    )
    for accelerator in accelerators:
        cells = (
            accelerator.name,
            f"{2e-12 * peak_macs_per_second(accelerator):,.4g}",
            bytes_text(accelerator.dram.capacity_bytes),
            rate_text(accelerator.dram.bandwidth_bytes_per_second),
            bytes_text(accelerator.buffer.capacity_bytes),
            accelerator.description,
        )
        add_row(table, cells)
    return table


def fields_table(
    rows: Sequence[tuple[str, str]], names: tuple[str, str] = ("field", "value")
) -> Table:
    """Tabulate fields and their values."""
    table = make_table(names[:1], (), names[1:])
    for row in rows:
        add_row(table, row)
    return table


def models_table(models: Sequence[Model]) -> Table:
    """Tabulate the models of the catalogue."""
    table = make_table(("name",), ("hidden", "heads", "d", "FF", "layers"), ("also",))
    for model in models:
        sizes = model.dimensions
        figures = (sizes.hidden, sizes.heads, sizes.head_size, sizes.ff_size, sizes.layers)
        cells = (model.name, *map(str, figures), ", ".join(model.aliases))
        add_row(table, cells)
    return table


def transformer_figures(one: Transformer) -> dict[str, int]:
    """Count parameters, those active in a token, and bytes of the cache per token (2 B each)."""
    return {
        "parameters": one.parameters,
        "active_parameters": one.active_parameters,
        "cache_bytes_per_token": 0 if one.is_vision else one.cache_elements * 2,
    }


def transformers_table(transformers: Sequence[Transformer]) -> Table:
    """Tabulate the transformers of the catalogue."""
    sizes = ("hidden", "heads", "KV", "d", "FF", "layers", "parameters", "cache per token")
    table = make_table(("name",), sizes, ("also",))
    for one in transformers:
        figures = transformer_figures(one)
        cells = (one.hidden, one.heads, one.kv_heads, one.head_size, one.ff_size, one.layers)
        cache = figures["cache_bytes_per_token"]
        last = (cycles_text(one.parameters), bytes_text(cache) if cache else "")
        add_row(table, (one.name, *map(str, cells), *last, ", ".join(one.aliases)))
    return table


def network_figures(one: Network) -> dict[str, int]:
    """Count the layers, the different ones among them, and MACs and weights for one image."""
    layers = one.layers
    return {
        "layers": len(layers),
        "distinct": len(set(layers.values())),
        "macs": network(one.name, scope="layers").macs,
        "weights": sum(shape.weights for shape in layers.values()),
    }


def networks_table(networks: Sequence[Network]) -> Table:
    """Tabulate the networks of the catalogue."""
    table = make_table(("name",), ("layers", "distinct", "MACs", "weights"), ("also",))
    for one in networks:
        figures = map(cycles_text, network_figures(one).values())
        add_row(table, (one.name, *figures, ", ".join(one.aliases)))
    return table


def workload_table(rows: Sequence[OperatorRow]) -> Table:
    """Tabulate the operators of a workload."""
    table = make_table(("operator", "kind"), ("MACs", "bytes"), ("ranks", "tensors"))
    for row in rows:
        figures = (cycles_text(row.macs), bytes_text(row.bytes))
        add_row(table, (row.operator, row.kind, *figures, row.ranks, row.tensors))
    return table
