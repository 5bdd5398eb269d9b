"""What is legal makes every position once, and from what is there: held against a brute force."""

import random
from collections.abc import Iterator

import numpy as np
import pytest

from simaccel.analytic.family import take, tree_of
from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.checks import faults
from simaccel.mapping.coverage import work_of
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import Group, Mapping
from simaccel.program.accounting import work_of_commands
from simaccel.program.fit import operators_with_tiles
from simaccel.program.lowering import lower
from simaccel.schedulers.chains import chain_family, chain_of
from simaccel.workload import Einsum, Workload
from tests.drawn_graphs import drawn_workload
from tests.drawn_trees import draw_mapping
from tests.draws import DRAWS
from tests.mapping.oracle import judged
from tests.mapping.positions import require_positions
from tests.program.programs import mapping_of
from tests.trees import einsum, mapping, vector, workload

EDGE = load_accelerator("edge")
GRAPHS, TREES = 40 * DRAWS, 20


def test_random_trees_over_random_graphs() -> None:
    """Those that make each position once are legal, and no others, but for what is named.

    The work that a legal tree says it has is what its program goes over.
    """
    legal = fused = refused = 0
    for seed in range(GRAPHS):
        of, draw = drawn_workload(seed), random.Random(seed)  # noqa: S311 - tests
        for _ in range(TREES):
            one = draw_mapping(draw, of, EDGE)
            found = judged(of, one, EDGE)
            assert not found.wrong
            refused += found.refused
            if not found.legal:
                continue
            assert work_of(of, one) == _in_program(of, one)
            legal += 1
            fused += any(len(group.operators) > 1 for group in one.groups)
    assert legal > 2 * GRAPHS
    assert fused > GRAPHS
    assert refused < legal // 5


def _in_program(of: Workload, one: Mapping) -> dict[str, int]:
    found = {}
    for group, (operator, _) in zip(
        one.groups, operators_with_tiles(lower(of, one).body), strict=True
    ):
        points = work_of_commands(operator)
        for name in group.operators:
            what = of.operator(name)
            is_einsum = isinstance(what, Einsum)
            key = ("MACs", what.output.tensor) if is_einsum else ("elements", name)
            found[name] = points[key]
    return found


def _chained(of: Workload, draw: random.Random) -> Iterator[Mapping]:
    """Yield a mapping for each run of operators that share rows, with a tree of a family of it."""
    names = [one.name for one in of.operators]
    for start in range(len(names)):
        for stop in range(start + 2, len(names) + 1):
            chain = chain_of(of, names[start:stop])
            if chain is None:
                continue
            family = chain_family(chain, EDGE)
            which = tuple(np.int64(draw.randrange(n)) for n in family.shape)
            tree = tree_of(take(family, which))
            alone = of.select_operators(names[start:stop])
            group = Group(operators=chain.group.operators, tree=tree, merged=chain.group.merged)
            yield mapping_of(alone, group)


def test_what_operators_that_share_rows_are_searched_in_is_legal() -> None:
    """Of each family a tree at random: legal, right, and its work is the workload's."""
    found = 0
    for seed in range(GRAPHS):
        of, draw = drawn_workload(seed), random.Random(seed)  # noqa: S311 - tests
        for one in _chained(of, draw):
            (group,) = one.groups
            alone = of.select_operators(group.operators)
            assert faults(alone, one, EDGE) == []
            require_positions(alone, one)
            work = {name: _work(alone, name) for name in group.operators}
            assert work_of(alone, one) == work == _in_program(alone, one)
            found += 1
    assert found > GRAPHS // 2


def _work(of: Workload, name: str) -> int:
    what = of.operator(name)
    return what.macs if isinstance(what, Einsum) else what.elements


def _require_judged(of: Workload, one: Mapping, said: str, work: dict[str, int]) -> None:
    """A legal mapping does so much of its first operators; another one is refused by ``said``."""
    found = faults(of, one)
    assert not judged(of, one, EDGE).wrong
    assert (not found) == (not said)
    if said:
        assert said in found[0].allowed
    else:
        made = work_of(of, one)
        assert {name: made[name] for name in work} == work


STRIDED = workload(
    einsum("one", "T m p", "I c p", "W m c", m=2, c=2, p=5),
    einsum("two", "O n p", "T m 2*p", "U n m", n=2, m=2, p=3),
)
WINDOWS = workload(
    einsum("one", "T m p", "I c p", "W m c", m=2, c=2, p=7),
    einsum("two", "O n p", "T m p+r", "U n m r", n=2, m=2, p=5, r=3),
)
"""Of `T` all is needed; at stride 2 without a window every second position isn't."""
BODY = """
    group one+two
      loop p{rank} {tile}
      keep I buffer, W buffer, T buffer, U buffer, O buffer
      fork
        | do one array ws
        | do two array ws
"""


@pytest.mark.parametrize(
    ("of", "tile", "work"),
    [(STRIDED, 3, 5 * 4), (STRIDED, 2, None), (STRIDED, 1, None), (WINDOWS, 2, (4 + 4 + 3) * 4)],
)
def test_blocks_of_a_sum_of_ranks(of: Workload, tile: int, work: int | None) -> None:
    """By hand: 5 positions in one block; 0..2 and 4 in two; windows of 4, 4 and 3 overlap."""
    rank = next(
        iter({"p", "p2"} & set(space_of(of, Group(operators=("one", "two"), tree=())).sizes))
    )
    one = mapping(of, BODY.format(rank=rank.removeprefix("p"), tile=tile))
    said = "its pieces leave out some of p" if work is None else ""
    _require_judged(of, one, said, {"one": work or 0})


EVERY_SECOND = workload(
    einsum("one", "T m p", "I c p", "W m c", m=2, c=2, p=5),
    einsum("two", "U n p", "T m 2*p", "V n m", n=2, m=2, p=3),
    einsum("three", "O k p", "U n p+r", "X k n r", k=2, n=2, p=2, r=2),
)
"""Of `U` 2 positions at a time, from every second one of 3 of `T`."""


def test_a_stride_over_a_sum_of_ranks() -> None:
    """By hand: 3 positions of `T` and 2 of `U` for each r, and all of `O` from them."""
    body = """
        group one+two+three
          keep O buffer
          loop r 1
          keep I buffer, W buffer, T buffer, V buffer, U buffer, X buffer
          fork
            | do one array ws
            | do two array ws
            | do three array ws
    """
    one = mapping(EVERY_SECOND, body)
    assert faults(EVERY_SECOND, one) == []
    require_positions(EVERY_SECOND, one)
    work = {"one": 2 * 3 * 2 * 2, "two": 2 * 2 * 2 * 2, "three": 2 * 2 * 2 * 2}
    assert work_of(EVERY_SECOND, one) == _in_program(EVERY_SECOND, one) == work


APART = workload(
    einsum("one", "T m p", "I c p", "W m c", m=2, c=2, p=9),
    einsum("two", "O n p", "T m 3*p+r", "U n m r", n=2, m=2, p=3, r=3),
)
"""Windows of 3 at stride 3: each position is in one of them."""


@pytest.mark.parametrize(("of", "is_legal"), [(APART, True), (WINDOWS, False)])
def test_pieces_of_a_halo_in_one_tile(of: Workload, *, is_legal: bool) -> None:
    """Windows that don't overlap are pieces like others: one tile has them all, each once."""
    body = """
        group one+two
          keep I buffer, W buffer, T buffer, U buffer, O buffer
          fork
            | loop p2 1
              do one array ws
            | do two array ws
    """
    one = mapping(of, body)
    said = "" if is_legal else "its pieces overlap in p"
    _require_judged(of, one, said, {"one": 9 * 2 * 2, "two": 3 * 2 * 2 * 3})


POOLED = workload(
    vector("soft", "softmax", "S y x", "I y x", axis="x", y=4, x=6),
    vector("pool", "pooling", "O p q", "S p+r q+s", p=3, r=2, q=5, s=2),
)
"""Windows of 2 x 2 over rows that are each normalised."""


@pytest.mark.parametrize(("rank", "work"), [("p", 3 * 2 * 6), ("q", None)])
def test_an_axis_that_a_window_reads(rank: str, work: int | None) -> None:
    """Rows may be made again for each window that has them; a part of a row is no row."""
    body = f"""
        group soft+pool
          loop {rank} 1
          keep I buffer, S buffer, O buffer
          fork
            | do soft sfu
            | do pool sfu
    """
    one = mapping(POOLED, body)
    said = "soft goes along all of x, which a window reads" if work is None else ""
    _require_judged(POOLED, one, said, {"soft": work or 0})
    if work is not None:
        assert _in_program(POOLED, one)["soft"] == work


def test_what_leaves_a_group_is_made_once() -> None:
    """`T` is made again for each n where it stays, and nowhere where others need it, too."""
    one = einsum("one", "T m", "I c", "W m c", m=2, c=3)
    two = einsum("two", "O m n", "T m", "U n", m=2, n=4)
    other = vector("other", "relu", "V m", "T m", m=2)
    body = """
        group one+two
          loop n 2
          loop m 1
          keep I buffer, W buffer, T buffer, U buffer, O buffer
          fork
            | do one array ws
            | do two array ws
    """
    alone = workload(one, two)
    again = mapping(alone, body)
    assert faults(alone, again) == []
    assert work_of(alone, again) == {"one": 2 * 2 * 3, "two": 2 * 4}
    of = workload(one, two, other)
    behind = """
        group other
          keep T buffer, V buffer
          do other sfu
    """
    (found,) = faults(of, mapping(of, body.rstrip() + behind))
    allowed = "no loop or part of n outside: one hasn't got it, and T, which leaves the group, is"
    assert found.allowed == f"{allowed} made once"


BETWEEN = workload(
    vector("square", "product", "T p", "I p", "I p", p=7),
    vector("relu", "relu", "U p", "T p", p=7),
    einsum("conv", "O m p", "U 2*p+r", "W m r", m=2, p=3, r=3),
)
"""Of each r, a convolution with a stride reads every second position; an operator between all."""


@pytest.mark.parametrize(("tile", "inner", "is_legal"), [(2, 3, False), (2, 2, True), (3, 3, True)])
def test_what_a_stride_leaves_out_is_not_read(tile: int, inner: int, *, is_legal: bool) -> None:
    """By hand, r = 0: blocks of two make positions 0 to 2 and 4, and one of three reads 3, too."""
    body = f"""
        group square+relu+conv
          keep O buffer
          loop r 1
          keep I buffer, T buffer, U buffer, W buffer
          fork
            | loop p2 {tile}
              do square sfu
            | loop p2 {inner}
              do relu sfu
            | do conv array ws
    """
    one = mapping(BETWEEN, body)
    assert not judged(BETWEEN, one, EDGE).wrong
    assert [fault.allowed.partition(":")[0] for fault in faults(BETWEEN, one)] == (
        [] if is_legal else ["no loop p2 inside of the branch of do square, or the same one here"]
    )


def test_a_window_over_a_sum_of_ranks_is_whole() -> None:
    """A mean takes all positions at once, also where they are those of a convolution's windows."""
    mean = vector("mean", "average_pooling", "M", "T p", p=4)
    conv = einsum("conv", "O m p", "T 2*p+r", "W m r", m=2, p=2, r=2)
    of = workload(vector("square", "product", "T p", "I p", "I p", p=4), conv, mean)
    body = """
        group square+conv+mean
          keep M buffer, W buffer
          loop p2 1
          keep I buffer, T buffer, O buffer
          fork
            | do square sfu
            | do conv array ws
            | do mean sfu
    """
    one = mapping(of, body)
    assert not judged(of, one, EDGE).wrong
    assert [fault.allowed for fault in faults(of, one)] == [
        "no loop or part of p2: mean takes whole windows"
    ]
