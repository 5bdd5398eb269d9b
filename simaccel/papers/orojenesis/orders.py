"""The best order of loops for many tilings at once, by dynamic programming over sets of loops.

The bytes that a step of a loop loads depend on which loops are inside it, not on their order, so
that the best order of n loops is a shortest path through the 2^n sets: all n! orders, exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simaccel.analytic.family import Ints, ints
from simaccel.analytic.floor.problem import BoundOperand, BoundProblem
from simaccel.papers.orojenesis.halo import Cuts, Halo, LoopSteps, tile_elements


def traffic(
    problem: BoundProblem, cuts: Cuts, kept: Sequence[BoundOperand], halo: Halo = "exact"
) -> Ints:
    """Return the least bytes between buffer and DRAM over all orders, for each tiling.

    ``cuts`` are of the problem's free ranks. A tensor that isn't ``kept`` is accessed for each
    multiply-accumulate. Sums that come back are read again: 2 accesses a tile but for the first.
    """
    best = _best(problem, cuts, kept, halo, None)
    return problem.groups * (best + _fixed_bytes(problem, cuts, kept))


def best_order(
    problem: BoundProblem, cuts: Cuts, kept: Sequence[BoundOperand], halo: Halo = "exact"
) -> list[str]:
    """Return the best order of one tiling, from the outermost loop; loops of one trip too."""
    choices: dict[int, int] = {}
    _best(problem, cuts, kept, halo, choices)
    ranks, order = problem.free, []
    inside = (1 << len(ranks)) - 1
    while inside:
        number = choices[inside]
        order.append(ranks[number])
        inside -= 1 << number
    return order


def _best(
    problem: BoundProblem,
    cuts: Cuts,
    kept: Sequence[BoundOperand],
    halo: Halo,
    choices: dict[int, int] | None,
) -> Ints:
    """Return the bytes of all steps; ``choices``: gets the outermost loop of each set of loops."""
    ranks, steps = problem.free, LoopSteps(cuts, halo)
    best: list[Ints | None] = [None] * (1 << len(ranks))
    best[0] = ints(0)
    for inside, known in enumerate(best):
        assert known is not None  # noqa: S101 - every set but the first has a smaller one
        names = frozenset(rank for n, rank in enumerate(ranks) if inside >> n & 1)
        for number, rank in enumerate(ranks):
            if inside >> number & 1:
                continue
            total = known + _step(steps, kept, rank, names)
            wider, old = inside | 1 << number, best[inside | 1 << number]
            if choices is not None and (old is None or int(total) < int(old)):
                choices[wider] = number
            best[wider] = total if old is None else np.minimum(old, total)
    least = best[-1]
    assert least is not None  # noqa: S101 - as above
    return least


def _step(
    steps: LoopSteps, kept: Sequence[BoundOperand], rank: str, inside: frozenset[str]
) -> Ints:
    """Return the bytes that the steps of a loop load and store."""
    total = ints(0)
    for one in kept:
        brought = steps.elements(one, rank, inside)
        total = total + brought * (one.bytes_per_element * (1 + one.is_output))
    return total


def _fixed_bytes(problem: BoundProblem, cuts: Cuts, kept: Sequence[BoundOperand]) -> Ints:
    """Return the bytes of first tiles and of tensors that bypass, less sums that aren't read."""
    total = ints(0)
    for operand in problem.operands:
        times = 1 + operand.is_output
        every = tile_elements(operand, cuts) if operand in kept else problem.group_macs
        first = problem.elements(operand) if operand.is_output else 0
        total = total + (every * times - first) * operand.bytes_per_element
    return total
