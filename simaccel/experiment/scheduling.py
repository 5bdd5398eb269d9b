"""Scheduling with the machine as judge of the best few mappings."""

from __future__ import annotations

from dataclasses import replace

from simaccel.experiment.remembered import remembered
from simaccel.hardware import Accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.tree import Mapping
from simaccel.program.lowering import lower
from simaccel.schedulers import Options, make_mapping
from simaccel.schedulers.problems import Judge
from simaccel.workload import Workload


def scheduled(
    workload: Workload, accelerator: Accelerator, dataflow: str, options: Options | None = None
) -> Mapping:
    """Schedule a workload; the best few mappings of each group are run on the machine.

    A mapping that was found before is read from disk (``remembered``).

    Raises:
        SimaccelError: as of ``make_mapping``.

    """
    asked = replace(options or Options(), judge=machine_judge(accelerator))
    return remembered(
        workload,
        accelerator,
        dataflow,
        asked,
        lambda: make_mapping(workload, accelerator, dataflow, asked),
    )


def machine_judge(accelerator: Accelerator) -> Judge:
    """Return a function that runs a mapping on the machine and returns its cycles."""

    def cycles(workload: Workload, mapping: Mapping) -> int:
        return Machine(accelerator, lower(workload, mapping)).run().cycles

    return cycles
