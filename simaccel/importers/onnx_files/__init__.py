"""ONNX models as workloads, with an account of what was taken, harmless, or not taken."""

from simaccel.importers.onnx_files.importing import ImportedWorkload, load_onnx

__all__ = ["ImportedWorkload", "load_onnx"]
