"""simaccel: a cycle-level discrete-event simulator for tensor accelerators.

A scheduler maps a workload onto an accelerator, lowering turns the mapping into a program, and the
SimPy machine times it. The closed form predicts the same run from the mapping alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simaccel.experiment.run import Result, result_json, simulate
    from simaccel.hardware.load import load_accelerator
    from simaccel.workload import build, conv2d, gemm, network

    __version__: str

_HOMES = {
    "Result": "simaccel.experiment.run",
    "build": "simaccel.workload",
    "conv2d": "simaccel.workload",
    "gemm": "simaccel.workload",
    "load_accelerator": "simaccel.hardware.load",
    "network": "simaccel.workload",
    "result_json": "simaccel.experiment.run",
    "simulate": "simaccel.experiment.run",
}
"""Where each name comes from; it is loaded when it is used, so that `simaccel` alone is quick."""

__all__ = [
    "Result",
    "__version__",
    "build",
    "conv2d",
    "gemm",
    "load_accelerator",
    "network",
    "result_json",
    "simulate",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever stands there
    if name == "__version__":
        value: object = _version()
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - as slow as numpy

    try:
        return version("simaccel")
    except PackageNotFoundError:
        # A checkout that is imported without being installed has no version to state.
        return "0+uninstalled"
