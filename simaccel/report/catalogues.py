"""Tables of catalogues: workloads, DRAM parts, imported models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Final

from simaccel.files.accounting import MOST_LISTED
from simaccel.hardware.quantity import format_quantity
from simaccel.importers.onnx_files import ImportedWorkload
from simaccel.report.tables import Column, Table, tabulate, texts
from simaccel.report.units import bytes_text
from simaccel.workload import Einsum, Network, Transformer, Workload, network


def fields_table(
    rows: Sequence[tuple[str, str]], names: tuple[str, str] = ("field", "value")
) -> Table:
    """Tabulate fields and their values."""
    field, value = names
    columns = (
        Column(field, itemgetter(0), kind="text"),
        Column(value, itemgetter(1), kind="wrapped"),
    )
    return tabulate(rows, columns)


_ALSO: Final = Column("also", "aliases", ", ".join, "wrapped")
MODELS: Final = (
    *texts("name"),
    Column("hidden", "dimensions.hidden"),
    Column("heads", "dimensions.heads"),
    Column("d", "dimensions.head_size"),
    Column("FF", "dimensions.ff_size"),
    Column("layers", "dimensions.layers"),
    _ALSO,
)
"""Columns of attention models."""
TRANSFORMER_FIGURES: Final[Mapping[str, str | Callable[[Transformer], int]]] = {
    "parameters": "parameters",
    "active_parameters": "active_parameters",
    "cache_bytes_per_token": lambda one: 0 if one.is_vision else one.cache_elements * 2,
}
"""Parameters, those active per token, and the cache bytes per token (2 B an element)."""
TRANSFORMERS: Final = (
    *texts("name"),
    Column("hidden", "hidden"),
    Column("heads", "heads"),
    Column("KV", "kv_heads"),
    Column("d", "head_size"),
    Column("FF", "ff_size"),
    Column("layers", "layers"),
    Column("parameters", "parameters", "count"),
    Column(
        "cache per token",
        TRANSFORMER_FIGURES["cache_bytes_per_token"],
        lambda n: bytes_text(n) if n else "",
    ),
    _ALSO,
)
NETWORK_FIGURES: Final[Mapping[str, Callable[[Network], int]]] = {
    "layers": lambda one: len(one.layers),
    "distinct": lambda one: len(set(one.layers.values())),
    "macs": lambda one: network(one.name, scope="layers").macs,
    "weights": lambda one: sum(shape.weights for shape in one.layers.values()),
}
"""Layers, distinct ones, and MACs and weights for one image."""
NETWORKS: Final = (
    *texts("name"),
    Column("layers", NETWORK_FIGURES["layers"], "count"),
    Column("distinct", NETWORK_FIGURES["distinct"], "count"),
    Column("MACs", NETWORK_FIGURES["macs"], "count"),
    Column("weights", NETWORK_FIGURES["weights"], "count"),
    _ALSO,
)
OPERATORS: Final = (
    *texts("operator", "kind"),
    Column("MACs", "macs", "count"),
    Column("bytes", "bytes", "B"),
    Column("ranks", "ranks", kind="wrapped"),
    Column("tensors", "tensors", kind="wrapped"),
)
"""Columns of the operators of a workload."""
DRAM_PARTS: Final = (
    Column("part", "name", kind="text"),
    Column("peak GB/s", lambda part: f"{part.peak_bytes_per_second / 10**9:.1f}"),
    Column("burst", "burst_bytes", partial(format_quantity, kind="B")),
    Column("page", "page_bytes", partial(format_quantity, kind="B")),
    Column("banks", "banks"),
    Column("bank groups", "bank_groups"),
    Column("ranks", "ranks"),
    Column("pseudo channels", "pseudo_channels"),
)
_FOUR: Final = "{:.4g}".format
PATTERNS: Final = (
    *texts("pattern", "settings"),
    Column("efficiency", "efficiency", _FOUR),
    Column("useful", "useful_efficiency", _FOUR),
    Column("latency ns", "latency_ns", _FOUR),
    Column("GB/s", "gigabytes_per_second", _FOUR),
    Column("activates/burst", "activates_per_burst", _FOUR),
)
"""Columns of the throughput of access patterns on a DRAM part."""


def import_table(imported: ImportedWorkload) -> Table:
    """Tabulate nodes by their treatment, with their shares of MACs and of other elements."""
    account = imported.workload.account
    totals = account.totals()
    macs = sum(node for _, node, _ in totals.values()) or 1
    works = sum(node for _, _, node in totals.values()) or 1
    columns = (
        Column("nodes", lambda row: row[0], kind="text"),
        Column("count", lambda row: row[1][0], "count"),
        Column("MACs", lambda row: row[1][1], "count"),
        Column("share", lambda row: row[1][1] / macs, "share"),
        Column("other elements", lambda row: row[1][2], "count"),
        Column("share", lambda row: row[1][2] / works, "share"),
        Column(
            "kinds",
            lambda row: ", ".join(sorted({node.kind for node in account.entries_of(row[0])})),
            kind="wrapped",
        ),
    )
    return tabulate(totals.items(), columns)


def import_lines(imported: ImportedWorkload) -> list[str]:
    """Return lines with the number of constant nodes, and with the unsupported nodes."""
    lines = [f"{imported.constants} nodes are constants", _shared_text(imported)]
    stored = ", ".join(imported.through_dram[:MOST_LISTED])
    lines += [f"stored for a reader in another form: {stored}"] if stored else []
    return [*lines, *imported.workload.account.lines()]


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
    share = f"(of 4 bytes {4 * biases / weights:.1%} of the weights)"
    return (
        f"left out: {biases:,} biases or shifts of batch norms {share}, which are the "
        "initial values of sums, and rectifiers, which are applied as results leave the array"
    )
