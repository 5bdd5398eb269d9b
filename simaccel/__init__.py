"""simaccel: a cycle-level discrete-event simulator for tensor accelerators.

A scheduler maps a workload onto an accelerator, lowering turns the mapping into a program, and the
SimPy machine times it. Counts, work and a lower bound follow from the mapping alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simaccel.experiment.run import result_json
    from simaccel.importers.accelerators import load_accelerator
    from simaccel.importers.workloads import load_workload
    from simaccel.schedulers import Options
    from simaccel.verbs.bounding import bound
    from simaccel.verbs.comparing import compare
    from simaccel.verbs.estimating import EstimateResult, estimate
    from simaccel.verbs.exploring import explore
    from simaccel.verbs.running import Result, record, simulate
    from simaccel.verbs.tracing import Trace
    from simaccel.workload import build, conv2d, gemm, network

    __version__: str

_HOMES = {
    "EstimateResult": "simaccel.verbs.estimating",
    "Options": "simaccel.schedulers",
    "Result": "simaccel.verbs.running",
    "Trace": "simaccel.verbs.tracing",
    "bound": "simaccel.verbs.bounding",
    "build": "simaccel.workload",
    "compare": "simaccel.verbs.comparing",
    "conv2d": "simaccel.workload",
    "estimate": "simaccel.verbs.estimating",
    "explore": "simaccel.verbs.exploring",
    "gemm": "simaccel.workload",
    "load_accelerator": "simaccel.importers.accelerators",
    "load_workload": "simaccel.importers.workloads",
    "network": "simaccel.workload",
    "record": "simaccel.verbs.running",
    "result_json": "simaccel.experiment.run",
    "simulate": "simaccel.verbs.running",
}
"""Where each name comes from; it is loaded when it is used, so that `simaccel` alone is quick."""

__all__ = [
    "EstimateResult",
    "Options",
    "Result",
    "Trace",
    "__version__",
    "bound",
    "build",
    "compare",
    "conv2d",
    "estimate",
    "explore",
    "gemm",
    "load_accelerator",
    "load_workload",
    "network",
    "record",
    "result_json",
    "simulate",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever stands there
    if name == "__version__":
        from simaccel.version import version  # noqa: PLC0415 - as slow as numpy

        value: object = version()
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
