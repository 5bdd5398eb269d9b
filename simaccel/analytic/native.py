"""MACs as an array counts them: by the widths of its multipliers, and by its rates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

from simaccel.hardware import Accelerator
from simaccel.workload import Einsum, Workload


def native_macs(workload: Workload, accelerator: Accelerator) -> int:
    """Return the MACs of a workload in units of MACs of the multipliers' width.

    Without ``native_bits`` of the array, they are the MACs of the workload.
    """
    return sum(macs * pace.numerator for macs, pace in _pace_einsums(workload, accelerator))


def ideal_cycles(
    workload: Workload, accelerator: Accelerator, names: Iterable[str] | None = None
) -> Fraction:
    """Return the MACs divided by the MACs per cycle of all PEs, at the rate of their formats.

    ``names``: of these operators; None: of all. A MAC of operands wider than the multipliers counts
    once, although it takes more cycles.
    """
    paced = _pace_einsums(workload, accelerator, None if names is None else frozenset(names))
    macs = sum((Fraction(macs, pace.denominator) for macs, pace in paced), Fraction())
    return macs / accelerator.pes


def mac_share(workload: Workload, accelerator: Accelerator, names: Iterable[str]) -> Fraction:
    """Return cycles per MAC of a PE, on average over the MACs of the operators ``names``."""
    paced = list(_pace_einsums(workload, accelerator, frozenset(names)))
    total = sum(macs for macs, _ in paced)
    if not total:
        return Fraction(1)
    return sum((Fraction(macs, pace.denominator) for macs, pace in paced), Fraction()) / total


def least_array_cycles(workload: Workload, accelerator: Accelerator) -> Fraction:
    """Return the least cycles of the MACs on all PEs, with wide operands in several steps."""
    paced = _pace_einsums(workload, accelerator)
    return sum((macs * pace for macs, pace in paced), Fraction()) / accelerator.pes


def _pace_einsums(
    workload: Workload, accelerator: Accelerator, names: frozenset[str] | None = None
) -> Iterator[tuple[int, Fraction]]:
    """Yield MACs and cycles per step of each einsum (or of those in ``names``)."""
    known = workload.by_name
    for name in known if names is None else known.keys() & names:
        operator = known[name]
        if isinstance(operator, Einsum):
            tensors = (workload.tensors[given.tensor] for given in operator.inputs)
            elements = ((tensor.bits, tensor.number) for tensor in tensors)
            yield workload.times(operator.name) * operator.macs, accelerator.array.pace(elements)
