"""Nodes of an imported model: a table of what became of them, and what is not taken."""

from __future__ import annotations

from simaccel.files.accounting import MOST_LISTED
from simaccel.importers.onnx_files import ImportedWorkload
from simaccel.report.tables import Table, add_row, make_table
from simaccel.report.units import cycles_text, share_text
from simaccel.workload import Einsum, Workload


def import_table(imported: ImportedWorkload) -> Table:
    """Tabulate nodes by what became of them, with their shares of MACs and of other elements."""
    table = make_table(
        ("nodes",), ("count", "MACs", "share", "other elements", "share"), ("kinds",)
    )
    account = imported.workload.account
    totals = account.totals()
    macs = sum(node for _, node, _ in totals.values()) or 1
    works = sum(node for _, _, node in totals.values()) or 1
    for how, (nodes, own, work) in totals.items():
        kinds = sorted({node.kind for node in account.entries_of(how)})
        figures = (cycles_text(nodes), cycles_text(own), share_text(own / macs))
        others = (cycles_text(work), share_text(work / works))
        add_row(table, (how, *figures, *others, ", ".join(kinds)))
    return table


def import_lines(imported: ImportedWorkload) -> list[str]:
    """Return how many nodes were constants, and which are not taken."""
    lines = [f"{imported.constants} nodes are constants", _shared_text(imported)]
    stored = ", ".join(imported.parted[:MOST_LISTED])
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
    """Say how many of the tensors that operators make others read as they are."""
    kinds = [one.kind for one in imported.workload.tensors.values()]
    shared = kinds.count("intermediate")
    return f"{shared} of {shared + kinds.count('output')} tensors go from operator to operator"


def whole_line(workload: Workload) -> str:
    """Return a line with the parts of a network that a run leaves out, and their share."""
    filters = [one for one in workload.operators if isinstance(one, Einsum)]
    biases = sum(one.ranks.get("m", one.ranks.get("g", 1)) for one in filters)
    tensors = workload.tensors.items()
    weights = sum(workload.tensor_bytes(name) for name, one in tensors if one.kind == "weight")
    share = f"(of 4 bytes {share_text(4 * biases / weights)} of the weights)"
    return (
        f"left out: {cycles_text(biases)} biases or shifts of batch norms {share}, which are the "
        "initial values of sums, and rectifiers, which are applied as results leave the array"
    )
