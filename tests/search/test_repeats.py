"""Which candidates repeat others, against their trees without loops of one trip."""

import numpy as np
import pytest

from simaccel.analytic.family import Family, FamilyLoops, ints, take, tree_of
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import Do, Group, Keep, Loop
from simaccel.search.columns import repeats
from simaccel.workload import gemm

_SPACE = space_of(gemm(m=4, k=3, n=2), Group(operators=("gemm",), tree=()))


@pytest.mark.parametrize("slots", [[1, 2], [1, 2, 1]])
@pytest.mark.parametrize(
    ("m", "n", "m_is_inside"),
    [
        ([[1], [2], [4]], [[1, 2]], [[0, 0]]),
        ([[2], [2], [4]], [[1, 2]], [[0, 0]]),
        ([[1], [4]], [[2, 1, 2]], [[0, 1, 1]]),
        ([[1, 2], [2, 1]], [[2, 2]], [[0], [1]]),
    ],
)
def test_repeats_have_an_earlier_tree(
    m: list[list[int]], n: list[list[int]], m_is_inside: list[list[int]], slots: list[int]
) -> None:
    place = ints(m_is_inside)
    loops = FamilyLoops(("m", "n"), (ints(m), ints(n)), (place, 1 - place))
    keep = Keep("A", "buffer", ints(slots).reshape(-1, 1, 1))
    family = Family(_SPACE, (loops, keep, Do("gemm", "array", "ws")), {})
    trees = []
    for at in np.ndindex(family.shape):
        tree = tree_of(take(take(family, tuple(ints([one]) for one in at)), (ints(0),)))
        sizes = _SPACE.sizes
        cuts = (node for node in tree if not isinstance(node, Loop) or node.tile < sizes[node.rank])
        trees.append(tuple(cuts))
    expected = [tree in trees[:at] for at, tree in enumerate(trees)]
    assert repeats(family, family.shape).tolist() == expected
