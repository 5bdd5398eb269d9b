"""Names or objects: the arguments for a workload, an accelerator and a dataflow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from simaccel.errors import Fault, InputError, suggest
from simaccel.hardware import Accelerator
from simaccel.hardware.load import build_accelerator
from simaccel.hardware.settings import Settings
from simaccel.importers.accelerators import load_accelerator
from simaccel.importers.workloads import load_workload
from simaccel.mapping.checks import require_mapping
from simaccel.mapping.files import load_mapping, require_same
from simaccel.mapping.tree import Mapping
from simaccel.schedulers import Options, default_dataflow
from simaccel.search.effort import OBJECTIVES, Objective
from simaccel.study.documents import accelerator_document
from simaccel.study.precision import compile_for, gather_placed
from simaccel.study.scheduling import schedule_workload
from simaccel.workload import Workload

WorkloadLike = Workload | str | Path
"""A workload, or what ``load_workload`` reads."""
AcceleratorLike = Accelerator | str | Path
"""An accelerator, or what ``load_accelerator`` reads."""
DataflowLike = Mapping | str | Path | None
"""A mapping, the path of its file, or the name of a dataflow or mapspace; None: the default."""


def as_workload(source: WorkloadLike) -> Workload:
    """Return a workload as it is, or load it.

    Raises:
        InputError: it is neither, it can't be read, or too much of its file is left out.

    """
    if isinstance(source, Workload | str | Path):
        workload = source if isinstance(source, Workload) else load_workload(source)
        workload.account.require_modelled("load_workload(..., allow_unmodelled=True)")
        return workload
    allowed = "a Workload (of build('bert'), gemm(...)), a name or the path of a file"
    raise InputError([Fault("simaccel", "workload", source, allowed)])


def as_accelerator(source: AcceleratorLike, settings: Settings = ()) -> Accelerator:
    """Return an accelerator as it is, or load it; ``settings`` override fields.

    Raises:
        InputError: it is neither, it can't be read, or too much of its file is left out.

    """
    if isinstance(source, Accelerator):
        accelerator = source
        if settings:  # what its file left out stays in its account
            document = accelerator_document(source)
            accelerator = build_accelerator(document, Path(source.name), settings, ())
            vars(accelerator)["account"] = source.account
    elif isinstance(source, str | Path):
        accelerator = load_accelerator(source, settings)
    else:
        allowed = "an Accelerator (of load_accelerator('edge')), a name or the path of a file"
        raise InputError([Fault("simaccel", "accelerator", source, allowed)])
    accelerator.account.require_modelled("load_accelerator(..., allow_unmodelled=True)")
    return accelerator


def as_options(options: Options | None, objective: Objective | None) -> Options:
    """Return the options of the scheduler, with ``objective`` in place of theirs if it is given.

    Raises:
        InputError: there is no such objective.

    """
    options = Options() if options is None else options
    if objective is None:
        return options
    if objective not in OBJECTIVES:
        raise InputError(
            [Fault("simaccel", "objective", objective, suggest(objective, OBJECTIVES))]
        )
    return replace(
        options, objective=objective, effort=replace(options.effort, objective=objective)
    )


def as_inputs(
    workload: WorkloadLike,
    accelerator: AcceleratorLike,
    dataflow: DataflowLike,
    settings: Settings = (),
    options: Options | None = None,
) -> tuple[Workload, Accelerator, str | Mapping]:
    """Return all three, loaded; a mapping file is checked against the workload.

    ``options`` decide how the workload is split over chips.

    Raises:
        InputError: the faults of all of them.

    """
    checked, there = gather_placed(
        lambda: as_workload(workload), lambda: as_accelerator(accelerator, settings)
    )
    if isinstance(dataflow, Path):
        mapping = load_mapping(dataflow, checked, lambda made: compile_for(checked, there, made))
        checked = compile_for(checked, there, mapping)
        require_mapping(checked, mapping, there, str(dataflow))
        return checked, there, mapping
    if dataflow is None:
        dataflow = default_dataflow(there, checked)
    if isinstance(dataflow, str | Mapping):
        return compile_for(checked, there, dataflow, options), there, dataflow
    allowed = "the name of a dataflow or mapspace, a Mapping, or the Path of one"
    raise InputError([Fault("simaccel", "dataflow", dataflow, allowed)])


def resolve_mapping(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str | Mapping,
    options: Options | None = None,
) -> Mapping:
    """Return a mapping as it is after a check, or let a scheduler make it.

    Raises:
        SimaccelError: nothing fits, or the mapping is for another workload.

    """
    if not isinstance(dataflow, Mapping):
        return schedule_workload(workload, accelerator, dataflow, options)
    require_same(workload, dataflow)
    require_mapping(workload, dataflow, accelerator, "mapping")
    return dataflow
