"""simaccel."""

__version__ = "0"
from simaccel.hardware.load import load_accelerator
from simaccel.workload import build, conv2d, gemm, network
