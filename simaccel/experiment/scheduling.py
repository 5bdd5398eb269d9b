"""Scheduling with the machine as judge of the best few mappings."""

from __future__ import annotations

from dataclasses import dataclass, replace

from simaccel.experiment.remembered import remembered
from simaccel.hardware import Accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.tree import Mapping
from simaccel.program.lowering import lower
from simaccel.schedulers import Options, make_mapping, settled
from simaccel.schedulers.accounts import Note, unnoted
from simaccel.workload import Workload


def scheduled(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str,
    options: Options | None = None,
    *,
    told: Note = unnoted,
) -> Mapping:
    """Schedule a workload; the best few mappings of each group are run on the machine.

    A mapping that was found before is read from disk (``remembered``). ``told`` is handed the
    accounts of how it was searched, then or now.

    Raises:
        SimaccelError: as of ``make_mapping``.

    """
    asked = settled(options or Options(), accelerator)
    asked = replace(asked, judge=MachineJudge(accelerator))
    return remembered(
        workload,
        accelerator,
        dataflow,
        asked,
        lambda options: make_mapping(workload, accelerator, dataflow, options),
        told=told,
    )


@dataclass(frozen=True)
class MachineJudge:
    """Runs mappings on the machine of an accelerator; other processes can have one, too."""

    accelerator: Accelerator

    def __call__(self, workload: Workload, mapping: Mapping) -> int:
        """Return the cycles of a mapping."""
        return Machine(self.accelerator, lower(workload, mapping)).run().cycles
