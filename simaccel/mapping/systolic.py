"""What a systolic array can do with a nest: which ranks go where, by what the PEs hold.

Weight-stationary arrays have the reduction down their rows and the outputs' own ranks across, and
stream the rest, and so on (SCALE-Sim, section III; `simaccel.hardware.array.spatial`). A rank that
all three tensors have, such as a group, is no rank of the array.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from simaccel.errors import Fault, InputError
from simaccel.hardware import STATIONARITIES, Stationarity
from simaccel.hardware.dataflow import Constraints, LevelConstraint, single
from simaccel.hardware.levels import ROLES, Role
from simaccel.mapping.choices import NestMapping
from simaccel.workload import Einsum

STATIONARY: Final[dict[Stationarity, Role]] = {"ws": "weight", "os": "output", "is": "input"}
"""What stays in the PEs."""
_ALONG: Final[dict[Stationarity, tuple[Role, Role]]] = {
    "ws": ("input", "output"),
    "os": ("input", "weight"),
    "is": ("weight", "output"),
}
"""Whose ranks, of those of the stationary tensor, go down the rows and across the columns."""
_OPERANDS: Final = 2


def dataflow(einsum: Einsum, stationarity: Stationarity) -> Constraints:
    """Give the constraints of an array that holds one of an einsum's three tensors."""
    operands = dict(zip(ROLES, einsum.inputs, strict=False)) | {"output": einsum.output}
    ranks = {role: set(one.ranks) for role, one in operands.items()}
    held, (down, across) = STATIONARY[stationarity], _ALONG[stationarity]

    def ordered(found: set[str]) -> tuple[str, ...]:
        return tuple(rank for rank in einsum.ranks if rank in found)

    return {
        "buffer": LevelConstraint(keep=ROLES),
        "rows": LevelConstraint(ranks=ordered((ranks[held] & ranks[down]) - ranks[across])),
        "cols": LevelConstraint(ranks=ordered((ranks[held] & ranks[across]) - ranks[down])),
        "pe": LevelConstraint(ranks=ordered(set(einsum.ranks) - ranks[held]), keep=(held,)),
    }


def dataflows(einsum: Einsum, asked: Constraints) -> list[Constraints]:
    """Give the constraints of all stationarities that what a user asked for leaves.

    Raises:
        InputError: the einsum has one input only, or no stationarity is left.

    """
    if len(einsum.inputs) != _OPERANDS:
        allowed = "einsums of two inputs on a systolic array"
        raise InputError([Fault("workload", einsum.name, len(einsum.inputs), allowed)])
    every = {one: dataflow(einsum, one) for one in STATIONARITIES}
    found = [limits for limits in every.values() if not list(_against(limits, asked))]
    if not found:
        texts = {one: ", ".join(_against(limits, asked)) for one, limits in every.items()}
        why = "; ".join(f"{one} without {text}" for one, text in texts.items())
        raise InputError([Fault("--constrain", "level", f"{einsum.name}: no stationarity", why)])
    return found


def _against(limits: Constraints, asked: Constraints) -> Iterator[str]:
    """Say which constraints an array of this stationarity can't satisfy."""
    for text, level, part in single(asked):
        limit = limits.get(level, LevelConstraint())
        named = {rank.lower() for rank in (*(part.ranks or ()), *part.factors, *part.most)}
        known = {rank.lower() for rank in (limit.ranks or named)}
        moved = None not in (limit.keep, part.keep) and limit.keep != part.keep
        if moved or (limit.ranks is not None and named - known):
            yield text


def systolic_faults(einsum: Einsum, mapping: NestMapping, file: str) -> Iterator[Fault]:
    """Find what of a nest a systolic array can't do."""
    levels = {level.level: (at, level) for at, level in enumerate(mapping.levels)}
    at, pe = levels["pe"]
    held = [one for one in STATIONARITIES if pe.keep == (STATIONARY[one],)]
    if len(einsum.inputs) != _OPERANDS or not held:
        allowed = "one of input, weight, output, of an einsum of two inputs, in a systolic array"
        yield Fault(file, f"levels[{at}].keep", ", ".join(pe.keep), allowed)
        return
    for name, limit in dataflow(einsum, held[0]).items():
        at, level = levels[name]
        ranks = tuple(einsum.ranks) if limit.ranks is None else limit.ranks
        for rank, pieces in level.factors.items():
            if pieces > 1 and rank not in ranks:
                allowed = f"1; {held[0]} has {', '.join(ranks) or 'no rank'} there"
                yield Fault(file, f"levels[{at}].factors.{rank}", pieces, allowed)
        if limit.keep is not None and set(level.keep) != set(limit.keep):
            yield Fault(file, f"levels[{at}].keep", ", ".join(level.keep), ", ".join(limit.keep))
