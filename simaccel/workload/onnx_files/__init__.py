"""ONNX models as workloads, with a list of what was mapped, fused, free, or not modelled."""

from simaccel.workload.onnx_files.importing import Imported, load_onnx, totals
from simaccel.workload.onnx_files.operators import Row

__all__ = ["Imported", "Row", "load_onnx", "totals"]
