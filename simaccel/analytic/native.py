"""MACs as an array counts them: by the widths of its multipliers, and by its rates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

from simaccel.hardware import Accelerator
from simaccel.workload import Einsum, Workload


def native_macs(workload: Workload, accelerator: Accelerator) -> int:
    """Return the MACs of operands as wide as the array's multipliers that a workload takes.

    Where the array says no ``native_bits``, as many as it has MACs.
    """
    return sum(macs * pace.numerator for macs, pace in _pace_einsums(workload, accelerator))


def ideal_cycles(workload: Workload, accelerator: Accelerator) -> Fraction:
    """Return the MACs over those of all PEs a cycle, at the rate of their numbers.

    Operands wider than the multipliers count once: what they take more is no use of PEs.
    """
    paced = _pace_einsums(workload, accelerator)
    macs = sum((Fraction(macs, pace.denominator) for macs, pace in paced), Fraction())
    return macs / accelerator.pes


def mac_share(workload: Workload, accelerator: Accelerator, names: Iterable[str]) -> Fraction:
    """Return 1 over the MACs of a PE a cycle, on average over the MACs of some operators."""
    paced = list(_pace_einsums(workload, accelerator, frozenset(names)))
    total = sum(macs for macs, _ in paced)
    if not total:
        return Fraction(1)
    return sum((Fraction(macs, pace.denominator) for macs, pace in paced), Fraction()) / total


def least_array_cycles(workload: Workload, accelerator: Accelerator) -> Fraction:
    """Return the cycles that the MACs take on all PEs at least, wide operands piece by piece."""
    paced = _pace_einsums(workload, accelerator)
    return sum((macs * pace for macs, pace in paced), Fraction()) / accelerator.pes


def _pace_einsums(
    workload: Workload, accelerator: Accelerator, names: frozenset[str] | None = None
) -> Iterator[tuple[int, Fraction]]:
    """Yield the MACs of each einsum, or of those named, and the cycles of a step of theirs."""
    for operator in workload.operators:
        if isinstance(operator, Einsum) and (names is None or operator.name in names):
            tensors = (workload.tensors[given.tensor] for given in operator.inputs)
            elements = ((tensor.bits, tensor.number) for tensor in tensors)
            yield workload.times(operator.name) * operator.macs, accelerator.array.pace(elements)
