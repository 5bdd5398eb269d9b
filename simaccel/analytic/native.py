"""MACs as an array counts them, by widths and rates of its multipliers, and the roofline."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction

from simaccel.analytic.floor.compulsory import least_dram_bytes
from simaccel.hardware import PLACES, STATIONARITIES, Accelerator, ArraySpec, Stationarity
from simaccel.workload import Einsum, Kind, Vector, Workload, class_of, operands_of
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


def masked_macs(workload: Workload) -> int:
    """Return the MACs of positions that no row sees: what a causal mask leaves to be computed."""
    import numpy as np  # noqa: PLC0415 - takes long to load, and errors do without

    hidden: dict[str, Fraction] = {}
    for operator in reversed(workload.operators):
        if isinstance(operator, Vector) and operator.output.tensor in hidden:
            hidden[operator.input.tensor] = hidden[operator.output.tensor]
        if isinstance(operator, Vector) and operator.visible and operator.axis:
            visible, keys = operator.visible, operator.ranks[operator.axis]
            rows = operator.ranks[visible.row]
            last = np.minimum(np.arange(rows, dtype=np.int64) + visible.before, keys - 1)
            window = keys if visible.window is None else visible.window
            first = np.maximum(last + 1 - window, 0)
            share = 1 - Fraction(int((last + 1 - first).sum()), rows * keys)
            hidden[operator.input.tensor] = hidden[operator.output.tensor] = share
    masked = Fraction(0)
    for operator in workload.operators:
        shares = [hidden.get(source.tensor) for _, source in operands_of(operator)]
        if operator.macs and any(shares):
            masked += workload.times(operator.name) * operator.macs * max(s or 0 for s in shares)
    return int(masked)


_KINDS: tuple[Kind, ...] = ("input", "weight", "cache")
"""One of each class of tensors."""


def roofline_cycles(workload: Workload, accelerator: Accelerator) -> int:
    """Return the larger of MACs over peak and least bytes of a memory over bandwidth, in cycles."""
    compute = math.ceil(least_array_cycles(workload, accelerator))
    return max(compute, *least_memory_cycles(workload, accelerator).values())


def least_memory_cycles(workload: Workload, accelerator: Accelerator) -> dict[str, int]:
    """Return the cycles of the least bytes of DRAM and of each memory beside it, by its name."""
    least, found = least_dram_bytes(workload), {}
    for name, backing in accelerator.every_backing.items():
        bandwidth = backing.dram.bandwidth_bytes_per_second
        kinds = {class_of(kind) for kind in _KINDS if accelerator.memory(kind) == name}
        total = sum(n_bytes for one, n_bytes in least.items() if one in kinds)
        found[name] = 0 if bandwidth is None else -(-total * accelerator.clock_hz // bandwidth)
    return found
