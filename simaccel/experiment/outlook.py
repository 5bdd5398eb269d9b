"""Outlooks: what a command has to search before it starts, and about how long that takes.

Counted is what there is to search. The time comes from rates: of mapspaces one is measured here and
now by a short search; of dataflows they are published (``SECONDS``), as one operator may take a
hundred times as long as another that looks much like it.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from simaccel.experiment.pipeline_plan import named_dataflow, plan_pipeline
from simaccel.experiment.remembered import is_lasting, recall
from simaccel.experiment.scheduling import chip_share
from simaccel.experiment.store import cache
from simaccel.hardware import Accelerator
from simaccel.hardware.dataflow import parse_constraints
from simaccel.mapping.tree import Mapping
from simaccel.schedulers import DATAFLOWS, MAPSPACES, Options, settle_options
from simaccel.schedulers.spatial import choices, rooms_of, shape_of
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.effort import Effort
from simaccel.search.grid_search import Goal
from simaccel.search.mapspace.mapping_target import MappingTarget
from simaccel.search.mapspace.nests import EmptyMapspaceError, map_einsum
from simaccel.search.problems import parts
from simaccel.workload import Einsum, Vector, Workload

SECONDS: Final = {
    "attention": 1.5,
    "window": 6.0,
    "1x1 convolution": 0.8,
    "product": 0.4,
    "vector operator": 0.15,
}
"""CPU seconds that the search of one took on the machine of ``benchmarks/README.md``: attentions
of BERT 0.6 to 3, convolutions of ResNet-50 with windows 1 to 24, without 0.2 to 2.3, products of
BERT 0.2 to 0.9. A window that goes over one channel takes no longer than none."""
_FACTORS: Final = {"naive": 0.1, "strips": 0.1, "best": 2.0}
"""Dataflows that take less, having no tiles to choose, or more."""
RUN_SECONDS: Final = 0.05
"""CPU seconds an operator takes on the machine: of a BERT block, and of ResNet-50."""
_SOON: Final = 2.0
"""Seconds of a search that nobody needs to be warned of."""
_PATIENCE: Final = 1_000
"""Of the short search of a mapspace. With eight times as much one took 2 to 4 times as long: the
square root."""


@dataclass(frozen=True, kw_only=True)
class SearchForecast:
    """The size of a search and the seconds that it will take.

    ``distinct``: pieces of work that are searched, as those that are alike are searched once;
    ``space``: their candidates, of which most are left out unseen; ``seconds``: CPU time, about;
    None where nothing is known of it. ``kept``: the folder where the mapping is kept, if it is;
    ``remembered``: it is there already.
    """

    operators: int
    distinct: int = 0
    space: int = 0
    seconds: float | None = 0.0
    how: str = "nothing to search"
    kept: Path | None = None
    remembered: bool = False

    @property
    def is_soon(self) -> bool:
        """Whether the search takes less than two seconds."""
        return self.seconds is not None and self.seconds <= _SOON

    @property
    def run_seconds(self) -> float:
        """CPU seconds that a run of what is found takes, about: published, too."""
        return RUN_SECONDS * self.operators


def outlook(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str | Mapping,
    options: Options,
    *,
    anew: bool = False,
) -> SearchForecast:
    """Return what the search of a workload's mapping, where none is given, has before it.

    Of several chips, the part of one. ``anew``: it is searched even where a mapping is remembered.

    Raises:
        SimaccelError: as of ``make_mapping``, as far as that is known before the search.

    """
    if isinstance(dataflow, Mapping):
        return SearchForecast(operators=len(workload.operators), how="the mapping is given")
    if (share := chip_share(workload, accelerator, options)) is not None:
        workload, accelerator, options = share.pod.workload, share.accelerator, share.options
    options = settle_options(options, accelerator)
    kept = cache().folder if is_lasting(workload, dataflow, options) else None
    plain = SearchForecast(operators=len(workload.operators), kept=kept)
    if not anew and recall(workload, accelerator, dataflow, options) is not None:
        return replace(plain, remembered=True, how="remembered")
    if dataflow in MAPSPACES:
        return _of_mapspace(plain, workload, accelerator, dataflow, options)
    if dataflow in DATAFLOWS.own:
        return _of_trees(plain, workload, accelerator, dataflow, options)
    return replace(plain, seconds=None, how="not known of a plug-in")


def outlooks(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str | Mapping,
    options: Options,
    *,
    stages: int | None = None,
    micro_batches: int | None = None,
) -> list[tuple[str, SearchForecast]]:
    """Return ``outlook`` with an empty name; of a pipeline that of each stage with its name.

    Raises:
        SimaccelError: as of ``outlook`` and ``plan_pipeline``.

    """
    if stages is None:
        return [("", outlook(workload, accelerator, dataflow, options))]
    named = named_dataflow(dataflow)
    plan = plan_pipeline(
        workload, accelerator, stages=stages, micro_batches=micro_batches, options=options
    )
    return [
        (
            f"{stage.name} stage" if stage.count == 1 else f"{stage.count} stages {stage.name}",
            outlook(stage.workload, plan.group, named, plan.options),
        )
        for stage in plan.stages
    ]


def _of_trees(
    plain: SearchForecast,
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str,
    options: Options,
) -> SearchForecast:
    """Count the pieces of a workload, those alike once, and their grids."""
    quick = replace(
        options, patience=options.patience or 1
    )  # what a search may leave is not needed
    search = TreeSearch(Goal.from_options(accelerator, quick, workload))
    pieces: dict[tuple[int, ...], tuple[str, int]] = {}
    for part in parts(workload):
        names = (part,) if isinstance(part, str) else part
        each = [search.operator_candidates(workload, name) for name in names]
        kind = "attention" if len(names) > 1 else _kind(workload, names[0])
        space = sum(
            math.prod(family.shape) for candidates in each for family in candidates.families
        )
        pieces.setdefault(tuple(id(candidates.known) for candidates in each), (kind, space))
    kinds = Counter(kind for kind, _ in pieces.values())
    factor = _FACTORS.get(dataflow.partition("-")[0], 1.0)
    rates = (f"{SECONDS[kind] * factor:.2g} s per {kind}" for kind in SECONDS if kinds[kind])
    sooner = f"; less with a patience of {options.patience:,}" if options.patience else ""
    return replace(
        plain,
        distinct=len(pieces),
        space=sum(space for _, space in pieces.values()) if factor >= 1 else 0,
        seconds=factor * sum(n * SECONDS[kind] for kind, n in kinds.items()),
        how=f"published: {', '.join(rates)}{sooner}",
    )


def _kind(workload: Workload, name: str) -> str:
    operator = workload.operator(name)
    if isinstance(operator, Vector):
        return "vector operator"
    slides = _slides(operator)
    sums = [rank for rank in operator.ranks if rank not in operator.output.ranks]
    if all(
        any(operator.ranks[r] > 1 for r in sums if (r in slides) is one) for one in (True, False)
    ):
        return "window"
    return "1x1 convolution" if slides else "product"


def _slides(einsum: Einsum) -> set[str]:
    """Return the ranks of the window that slides over an input, whatever its size."""
    dims = [dim.terms for one in einsum.inputs for dim in one.projection if len(dim.terms) > 1]
    return {rank for terms in dims for rank, _ in terms if rank not in einsum.output.ranks}


def _of_mapspace(
    plain: SearchForecast,
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str,
    options: Options,
) -> SearchForecast:
    """Count the einsums, those alike once, and try the search of one with little patience."""
    asked, effort = parse_constraints(options.constraints), options.effort
    strategy = next(name for name in MAPSPACES if name == dataflow)
    every = choices(workload, accelerator, strategy, asked, options.stationarity)  # type: ignore[arg-type]
    distinct = list({shape_of(spaces[0]): spaces for spaces in every}.values())
    sizes = [sum(map(_size, spaces)) for spaces in distinct]
    searches = sum(len(spaces) * len(rooms_of(spaces[0].hierarchy)) for spaces in distinct)
    plain = replace(plain, distinct=len(distinct), space=sum(sizes))
    if not distinct:
        return plain
    if effort.budget_seconds is not None:
        seconds = float(effort.budget_seconds)
        return replace(plain, seconds=seconds, how=f"{searches} searches share that budget")
    largest = distinct[sizes.index(max(sizes))]
    seconds, patience = _try_search(largest[0], effort)
    more = math.sqrt(effort.patience / patience)
    how = (
        f"measured: {seconds:.1g} s with a patience of {patience:,} tilings, about {more:.1f} "
        f"times as long with {effort.patience:,}; {searches} searches"
    )
    return replace(plain, seconds=seconds * more * searches, how=how)


def _size(target: MappingTarget) -> int:
    return sum(space.size() for space in target.spaces())


def _try_search(target: MappingTarget, effort: Effort) -> tuple[float, int]:
    """Search with little patience; return the CPU seconds, and the patience of which they are."""
    short = replace(effort, patience=min(_PATIENCE, effort.patience))
    started = time.process_time()
    with suppress(EmptyMapspaceError):  # it says so when it is searched
        found = map_einsum(target, short).found
        if found.complete:
            short = effort
    return time.process_time() - started, short.patience
