"""Schedulers: each turns a workload and an accelerator into a mapping."""

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any

from simaccel.analytic.evaluation import require_countable
from simaccel.dataflows import COMPARED, DEPLOYED, FUSING
from simaccel.dataflows import DATAFLOWS as NAMES
from simaccel.errors import Fault, InputError, suggest
from simaccel.hardware import Accelerator, ArraySpec
from simaccel.mapping.checks import require_legal, require_mapping
from simaccel.mapping.files import require_same
from simaccel.mapping.tree import Mapping
from simaccel.plugins import Plugin, Registry
from simaccel.search.effort import STRATEGIES
from simaccel.search.problems import (
    NothingFitsError,
    NotMappableError,
    Options,
    Scheduler,
    parts,
    settle_options,
)
from simaccel.workload import Workload


def _accept(plugin: Plugin, loaded: object) -> Scheduler:
    """Wrap a plug-in's scheduler: its errors and its mappings are checked."""
    if not callable(loaded):
        raise plugin.error(f"is a {type(loaded).__name__}, not a function")

    def schedule(workload: Workload, accelerator: Accelerator, options: Options) -> Mapping:
        with plugin.running("scheduling"):
            mapping = loaded(workload, accelerator, options)
        if not isinstance(mapping, Mapping):
            raise plugin.error(f"gives a {type(mapping).__name__}, not a Mapping")
        require_same(workload, mapping)
        require_mapping(workload, mapping, accelerator, str(plugin))
        return mapping

    return schedule


def _lazy_schedulers(modules: dict[str, str]) -> dict[str, Scheduler]:
    """Return schedulers by name, whose modules are imported only when they are called."""

    def schedule(name: str, module: str, *run: Any) -> Mapping:  # noqa: ANN401 - a Scheduler's
        scheduler: Scheduler = import_module(f"{__name__}.{module}").SCHEDULERS[name]
        return scheduler(*run)

    return {name: partial(schedule, name, module) for name, module in modules.items()}


DATAFLOWS = Registry("simaccel.dataflows", _lazy_schedulers(NAMES), _accept)
_ON_CORES = ("flex", "flat", "flash", "best")
"""Families of dataflows that search for several cores; others are mapped to one core first."""
_PLAIN = {"naive": "naive", "flex": "flex", "flat": "flex", "flash": "flex"}
"""The equivalent of each family of dataflows on a workload without attention."""
MAPSPACES = _lazy_schedulers(dict.fromkeys(STRATEGIES, "spatial"))
"""Schedulers that search a mapspace, on arrays of both kinds, by name."""


def canonical_dataflow(dataflow: str, workload: Workload) -> str:
    """Return the one name for all dataflows that map this workload in the same way.

    Without an attention, granularities mean nothing, and a dataflow that only fuses attentions
    fuses nothing.
    """
    plain = _PLAIN.get(dataflow.partition("-")[0], dataflow)
    if plain == dataflow or any(isinstance(part, tuple) for part in parts(workload)):
        return dataflow
    return plain


def default_dataflow(accelerator: Accelerator, workload: Workload) -> str:
    """Return the dataflow of a workload on an accelerator where the user names none.

    That is ``deployed`` on chips whose compiler is described. On other systolic arrays it is
    ``flat``, which fuses attentions, or ``flex`` if there is no attention.
    """
    if accelerator.compiler.described:
        return DEPLOYED
    if not isinstance(accelerator.array, ArraySpec):
        return "ruby-s"
    return "flat" if any(isinstance(part, tuple) for part in parts(workload)) else "flex"


def compared_dataflows(
    accelerator: Accelerator, workload: Workload, *, varied: bool
) -> Sequence[str]:
    """Return the dataflows of a comparison that names none.

    If its runs differ in something else (``varied``) that is the default one. Else it is among
    those that differ for the workload, or the mapspaces of a spatial array.
    """
    default = default_dataflow(accelerator, workload)
    if varied:
        return (default,)
    if not isinstance(accelerator.array, ArraySpec):
        return STRATEGIES
    fuses = any(isinstance(part, tuple) for part in parts(workload))
    names = [name for name in COMPARED if fuses or name not in FUSING]
    return names if default in names else [default, *names]


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
        CountError: the workload is too large to count.
        IllegalMappingError: what was found computes something else than the workload.
    """
    if dataflow not in MAPSPACES and dataflow not in DATAFLOWS:
        known = (*DATAFLOWS, *MAPSPACES)
        raise InputError([Fault("--dataflow", "dataflow", dataflow, suggest(dataflow, known))])
    require_countable(workload)
    options = settle_options(options or Options(), accelerator)
    if options.spread and accelerator.cores.count == 1:
        allowed = "nothing on one core; --set cores.count=N for more"
        raise InputError([Fault("--spread", "spread", ", ".join(options.spread), allowed)])
    if accelerator.cores.count > 1 and dataflow.partition("-")[0] not in _ON_CORES:
        map_over_cores = import_module(f"{__name__}.over_cores").map_over_cores
        mapping = map_over_cores(workload, accelerator, dataflow, options, make_mapping)
        return require_legal(workload, mapping, accelerator)
    if dataflow in MAPSPACES:
        mapping = MAPSPACES[dataflow](workload, accelerator, options)
        return require_legal(workload, mapping, accelerator)
    if dataflow in DATAFLOWS.own and not isinstance(accelerator.array, ArraySpec):
        raise NotMappableError(
            f"dataflow {dataflow} takes systolic arrays; {accelerator.name} has a spatial one"
        )
    return require_legal(workload, DATAFLOWS[dataflow](workload, accelerator, options), accelerator)


__all__ = [
    "DATAFLOWS",
    "MAPSPACES",
    "NotMappableError",
    "NothingFitsError",
    "Options",
    "Scheduler",
    "canonical_dataflow",
    "default_dataflow",
    "make_mapping",
    "settle_options",
]
