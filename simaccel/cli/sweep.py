"""`--sweep NAME=FROM:TO:STEP`: what can be swept, and the points of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Final

from simaccel.cli.axes import read_axis
from simaccel.cli.experiment_options import ExperimentOptions
from simaccel.cli.faults import fault, gather
from simaccel.errors import InputError, suggest
from simaccel.experiment.documents import workload_document
from simaccel.hardware import Accelerator
from simaccel.hardware.load import with_values
from simaccel.report.comparison import SweepPoint
from simaccel.verbs.parameters import PARAMETERS, Parameter, Values
from simaccel.workload import Workload

if TYPE_CHECKING:
    from simaccel.verbs.comparing import ComparisonTask

MOST_POINTS: Final = 1000
"""A longer sweep is a typing error, or work for a script."""


@dataclass(frozen=True)
class Sweep:
    """A parameter and the points at which it is tried, in order."""

    parameter: Parameter
    points: tuple[Values, ...]

    def apply(
        self, values: Values, workload: Workload, accelerator: Accelerator
    ) -> tuple[Workload, Accelerator, SweepPoint]:
        """Return workload and accelerator at one point, checked as if read from files.

        Raises:
            InputError: no accelerator can have this value, or the workload has no such parameter.

        """
        point = self.parameter.point(values)
        source = f"--sweep {point.axis.name}={point.text}"
        settings = dict(zip(self.parameter.fields, values, strict=True))
        if self.parameter.of == "accelerator":
            return workload, with_values(accelerator, settings, source), point
        (field,) = settings
        if field not in workload.parameters:
            others = [
                name for name, parameter in PARAMETERS.items() if parameter.of == "accelerator"
            ]
            allowed = f"{suggest('', others)}; workload {workload.name} has no {field}"
            raise InputError([fault("--sweep", point.axis.name, allowed)])

        from simaccel.workload import parse_workload

        document = {**workload_document(workload), **settings}
        return parse_workload(document, source), accelerator, point

    def tasks(
        self, workloads: Sequence[Workload], accelerator: Accelerator
    ) -> list[ComparisonTask]:
        """Return a task without a dataflow at each point and of each workload.

        Raises:
            InputError: as of ``apply``, all faults together.

        """
        from simaccel.verbs.comparing import ComparisonTask, seq_len_of

        runs: list[tuple[Workload, Accelerator, SweepPoint]] = gather(
            *(
                partial(self.apply, values, workload, accelerator)
                for values, workload in product(self.points, workloads)
            )
        )
        return [
            ComparisonTask(workload, there, point, "", seq_len=seq_len_of(workload))
            for workload, there, point in runs
        ]


def read_sweep(texts: tuple[str, ...], asked: ExperimentOptions) -> Sweep | None:
    """Read what was given for --sweep, if anything.

    Raises:
        InputError: more than one sweep, no such parameter, bad values, or another option that
            says the same.

    """
    if not texts:
        return None
    if len(texts) > 1:
        allowed = "one sweep; call compare once for each"
        raise InputError([fault("--sweep", " ".join(texts), allowed)])
    (parameter, points, log), _ = gather(
        lambda: read_axis("--sweep", texts[0], PARAMETERS.get, [*PARAMETERS], MOST_POINTS),
        lambda: _require_alone(texts[0], asked),
    )
    axis = replace(parameter.axis, log=log)
    return Sweep(replace(parameter, axis=axis), points)


def _require_alone(text: str, asked: ExperimentOptions) -> None:
    """Refuse options that the sweep decides."""
    parameter = PARAMETERS.get(text.partition("=")[0].strip())
    if parameter is None:
        return
    allowed = f"nothing with --sweep {parameter.axis.name}, which sets it"
    faults = []
    if parameter.of == "workload":
        fields = {field: getattr(asked.workload, field) for field in parameter.fields}
        faults = [
            fault(f"--{field.replace('_', '-')}", value, allowed)
            for field, value in fields.items()
            if value is not None
        ]
    for override in asked.overrides:
        field = override.partition("=")[0].strip()
        if field in parameter.fields:
            faults.append(fault("--set", override, allowed))
    if faults:
        raise InputError(faults)
