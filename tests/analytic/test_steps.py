"""What PEs with memories take of a block, calculated by hand."""

import pytest

from simaccel.analytic.family import Path, family_of, ints
from simaccel.analytic.pieces import Cuts
from simaccel.analytic.steps import Dims, Division
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import Do, Group, Loop, Spread, Tree
from simaccel.workload import Workload, gemm
from simaccel.workload.conv import conv2d

A: Dims = ((("m", 1),), (("k", 1),))
B: Dims = ((("k", 1),), (("n", 1),))
C: Dims = ((("m", 1),), (("n", 1),))
_GEMM: Tree = (Loop("m", 4), Spread("k", 2, "rows"), Loop("m", 1), Do("gemm", "mac"))
_SIZES = {"m": 4, "k": 5, "n": 4}


def _division(workload: Workload, tree: Tree) -> Division:
    group = Group(operators=(workload.operators[0].name,), tree=tree)
    space = space_of(workload, group)
    (path,) = family_of(space, group).paths()
    return Division(Cuts(space, Path(path.entries, path.leaf)))


def test_a_block_lasts_as_long_as_its_first_pe() -> None:
    division = _division(gemm(m=7, k=5, n=4), _GEMM)
    assert division.steps(division.block(dict.fromkeys("mkn", ints(100)), "mkn")) == 4 * 2 * 4
    assert division.steps({**_SIZES, "k": 1}) == 4 * 1 * 4  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("dims", "m", "bits", "outer", "inner"),
    [
        (A, 4, 16, 40, 40),  # 4 x 5 elements, each in one of three rows
        (A, 3, 16, 30, 30),
        (C, 4, 8, 16, 48),  # the same 4 x 4 sums in each row
        (C, 3, 8, 12, 36),
        (A, 1, 4, 3, 3),  # packed by the box: 5 elements, or 2, 2 and 1
    ],
)
def test_what_pes_keep(dims: Dims, m: int, bits: int, outer: int, inner: int) -> None:
    division = _division(gemm(m=7, k=5, n=4), _GEMM)
    sizes = {rank: ints(size) for rank, size in {**_SIZES, "m": m}.items()}
    assert division.spread(dims, sizes, bits, inner=False) == outer
    assert division.spread(dims, sizes, bits, inner=True) == inner


@pytest.mark.parametrize(
    ("dims", "first", "outer", "inner"),
    [
        (A, False, 4 * 5 * 4, 4 * 5 * 4),  # again for each n
        (B, False, 5 * 4 * 4, 5 * 4 * 4),
        (C, False, 4 * 4 * 2, 4 * 4 * 5),  # rows add up what they have in the same step
        (C, True, 4 * 4, 4 * 4 * 3),  # each of three rows begins with its own
    ],
)
def test_what_steps_access(dims: Dims, first: bool, outer: int, inner: int) -> None:  # noqa: FBT001
    division = _division(gemm(m=7, k=5, n=4), _GEMM)
    sizes = {rank: ints(size) for rank, size in _SIZES.items()}
    assert division.accesses(dims, sizes, 8, inner=False, first=first) == outer
    assert division.accesses(dims, sizes, 8, inner=True, first=first) == inner


def test_windows_bring_only_what_is_new() -> None:
    layer = conv2d(c=1, m=1, p=12, q=1, r=3, s=1, stride=2)
    tree: Tree = (Loop("p", 4), Spread("p", 2, "cols"), Do("conv", "mac"))
    division = _division(layer, tree)
    dims: Dims = ((("p", 2), ("r", 1)),)
    sizes = {"p": ints(4), "r": ints(3)}
    assert division.spread(dims, sizes, 8, inner=False) == 9  # 2 x 3 + 3
    assert division.spread(dims, sizes, 8, ("p", 2), inner=False) == 8  # one of the block before
    assert division.spread(dims, sizes, 8, inner=True) == 5 + 5
    # a PE had the positions 4 to 8 before those from 8 on: what it needs again is none of them
    assert division.spread(dims, sizes, 8, ("p", 2), inner=True) == 5 + 5
