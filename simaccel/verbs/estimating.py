"""`estimate`: the prediction for a run, and its tables in a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simaccel.analytic.prediction import Prediction, predict
from simaccel.errors import name_arguments
from simaccel.hardware import Accelerator
from simaccel.hardware.presets import Settings
from simaccel.machine.folds import require_sums_fit
from simaccel.mapping.chips.sharding import pod_of
from simaccel.mapping.tree import Mapping
from simaccel.program.exchanges import lower_pod
from simaccel.program.fit import require_fit
from simaccel.report.estimates import estimate_json, estimate_table
from simaccel.report.tables import Table
from simaccel.report.titles import experiment_title
from simaccel.schedulers import Options
from simaccel.search.effort import Objective
from simaccel.verbs.inputs import (
    AcceleratorLike,
    DataflowLike,
    WorkloadLike,
    as_inputs,
    as_options,
    check_types,
    resolve_mapping,
)
from simaccel.verbs.showing import Rows, ShownResult
from simaccel.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, repr=False)
class EstimateResult(ShownResult):
    """The prediction for a mapping: counts, work, lower bound; nothing is simulated."""

    workload: Workload
    accelerator: Accelerator
    mapping: Mapping
    prediction: Prediction

    @property
    def title(self) -> str:
        """The title: workload, accelerator and dataflow."""
        title = experiment_title(self.workload, self.accelerator, self.mapping.dataflow)
        return f"{title}: predicted"

    @property
    def bound_cycles(self) -> int:
        """Lower bound of the cycles of any run."""
        return self.prediction.bound_cycles

    def __repr__(self) -> str:
        bound = f"bound {self.bound_cycles:,} cycles"
        return f"<EstimateResult {self.title}, {bound} ({self.prediction.bound_by})>"

    def _parts(self) -> Iterable[Table | str]:
        return [estimate_table(self.prediction, self.accelerator)]

    def _rows(self) -> Rows:
        rows = self.to_dict()["operators"]
        return [{n: v for n, v in row.items() if not isinstance(v, dict)} for row in rows]

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as plain data (the format of ``simaccel estimate --json``)."""
        names = {
            "workload": self.workload.name,
            "accelerator": self.accelerator.name,
            "dataflow": self.mapping.dataflow,
        }
        return {**names, **estimate_json(self.prediction, self.accelerator)}


@name_arguments()
@check_types("workload", "accelerator", "dataflow")
def estimate(
    workload: WorkloadLike,
    accelerator: AcceleratorLike,
    dataflow: DataflowLike = None,
    *,
    objective: Objective | None = None,
    settings: Settings = (),
    options: Options | None = None,
) -> EstimateResult:
    """Predict counts, work and the lower bound of a run; nothing is simulated.

    Names or objects, as for ``simulate``.

    Raises:
        SimaccelError: an input can't be read, or the mapping needs more than the buffer.
    """
    of, target, choice = as_inputs(workload, accelerator, dataflow, settings)
    mapping = resolve_mapping(of, target, choice, as_options(options, objective))
    return estimate_of(of, target, require_mapping_fits(of, target, mapping))


def require_mapping_fits(workload: Workload, accelerator: Accelerator, mapping: Mapping) -> Mapping:
    """Return the mapping if it fits the buffer.

    Raises:
        DoesNotFitError: it needs more.
    """
    program = lower_pod(pod_of(workload, mapping, accelerator), accelerator)
    require_fit(program, accelerator.capacities)
    require_sums_fit(program, accelerator)
    return mapping


def estimate_of(workload: Workload, accelerator: Accelerator, mapping: Mapping) -> EstimateResult:
    """Return the prediction for a mapping."""
    pod = pod_of(workload, mapping, accelerator)
    predicted = predict(pod.workload, pod.mapping, accelerator, pod.exchanges, pod.parts)
    return EstimateResult(pod.workload, accelerator, pod.mapping, predicted)
