"""Einsums on a systolic array: which ranks go where, by what the PEs hold.

Weight-stationary arrays have the reduction down their rows and the outputs' own ranks across, and
stream the rest, and so on (SCALE-Sim, section III; `simaccel.hardware.array.PLACES`). A rank that
all three tensors have, such as a group, is no rank of the array.
"""

from __future__ import annotations

from collections.abc import Iterator

from simaccel.errors import Fault, InputError
from simaccel.hardware import PLACES, STATIONARITIES, Stationarity
from simaccel.hardware.dataflow import Constraints, LevelConstraint, single
from simaccel.workload import Einsum
from simaccel.workload.roles import part_of


def dataflow(einsum: Einsum, stationarity: Stationarity) -> Constraints:
    """Return the constraints of an array that holds one of an einsum's three tensors."""
    tensors = [set(one.ranks) for one in (*einsum.inputs, einsum.output)]
    return {
        level: LevelConstraint(
            ranks=tuple(rank for rank in einsum.ranks if part_of(rank, tensors) == part)
        )
        for level, part in zip(("rows", "cols"), PLACES[stationarity][:2], strict=True)
    }


def dataflows(einsum: Einsum, constraints: Constraints) -> dict[Stationarity, Constraints]:
    """Return the constraints of all stationarities that the user's constraints allow.

    Raises:
        InputError: the einsum has other than two inputs, is an elementwise product, a rank is in
            one tensor only, or no stationarity is left.

    """
    if len(einsum.inputs) != 2:  # noqa: PLR2004 - a product has two factors
        allowed = "einsums of two inputs on a systolic array"
        raise InputError([Fault("workload", einsum.name, len(einsum.inputs), allowed)])
    if einsum.elementwise:
        allowed = "on a systolic array a vector operator of kind product instead"
        raise InputError([Fault("workload", einsum.name, "an elementwise product", allowed)])
    tensors = [ranks.ranks for ranks in (*einsum.inputs, einsum.output)]
    for rank, size in einsum.ranks.items():
        if size > 1 and sum(rank in ranks for ranks in tensors) == 1:
            allowed = "ranks of two tensors at least on a systolic array"
            raise InputError([Fault("workload", einsum.name, rank, allowed)])
    every = {stationarity: dataflow(einsum, stationarity) for stationarity in STATIONARITIES}
    possible = {
        stationarity: limits
        for stationarity, limits in every.items()
        if not list(_unmet_constraints(limits, constraints))
    }
    if not possible:
        texts = {
            stationarity: ", ".join(_unmet_constraints(limits, constraints))
            for stationarity, limits in every.items()
        }
        why = "; ".join(f"{name} without {text}" for name, text in texts.items())
        raise InputError([Fault("--constrain", "level", f"{einsum.name}: no stationarity", why)])
    return possible


def _unmet_constraints(limits: Constraints, constraints: Constraints) -> Iterator[str]:
    """Return which constraints an array of this stationarity can't satisfy."""
    for text, level, part in single(constraints):
        limit = limits.get(level, LevelConstraint())
        named = {rank.lower() for rank in (*(part.ranks or ()), *part.factors, *part.most)}
        known = {rank.lower() for rank in (limit.ranks or named)}
        if limit.ranks is not None and named - known:
            yield text
