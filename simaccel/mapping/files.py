"""Mappings as files: saved, loaded, and checked against the workload that they are for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml
from pydantic import ValidationError

from simaccel.errors import Fault, InputError
from simaccel.files.schema import faults_of, read_yaml
from simaccel.files.targets import writing_text
from simaccel.mapping.choices import (
    FusedGroup,
    GemmGroup,
    GemmMapping,
    Group,
    Mapping,
    NestGroup,
    StagedGroup,
)
from simaccel.program.lower import (
    attention_views,
    gemm_views,
    operators_of,
    require_same,
    softmax_views,
)
from simaccel.workload import Workload


def mapping_text(mapping: Mapping) -> str:
    """Give a mapping as YAML."""
    return str(yaml.safe_dump(mapping.model_dump(mode="json"), sort_keys=False))


def save_mapping(mapping: Mapping, path: Path) -> None:
    """Write a mapping to a YAML file.

    Raises:
        InputError: the file can't be written.

    """
    with writing_text(path, force=True) as stream:
        stream.write(mapping_text(mapping))


def load_mapping(path: Path, workload: Workload) -> Mapping:
    """Read a mapping and check it against its workload.

    Raises:
        InputError: all faults of the file: unknown and missing keys, wrong values, tiles that
            are larger than their rank.
        NotThisWorkloadError: the mapping is for another workload.

    """
    raw, faults = read_yaml(path, "a mapping")
    try:
        mapping = Mapping.model_validate(raw)
    except ValidationError as error:
        raise InputError([*faults, *faults_of(error, str(path), raw, Mapping)]) from None
    if faults:
        raise InputError(faults)
    require_same(workload, mapping)
    faults = list(_oversized(mapping, workload, str(path)))
    if faults:
        raise InputError(faults)
    return mapping


def _oversized(mapping: Mapping, workload: Workload, file: str) -> Iterator[Fault]:
    """Find tiles that are larger than their rank."""
    for index, group in enumerate(mapping.groups):
        for field, size, extent in _sizes(group, workload):
            if size > extent:
                name = "+".join(operators_of(group))
                allowed = (
                    f"0 to {extent}, the rows of the intermediate"
                    if field == "resident_rows"
                    else f"1 to {extent}, the size of the rank in {name}"
                )
                yield Fault(file, f"groups[{index}].{field}", size, allowed)


def _sizes(group: Group, workload: Workload) -> Iterator[tuple[str, int, int]]:
    """Give (field, tile size, size of its rank) for all tiles of a group."""
    if isinstance(group, GemmGroup):
        yield from _gemm_sizes("mapping", group.mapping, gemm_views(workload, group.operator).shape)
    elif isinstance(group, StagedGroup):
        g, q, c, d, e = attention_views(workload, group.operators).shape
        yield from _gemm_sizes("logit", group.logit, (g, q, d, c))
        yield from _gemm_sizes("attend", group.attend, (g, q, c, e))
        yield "softmax.rows", group.softmax.rows, q
        yield "softmax.cols", group.softmax.cols, c
        yield "resident_rows", group.resident_rows, g * q
    elif isinstance(group, FusedGroup):
        g, q, c, _, _ = attention_views(workload, group.operators).shape
        yield "mapping.heads", group.mapping.heads, g
        yield "mapping.rows", group.mapping.rows, q
        yield "mapping.keys", group.mapping.keys, c
    elif isinstance(group, NestGroup):
        ranks = workload.operator(group.operator).ranks
        for index, level in enumerate(group.mapping.levels):
            for rank, pieces in level.factors.items():
                yield f"mapping.levels[{index}].factors.{rank}", pieces, ranks.get(rank, pieces)
    else:
        logits = softmax_views(workload, group.operator).logits
        yield "mapping.rows", group.mapping.rows, logits.shape[1]
        yield "mapping.cols", group.mapping.cols, logits.shape[2]


def _gemm_sizes(
    field: str, mapping: GemmMapping, shape: tuple[int, int, int, int]
) -> Iterator[tuple[str, int, int]]:
    for rank, extent in zip("mkn", shape[1:], strict=True):
        yield f"{field}.{rank}", getattr(mapping, rank), extent
