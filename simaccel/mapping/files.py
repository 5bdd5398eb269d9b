"""Mappings as text, and loading of their files, checked against the workload they are for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from simaccel.errors import Fault, InputError
from simaccel.files.documents import document_text, read_text, refuse_others
from simaccel.files.schema import read_yaml
from simaccel.mapping.checks import require_mapping
from simaccel.mapping.documents import A_MAPPING, ANY, mapping_document, parse_mapping
from simaccel.mapping.space import NotThisWorkloadError
from simaccel.mapping.text import BEGINNING, parse_text
from simaccel.mapping.tree import Mapping
from simaccel.workload import Workload


def mapping_text(mapping: Mapping) -> str:
    """Return a mapping as YAML."""
    return document_text(mapping_document(mapping), wide=True)


def load_mapping(
    path: Path, workload: Workload, compiled: Callable[[Mapping], Workload] | None = None
) -> Mapping:
    """Load a mapping from YAML or from its text form (`tree_text`), checked against its workload.

    A file without a fingerprint is for any workload that its groups fit. ``compiled``: gives the
    workload that the mapping's dataflow makes of ``workload``, for which the mapping then is.

    Raises:
        InputError: all faults of the file (unknown and missing keys, lines that are no nodes); if
            there are none, all faults of the trees.
        NotThisWorkloadError: the mapping is for another workload.
    """
    if path.suffix == ".m":
        allowed = f"{A_MAPPING}; directives are those of a --workload with --dataflow directives"
        raise InputError([Fault(str(path), "document", "a MAESTRO description", allowed)])
    text = read_text(path, "mapping")
    if text.lstrip().startswith(BEGINNING):
        mapping = parse_text(text, str(path))
    else:
        raw, faults = read_yaml(path, A_MAPPING)
        refuse_others(raw, "groups", str(path), A_MAPPING)
        mapping = parse_mapping(raw, str(path), faults)
    workload = workload if compiled is None else compiled(mapping)
    if mapping.workload.fingerprint == ANY:
        reference = replace(mapping.workload, fingerprint=workload.fingerprint)
        mapping = replace(mapping, workload=reference)
    require_same(workload, mapping)
    require_mapping(workload, mapping, file=str(path))
    return mapping


def _makes_first(workload: Workload, order: list[str]) -> bool:
    """Return whether operators in this order make each tensor before it is read."""
    place = {name: at for at, name in enumerate(order)}
    makers = {operator.output.tensor: operator.name for operator in workload.operators}
    return all(
        place[makers[given.tensor]] < place[operator.name]
        for operator in workload.operators
        for given in operator.inputs
        if given.tensor in makers
    )


def require_same(workload: Workload, mapping: Mapping) -> None:
    """Refuse a mapping that was made for another workload.

    Raises:
        NotThisWorkloadError: names both workloads, or the operators that are not mapped.
    """
    if mapping.workload.fingerprint != workload.fingerprint:
        same = mapping.workload.name == workload.name
        raise NotThisWorkloadError(
            f"the mapping is for workload {mapping.workload.name} "
            f"({mapping.workload.fingerprint}), not for {workload.name} ({workload.fingerprint})"
            f"{', which has other sizes or formats' * same}"
        )
    mapped = [name for group in mapping.groups for name in group.operators]
    expected = [operator.name for operator in workload.operators]
    if sorted(mapped) != sorted(expected) or not _makes_first(workload, mapped):
        raise NotThisWorkloadError(
            f"the mapping's groups cover {', '.join(mapped) or 'nothing'}; the workload needs "
            f"{', '.join(expected)}, in this order or another that makes all before it is read"
        )
