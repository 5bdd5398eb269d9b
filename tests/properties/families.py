"""Families drawn at random: candidates of different sizes, orders and slots."""

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from simaccel.analytic.family import Branch, Family, FamilyLoops, Ints, ints, take, tree_of
from simaccel.hardware import STATIONARITIES
from simaccel.mapping.space import aliases_of, mergeable, space_of
from simaccel.mapping.tree import Do, Fork, Group, Keep, Mapping
from simaccel.workload import ModelDimensions, Workload, attention, gemm
from tests.program.programs import LA, mapping_of

_MOST = 5
_PIECES = 2
"""Full pieces of each rank if there are to be few: a loop of two goes on as it began."""


@dataclass(frozen=True)
class Drawn:
    """A family, whose candidates are along one axis, of a group of a workload."""

    workload: Workload
    group: Group
    family: Family

    @property
    def count(self) -> int:
        """How many candidates there are."""
        (count,) = self.family.shape
        return count

    def alone(self, number: int) -> Family:
        """Return one candidate as a family of one."""
        return take(self.family, ints(number))

    def mapping(self, number: int) -> Mapping:
        """Return one candidate as a mapping."""
        tree = tree_of(self.alone(number))
        return mapping_of(self.workload, replace(self.group, tree=tree))


def _column(draw: st.DrawFn, extent: int, count: int, *, few: bool) -> Ints:
    """Draw sizes; the first is the whole rank, which often is a case of its own."""
    least = extent // (_PIECES + 1) + 1 if few else 1
    return ints([extent, *(draw(st.integers(least, extent)) for _ in range(count - 1))])


def _slots(draw: st.DrawFn, count: int) -> Ints:
    return ints([draw(st.integers(1, 3)) for _ in range(count)])


def _places(draw: st.DrawFn, ranks: int, count: int, *, one_order: bool) -> tuple[Ints, ...]:
    orders = [draw(st.permutations(range(ranks))) for _ in range(1 if one_order else count)]
    table = np.array([orders[number % len(orders)] for number in range(count)])
    return tuple(ints(table[:, rank]) for rank in range(ranks))


def packs(tensors: str) -> st.SearchStrategy[set[str]]:
    """Draw tensors that have elements of 4 bits, often none."""
    return st.sets(st.sampled_from(tensors)) | st.just(set[str]())


def packed(workload: Workload, names: set[str]) -> Workload:
    """Give some tensors elements of 4 bits."""
    tensors = {
        name: replace(one, bytes_per_element=1, packed=True) if name in names else one
        for name, one in workload.tensors.items()
    }
    return replace(workload, tensors=tensors)


@st.composite
def gemm_families(draw: st.DrawFn, *, one_order: bool = False, few: bool = False) -> Drawn:
    """Draw tilings of a batched GEMM; ``few``: of at most two full pieces of each rank."""
    m, k, n, batch = (draw(st.integers(1, most)) for most in (11, 9, 7, _PIECES))
    workload = packed(gemm(m=m, k=k, n=n, batch=batch), draw(packs("ABC")))
    group = Group(operators=("gemm",), tree=(), merged=mergeable(workload, ("gemm",)))
    space = space_of(workload, group)
    count = draw(st.integers(1, _MOST))
    ranks = [rank for rank in "mkn" if rank in space.sizes]
    tiles = tuple(_column(draw, space.sizes[rank], count, few=few) for rank in ranks)
    loops = FamilyLoops(tuple(ranks), tiles, _places(draw, len(ranks), count, one_order=one_order))
    keeps = tuple(Keep(name, "buffer", _slots(draw, count)) for name in "ABC")
    branch: Branch = (
        FamilyLoops(("b",), (ints(1),), (ints(0),)),
        loops,
        *keeps,
        Do("gemm", "array", draw(st.sampled_from(STATIONARITIES))),
    )
    return Drawn(workload, group, Family(space, branch, {}))


@st.composite
def flat_families(draw: st.DrawFn, *, few: bool = False) -> Drawn:
    """Draw tilings of an attention as one group."""
    heads, size, tokens = draw(st.integers(1, 3)), draw(st.integers(1, 5)), draw(st.integers(1, 9))
    dimensions = ModelDimensions(hidden=heads * size, heads=heads, head_size=size, ff_size=1)
    workload = attention(dimensions, batch=2, seq_len=tokens, scope="la")
    workload = packed(workload, draw(packs("QKSPVZ")))
    group = Group(operators=LA, tree=(), merged=mergeable(workload, LA))
    space = space_of(workload, group)
    count, online = draw(st.integers(1, _MOST)), draw(st.booleans())
    ahead = draw(st.booleans())
    sizes = {rank: _column(draw, space.sizes[rank], count, few=few) for rank in ("bh", "q", "c")}
    if online and draw(st.booleans()):  # of a family all cut softmax's axis, or none
        sizes["c"] = np.minimum(sizes["c"], max(1, space.sizes["c"] - 1))
    elif online:
        sizes["c"] = sizes["c"] * 0 + space.sizes["c"]
    outer, rows, keys = (FamilyLoops((r,), (t,), (ints(0),)) for r, t in sizes.items())
    q, k, v, z = (Keep(name, "buffer", _slots(draw, count)) for name in "QKVZ")
    s = Keep("S", "buffer", np.maximum(_slots(draw, count), 1 + ahead))
    kinds = st.sampled_from(STATIONARITIES)
    logit, softmax = Do("L", "array", draw(kinds)), Do("softmax", "sfu")
    attend = Do("A", "array", draw(kinds))
    if online:
        branch: Branch = (outer, rows, q, z, keys, k, v, s)
        branches: tuple[Branch, ...] = ((logit,), (softmax,), (attend,))
    else:
        branch = (outer, rows, q, z, s)
        again = FamilyLoops(keys.ranks, keys.tiles, keys.places)
        some = _column(draw, space.sizes["c"], count, few=few)
        cut = FamilyLoops(("c",), (np.minimum(some, max(1, space.sizes["c"] - 1)),), (ints(0),))
        middle: Branch = (*([cut] * draw(st.booleans())), softmax)
        branches = ((keys, k, logit), middle, (again, v, attend))
    branch = (*branch, Fork(branches, int(ahead)))
    found = Drawn(workload, group, Family(space, branch, {}))
    aliases = aliases_of(space, tree_of(found.alone(0)), ())
    return replace(found, family=replace(found.family, aliases=aliases))
