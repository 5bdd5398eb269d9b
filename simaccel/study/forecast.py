"""Forecasts of the CPU seconds of searches and runs, by medians of those measured before."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

from simaccel.hardware import Accelerator
from simaccel.hardware.dataflow import parse_constraints
from simaccel.mapping.space import mergeable, space_of
from simaccel.mapping.tree import Group, Mapping
from simaccel.schedulers import DATAFLOWS, MAPSPACES, Options, settle_options
from simaccel.schedulers.spatial import choices, shape_of
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.effort import Effort
from simaccel.search.goal import Goal
from simaccel.search.mapspace.mapping_target import rooms_of
from simaccel.search.problems import parts
from simaccel.study.chip_share import chip_share
from simaccel.study.pipeline_plan import plan_pipeline
from simaccel.study.points import Point
from simaccel.study.scheduling import recall
from simaccel.workload import Vector, Workload
from simaccel.workload.roles import window_ranks

SECONDS: Final = {
    "attention": 0.5,
    "window": 0.6,
    "1x1 convolution": 0.3,
    "product": 0.3,
    "vector operator": 0.15,
}
"""Median CPU seconds of the search of one, by ``flex`` and ``flat``: attentions of BERT took 0.4 to
0.9, convolutions of ResNet-50 and VGG16 with windows 0.04 to 1.2, without 0.1 to 0.8, products
0.1 to 2. A window that goes over one channel takes no longer than none."""
_FACTORS: Final = {"naive": 0.1, "strips": 0.1, "deployed": 0.01, "best": 2.0}
"""Dataflows that take less, having no tiles to choose or nothing to search, or more."""
NEST_SECONDS: Final = 2.5
"""CPU seconds that the search of an einsum's mapspace took: layers of AlexNet on
``eyeriss_like``."""
RUN_SECONDS: Final = 0.05
"""CPU seconds an operator takes on the machine: of a BERT block, and of ResNet-50."""


@dataclass(frozen=True, kw_only=True)
class SearchForecast:
    """The size of a search, and the seconds that it will take.

    ``distinct``: pieces of work that differ, as equal ones are searched once;
    ``seconds``: CPU time, about; None if unknown. ``remembered``: the mapping is
    in the store, from an earlier search.
    """

    operators: int
    distinct: int = 0
    seconds: float | None = 0.0
    remembered: bool = False

    @property
    def run_seconds(self) -> float:
        """CPU seconds that a run of the mapping takes, about."""
        return RUN_SECONDS * self.operators

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of search and run, about; infinity if unknown."""
        return self.run_seconds + (math.inf if self.seconds is None else self.seconds)


def forecast(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str | Mapping,
    options: Options,
    *,
    anew: bool = False,
) -> SearchForecast:
    """Return the forecast of the search for a workload's mapping.

    Of several chips, the part of one. ``anew``: it is searched even where a mapping is remembered.

    Raises:
        SimaccelError: as of ``make_mapping``, as far as that is known before the search.
    """
    if isinstance(dataflow, Mapping):
        return SearchForecast(operators=len(workload.operators))
    if (share := chip_share(workload, accelerator, options, dataflow)) is not None:
        workload, accelerator, options = share.pod.workload, share.accelerator, share.options
    options = settle_options(options, accelerator)
    plain = SearchForecast(operators=len(workload.operators))
    if not anew and recall(workload, accelerator, dataflow, options) is not None:
        return replace(plain, remembered=True)
    if dataflow in MAPSPACES:
        return _of_mapspace(plain, workload, accelerator, dataflow, options)
    if dataflow in DATAFLOWS.own:
        return _of_trees(plain, workload, accelerator, dataflow, options)
    return replace(plain, seconds=None)  # a plug-in


def forecasts(point: Point) -> list[tuple[str, SearchForecast]]:
    """Return (name, forecast) of a point, with an empty name, or of each stage of a pipeline.

    Raises:
        SimaccelError: as of ``forecast`` and ``plan_pipeline``.
    """
    if point.stages is None:
        return [("", forecast(point.workload, point.accelerator, point.dataflow, point.options))]
    plan = plan_pipeline(point)
    return [
        (
            f"{stage.name} stage" if stage.count == 1 else f"{stage.count} stages {stage.name}",
            forecast(stage.workload, plan.group, plan.dataflow, plan.options),
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
    """Return the forecast of a search over trees, by the pieces of a workload that differ."""
    # what a search may leave is not needed
    quick = replace(options, patience=options.patience or 1)
    search = TreeSearch(Goal.from_options(accelerator, quick, workload))
    pieces: dict[tuple[int, ...], str] = {}
    for part in parts(workload):
        names = (part,) if isinstance(part, str) else part
        each = [search.operator_candidates(workload, name) for name in names]
        kind = "attention" if len(names) > 1 else _kind(workload, names[0])
        piece = tuple(id(candidates.known) for candidates in each)
        if pieces.setdefault(piece, kind) == "product":
            name = names[0]  # a product without trees is refused; others aren't counted here
            group = Group(operators=(name,), tree=(), merged=mergeable(workload, [name]))
            space = space_of(workload, group)
            search.einsum_trees(space, space.bound_operator(name), search.accelerator, kept=())
    factor = _FACTORS.get(dataflow.partition("-")[0], 1.0)
    seconds = factor * sum(n * SECONDS[kind] for kind, n in Counter(pieces.values()).items())
    return replace(plain, distinct=len(pieces), seconds=seconds)


def _kind(workload: Workload, name: str) -> str:
    operator = workload.operator(name)
    if isinstance(operator, Vector):
        return "vector operator"
    slides = window_ranks(operator).difference(operator.output.ranks)
    sums = [rank for rank in operator.ranks if rank not in operator.output.ranks]
    if all(
        any(operator.ranks[r] > 1 for r in sums if (r in slides) is one) for one in (True, False)
    ):
        return "window"
    return "1x1 convolution" if slides else "product"


def _of_mapspace(
    plain: SearchForecast,
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str,
    options: Options,
) -> SearchForecast:
    """Return the forecast of a mapspace search: time grows by the square root of patience."""
    asked, effort = parse_constraints(options.constraints), options.effort
    strategy = next(name for name in MAPSPACES if name == dataflow)
    every = choices(workload, accelerator, strategy, asked, options.stationarity)  # type: ignore[arg-type]
    distinct = {shape_of(spaces[0]): spaces for spaces in every}.values()
    searches = sum(len(spaces) * len(rooms_of(spaces[0].hierarchy)) for spaces in distinct)
    seconds = NEST_SECONDS * searches * math.sqrt(effort.patience / Effort.patience)
    if effort.budget_seconds is not None and distinct:
        seconds = float(effort.budget_seconds)
    return replace(plain, distinct=len(distinct), seconds=seconds)
