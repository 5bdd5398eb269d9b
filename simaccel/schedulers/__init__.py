"""Who decides: schedulers turn a workload and an accelerator into a mapping."""

from simaccel.analytic.estimate import require_countable
from simaccel.errors import Fault, InputError, suggest
from simaccel.hardware import Accelerator, ArraySpec
from simaccel.mapping.tree import Mapping
from simaccel.schedulers import best, flat, flex, naive, spatial, strips
from simaccel.schedulers.choosing import NothingFitsError
from simaccel.schedulers.einsums import NotMappableError
from simaccel.schedulers.problems import Options, Scheduler
from simaccel.workload import Workload

DATAFLOWS: dict[str, Scheduler] = (
    naive.SCHEDULERS | strips.SCHEDULERS | flex.SCHEDULERS | flat.SCHEDULERS | best.SCHEDULERS
)
"""On systolic arrays; a new one is a module with such a table, listed."""
MAPSPACES: dict[str, Scheduler] = spatial.SCHEDULERS
"""Schedulers that search a mapspace, on arrays of both kinds, by name."""


def default_dataflow(accelerator: Accelerator) -> str:
    """Return the dataflow that suits an accelerator if none is asked for."""
    return "flat" if isinstance(accelerator.array, ArraySpec) else "ruby-s"


def make_mapping(
    workload: Workload, accelerator: Accelerator, dataflow: str, options: Options | None = None
) -> Mapping:
    """Schedule a workload.

    Raises:
        InputError: no dataflow or mapspace of this name.
        NothingFitsError: no mapping of this dataflow fits the buffer.
        EmptyMapspaceError: no mapping of this mapspace fits.
        NotMappableError: the dataflow doesn't take an operator, or it is for another kind of
            array.
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
    return known[dataflow](workload, accelerator, options or Options())


__all__ = [
    "DATAFLOWS",
    "MAPSPACES",
    "NotMappableError",
    "NothingFitsError",
    "Options",
    "Scheduler",
    "default_dataflow",
    "make_mapping",
]
