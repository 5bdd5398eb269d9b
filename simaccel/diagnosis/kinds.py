"""Kinds of operators, by which figures of a run are summed."""

from __future__ import annotations

from simaccel.workload import Einsum, Operator, Vector, Workload
from simaccel.workload.windows import window_ranks


def kind_of(workload: Workload, row: str) -> str:
    """Return the kind of an operator or fused group by its name, as in ``L+softmax+A``.

    >>> from simaccel.workload import gemm
    >>> kind_of(gemm(m=2, k=2, n=2), "gemm")
    'GEMM'
    """
    names = [row] if row in workload.by_name else row.split("+")
    kinds = [_kind(workload.operator(name)) for name in names if name in workload.by_name]
    einsums = [kind for kind in kinds if kind in ("GEMM", "convolution", "einsum")]
    if len(kinds) == 1 or not kinds:
        return kinds[0] if kinds else row
    return f"fused {einsums[0] if einsums else kinds[0]}"


def _kind(operator: Operator) -> str:
    """Return the kind of an operator: windows are convolutions, or poolings without weights."""
    windows = window_ranks(operator)
    if isinstance(operator, Vector):
        if windows:
            return "pooling"
        return "elementwise" if operator.axis is None else "row-wise"
    assert isinstance(operator, Einsum)  # noqa: S101 - there is no third kind of operator
    return "convolution" if windows else "GEMM"
