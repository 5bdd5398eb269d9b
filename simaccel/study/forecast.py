"""Forecasts of the CPU seconds of searches and runs: distinct operators times median seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator
from simaccel.mapping.tree import Mapping
from simaccel.schedulers import DATAFLOWS, MAPSPACES, Options, settle_options
from simaccel.schedulers.chip_share import chip_share
from simaccel.search.effort import Effort
from simaccel.study.pipeline_plan import plan_pipeline
from simaccel.study.points import Point
from simaccel.study.scheduling import recall
from simaccel.workload import Operator, Vector, Workload

EINSUM_SECONDS, VECTOR_SECONDS = 0.3, 0.15
"""Median CPU seconds of the search of an operator by ``flex`` and ``flat``: products took 0.1 to 2,
convolutions of ResNet-50 and VGG16 0.04 to 1.2."""
_FACTORS: Final = {"naive": 0.1, "strips": 0.1, "deployed": 0.01, "best": 2.0}
"""Dataflows that take less, having no tiles to choose or nothing to search, or more."""
NEST_SECONDS: Final = 2.5
"""CPU seconds that the search of an einsum's mapspace took: layers of AlexNet on
``eyeriss_like``."""
RUN_SECONDS: Final = 0.05
"""CPU seconds an operator takes on the machine: of a BERT block, and of ResNet-50."""
_FEW: Final = 16
"""Points whose forecast stands for all."""


@dataclass(frozen=True, kw_only=True)
class SearchForecast:
    """The size of a search, and the seconds that it will take.

    ``distinct``: operators that differ, as equal ones are searched once; ``seconds``: CPU time,
    about; None if unknown. ``remembered``: the mapping is in the store, from an earlier search.
    """

    operators: int
    distinct: int = 0
    seconds: float | None = 0.0
    remembered: bool = False

    @property
    def run_seconds(self) -> float:
        """CPU seconds that the run takes, about."""
        return RUN_SECONDS * self.operators


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
    einsum, vector, effort = EINSUM_SECONDS, VECTOR_SECONDS, options.effort
    if dataflow in MAPSPACES:
        einsum, vector = NEST_SECONDS * math.sqrt(effort.patience / Effort.patience), 0.0
    distinct = dict.fromkeys(map(_work_of, workload.operators))
    seconds: float | None = sum(vector if is_vector else einsum for is_vector, *_ in distinct)
    if dataflow in DATAFLOWS.own:
        seconds = _FACTORS.get(dataflow.partition("-")[0], 1.0) * (seconds or 0.0)
    elif dataflow not in MAPSPACES:  # a plug-in
        seconds = None
    elif effort.budget_seconds is not None:
        seconds = float(effort.budget_seconds)
    return replace(plain, distinct=len(distinct), seconds=seconds)


def _work_of(operator: Operator) -> tuple[object, ...]:
    """Return whether it is a vector operator, its kind and sizes: equal ones are searched once."""
    is_vector = isinstance(operator, Vector)
    kind = operator.kind if isinstance(operator, Vector) else ""
    places = (str(operand.projection) for operand in (*operator.inputs, operator.output))
    return is_vector, kind, *operator.ranks.items(), *places


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


def forecast_seconds(runs: Sequence[Point], enough: float = math.inf) -> float:
    """Return about the CPU seconds of runs and their searches, from some of them.

    Above ``enough`` it is at least that. Those that fail take none, those of plug-ins their runs.
    """
    few = runs[:: -(-len(runs) // _FEW) or 1]
    seconds = 0.0
    for run in few:
        with suppress(SimaccelError):
            seconds += sum((part.seconds or 0.0) + part.run_seconds for _, part in forecasts(run))
        if seconds * len(runs) > enough * len(few):
            break
    return seconds * len(runs) / max(len(few), 1)
