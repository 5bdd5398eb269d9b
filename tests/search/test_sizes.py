"""Sizes of tiles that a grid tries."""

import pytest

from simaccel.mapping.space import mergeable, space_of
from simaccel.mapping.tree import Group
from simaccel.schedulers.einsums import tilings
from simaccel.workload import conv2d


@pytest.mark.parametrize(("q", "sides", "rows"), [(56, 2, 9), (56, 1, 4), (27, 1, 9)])
def test_rows_of_an_output_fill_whole_sides(q: int, sides: int, rows: int) -> None:
    """So many rows of ``q`` positions fit ``sides`` sides of 256, and one more doesn't."""
    assert rows * q <= sides * 256 < (rows + 1) * q
    workload = conv2d(m=4, c=4, p=q, q=q, r=3, s=3)
    group = Group(operators=("conv",), tree=(), merged=mergeable(workload, ["conv"]))
    found = tilings(space_of(workload, group), ("p", "q"), 256)
    assert {"p": rows, "q": q} in found
