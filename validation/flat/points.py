"""One run on the machine, done once and kept: a killed run goes on where it was.

A point leaves a file in `out/`, under a key of all that determines it: what is run and the code
that runs it. A new version of simaccel runs everything again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import simaccel
from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.tree import Group, Mapping
from simaccel.schedulers import NothingFitsError, Options
from simaccel.search.judge import mapping_of
from simaccel.study.experiment import energy_pj, simulate
from simaccel.study.scheduling import schedule_workload
from simaccel.workload import ModelDimensions, Workload, attention
from validation import PLAIN
from validation.flat.paper import BATCH, Model
from validation.flat.ways import ATTENTION, Body, attended, crossing_twice

Row = dict[str, Any]
FOLDER: Final = Path("out") / "validation-flat"
FC: Final = ("Q", "K", "V", "O", "FF1", "FF2")
SEARCHED: Final = 4096
"""Tokens up to which whole blocks are searched."""
_BEFORE: Final = 3
"""Projections that run before the attention."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """A model of some length on an accelerator, in one way; ``scope``: la, block or fc.

    ``settings`` are fields of the accelerator that differ from its file.
    """

    accelerator: str
    model: Model
    length: int
    way: str
    scope: str = "la"
    batch: int = BATCH
    settings: tuple[str, ...] = ()

    @property
    def hardware(self) -> Accelerator:
        """The accelerator with its settings."""
        return load_accelerator(self.accelerator, [*PLAIN, *self.settings])

    def workload(self) -> Workload:
        """Return the whole block."""
        one = self.model
        sizes = ModelDimensions(
            hidden=one.hidden,
            heads=one.heads,
            head_size=one.head_size,
            ff_size=4 * one.hidden,
        )
        return attention(sizes, batch=self.batch, seq_len=self.length, scope="block", name="flat")


def solve(point: Point, folder: Path = FOLDER) -> Row:
    """Return the figures of a point: from the folder if they are there, else run and put there."""
    path = folder / f"{key(point)}.json"
    if path.is_file():
        found: Row = json.loads(path.read_text(encoding="utf-8"))
        return found
    found = _run(point)
    folder.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(found), encoding="utf-8")
    partial.replace(path)
    return found


def known(point: Point, folder: Path = FOLDER) -> bool:
    """Return whether a point has been run."""
    return (folder / f"{key(point)}.json").is_file()


def key(point: Point) -> str:
    """Return the name of a point's file."""
    return hashlib.sha256(f"{point}\n{_code()}".encode()).hexdigest()[:32]


@lru_cache
def _code() -> str:
    """Return the digest of the sources and accelerators, and of what makes points here."""
    root = Path(simaccel.__file__).parents[1]
    here = Path(__file__).parent
    sources = [*root.glob("simaccel/**/*.py"), *root.glob("hwconfigs/*.yaml")]
    digest = hashlib.sha256()
    for path in (*sorted(sources), here / "ways.py", here / "points.py"):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _run(point: Point) -> Row:
    """Map and run a point; what doesn't fit says why."""
    accelerator = point.hardware
    try:
        workload, mapping = _mapped(point, accelerator)
    except NothingFitsError as error:
        return {"fits": False, "why": str(error)}
    result = simulate(workload, accelerator, mapping)
    energy = energy_pj(result.run, accelerator)
    dram = [n for (level, _), n in result.run.moved.items() if level.startswith("dram")]
    return {
        "fits": True,
        "cycles": result.run.cycles,
        "ideal_cycles": workload.macs / accelerator.array.pes,
        "utilisation": result.utilisation,
        "dram_bytes": sum(dram),
        "energy_pj": sum(energy.values()),
        "peak_buffer_bytes": result.run.peak_buffer_bytes,
        "reserved_buffer_bytes": result.footprint_bytes,
        "operators": {operator.name: operator.cycles for operator in result.run.operators},
    }


def _mapped(point: Point, accelerator: Accelerator) -> tuple[Workload, Mapping]:
    whole = point.workload()
    if point.way == "flex-2":
        whole = crossing_twice(whole)
    if point.scope == "la":
        names: Sequence[str] = ("L", "statistics", "normalise", "A")
        names = names if point.way == "flex-2" else ATTENTION
        workload = whole.select_operators(names)
        return workload, mapping_of(workload, point.way, attended(whole, accelerator, point.way))
    if point.scope == "fc":
        workload = whole.select_operators(FC)
        return workload, schedule_workload(workload, accelerator, point.way, Options(tolerance=0.0))
    if point.way == "naive" or (point.way == "best" and point.length <= SEARCHED):
        return whole, _scheduled(point)
    before, after = _outside(point)
    body = (*before, *attended(whole, accelerator, point.way), *after)
    return whole, mapping_of(whole, point.way, body)


@lru_cache(2)
def _scheduled(point: Point) -> Mapping:
    options = Options(tolerance=0.0, pipeline=point.way == "best")
    return schedule_workload(point.workload(), point.hardware, point.way, options)


def _outside(point: Point) -> tuple[Body, Body]:
    """Return the GEMMs of a block before and behind L and A, each mapped best on its own.

    The best mapping of the block has most of them; what it fuses is searched alone, but for the
    way `best` itself. Beyond some tokens the tiles are those of fewer: only rows are more.
    """
    point = replace(point, length=min(point.length, SEARCHED))
    best = replace(point, way="best")
    groups = [group for group in _scheduled(best).body if isinstance(group, Group)]
    outside = tuple(group for group in groups if {*group.operators} <= {*FC})
    fused = point.way == "best" and sum(len(group.operators) for group in outside) == len(FC)
    if not fused:
        outside = tuple(group for group in outside if len(group.operators) == 1)
        missing = {*FC} - {group.name for group in outside}
        if missing:
            alone = best.workload().select_operators(missing)
            body = schedule_workload(alone, best.hardware, "flex", Options(tolerance=0.0)).body
            outside += tuple(group for group in body if isinstance(group, Group))
    outside = tuple(sorted(outside, key=lambda group: FC.index(group.operators[0])))
    first = tuple(group for group in outside if {*group.operators} <= {*FC[:_BEFORE]})
    return first, tuple(group for group in outside if group not in first)
