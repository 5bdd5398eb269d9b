"""simaccel: a cycle-level discrete-event simulator for tensor accelerators.

A scheduler maps a workload onto an accelerator, lowering turns the mapping into a program, and the
SimPy machine times it. Counts, work and a lower bound follow from the mapping alone.
"""

from typing import TYPE_CHECKING, Any

from simaccel.lazy import lazy_attributes

if TYPE_CHECKING:
    from simaccel.importers.accelerators import load_accelerator
    from simaccel.importers.workloads import load_workload
    from simaccel.schedulers import Options
    from simaccel.study.experiment import result_json
    from simaccel.verbs.comparing import compare
    from simaccel.verbs.estimating import EstimateResult, estimate
    from simaccel.verbs.exploring import explore
    from simaccel.verbs.running import Result, record, simulate
    from simaccel.verbs.tracing import Trace
    from simaccel.workload import build, conv2d, gemm, network

    __version__: str

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


_find = lazy_attributes(__name__, __file__)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever stands there
    """Return what a name stands for, also of plug-ins; its module is loaded when it is used."""
    if name == "__version__":
        from simaccel.version import version  # noqa: PLC0415 - as slow as numpy

        return version()
    try:
        return _find(name)
    except AttributeError:
        from simaccel.plugins import plugin  # noqa: PLC0415 - what simaccel has itself needs none

        plugged = None if name.startswith("_") else plugin("simaccel.functions", name)
        if plugged is None:
            raise
        with plugged.running("loading"):
            return plugged.load()


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
