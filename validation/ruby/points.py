"""One point of figures 10 to 14: a layer on an array through a mapspace, searched once and kept.

A search leaves a file with its mapping in `out/`, under a key of all that determines it: shape,
element sizes, levels, constraints, effort, and the code that searches. A killed run goes on from
these files. What is read is believed only if it is whole, and its figures are computed anew.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

import simaccel
from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator
from simaccel.hardware.dataflow import parse_constraints
from simaccel.hardware.spatial import SpatialArraySpec
from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.checks import require_legal
from simaccel.mapping.tree import Do, Group, Keep, Loop, Spread, nodes
from simaccel.search.effort import Effort, Objective, Strategy
from simaccel.search.judge import mapping_of
from simaccel.search.mapspace.mapping_target import MappingTarget
from simaccel.search.mapspace.nests import NestResult, map_einsum
from simaccel.verbs.estimating import require_mapping_fits
from simaccel.workload.layers import LayerShape, layers_workload
from simaccel.workload.workload import Workload

FOLDER: Final = Path("out") / "validation-ruby"
_WIDTHS: Final[Mapping[str, Mapping[str, int]]] = {
    "simba_like": {"I": 1, "W": 1, "O": 3},
    "simba_like_9": {"I": 1, "W": 1, "O": 3},
}
"""Bytes per element: 8-bit factors and sums of 24 bits; all others have words of 16 bits."""
_SPACES: Final = 4
"""Padding has up to 15 mapspaces, one for each choice of ranks: so many times the patience."""
_CODE: Final = ("schedulers", "mapspace", "analytic", "mapping", "hardware")


@dataclass(frozen=True)
class Search:
    """Patience of one search, and from how many seeds it starts; the best counts.

    ``sampled``: draws only, at random, as the paper searches: nothing near the best is looked at,
    and what another mapspace's search found is not known.
    """

    patience: int
    seeds: int = 1
    sampled: bool = False


@dataclass(frozen=True, kw_only=True)
class Point:
    """What is searched; ``array`` are columns and rows, where they are others than the file's."""

    shape: LayerShape
    accelerator: str
    strategy: Strategy
    search: Search
    array: tuple[int, int] | None = None
    objective: Objective = "edp"


@dataclass(frozen=True, kw_only=True)
class Result:
    """The best mapping, its figures, and how it was found."""

    mapping: Group
    cycles: int
    energy_pj: float
    utilisation: float
    scores: tuple[float, ...]
    """The objective from each seed."""
    tried: int
    """Valid mappings that were evaluated."""
    complete: bool
    """Whether the whole mapspace was."""
    taken: bool = False
    """Whether the winner of the perfect mapspace was better than what the search found."""

    @property
    def edp(self) -> float:
        """Energy times delay in J cycles."""
        return self.energy_pj * self.cycles * 1e-12

    def score(self, objective: Objective) -> tuple[float, float]:
        """Give the objective and what decides between equals, as the search orders them."""
        cycles, energy = float(self.cycles), self.energy_pj
        if objective == "edp":
            return energy * cycles, cycles
        return (cycles, energy) if objective == "cycles" else (energy, cycles)


@lru_cache(64)
def hardware(accelerator: str, array: tuple[int, int] | None = None) -> Accelerator:
    """Load an accelerator, perhaps with another number of columns and rows."""
    sizes = () if array is None else (f"array.cols={array[0]}", f"array.rows={array[1]}")
    return load_accelerator(accelerator, sizes)


def workload(point: Point) -> Workload:
    """Give the layer as a workload of its own."""
    widths = _WIDTHS.get(point.accelerator)
    return layers_workload("point", {"layer": point.shape}, bytes_by_tensor=widths)


def goal(point: Point) -> MappingTarget:
    """Put together what is mapped on what: the accelerator's dataflow is all that constrains."""
    accelerator, work = hardware(point.accelerator, point.array), workload(point)
    assert isinstance(accelerator.array, SpatialArraySpec)
    (einsum,) = work.operators
    return MappingTarget(
        einsum=einsum,  # type: ignore[arg-type]
        tensors=work.tensors,
        accelerator=accelerator,
        strategy=point.strategy,
        dataflow=parse_constraints(accelerator.array.dataflow),
        constraints={},
    )


def solve(point: Point, folder: Path = FOLDER) -> Result:
    """Give the best mapping: from the folder if it is there, else searched and put there.

    Perfect mappings are a part of Ruby-S, and padding is a choice: neither is worse than PFM.
    """
    result = _read(point, folder)
    if result is None:
        result = _searched(point)
        _write(point, result, folder)
    if point.strategy == "pfm" or point.search.sampled:
        return result
    perfect = solve(replace(point, strategy="pfm"), folder)
    if result.score(point.objective) <= perfect.score(point.objective):
        return result
    return replace(perfect, scores=result.scores, tried=result.tried, complete=False, taken=True)


def _searched(point: Point) -> Result:
    patience = point.search.patience * (_SPACES if point.strategy == "padded" else 1)
    runs: list[NestResult] = []
    for seed in range(point.search.seeds):
        effort = Effort(
            objective=point.objective,
            patience=patience,
            seed=seed,
            exhaustive=0 if point.search.sampled else Effort.exhaustive,
            refine=not point.search.sampled,
        )
        runs.append(map_einsum(goal(point), effort))
        if runs[-1].found.complete:
            break
    scores = tuple(run.found.score for run in runs)
    best = runs[scores.index(min(scores))]
    tried = sum(run.found.valid for run in runs)
    result = _figures(point, best.group, scores, tried, complete=best.found.complete)
    assert result is not None
    return result


def _figures(
    point: Point, mapping: Group, scores: Sequence[float], tried: int, *, complete: bool
) -> Result | None:
    """Compute the figures of a mapping; nothing if it isn't one of this point."""
    target = goal(point)
    if mapping.operators != (target.einsum.name,):
        return None
    work, accelerator = workload(point), target.accelerator
    try:
        whole = require_legal(work, mapping_of(work, "", [mapping]), accelerator)
        require_mapping_fits(work, accelerator, whole)
    except (SimaccelError, ValueError):
        return None
    totals = target.totals(mapping)
    cycles = int(totals.bound())
    return Result(
        mapping=mapping,
        cycles=cycles,
        energy_pj=sum(float(level) for level in totals.energy_pj().values()),
        utilisation=target.einsum.macs / (cycles * target.hierarchy.macs_per_cycle),
        scores=tuple(scores),
        tried=tried,
        complete=complete,
    )


_NODES: Final[dict[str, Any]] = {one.__name__.lower(): one for one in (Loop, Spread, Keep, Do)}


def _written(group: Group) -> dict[str, Any]:
    """Give a mapping as plain data."""
    tree = [[type(node).__name__.lower(), _plain(node)] for node in nodes(group.tree)]
    return {"operator": group.name, "tree": tree, "padded": dict(group.padded)}


def _mapping(body: Mapping[str, Any]) -> Group:
    """Read what `_written` gives."""
    tree = tuple(
        _NODES[kind](**{name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()})
        for kind, fields in body["tree"]
    )
    return Group(operators=(body["operator"],), tree=tree, padded=body["padded"])


def key(point: Point) -> str:
    """Give a name to all that determines the result."""
    target = goal(point)
    einsum = target.einsum
    operands = (*einsum.inputs, einsum.output)
    parts = {
        "ranks": dict(einsum.ranks),
        "operands": [_plain(operand.projection) for operand in operands],
        "bytes": [target.tensors[operand.tensor].bytes_per_element for operand in operands],
        "hierarchy": _plain(target.hierarchy),
        "dataflow": _plain(target.dataflow),
        "strategy": point.strategy,
        "objective": point.objective,
        "search": _plain(point.search),
        "code": _code(),
    }
    return _digest(parts)


def _digest(document: object) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:32]


def _plain(value: object) -> Any:  # noqa: ANN401 - plain data of any form
    """Give data that have one text; sets have none."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


@lru_cache(1)
def _code() -> str:
    """Give a name to the code that searches and counts."""
    package = Path(simaccel.__file__).parent
    found = hashlib.sha256()
    for path in sorted(path for part in _CODE for path in (package / part).rglob("*.py")):
        found.update(path.relative_to(package).as_posix().encode() + path.read_bytes())
    return found.hexdigest()


def _file(point: Point, folder: Path) -> Path:
    return folder / f"{key(point)}.json"


def _write(point: Point, result: Result, folder: Path) -> None:
    """Put a result into the folder: whole or not at all."""
    body = {
        "key": key(point),
        "mapping": _written(result.mapping),
        "scores": list(result.scores),
        "tried": result.tried,
        "complete": result.complete,
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = _file(point, folder)
    draft = path.with_suffix(f".{os.getpid()}.partial")
    draft.write_text(json.dumps(body | {"digest": _digest(body)}, indent=1), encoding="utf-8")
    draft.replace(path)


def _read(point: Point, folder: Path) -> Result | None:
    """Read a result; nothing if there is none or it isn't what was written for this point."""
    try:
        body = json.loads(_file(point, folder).read_text(encoding="utf-8"))
        if body.pop("digest") != _digest(body) or body["key"] != key(point):
            return None
        mapping = _mapping(body["mapping"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return _figures(point, mapping, body["scores"], body["tried"], complete=body["complete"])


def distinct(points: Sequence[Point]) -> Iterator[Point]:
    """Give each search once: layers of one shape share it."""
    yield from dict.fromkeys(points)
