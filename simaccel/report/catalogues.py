"""Tables of catalogues: workloads, DRAM parts, imported models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Final

from simaccel.files.accounting import MOST_LISTED
from simaccel.hardware.dram.part import DramPart
from simaccel.hardware.quantity import format_quantity
from simaccel.importers.onnx_files import ImportedWorkload
from simaccel.report.tables import Column, Table, pick, tabulate, texts
from simaccel.report.units import bytes_text, cycles_text, share_text
from simaccel.workload import Einsum, Model, Network, OperatorRow, Transformer, Workload, network


def fields_table(
    rows: Sequence[tuple[str, str]], names: tuple[str, str] = ("field", "value")
) -> Table:
    """Tabulate fields and their values."""
    field, value = names
    columns = (
        Column(field, "", itemgetter(0), "text"),
        Column(value, "", itemgetter(1), "wrapped"),
    )
    return tabulate(rows, columns)


_ALSO: Final = Column("also", "aliases", ", ".join, "wrapped")
_SIZES: Final = {"d": "head_size", "FF": "ff_size", "layers": "layers"}


def models_table(models: Iterable[Model]) -> Table:
    """Tabulate the models of the catalogue."""
    sizes = {"hidden": "hidden", "heads": "heads", **_SIZES}
    columns = (Column(head, f"dimensions.{name}") for head, name in sizes.items())
    return tabulate(models, (*texts("name"), *columns, _ALSO))


def transformer_figures(one: Transformer) -> dict[str, int]:
    """Return the parameters, those active per token, and the cache bytes per token (2 B each)."""
    cache = 0 if one.is_vision else one.cache_elements * 2
    return pick(one, "parameters", "active_parameters") | {"cache_bytes_per_token": cache}


def transformers_table(transformers: Iterable[Transformer]) -> Table:
    """Tabulate the transformers of the catalogue."""
    sizes = {"hidden": "hidden", "heads": "heads", "KV": "kv_heads", **_SIZES}
    rows = [
        {**vars(entry), **transformer_figures(entry), "aliases": entry.aliases}
        for entry in transformers
    ]
    columns = (
        *texts("name"),
        *(Column(head, name) for head, name in sizes.items()),
        Column("parameters", "parameters", "count"),
        Column("cache per token", "cache_bytes_per_token", lambda n: bytes_text(n) if n else ""),
        _ALSO,
    )
    return tabulate(rows, columns)


def network_figures(one: Network) -> dict[str, int]:
    """Return the counts of layers, of distinct ones, and of MACs and weights for one image."""
    layers = one.layers
    return {
        "layers": len(layers),
        "distinct": len(set(layers.values())),
        "macs": network(one.name, scope="layers").macs,
        "weights": sum(shape.weights for shape in layers.values()),
    }


def networks_table(networks: Iterable[Network]) -> Table:
    """Tabulate the networks of the catalogue."""
    rows = ({**network_figures(one), "name": one.name, "aliases": one.aliases} for one in networks)
    names = ("layers", "distinct", "MACs", "weights")
    counts = (Column(name, name.lower(), "count") for name in names)
    return tabulate(rows, (*texts("name"), *counts, _ALSO))


def workload_table(rows: Sequence[OperatorRow]) -> Table:
    """Tabulate the operators of a workload."""
    last = (Column(name, name, kind="wrapped") for name in ("ranks", "tensors"))
    figures = Column("MACs", "macs", "count"), Column("bytes", "bytes", "B")
    return tabulate(rows, (*texts("operator", "kind"), *figures, *last))


_GIGA = 10**9
_PATTERN_FIGURES: Final = {
    "efficiency": "efficiency",
    "useful_efficiency": "useful",
    "latency_ns": "latency ns",
    "gigabytes_per_second": "GB/s",
    "activates_per_burst": "activates/burst",
}


def parts_table(parts: Iterable[DramPart]) -> Table:
    """Tabulate DRAM parts, one a row."""
    size = partial(format_quantity, kind="B")
    columns = (
        Column("part", "name", kind="text"),
        Column("peak GB/s", "peak_bytes_per_second", lambda rate: f"{rate / _GIGA:.1f}"),
        Column("burst", "burst_bytes", size),
        Column("page", "page_bytes", size),
        *(
            Column(name, name.replace(" ", "_"))
            for name in ("banks", "bank groups", "ranks", "pseudo channels")
        ),
    )
    return tabulate(parts, columns)


def part_figures(part: DramPart) -> dict[str, object]:
    """Return the figures of a part by name: clocks, bytes, counts."""
    figures: dict[str, object] = part.model_dump(exclude={"origins", "source"})
    return figures | {"peak_bytes_per_second": part.peak_bytes_per_second}


def patterns_table(rows: Sequence[Mapping[str, str | float | None]]) -> Table:
    """Tabulate the throughput of access patterns on a part, one per row."""
    figures = (Column(head, name, "{:.4g}".format) for name, head in _PATTERN_FIGURES.items())
    return tabulate(rows, (*texts("pattern", "settings"), *figures))


def import_table(imported: ImportedWorkload) -> Table:
    """Tabulate nodes by their treatment, with their shares of MACs and of other elements."""
    account = imported.workload.account
    totals = account.totals()
    macs = sum(node for _, node, _ in totals.values()) or 1
    works = sum(node for _, _, node in totals.values()) or 1
    rows = [
        (how, *counts, ", ".join(sorted({node.kind for node in account.entries_of(how)})))
        for how, counts in totals.items()
    ]
    columns = (
        Column("nodes", "", itemgetter(0), "text"),
        Column("count", "", lambda row: cycles_text(row[1])),
        Column("MACs", "", lambda row: cycles_text(row[2])),
        Column("share", "", lambda row: share_text(row[2] / macs)),
        Column("other elements", "", lambda row: cycles_text(row[3])),
        Column("share", "", lambda row: share_text(row[3] / works)),
        Column("kinds", "", itemgetter(4), "wrapped"),
    )
    return tabulate(rows, columns)


def import_lines(imported: ImportedWorkload) -> list[str]:
    """Return lines with the number of constant nodes, and with the unsupported nodes."""
    lines = [f"{imported.constants} nodes are constants", _shared_text(imported)]
    stored = ", ".join(imported.through_dram[:MOST_LISTED])
    lines += [f"stored for a reader in another form: {stored}"] if stored else []
    return [*lines, *imported.workload.account.lines()]


def import_line(imported: ImportedWorkload) -> str:
    """Return a line with the parts of an imported model that a run leaves out."""
    found = imported.workload.account.totals()
    works = sum(one for _, _, one in found.values()) or 1
    parts = [f"{nodes} {how}" for how, (nodes, _, _) in found.items()]
    share = share_text(found["not taken"][2] / works)
    nodes = f"ONNX nodes: {', '.join(parts)} ({share} of elements without MACs)"
    return f"{nodes}; {_shared_text(imported)}"


def _shared_text(imported: ImportedWorkload) -> str:
    """Return the number of operator outputs that other operators read unchanged, as text."""
    kinds = [one.kind for one in imported.workload.tensors.values()]
    shared = kinds.count("intermediate")
    return f"{shared} of {shared + kinds.count('output')} tensors go from operator to operator"


def whole_line(workload: Workload) -> str:
    """Return a line with the parts of a network that a run omits, and their share."""
    filters = [one for one in workload.operators if isinstance(one, Einsum)]
    biases = sum(one.ranks.get("m", one.ranks.get("g", 1)) for one in filters)
    tensors = workload.tensors.items()
    weights = sum(workload.tensor_bytes(name) for name, one in tensors if one.kind == "weight")
    share = f"(of 4 bytes {share_text(4 * biases / weights)} of the weights)"
    return (
        f"left out: {cycles_text(biases)} biases or shifts of batch norms {share}, which are the "
        "initial values of sums, and rectifiers, which are applied as results leave the array"
    )
