"""Who decides: schedulers turn a workload and an accelerator into a mapping."""

from simaccel.analytic.estimate import require_countable
from simaccel.errors import Fault, InputError, suggest
from simaccel.hardware import Accelerator
from simaccel.mapping.choices import Mapping
from simaccel.schedulers import flat, flex, naive
from simaccel.schedulers.problems import Options, Scheduler
from simaccel.schedulers.search import NothingFitsError
from simaccel.workload import Workload

DATAFLOWS: dict[str, Scheduler] = naive.SCHEDULERS | flex.SCHEDULERS | flat.SCHEDULERS
"""All schedulers by name; a new one is a module with a SCHEDULERS table, listed here."""


def make_mapping(
    workload: Workload, accelerator: Accelerator, dataflow: str, options: Options | None = None
) -> Mapping:
    """Schedule a workload.

    Raises:
        InputError: no dataflow of this name.
        NothingFitsError: no mapping of this dataflow fits the buffer.
        EstimateError: the workload is too large to count.

    """
    if dataflow not in DATAFLOWS:
        raise InputError([Fault("--dataflow", "dataflow", dataflow, suggest(dataflow, DATAFLOWS))])
    require_countable(workload)
    return DATAFLOWS[dataflow](workload, accelerator, options or Options())


__all__ = ["DATAFLOWS", "NothingFitsError", "Options", "Scheduler", "make_mapping"]
