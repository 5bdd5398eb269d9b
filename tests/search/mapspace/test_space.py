"""Mapspaces against enumerations by hand, and their constraints."""

from collections.abc import Iterator
from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simaccel.errors import InputError
from simaccel.hardware.dataflow import LevelConstraint, parse_constraints
from simaccel.hardware.levels import ROLES, Hierarchy, Level, Memory, SpatialLevel, TemporalLevel
from simaccel.search.effort import STRATEGIES, Strategy
from simaccel.search.mapspace.limits import limits
from simaccel.search.mapspace.mapspace_tables import dependences, distinct_orders
from simaccel.search.mapspace.space import EinsumMapspace, spaces
from simaccel.search.mapspace.tiling_batch import TilingBatch
from simaccel.workload import Einsum, gemm
from simaccel.workload.conv import Conv
from simaccel.workload.einsum import operand
from tests.data_files import data_beside
from tests.draws import DRAWS
from tests.refusals import faults_of, refusal_of
from tests.search.mapspace.blocks import blocks

DATA = data_beside(__file__)


def toy(pes: int = 4) -> Hierarchy:
    return Hierarchy(
        levels=(
            TemporalLevel(name="dram", memories=(Memory(),)),
            SpatialLevel(name="pes", fanout=pes),
            TemporalLevel(name="pad", memories=(Memory(capacity_bytes=1024),)),
        )
    )


def eyeriss() -> Hierarchy:
    both = frozenset({ROLES[0], ROLES[2]})
    pads = tuple(Memory(roles=frozenset({role}), capacity_bytes=64) for role in ROLES)
    levels: tuple[Level, ...] = (
        TemporalLevel(name="dram", memories=(Memory(),)),
        TemporalLevel(name="buffer", memories=(Memory(roles=both, capacity_bytes=4096),)),
        SpatialLevel(name="cols", fanout=3, reduces=False),
        SpatialLevel(name="rows", fanout=2),
        TemporalLevel(name="pe", memories=pads),
    )
    return Hierarchy(levels=levels)


def product_of(m: int, k: int, n: int) -> Einsum:
    (einsum,) = gemm(m=m, k=k, n=n).operators
    assert isinstance(einsum, Einsum)
    return einsum


def rank_one(size: int) -> Einsum:
    return Einsum("one", {"d": size}, (operand("A d"), operand("B d")), operand("Z d"))


def rows_of(space: EinsumMapspace, nests: TilingBatch) -> Iterator[tuple[object, ...]]:
    """Give each mapping with only what counts: no order of loops of one trip."""
    left = np.broadcast_to(space.book.extents, nests.factors[:, 0].shape)
    for level in reversed(range(1, nests.factors.shape[1])):
        left = -(-left // nests.factors[:, level])
    for at in range(len(nests)):
        inner = nests.factors[at, 1:].tolist()
        loops = [left[at].tolist(), *inner]
        yield str((inner, loops)), nests.orders[at].tolist(), nests.keeps[at].tolist()


def test_the_size_is_that_of_all_blocks() -> None:
    for einsum, hierarchy in (
        (product_of(6, 5, 4), toy()),
        (Conv(m=2, c=1, p=3, q=2, r=2, s=1).einsum("conv"), toy()),
        (product_of(4, 2, 3), eyeriss()),
    ):
        for strategy in STRATEGIES:
            for space in spaces(einsum, hierarchy, strategy):
                tried, seen = 0, 0
                found: set[str] = set()
                for n, nests in blocks(space, 97):
                    tried += n
                    seen += len(nests)
                    found |= {str(row) for row in rows_of(space, nests)}
                assert tried == space.size()
                assert seen == len(found) <= tried


@settings(max_examples=9 * DRAWS)
@given(st.integers(1, 12), st.integers(1, 12), st.sampled_from(["pfm", "ruby", "ruby-s", "ruby-t"]))
def test_a_matrix_product_counted_by_hand(m: int, n: int, strategy: Strategy) -> None:
    """DRAM and pad around 4 PEs: chains by brute force, 3 orders of 3 loops, 1 of fewer.

    The order of two loops of DRAM matters: it decides which of the tensors stays. Of three it
    matters which is the innermost: the tensor that lacks it stays.
    """
    (space,) = spaces(product_of(m, 2, n), toy(), strategy)
    total = 0
    for chain in product(_chains(m, strategy), _chains(2, strategy), _chains(n, strategy)):
        active = sum(outer > 1 for outer, _, _ in chain)
        total += {0: 1, 1: 1, 2: 2, 3: 3}[active]
    assert space.size() == total


def _chains(size: int, strategy: str) -> list[tuple[int, int, int]]:
    """Outermost, spatial and innermost pieces: by size of tile, the smallest of equal counts."""
    found: dict[tuple[int, int], tuple[int, int, int]] = {}
    for inner, spatial in product(range(1, size + 1), range(1, 5)):
        arrived = -(-size // inner)
        left = -(-arrived // spatial)
        whole = (size % inner == 0, arrived % spatial == 0)
        free = (strategy in ("ruby", "ruby-t"), strategy in ("ruby", "ruby-s"))
        allowed = all(w or f for w, f in zip(whole, free, strict=True))
        if spatial <= arrived and allowed:
            found.setdefault((arrived, left), (left, spatial, inner))
    return list(found.values())


def test_orders_that_move_the_same_are_one() -> None:
    """Of all orders of a matrix product three differ, of a convolution 4! etc. far fewer."""
    einsum = product_of(2, 2, 2)
    mkn = tuple(list(einsum.ranks).index(rank) for rank in "mkn")
    found = distinct_orders(mkn, dependences(einsum))
    assert len({order[-1] for order in found.tolist()}) == len(found) == 3
    einsum = Conv(m=2, c=2, p=2, q=2, r=2, s=2).einsum("conv")
    ranks = tuple(range(len(einsum.ranks)))
    active = tuple(at for at in ranks if list(einsum.ranks.values())[at] > 1)
    found = distinct_orders(active, dependences(einsum))
    assert len(active) == 6
    assert 6 < len(found) < 720 / 4
    assert all(tuple(sorted(order)) == active for order in found.tolist())


def test_a_given_order_is_kept() -> None:
    constraints = parse_constraints(["dram.order=n,m"])
    (space,) = spaces(product_of(4, 4, 4), toy(), "pfm", constraints=constraints)
    names = list(space.einsum.ranks)
    seen = set()
    for _, nests in blocks(space):
        for order, outer in zip(nests.orders[:, 0], nests.factors[:, 0], strict=True):
            loops = "".join(names[rank] for rank in order if outer[rank] > 1)
            seen.add(loops)
    assert {loops.replace("k", "") for loops in seen} == {"", "n", "m", "nm"}
    # knm leaves the same tensor where it is as nkm, nmk another one.
    assert {loops for loops in seen if len(loops) == 3} == {"knm", "nmk"}


def test_random_mappings_are_of_the_mapspace_and_spread_over_it() -> None:
    (space,) = spaces(rank_one(100), toy(6), "ruby-s")
    listed = {str(row) for _, nests in blocks(space) for row in rows_of(space, nests)}
    genes, factors = space.fitting(space.random(np.random.default_rng(1), 4000))
    drawn = [str(row) for row in rows_of(space, space.candidates(genes, factors))]
    assert set(drawn) == listed
    most = max(drawn.count(row) for row in listed)
    assert most < 3 * len(drawn) / len(listed)


def test_fan_outs_hold_across_ranks() -> None:
    (space,) = spaces(product_of(4, 4, 4), toy(4), "ruby")
    for _, nests in blocks(space):
        assert (nests.factors[:, 1].prod(axis=1) <= 4).all()
    genes, factors = space.fitting(space.random(np.random.default_rng(0), 500))
    assert 0 < len(genes) < 500
    assert (factors[:, 1].prod(axis=1) <= 4).all()


def test_reductions_only_where_the_hardware_adds() -> None:
    (space,) = spaces(product_of(6, 6, 6), eyeriss(), "ruby")
    k = list(space.einsum.ranks).index("k")
    seen = np.concatenate([n.factors[:, 2:4, k] for _, n in blocks(space)])
    assert set(seen[:, 0].tolist()) == {1}
    assert set(seen[:, 1].tolist()) == {1, 2}


def test_keeps_are_what_memories_can() -> None:
    (space,) = spaces(product_of(2, 2, 2), eyeriss(), "pfm")
    kept = {str(keep) for keep in space.limits.keeps}
    assert len(kept) == 4
    for outermost, buffer, pe in space.limits.keeps:
        assert all(outermost)
        assert not buffer[1]
        assert all(pe)
    constraints = parse_constraints(["buffer.keep=output"])
    (one,) = spaces(product_of(2, 2, 2), eyeriss(), "pfm", constraints=constraints)
    assert one.limits.keeps == (((True,) * 3, (False, False, True), (True,) * 3),)


def test_constraints_hold_in_every_mapping() -> None:
    texts = ["cols=M", "rows.K=2", "pe.N<=2", "buffer.M=all"]
    (space,) = spaces(product_of(4, 4, 4), eyeriss(), "ruby", constraints=parse_constraints(texts))
    rank = {name: at for at, name in enumerate(space.einsum.ranks)}
    total = 0
    for _, nests in blocks(space):
        total += len(nests)
        assert (nests.factors[:, 2, [rank["k"], rank["n"]]] == 1).all()
        assert (nests.factors[:, 3, rank["k"]] == 2).all()
        assert (nests.factors[:, 4, rank["n"]] <= 2).all()
        assert (nests.factors[:, 0, rank["m"]] == 1).all()
    assert total > 100


def test_a_dataflow_may_name_ranks_that_others_have_and_the_user_overrides_it() -> None:
    dataflow = {"cols": LevelConstraint(ranks=("Q", "M"), most={"M": 2})}
    (space,) = spaces(product_of(4, 4, 4), eyeriss(), "pfm", dataflow)
    assert prod(space.chain_counts()) > 0
    seen = np.concatenate([n.factors[:, 2] for _, n in blocks(space)])
    rank = {name: at for at, name in enumerate(space.einsum.ranks)}
    assert seen[:, rank["m"]].max() == 2
    assert seen[:, rank["n"]].max() == 1
    constraints = parse_constraints(["cols=N"])
    (other,) = spaces(product_of(4, 4, 9), eyeriss(), "pfm", dataflow, constraints)
    seen = np.concatenate([n.factors[:, 2] for _, n in blocks(other)])
    assert (seen[:, rank["m"]].max(), seen[:, rank["n"]].max()) == (1, 3)


@pytest.mark.parametrize(("text", "message"), DATA["constraints"])
def test_impossible_constraints_are_named(text: str, message: str) -> None:
    said = refusal_of(limits, product_of(6, 6, 6), eyeriss(), {}, parse_constraints([text]))
    assert message in said


def test_a_perfect_factor_that_divides_nothing_leaves_no_chain() -> None:
    constraints = parse_constraints(["cols.M=3"])
    (perfect,) = spaces(product_of(4, 1, 1), eyeriss(), "pfm", constraints=constraints)
    (imperfect,) = spaces(product_of(4, 1, 1), eyeriss(), "ruby-s", constraints=constraints)
    assert (perfect.size(), imperfect.size()) == (0, 4 * imperfect.chain_counts()[1])


def test_padding_is_to_multiples_of_the_fan_out() -> None:
    sizes = {tuple(s.einsum.ranks.values()) for s in spaces(rank_one(113), toy(16), "padded")}
    assert sizes == {(128,)}
    found = [s.einsum.ranks for s in spaces(product_of(5, 7, 8), toy(4), "padded")]
    assert [(r["m"], r["k"], r["n"]) for r in found] == [(8, 7, 8), (5, 8, 8), (5, 7, 8)]


def test_blocks_go_through_all_mappings() -> None:
    (space,) = spaces(product_of(4, 2, 3), eyeriss(), "ruby")
    sizes = [space.block(at, at + 1)[0] for at in range(space.combinations)]
    assert sum(sizes) == space.size()


@pytest.mark.parametrize("strategy", ["pfm", "ruby-s", "ruby"])
def test_a_tiling_of_the_mapspace_is_the_nearest_to_itself(strategy: Strategy) -> None:
    (space,) = spaces(Conv(m=4, c=1, p=3, q=2, r=2, s=1).einsum("conv"), eyeriss(), strategy)
    genes, factors = space.fitting(space.random(np.random.default_rng(3), 300))
    near = space.nearest_tilings(space.candidates(genes, factors))
    assert np.array_equal(near.chains, genes.chains)
    assert np.array_equal(near.keeps, genes.keeps)


def test_of_a_tiling_of_another_mapspace_the_nearest_is_found() -> None:
    """7 pieces of 12 and then 2 of 2: no perfect chain has 7, so it gets 6; 2 of 2 are left."""
    (space,) = spaces(rank_one(12), toy(), "pfm")
    given = TilingBatch(
        factors=np.array([[[1], [2], [7]]]),
        orders=np.zeros((1, 2, 1), dtype=np.int64),
        keeps=np.zeros((1, 2, 3), dtype=bool),
    )
    _, factors = space.fitting(space.nearest_tilings(given))
    assert factors[0, :, 0].tolist() == [1, 2, 6]


@pytest.mark.parametrize("strategy", ["pfm", "ruby"])
def test_chains_move_to_others_of_the_mapspace(strategy: Strategy) -> None:
    (space,) = spaces(product_of(36, 30, 8), eyeriss(), strategy)
    rng = np.random.default_rng(0)
    for rank, count in enumerate(space.chain_counts()):
        if count > 1:
            start = rng.integers(0, count, 500)
            moved = space.move_chains(rng, rank, start)
            assert ((moved >= 0) & (moved < count)).all()
            assert (moved != start).sum() > 100


def test_what_contradicts_itself_is_refused() -> None:
    constraints = parse_constraints(["cols.m=2", "cols=N"])
    message = refusal_of(limits, product_of(6, 6, 6), eyeriss(), {}, constraints)
    assert message == "--constrain: cols.m: got 2; allowed: 1, as cols=n leaves it out"
    caught = refusal_of(parse_constraints, ["cols.M=2", "cols.m=3", "cols.M=2", "pe.M=3"])
    said = "command line: --constrain: got 'cols.m=3'; allowed: cols.M=2, as stands before it"
    assert caught == said


def test_over_a_dataflow_the_user_may_ask_for_other_ranks() -> None:
    dataflow, constraints = parse_constraints(["cols=N"]), parse_constraints(["cols.M=2"])
    (space,) = spaces(product_of(6, 6, 6), eyeriss(), "ruby", dataflow, constraints)
    assert space.size() > 0


def test_what_is_wrong_in_a_dataflow_is_named_as_such() -> None:
    dataflow = parse_constraints(["cols.M=4", "buffer.keep=weight"])
    found = faults_of(
        limits, product_of(6, 6, 6), eyeriss(), dataflow, parse_constraints(["cols.N=9"])
    )
    assert sorted(str(fault) for fault in found) == [
        "--constrain: cols.n: got 9; allowed: 1 to 3",
        "dataflow: buffer.keep: got 'weight'; allowed: one of input, output",
        "dataflow: cols.m: got 4; allowed: 1 to 3",
    ]


def test_a_rank_of_10_to_the_12_is_quickly_counted_or_refused() -> None:
    """No stop-watch, but the 10^12 would otherwise take a minute, and 10^24 MACs wrap."""
    for strategy in ("pfm", "padded", "ruby-s"):
        (space, *_) = spaces(rank_one(10**12), toy(), strategy)
        assert space.size() > 100
    with pytest.raises(InputError, match="ruby-t of a rank: got 1000000000000; allowed: a rank"):
        spaces(rank_one(10**12), toy(), "ruby-t")[0].size()
