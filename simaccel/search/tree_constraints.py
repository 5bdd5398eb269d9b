"""The user's constraints on the trees of a systolic array, in the notation of mapspaces.

A tree cuts ranks by the loops outside the buffer, which are those of `dram`: `dram.m=8` makes eight
pieces of m (of the smallest tiles that do), `dram.m<=8` at most eight, `dram=m,n` cuts no other
rank, `dram.order=m,n` puts the loop over m outside that over n. `rows=k` and `cols=n` say which
ranks lie along the rows and columns of the array, and thus its stationarity.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np

from simaccel.analytic.family import Bools, BranchNode, Family, FamilyLoops, Ints
from simaccel.errors import Fault, InputError, require_none, suggest
from simaccel.hardware import PLACES, STATIONARITIES, Stationarity
from simaccel.hardware.dataflow import LevelConstraint, tree_constraints
from simaccel.mapping.space import BoundOperator
from simaccel.mapping.tree import nodes, rewrite

_SPREAD: Final = re.compile(r"([^\s=]+)=cores:([1-9][0-9]{0,3})")


def read_spreads(texts: Sequence[str], count: int) -> dict[str, int]:
    """Return the number of cores over which each rank is to be cut, at most ``count``.

    Raises:
        InputError: a text that can't be read, or more cores than there are.
    """
    spreads: dict[str, int] = {}
    wrong: list[Fault] = []
    for text in texts:
        match = _SPREAD.fullmatch(text)
        if match is None:
            wrong.append(Fault("--spread", "spread", text, "RANK=cores:N, such as n=cores:2"))
        elif int(match[2]) > count:
            wrong.append(Fault("--spread", "spread", text, f"1 to {count} cores"))
        else:
            spreads[match[1]] = int(match[2])
    require_none(wrong)
    return spreads


def unmet_spreads(ranks: Iterable[str], spread: Collection[str]) -> list[Fault]:
    """Return the faults of ranks that were to be cut over cores and that no group could cut."""
    allowed = "a rank that an operator has, does not sum over and does not need whole"
    return [Fault("--spread", "spread", rank, allowed) for rank in ranks if rank not in spread]


@dataclass(frozen=True)
class TreeConstraints:
    """Constraints on the trees of all groups; a group ignores ranks that it doesn't have.

    ``met``: ranks of the groups that were searched. ``spread``: those of ``spreads`` that some
    group has.
    """

    dram: LevelConstraint = field(default_factory=LevelConstraint)
    sides: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    spreads: Mapping[str, int] = field(default_factory=dict)
    """Numbers of cores over which ranks are to be cut, wherever possible."""
    met: set[str] = field(default_factory=set, compare=False)
    spread: set[str] = field(default_factory=set, compare=False)

    def __bool__(self) -> bool:
        """Return whether there is any constraint."""
        return bool(self.sides or self.spreads or self.dram.model_fields_set)

    @classmethod
    def from_texts(
        cls, texts: Sequence[str], spreads: Sequence[str] = (), cores: int = 1
    ) -> TreeConstraints:
        """Read constraints from the texts of the command line, those on ``cores`` included.

        Raises:
            InputError: every one that no tree of a systolic array has.
        """
        limits = tree_constraints(texts)
        sides = {
            level: limits[level].ranks or ()
            for level in ("rows", "cols")
            if level in limits and limits[level].ranks is not None
        }
        return cls(limits.get("dram", LevelConstraint()), sides, read_spreads(spreads, cores))

    def cut(self, family: Family) -> Family:
        """Return a family with only the tiles that the constraints allow.

        Raises:
            InputError: a rank can't be cut into that many pieces.
        """
        if not self:
            return family
        sizes = family.space.sizes
        self.met.update(sizes)
        return replace(family, branch=rewrite(family.branch, partial(self._node, sizes=sizes)))

    def allows(self, family: Family) -> Bools:
        """Return which candidates satisfy the constraints, by broadcasting."""
        allowed: Bools = np.ones((), dtype=np.bool_)
        loops = (node for node in nodes(family.branch) if isinstance(node, FamilyLoops))
        for node in loops:
            allowed = allowed & self._has_order(node, family.space.sizes)
            for rank, tile in zip(node.ranks, node.tiles, strict=True):
                size = family.space.sizes[rank]
                allowed = allowed & (self._tile(rank, tile, size) == np.minimum(tile, size))
        for name, held in family.held.items():
            able = [
                at
                for at, stationarity in enumerate(STATIONARITIES)
                if self._folds(family.space.bound_operator(name), stationarity)
            ]
            allowed = allowed & np.isin(held, able)
        return allowed

    def require_met(self) -> None:
        """Refuse constraints on ranks that no group has.

        Raises:
            InputError: names each of them, and the ranks that there are.
        """
        known = {rank.lower() for rank in self.met}
        faults = [
            Fault("--constrain", f"{level}: rank", rank, suggest(rank, sorted(self.met)))
            for level, ranks in (("dram", self._ranks()), *self.sides.items())
            for rank in ranks
            if rank.lower() not in known
        ]
        require_none([*faults, *unmet_spreads(self.spreads, self.spread)])

    def _ranks(self) -> list[str]:
        return list(
            dict.fromkeys(
                (*(self.dram.ranks or ()), *self.dram.factors, *self.dram.most, *self.dram.order)
            )
        )

    def _node(self, node: BranchNode, sizes: Mapping[str, int]) -> BranchNode:
        if not isinstance(node, FamilyLoops):
            return node
        tiles = zip(node.ranks, node.tiles, strict=True)
        return replace(
            node, tiles=tuple(self._tile(rank, tile, sizes[rank]) for rank, tile in tiles)
        )

    def _tile(self, rank: str, tile: Ints, size: int) -> Ints:
        """Return those of some tiles whose pieces the constraints allow."""
        pieces = _name_constraint(self.dram.factors, rank)
        if isinstance(pieces, int):
            even = -(-size // pieces)
            if pieces > size or -(-size // even) != pieces:
                allowed = f"numbers of pieces that {size} can be cut into evenly but for the last"
                raise InputError([Fault("--constrain", f"dram.{rank}", pieces, allowed)])
            return np.full_like(tile, even)
        if self.dram.ranks is not None and not _has_rank(self.dram.ranks, rank):
            return np.full_like(tile, size)
        most = _name_constraint(self.dram.most, rank)
        return np.maximum(tile, -(-size // most)) if isinstance(most, int) else tile

    def _has_order(self, node: FamilyLoops, sizes: Mapping[str, int]) -> Bools:
        """Return which candidates have loops in the order of the constraints."""
        order = [rank.lower() for rank in self.dram.order]
        loops = {
            rank.lower(): (place, tile < sizes[rank])
            for rank, tile, place in zip(node.ranks, node.tiles, node.places, strict=True)
        }
        ordered: Bools = np.ones((), dtype=np.bool_)
        constrained = [rank for rank in order if rank in loops]
        for at, outer in enumerate(constrained):
            for inner in constrained[at + 1 :]:
                (first, is_first), (second, is_second) = loops[outer], loops[inner]
                ordered = ordered & ((first < second) | ~is_first | ~is_second)
        return ordered

    def _folds(self, op: BoundOperator, stationarity: Stationarity) -> bool:
        """Return whether a stationarity has the ranks of the constraints on rows and columns."""
        for level, part in zip(("rows", "cols"), PLACES[stationarity][:2], strict=True):
            side_ranks = [rank for rank, own in op.parts.items() if own == part]
            ranks = [one for one in self.sides.get(level, ()) if _has_rank(op.ranks, one)]
            if any(not _has_rank(side_ranks, one) for one in ranks):
                return False
        return True


NOTHING: Final = TreeConstraints()
"""No constraints."""


def _has_rank(names: Sequence[str], rank: str) -> bool:
    return rank.lower() in {name.lower() for name in names}


def _name_constraint(given: Mapping[str, object], rank: str) -> object:
    return next((value for name, value in given.items() if name.lower() == rank.lower()), None)
