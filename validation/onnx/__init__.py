"""ONNX models that others wrote."""
