"""Constraints on one einsum and one hierarchy: the factors allowed for each rank and level.

On a systolic array what the PEs hold says which ranks go where. Weight-stationary arrays have the
reduction down their rows and the outputs' own ranks across, and stream the rest, and so on
(SCALE-Sim, section III; `simaccel.hardware.PLACES`). A rank that all three tensors have, such
as a group, is no rank of the array.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from simaccel.errors import Fault, InputError, suggest
from simaccel.hardware import PLACES, STATIONARITIES, Stationarity
from simaccel.hardware.dataflow import Constraints, LevelConstraint, single
from simaccel.hardware.levels import ROLES, Hierarchy, Level, Role, SpatialLevel, TemporalLevel
from simaccel.search.mapspace.chains import SplitLimit
from simaccel.workload import Einsum
from simaccel.workload.roles import part_of

Keep = tuple[tuple[bool, ...], ...]
"""Which roles (inner) each temporal level (outer) keeps."""
_FREE = LevelConstraint()


@dataclass(frozen=True, kw_only=True)
class MappingLimits:
    """Limits of mappings: hashable, and small to send to another process."""

    splits: tuple[tuple[SplitLimit, ...], ...]
    """By rank, then by level, from the innermost to the last but one."""
    fixed: tuple[tuple[int, ...], ...]
    """By temporal level: ranks whose loops have this order."""
    keeps: tuple[Keep, ...]
    """All combinations of roles that levels may keep."""


def limits(
    einsum: Einsum, hierarchy: Hierarchy, dataflow: Constraints, constraints: Constraints
) -> MappingLimits:
    """Combine the constraints of a dataflow with the user's, which take precedence.

    A dataflow may name ranks that only other operators have; ranks that the user names have to
    exist.

    Raises:
        InputError: unknown levels and ranks, factors that can't fit, and what a level can't do.
    """
    faults = [*_unknown_levels(hierarchy, dataflow, "dataflow")]
    faults += [*_unknown_levels(hierarchy, constraints, "--constrain")]
    faults += [*_unknown_ranks(einsum, constraints), *_contradictions(einsum, constraints)]
    if faults:
        raise InputError(faults)
    both = {
        name: _drop_unknown_ranks(einsum, dataflow.get(name, _FREE)).override_with(
            _drop_unknown_ranks(einsum, constraints.get(name, _FREE))
        )
        for name in hierarchy.names
    }
    for level in hierarchy.levels:
        user = _drop_unknown_ranks(einsum, constraints.get(level.name, _FREE))
        said = frozenset({*user.factors, *user.model_fields_set})
        if level is hierarchy.levels[0]:
            faults += _at_outermost(level.name, both[level.name], said)
        faults += _impossible(einsum, level, both[level.name], said)
    if faults:
        raise InputError(faults)
    return MappingLimits(
        splits=tuple(
            tuple(
                _split(einsum, rank, level, both[level.name]) for level in hierarchy.levels[:0:-1]
            )
            for rank in einsum.ranks
        ),
        fixed=tuple(
            tuple(list(einsum.ranks).index(rank) for rank in both[level.name].order)
            for level in hierarchy.memories
        ),
        keeps=tuple(_keeps(einsum, hierarchy, both)),
    )


def rank_of(einsum: Einsum, name: str) -> str | None:
    """Return the rank of this name, in upper or lower case."""
    if name in einsum.ranks:
        return name
    return next((rank for rank in einsum.ranks if rank.lower() == name.lower()), None)


def _unknown_levels(hierarchy: Hierarchy, given: Constraints, source: str) -> Iterator[Fault]:
    for name in given:
        if name not in hierarchy.names:
            yield Fault(source, "level", name, suggest(name, hierarchy.names))


def _unknown_ranks(einsum: Einsum, given: Constraints) -> Iterator[Fault]:
    for level, constraint in given.items():
        named = [*(constraint.ranks or ()), *constraint.factors, *constraint.most]
        for rank in (*named, *constraint.order):
            if rank_of(einsum, rank) is None:
                allowed = suggest(rank.lower(), einsum.ranks)
                yield Fault("--constrain", f"{level}: rank", rank, allowed)


def _drop_unknown_ranks(einsum: Einsum, given: LevelConstraint) -> LevelConstraint:
    """Return ranks the einsum's names, without those that it lacks."""
    fields = {name: getattr(given, name) for name in given.model_fields_set}
    for name in {"ranks", "order"} & fields.keys():
        if fields[name] is not None:
            found = (rank_of(einsum, rank) for rank in fields[name])
            fields[name] = tuple(rank for rank in found if rank is not None)
    for name in {"factors", "most"} & fields.keys():
        renamed = {rank_of(einsum, rank): pieces for rank, pieces in fields[name].items()}
        fields[name] = {rank: n for rank, n in renamed.items() if rank is not None}
    return LevelConstraint.model_validate(fields)


def _contradictions(einsum: Einsum, constraints: Constraints) -> Iterator[Fault]:
    """Find constraints that contradict each other; over a dataflow the user's word counts."""
    for level, constraint in constraints.items():
        given = _drop_unknown_ranks(einsum, constraint)
        for rank, pieces in given.factors.items():
            if given.ranks is not None and rank not in given.ranks and pieces != 1:
                allowed = f"1, as {level}={','.join(given.ranks) or 'none'} leaves it out"
                yield Fault("--constrain", f"{level}.{rank}", pieces, allowed)
        if len(set(given.order)) < len(given.order):
            yield Fault("--constrain", f"{level}.order", ",".join(given.order), "each rank once")


def _source(said: frozenset[str], *names: str) -> str:
    return "--constrain" if said & {*names} else "dataflow"


def _impossible(
    einsum: Einsum, level: Level, limits: LevelConstraint, said: frozenset[str]
) -> Iterator[Fault]:
    """Find what a level can't do; ``said``: ranks and kinds that the user gave, no dataflow."""
    if isinstance(level, TemporalLevel):
        for role in limits.keep or ():
            if role not in level.roles:
                source = _source(said, "keep")
                allowed = f"one of {', '.join(able for able in ROLES if able in level.roles)}"
                yield Fault(source, f"{level.name}.keep", role, allowed)
    elif limits.order or limits.keep is not None:
        source = _source(said, "order", "keep")
        yield Fault(source, level.name, "order or keep", "ranks and factors; no memory here")
    for rank, pieces in limits.factors.items():
        most = _max_pieces(einsum, rank, level, limits)
        if pieces != "all" and pieces > most:
            allowed = f"1 to {most}" if most > 1 else "1"
            if _adds_in_vain(einsum, rank, level):
                allowed = f"1, as {level.name} can't add sums and {rank} is summed over"
            yield Fault(_source(said, rank), f"{level.name}.{rank}", pieces, allowed)


def _at_outermost(name: str, given: LevelConstraint, said: frozenset[str]) -> Iterator[Fault]:
    if given.factors or given.most or given.ranks is not None:
        shown = next(text for text, _ in given.parts())
        source = _source(said, "factors", "most", "ranks")
        yield Fault(source, name, f"{name}{shown}", "none; it takes what is left")
    if given.keep is not None and set(given.keep) != set(ROLES):
        source = _source(said, "keep")
        yield Fault(source, f"{name}.keep", ",".join(given.keep), "all; nothing is outside")


def _max_pieces(einsum: Einsum, rank: str, level: Level, given: LevelConstraint) -> int:
    """Return the largest number of pieces of a rank at a level."""
    most = min(einsum.ranks[rank], given.most.get(rank, einsum.ranks[rank]))
    if not isinstance(level, SpatialLevel):
        return most
    return 1 if _adds_in_vain(einsum, rank, level) else min(most, level.fanout)


def _adds_in_vain(einsum: Einsum, rank: str, level: Level) -> bool:
    if not isinstance(level, SpatialLevel) or level.reduces:
        return False
    return rank not in einsum.output.ranks


def _split(einsum: Einsum, rank: str, level: Level, given: LevelConstraint) -> SplitLimit:
    spatial = isinstance(level, SpatialLevel)
    most = _max_pieces(einsum, rank, level, given)
    limit = None if most == einsum.ranks[rank] else most
    pieces = given.factors.get(rank)
    if pieces is None:
        barred = given.ranks is not None and rank not in given.ranks
        pieces = 1 if barred or most == 1 else None
    if pieces == "all":
        return SplitLimit(spatial=spatial, most=limit, whole=True)
    return SplitLimit(spatial=spatial, most=limit, exactly=pieces)


def _keeps(einsum: Einsum, hierarchy: Hierarchy, limits: Constraints) -> Iterator[Keep]:
    """Return all choices of what to keep: the outermost keeps all, so does the innermost memory.

    There is no choice for a second input that isn't there.
    """
    choices: list[tuple[bool, ...]] = []
    roles = {*ROLES[: len(einsum.inputs)], ROLES[-1]}
    for at, level in enumerate(hierarchy.memories):
        inside = {role for inner in hierarchy.memories[at + 1 :] for role in inner.roles & roles}
        choices += [_keeps_role(level, limits[level.name], role, at, inside) for role in ROLES]
    width = len(ROLES)
    for bits in product(*choices):
        yield tuple(bits[at : at + width] for at in range(0, len(bits), width))


def _keeps_role(
    level: TemporalLevel, given: LevelConstraint, role: Role, at: int, inside: set[Role]
) -> tuple[bool, ...]:
    if at == 0:
        return (True,)
    if given.keep is not None:
        return (role in given.keep,)
    if role not in level.roles:
        return (False,)
    return (True, False) if role in inside else (True,)


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
