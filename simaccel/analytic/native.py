"""MACs as an array counts them: by the widths of its multipliers, and by its rates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction

from simaccel.hardware import PLACES, STATIONARITIES, Accelerator, ArraySpec, Stationarity
from simaccel.workload import Einsum, Workload
from simaccel.workload.roles import part_of


def native_macs(workload: Workload, accelerator: Accelerator) -> int:
    """Return the MACs of a workload in units of MACs of the multipliers' width.

    Without ``native_bits`` of the array, they are the MACs of the workload.
    """
    every = _einsums(workload, accelerator)
    return sum(times * operator.macs * pace.numerator for operator, times, pace in every)


def ideal_cycles(
    workload: Workload, accelerator: Accelerator, names: Iterable[str] | None = None
) -> Fraction:
    """Return the MACs divided by the MACs per cycle of all PEs, at the rate of their formats.

    ``names``: of these operators; None: of all. A MAC of operands wider than the multipliers counts
    once, although it takes more cycles.
    """
    every = _einsums(workload, accelerator, None if names is None else frozenset(names))
    macs = (Fraction(times * one.macs, pace.denominator) for one, times, pace in every)
    return sum(macs, Fraction()) / accelerator.pes


def mac_share(workload: Workload, accelerator: Accelerator, names: Iterable[str]) -> Fraction:
    """Return cycles per MAC of a PE, on average over the MACs of the operators ``names``."""
    every = _einsums(workload, accelerator, frozenset(names))
    paced = [(times * operator.macs, pace) for operator, times, pace in every]
    total = sum(macs for macs, _ in paced)
    if not total:
        return Fraction(1)
    return sum((Fraction(macs, pace.denominator) for macs, pace in paced), Fraction()) / total


def least_array_cycles(workload: Workload, accelerator: Accelerator) -> Fraction:
    """Return the least cycles of the MACs on all PEs, with wide operands in several steps."""
    every = _einsums(workload, accelerator)
    cycles = (times * operator.macs * pace for operator, times, pace in every)
    return sum(cycles, Fraction()) / accelerator.pes


def least_fold_cycles(workload: Workload, accelerator: Accelerator) -> Fraction:
    """Return the least cycles of all folds, whatever a mapping's tiles and orders are.

    An array of R x C PEs holds at most R x C elements of an operand, and streams the third rank of
    a product past them: no pieces have fewer folds than ``ceil(k / R) ceil(n / C)`` of m steps, or
    as many with the ranks in other places. In each of the ``ceil(n / C)`` strips of columns all k
    rows shift in (or the results out), a row a cycle, beside the stream of another fold or alone
    (`ArraySpec.fold_cycles`). Of products on the diagonal each has a part of rows and columns, and
    shifts count with overlap ``stream`` alone. What has no such ranks takes its MACs on all PEs.
    """
    array, total = accelerator.array, Fraction()
    for operator, times, pace in _einsums(workload, accelerator):
        cycles = pace * Fraction(operator.macs, accelerator.pes)
        if isinstance(array, ArraySpec):
            arrays = accelerator.pes // (array.rows * array.cols)
            cycles = max(cycles, Fraction(_least_cycles(operator, array, pace), arrays))
        total += times * cycles
    return total


def _least_cycles(operator: Einsum, array: ArraySpec, pace: Fraction) -> Fraction:
    """Return the least cycles of all folds of an einsum on one array; 0 if they are unknown."""
    if len(operator.inputs) != len(STATIONARITIES) - 1:
        return Fraction()
    tensors = [operand.ranks for operand in (*operator.inputs, operator.output)]
    sides = {"g": 1, "m": 1, "k": 1, "n": 1}
    for rank, size in operator.ranks.items():
        part = part_of(rank, tensors)
        if size > 1 and part is None:
            return Fraction()
        sides[part or "g"] *= size
    kinds = STATIONARITIES if array.stationarity == "free" else (array.stationarity,)
    return sides["g"] * min(_least_cycles_held(kind, sides, array, pace) for kind in kinds)


def _least_cycles_held(
    kind: Stationarity, sides: dict[str, int], array: ArraySpec, pace: Fraction
) -> Fraction:
    """Return the least cycles of all folds of one product of these sides, given what is held."""
    high, wide, steps = map(sides.__getitem__, PLACES[kind])
    strips, folds = -(-wide // array.cols), -(-high // array.rows)
    stream, is_shared = strips * folds * steps * pace, array.diagonal and sides["g"] > 1
    if is_shared:
        counts = range(1, min(array.rows, array.cols) + 1)
        parts = ((n, min(high, array.rows // n), min(wide, array.cols // n)) for n in counts)
        stream = pace * Fraction(high * wide * steps, max(map(math.prod, parts)))
    shift = strips * Fraction(high, 1 if kind == "os" else pace.denominator)
    if array.overlap == "stream":
        return max(stream, shift)
    if is_shared:
        return stream
    alone = shift * int(array.overlap == "none" and kind != "os")
    return alone + stream + strips * (high - 2 * folds) + folds * wide


def _einsums(
    workload: Workload, accelerator: Accelerator, names: frozenset[str] | None = None
) -> Iterator[tuple[Einsum, int, Fraction]]:
    """Yield each einsum (or those in ``names``), its number of runs, and its cycles per step."""
    known = workload.by_name
    for name in known if names is None else known.keys() & names:
        operator = known[name]
        if isinstance(operator, Einsum):
            tensors = (workload.tensors[given.tensor] for given in operator.inputs)
            elements = ((tensor.bits, tensor.number) for tensor in tensors)
            yield operator, workload.times(name), accelerator.array.pace(elements)
