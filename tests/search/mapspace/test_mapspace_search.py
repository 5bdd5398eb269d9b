"""The search against complete enumerations, and what it prunes against everything."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.errors import InputError
from simaccel.hardware import Accelerator
from simaccel.hardware.dataflow import parse_constraints
from simaccel.hardware.levels import ROLES
from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.tree import BUFFER, Keep, Loop, Spread
from simaccel.schedulers import Options
from simaccel.search.effort import OBJECTIVES, Effort, Objective, Strategy
from simaccel.search.mapspace.blocks import ELITE, BlockTask, MapspaceProblem, Population, run_block
from simaccel.search.mapspace.mapping_target import MappingTarget, NotNestableError
from simaccel.search.mapspace.nests import EmptyMapspaceError, NestResult, map_einsum
from simaccel.search.mapspace.ordered_tilings import OrderedTilings, best_orders
from simaccel.search.mapspace.space import EinsumMapspace
from simaccel.search.mapspace.tiling_batch import TilingBatch
from simaccel.study.experiment import simulate
from simaccel.workload import Einsum, Tensor, gemm
from simaccel.workload.conv import Conv
from simaccel.workload.einsum import Operand, operand
from tests.draws import some
from tests.machine.accelerators import accelerator
from tests.refusals import refusal_of
from tests.search.mapspace.blocks import blocks


def toy(pes: int, pad_bytes: int = 1024) -> Accelerator:
    pads = f"array.memories.shared.capacity_bytes={pad_bytes}"
    return load_accelerator("toy_linear", [f"array.cols={pes}", pads])


def target(
    einsum: Einsum,
    accelerator: Accelerator,
    strategy: Strategy = "ruby-s",
    constraints: Sequence[str] = (),
    dataflow: Sequence[str] = (),
) -> MappingTarget:
    names = [one.tensor for one in (*einsum.inputs, einsum.output)]
    return MappingTarget(
        einsum=einsum,
        tensors={name: Tensor(name) for name in names},
        accelerator=accelerator,
        strategy=strategy,
        dataflow=parse_constraints(dataflow),
        constraints=parse_constraints(constraints),
    )


def product_of(m: int, k: int, n: int) -> Einsum:
    (einsum,) = gemm(m=m, k=k, n=n).operators
    assert isinstance(einsum, Einsum)
    return einsum


def rank_one(size: int) -> Einsum:
    return Einsum("one", {"d": size}, (operand("A d"), Operand("B", ())), operand("Z d"))


CONV = Conv(m=3, c=2, p=4, q=3, r=2, s=2).einsum("conv")


def fitting(goal: MappingTarget, space: EinsumMapspace, candidates: TilingBatch) -> TilingBatch:
    return candidates.take(goal.fits(space, candidates))


def cost_rows(
    goal: MappingTarget, space: EinsumMapspace, candidates: TilingBatch
) -> set[tuple[int, float]]:
    cycles, energy = goal.score(space, fitting(goal, space, candidates), "cycles")
    return set(zip(cycles.tolist(), np.round(energy, 3).tolist(), strict=True))


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("strategy", ["pfm", "ruby-s", "ruby"])
def test_the_complete_search_finds_the_best_of_all(
    strategy: Strategy, objective: Objective
) -> None:
    goal = target(product_of(7, 6, 5), toy(4, 32), strategy)
    (space,) = goal.spaces()
    best = np.inf
    for _, nests in blocks(space):
        values, _ = goal.score(space, fitting(goal, space, nests), objective)
        best = min(best, *values.tolist())
    mapped = map_einsum(goal, Effort(objective=objective))
    assert mapped.found.complete
    assert mapped.found.tried == mapped.found.size == space.size()
    counts = mapped.totals.counts
    figures = {
        "cycles": mapped.cycles,
        "energy": mapped.energy_pj,
        "edp": mapped.energy_pj * mapped.cycles,
        "dram-bytes": counts.total("dram_read") + counts.total("dram_write"),
        "footprint": mapped.totals.buffer_bytes(),
    }
    assert mapped.found.score == best == pytest.approx(figures[objective])


def test_the_random_search_finds_the_best_too() -> None:
    goal = target(product_of(20, 18, 12), toy(5, 64), "ruby-s")
    every = map_einsum(goal, Effort())
    drawn = map_einsum(goal, Effort(exhaustive=0, patience=20_000))
    assert every.found.complete
    assert not drawn.found.complete
    assert drawn.found.score == every.found.score


def test_no_pruned_order_costs_less_or_otherwise() -> None:
    """All orders of all loops have the costs of the distinct ones, whatever is kept."""
    einsum = Conv(m=2, c=2, p=3, q=2, r=2, s=1).einsum("conv")
    accelerator = load_accelerator(
        "eyeriss_like",
        [
            "array.rows=2",
            "array.cols=1",
            "array.dataflow=[]",
            *(f"array.memories.{role}.capacity_bytes=40" for role in ROLES),
            "buffer.capacity_bytes=90",
            "dram.interleave_bytes=16",
        ],
    )
    goal = target(einsum, accelerator, "pfm", constraints=["pe=C,R", "rows=M", "buffer.C=1"])
    (space,) = goal.spaces()
    for _, nests in blocks(space, 40):
        every, kept = set(), set()
        rows = len(nests)
        same: dict[bytes, list[int]] = {}
        for at in range(rows):
            key = nests.factors[at].tobytes() + nests.keeps[at].tobytes()
            same.setdefault(key, []).append(at)
        for group in list(same.values())[::17]:
            one = nests.take(np.array(group[:1]))
            ranks = range(len(einsum.ranks))
            loops = [[r for r in ranks if one.factors[0, level, r] > 1] for level in (0, 1)]
            orders = []
            for outer, inner in product(*(permutations(loop) for loop in loops)):
                row = np.array(nests.orders[group[0]])
                row[0] = [*outer, *(r for r in ranks if r not in outer)]
                row[1] = [*inner, *(r for r in ranks if r not in inner)]
                orders.append(row)
            many = one.take(np.zeros(len(orders), dtype=np.int64))
            every = cost_rows(
                goal,
                space,
                TilingBatch(factors=many.factors, orders=np.array(orders), keeps=many.keeps),
            )
            kept = cost_rows(goal, space, nests.take(np.array(group)))
            assert every == kept


@pytest.mark.parametrize("strategy", ["ruby", "ruby-s", "ruby-t"])
def test_no_pruned_chain_costs_less(strategy: Strategy) -> None:
    """All numbers of pieces, remainders wherever the mapspace has them, in any order."""
    goal = target(product_of(5, 3, 4), toy(3, 24), strategy)
    ranks = list(goal.einsum.ranks)
    chains = []
    for size in goal.einsum.ranks.values():
        pairs = product(range(1, size + 1), range(1, min(size, 3) + 1))
        free_inner, free_spatial = strategy != "ruby-s", strategy != "ruby-t"
        chains.append(
            [
                (inner, spatial)
                for inner, spatial in pairs
                if (free_inner or size % inner == 0)
                and (free_spatial or -(-size // inner) % spatial == 0)
            ]
        )
    every = np.array(list(product(*chains)))
    every = every[every[:, :, 1].prod(axis=1) <= 3]  # PEs
    factors = np.ones((len(every), 4, len(ranks)), dtype=np.int64)
    factors[:, 3], factors[:, 2] = every[:, :, 0], every[:, :, 1]
    (space,) = goal.spaces()
    best = dict.fromkeys(OBJECTIVES, np.inf)
    mkn = [ranks.index(rank) for rank in "mkn"]
    others = [rank for rank in range(len(ranks)) if rank not in mkn]
    for order in permutations(mkn):
        row = np.array([[*others, *order]] * 2)
        nests = TilingBatch(
            factors=factors,
            orders=np.broadcast_to(row, (len(every), *row.shape)),
            keeps=np.ones((len(every), 2, 3), dtype=bool),
        )
        for objective in OBJECTIVES:
            values, _ = goal.score(space, fitting(goal, space, nests), objective)
            best[objective] = min(best[objective], values.min())
    for objective in OBJECTIVES:
        assert map_einsum(goal, Effort(objective=objective)).found.score == best[objective]


def _same(one: NestResult, other: NestResult) -> bool:
    found, theirs = one.found, other.found
    return one.group == other.group and (found.curve, found.tried) == (theirs.curve, theirs.tried)


def test_the_result_follows_from_the_seed() -> None:
    goal = target(CONV, toy(4, 64), "ruby")
    effort = Effort(exhaustive=0, patience=100)
    first = map_einsum(goal, effort)
    assert _same(first, map_einsum(goal, effort))
    other = map_einsum(goal, Effort(exhaustive=0, patience=100, seed=1))
    assert first.found.curve != other.found.curve


def test_the_curve_falls_to_the_best() -> None:
    found = map_einsum(target(CONV, toy(4, 64), "ruby"), Effort(exhaustive=0, patience=5_000)).found
    counts, values = zip(*found.curve, strict=True)
    assert list(counts) == sorted(set(counts))
    assert list(values) == sorted(set(values), reverse=True)
    assert values[-1] == found.score
    assert 1 <= counts[0] <= counts[-1] <= found.valid <= found.tried


def test_how_a_search_ends() -> None:
    goal = target(CONV, toy(4, 64), "ruby")
    told: list[tuple[float, str]] = []
    patient = Effort(exhaustive=0, patience=3_000)
    ends = {
        "patience": patient,
        "most": Effort(exhaustive=0, most=100, refine=False),
        "budget": Effort(exhaustive=0, budget_seconds=1e-9),
        "all seen": Effort(exhaustive=10**9),
    }
    for ended, effort in ends.items():
        found = map_einsum(goal, effort, watch=lambda done, note: told.append((done, note))).found
        assert found.ended == ended
        assert found.complete == (ended == "all seen")
    assert all(0 <= done <= 1 for done, _ in told)
    assert told[-1][0] == 1
    assert "mappings/s, best edp" in told[-1][1]


def test_no_time_for_a_mapping_is_said() -> None:
    effort = Effort(exhaustive=0, budget_seconds=1e-9)
    said = refusal_of(map_einsum, target(CONV, toy(4, 2), "ruby"), effort, error=EmptyMapspaceError)
    assert said == "conv: no ruby mapping was found in 1e-09 s; give more time"


def test_a_block_counts_what_it_went_through() -> None:
    goal = target(product_of(4, 4, 4), toy(4), "pfm")
    (space,) = goal.spaces()
    whole = run_block(BlockTask(MapspaceProblem(goal, (space,)), "edp", 0, 0, space.combinations))
    assert whole.tried == space.size() >= whole.valid > 0


def test_a_tiling_that_is_drawn_again_is_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    goal = target(CONV, toy(4, 64), "ruby")
    (space,) = goal.spaces()
    evaluated: list[int] = []

    def evaluate(
        goal: MappingTarget, space: EinsumMapspace, tilings: TilingBatch, objective: Objective
    ) -> OrderedTilings:
        evaluated.append(len(np.unique(tilings.factors[:, 1:], axis=0)))
        assert evaluated[-1] == len(tilings)
        return best_orders(goal, space, tilings, objective)

    monkeypatch.setattr("simaccel.search.mapspace.blocks.best_orders", evaluate)
    task = BlockTask(MapspaceProblem(goal, (space,)), "edp", 0, seeds=((1,),))
    single, twice = run_block(task), run_block(replace(task, seeds=((1,), (1,))))
    assert single.found is not None
    assert twice.found is not None
    again = run_block(replace(task, known=single.known))
    assert again.found is not None
    assert evaluated == [evaluated[0]] * 2 + [0]
    assert (twice.valid, twice.tilings) == (2 * single.valid, 2 * single.tilings)
    for same in (twice.found, again.found):
        assert same.values.tolist() == single.found.values.tolist()
        assert same.orders.tolist() == single.found.orders.tolist()
    expected = goal.score(space, space.candidates(*space.fitting(single.found)), "edp")
    assert expected[0].tolist() == single.found.values.tolist()


def test_padded_work_is_counted_and_told() -> None:
    padded = map_einsum(target(rank_one(113), toy(16), "padded"), Effort())
    assert padded.group.padded == {"d": 128}
    assert (padded.macs, padded.ineffectual) == (128, 15)
    assert padded.cycles == 8
    assert padded.utilisation == 113 / 128


def test_an_einsum_of_one_input() -> None:
    """100 elements on 6 PEs, by hand: 17 steps, each element over DRAM and pad twice, one MAC."""
    copied = Einsum("copy", {"d": 100}, (operand("A d"),), operand("Z d"))
    mapped = map_einsum(target(copied, toy(6)), Effort())
    assert mapped.found.complete
    assert mapped.cycles == 17
    assert mapped.energy_pj == pytest.approx(100 * (2 * 200 + 4 * 1.03 + 1))
    assert {tensor for _, tensor in mapped.totals.counts.moved} == {"A", "Z"}
    assert len(mapped.found.space.limits.keeps) == 1


def test_the_paper_s_example_reads_as_the_paper_writes_it() -> None:
    mapped = map_einsum(target(rank_one(100), toy(6), constraints=["pe.d=1"]), Effort())
    assert mapped.group.tree[:1] == (Loop("d", 6),)
    assert Spread("d", 1, "cols") in mapped.group.tree
    assert mapped.bounds == ("compute",)


def test_what_bounds_a_mapping() -> None:
    """Two bytes an element in and out, and a weight, through a DRAM of 1 byte a cycle."""
    slow = load_accelerator(
        "toy_linear", ["array.cols=4", "dram.bandwidth_bytes_per_second=1 GB/s"]
    )
    mapped = map_einsum(target(rank_one(64), slow), Effort(objective="cycles"))
    assert mapped.bounds == ("dram",)
    assert mapped.cycles == 2 * 64 + 2 + 2 * 64
    assert mapped.steps < 130


def test_the_constraint_that_leaves_nothing_is_named() -> None:
    goal = target(product_of(4, 4, 4), toy(4), "pfm", constraints=["cols.m=3", "pe=k"])
    message = refusal_of(map_einsum, goal, Effort(), error=EmptyMapspaceError)
    said = "gemm: no pfm mapping within the constraints; without cols.m=3 there are"
    assert message == said


def test_a_constraint_that_doesn_t_fit_the_memory_is_named() -> None:
    constraints = ["pe.m=8", "pe.k=8", "cols=n"]
    goal = target(
        product_of(8, 8, 8),
        toy(4, 64),
        "pfm",
        dataflow=constraints[:1],
        constraints=constraints[1:],
    )
    message = refusal_of(map_einsum, goal, Effort(), error=EmptyMapspaceError)
    said = "within the constraints; without pe.m=8 or without pe.k=8 there are"
    assert said in message


def test_a_rank_that_only_the_dataflow_leaves_out_may_be_the_guilty_one() -> None:
    goal = target(product_of(8, 8, 8), toy(4, 64), "pfm", ["pe.k=8", "pe.m=8"], ["pe=n"])
    said = refusal_of(map_einsum, goal, Effort(patience=100), error=EmptyMapspaceError)
    assert said.endswith("without pe.k=8 or without pe.m=8 there are")


def test_two_constraints_that_leave_nothing_each() -> None:
    goal = target(product_of(4, 4, 4), toy(4), "pfm", constraints=["cols.m=3", "cols.k=3"])
    with pytest.raises(EmptyMapspaceError, match="without any one of them there is none either"):
        map_einsum(goal, Effort())


def test_nothing_fits_without_any_constraint() -> None:
    with pytest.raises(EmptyMapspaceError, match="no ruby-s mapping fits the memories"):
        map_einsum(target(product_of(4, 4, 4), toy(4, 4)), Effort(patience=100))


def test_a_rank_too_large_for_all_remainders_is_refused() -> None:
    with pytest.raises(InputError, match="ruby of a rank: got 1099511627776"):
        map_einsum(target(product_of(2**40, 1, 1), toy(4), "ruby"), Effort())


def test_more_macs_than_can_be_counted_are_refused_before_anything_is_made() -> None:
    with pytest.raises(NotNestableError, match=r"gemm: 4000000000000000000000000 MACs; allowed"):
        map_einsum(target(product_of(10**12, 10**12, 4), toy(4), "ruby-s"), Effort())


def test_the_smaller_mapspaces_are_in_the_larger() -> None:
    scores = {}
    for strategy in ("pfm", "ruby-s", "ruby-t", "ruby"):
        goal = target(product_of(11, 6, 5), toy(4, 40), strategy)
        scores[strategy] = map_einsum(goal, Effort()).found.score
    assert scores["ruby"] <= min(scores["ruby-s"], scores["ruby-t"])
    assert max(scores["ruby-s"], scores["ruby-t"]) <= scores["pfm"]
    assert scores["ruby"] < scores["pfm"]
    sizes = [
        target(product_of(11, 6, 5), toy(4), s).spaces()[0].size()
        for s in ("pfm", "ruby-s", "ruby")
    ]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize(("seed", "objective"), some(product(range(2), OBJECTIVES), 10))
def test_a_larger_mapspace_is_never_worse_however_short_the_search(
    seed: int, objective: Objective
) -> None:
    """400 tilings of millions of mappings: each search alone misses the best by far."""
    einsum = Conv(m=30, c=14, p=13, q=13, r=3, s=3).einsum("conv")
    effort = Effort(objective=objective, exhaustive=0, patience=400, seed=seed)
    for pads in some((96, 1024)):
        scores = {
            strategy: map_einsum(target(einsum, toy(14, pads), strategy), effort).found.score
            for strategy in ("pfm", "ruby-s", "ruby-t", "ruby")
        }
        assert scores["ruby"] <= min(scores["ruby-s"], scores["ruby-t"])
        assert max(scores["ruby-s"], scores["ruby-t"]) <= scores["pfm"]


def test_smaller_mapspaces_are_searched_first_also_where_one_is_empty_or_complete() -> None:
    """No perfect chain has 3 of 16 on the PEs; with 4 the perfect mapspace is seen to its end."""
    for constraints, more in (("cols.m=3", 0), ("cols.m=4", 1)):
        goal = target(product_of(16, 12, 12), toy(4, 64), "ruby-s", constraints=[constraints])
        perfect = target(product_of(16, 12, 12), toy(4, 64), "pfm", constraints=[constraints])
        (space,) = perfect.spaces()
        limit = Effort(exhaustive=space.size(), patience=2_000)
        found = map_einsum(goal, limit).found
        assert found.ended == "patience"
        assert (space.combinations > 0) == more
        if more:
            assert found.score <= map_einsum(perfect, limit).found.score


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 2), st.integers(1, 4)), min_size=1))
def test_a_population_has_the_best_of_each_niche_first(rows: list[tuple[int, int, int]]) -> None:
    """Against sorting by hand; many, so that some are left out."""
    rows = rows * 3 + [(20 + at, 1, 3) for at in range(ELITE)]
    values, ties, niches = np.array(rows).T
    every = np.arange(len(rows))
    columns = every[:, np.newaxis], every[:, np.newaxis], every
    elite = Population(*columns, values * 1.0, ties * 1.0, niches).elite()
    ranked = []
    for niche in set(niches.tolist()):
        own = sorted({row for row in rows if row[2] == niche})
        ranked += [(place, row) for place, row in enumerate(own)]
    expected = sorted(row for _, row in sorted(ranked)[:ELITE])
    found = [rows[at] for at in elite.keeps]
    assert sorted(found) == expected
    assert [row[:2] for row in found] == [row[:2] for row in expected]
    assert elite.best == expected[0][:2]


def test_tiles_take_no_more_of_the_buffer_than_their_memory_stages() -> None:
    """What fits once need not fit twice: 160 B of weights beside the buffer's own limit."""
    memory = {"bandwidth_bytes_per_second": "2 GB/s", "staging_bytes": 160}
    on = accelerator(memories={"weight": memory})
    run = simulate(gemm(m=9, k=20, n=24), on, "ruby", options=Options(effort=Effort(patience=100)))
    (tree,) = (group.tree for group in run.mapping.groups)
    sizes = {"k": 20, "n": 24}
    for node in tree:
        if isinstance(node, Loop) and node.rank in sizes:
            sizes[node.rank] = min(sizes[node.rank], node.tile)
        if isinstance(node, Keep) and (node.tensor, node.level) == ("B", BUFFER):
            assert sizes["k"] * sizes["n"] * 2 * node.slots <= 160
            break
    else:
        pytest.fail("no tile of B in the buffer")
