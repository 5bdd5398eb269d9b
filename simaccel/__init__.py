"""simaccel: a cycle-level discrete-event simulator for tensor accelerators.

A scheduler maps a workload onto an accelerator, lowering turns the mapping into a program, and the
SimPy machine times it. The closed form predicts the same run from the mapping alone.
"""

from importlib.metadata import PackageNotFoundError, version

from simaccel.experiment.run import Result, result_json, simulate
from simaccel.hardware.load import load_accelerator
from simaccel.workload import build, conv2d, gemm, network

try:
    __version__ = version("simaccel")
except PackageNotFoundError:
    # A checkout that is imported without being installed has no version to state.
    __version__ = "0+uninstalled"

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
