"""NVDLA."""
