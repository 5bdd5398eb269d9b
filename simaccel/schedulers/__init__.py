"""Who decides: schedulers turn a workload and an accelerator into a mapping."""

from simaccel.analytic.estimate import require_countable
from simaccel.errors import Fault, InputError, SimaccelError, suggest
from simaccel.hardware import Accelerator, ArraySpec
from simaccel.mapping.choices import Mapping
from simaccel.schedulers import flat, flex, naive, spatial
from simaccel.schedulers.problems import Options, Scheduler
from simaccel.schedulers.search import NothingFitsError
from simaccel.workload import NotAMatmul, Vector, Workload

DATAFLOWS: dict[str, Scheduler] = naive.SCHEDULERS | flex.SCHEDULERS | flat.SCHEDULERS
"""Of GEMMs and attention on systolic arrays; a new one is a module with such a table, listed."""
MAPSPACES: dict[str, Scheduler] = spatial.SCHEDULERS
"""Schedulers that search a mapspace, on arrays of both kinds, by name."""


class NotMappableError(SimaccelError):
    """A dataflow doesn't take an operator of the workload; the message says which and why."""


def make_mapping(
    workload: Workload, accelerator: Accelerator, dataflow: str, options: Options | None = None
) -> Mapping:
    """Schedule a workload.

    Raises:
        InputError: no dataflow or mapspace of this name.
        NothingFitsError: no mapping of this dataflow fits the buffer.
        EmptyMapspaceError: no mapping of this mapspace fits.
        NotMappableError: the dataflow doesn't take an operator, such as a convolution or a norm,
            or it is for another kind of array.
        EstimateError: the workload is too large to count.

    """
    known = {**DATAFLOWS, **MAPSPACES}
    if dataflow not in known:
        raise InputError([Fault("--dataflow", "dataflow", dataflow, suggest(dataflow, known))])
    require_countable(workload)
    if dataflow in DATAFLOWS and not isinstance(accelerator.array, ArraySpec):
        raise NotMappableError(
            f"dataflow {dataflow} takes systolic arrays; {accelerator.name} has a spatial one"
        )
    for operator in workload.operators:
        if isinstance(operator, Vector) and operator.kind != "softmax":
            raise NotMappableError(
                f"dataflow {dataflow} takes softmax and no other vector operator; "
                f"{operator.name} is of kind {operator.kind}"
            )
    try:
        return known[dataflow](workload, accelerator, options or Options())
    except NotAMatmul as error:
        raise NotMappableError(
            f"dataflow {dataflow} takes matrix products and attention; {error}; the mapspaces "
            f"({', '.join(MAPSPACES)}) take it"
        ) from None


__all__ = [
    "DATAFLOWS",
    "MAPSPACES",
    "NotMappableError",
    "NothingFitsError",
    "Options",
    "Scheduler",
    "make_mapping",
]
