"""The choice among candidates against all tile sizes, against running each, and who judges them."""

from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.analytic.family import Branch, Family, FamilyLoops, ints
from simaccel.analytic.prediction import predict
from simaccel.hardware import STATIONARITIES, Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.space import mergeable, space_of
from simaccel.mapping.tree import Do, Group, Keep, Loop, Mapping, Tree, nodes
from simaccel.program.lowering import lower
from simaccel.schedulers import flat, make_mapping
from simaccel.schedulers.attention import FlatTile, flat_families, problem_of
from simaccel.schedulers.einsums import einsum_families, tilings
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search import candidate_set
from simaccel.search.candidate_set import UNLIMITED, CandidateSet, capacity
from simaccel.search.columns import find_far
from simaccel.search.effort import EFFORT
from simaccel.search.goal import Goal
from simaccel.search.grid_search import search
from simaccel.search.judge import Judge, RunOutcome
from simaccel.search.judge import mapping_of as judged_mapping
from simaccel.search.neighbours import tile_sizes
from simaccel.search.problems import NothingFitsError, Options
from simaccel.search.walk import CandidateWalk, StoppingRule
from simaccel.workload import Workload, conv2d, gemm
from tests.draws import DRAWS, some
from tests.program.programs import LA, attention_workload, mapping_of
from tests.refusals import refusal_of
from tests.trees import einsum, vector, workload
from tests.trees import workload as make_workload


def _toy(*settings: str) -> Accelerator:
    return load_accelerator("toy", settings)


GEMM = Group(operators=("gemm",), tree=())


def _goal(on: Accelerator, **more: Any) -> Goal:  # noqa: ANN401 - fields of a goal
    return Goal(Judge(on), **more)


def _run(workload: Workload, group: Group, on: Accelerator) -> int:
    """Cycles of a workload of one group on the machine."""
    return Machine(on, lower(workload, mapping_of(workload, group))).run().cycles


def _fastest_of_all(workload: Workload, on: Accelerator) -> int:
    """Cycles of the fastest double-buffered mapping with any tile sizes at all.

    By order and stationarity, in the order of their bounds until none is left below the fastest.
    """
    space = space_of(workload, GEMM)
    ranks = [rank for rank in "mkn" if space.sizes.get(rank, 1) > 1]
    sizes = list(product(*(range(1, space.sizes[rank] + 1) for rank in ranks)))
    tiles = tuple(ints(column) for column in zip(*sizes, strict=True))
    keeps = tuple(Keep(name, "buffer", ints(2)) for name in "ABC")
    outer = FamilyLoops(("b",), (ints(1),), (ints(0),))
    fastest = UNLIMITED
    for places, stationarity in product(permutations(range(len(ranks))), STATIONARITIES):
        loops = FamilyLoops(tuple(ranks), tiles, tuple(ints(place) for place in places))
        branch: Branch = (outer, loops, *keeps, Do("gemm", "array", stationarity))
        every = CandidateSet(GEMM, [Family(space, branch, {})], Judge(on))
        fits = every.fitting(capacity(on))
        for number in fits[np.argsort(every.columns.bounds[fits], kind="stable")]:
            if every.columns.bounds[number] >= fastest:
                break
            tree = every.tree(int(number))
            fastest = min(fastest, _run(workload, replace(GEMM, tree=tree), on))
    return fastest


_SHAPES = [(1, 17, 13), (16, 4, 6), (11, 1, 19), (7, 16, 3)]


@pytest.mark.parametrize(
    ("shape", "rate"),
    [
        *some((shape, "2 GB/s") for shape in _SHAPES[:2]),
        *[(shape, "32 GB/s") for shape in _SHAPES[2:]] * (DRAWS > 1),
        *[((5, 4, 3), rate) for rate in ("2 GB/s", "8 GB/s", "32 GB/s")] * (DRAWS > 1),
    ],
)
def test_no_other_tile_size_is_faster(shape: tuple[int, int, int], rate: str) -> None:
    """At most 0.2% slower than the best of all tile sizes on toy with its 1 KiB."""
    on = _toy(f"dram.bandwidth_bytes_per_second={rate}")
    m, k, n = shape
    workload = gemm(m=m, k=k, n=n, batch=2)
    found = TreeSearch(_goal(on)).group(workload, "gemm")
    assert _run(workload, found, on) <= 1.002 * _fastest_of_all(workload, on)


def test_runs_longer_than_their_small_bounds_have_their_figures() -> None:
    """A bound of 2^31 - 1 cycles, the largest in a small column, and a run of more than that."""
    slow = gemm(m=2048, k=2048, n=2048)

    def single(start: int) -> CandidateSet:
        on = _toy("compiler.overlap=no", f"compiler.kernel_start_cycles={start}")
        tiles = tuple(ints(tile) for tile in (16, 4, 4))
        branch: Branch = (
            FamilyLoops(("b", *"mkn"), (ints(1), *tiles), tuple(map(ints, range(4)))),
            *(Keep(name, "buffer", ints(2)) for name in "ABC"),
            Do("gemm", "array", "ws"),
        )
        return CandidateSet(GEMM, [Family(space_of(slow, GEMM), branch, {})], Judge(on))

    alone = single(0)
    start = 2**31 - 1 - int(alone.columns.bounds[0])
    late = single(start)
    (cycles,), (later,) = (one.run(ints([0])) for one in (alone, late))
    assert later == cycles + start > 2**31
    assert [scored.cycles for scored in late.scored_runs(UNLIMITED)] == [later]


def test_what_is_little_of_the_whole_is_not_looked_at_further() -> None:
    """A search ends at what its bound leaves a thousandth of the whole below; others go on."""
    on, small = _toy("buffer.capacity_bytes=4 KiB"), gemm(m=10, k=12, n=12)
    space = space_of(small, GEMM)
    grid = _goal(on).grid(GEMM, einsum_families(space, space.bound_operator("gemm"), on))
    bound, whole = grid.bound(capacity(on)), search(grid, _goal(on))
    soon = search(grid, _goal(on, part=1000 * bound))
    assert soon.best is not None
    assert whole.best is not None
    assert whole.best.value <= soon.best.value <= 2 * bound
    assert soon.account.ran < whole.account.ran
    assert soon.account.outside == 0


def test_parts_may_leave_three_tenths_of_the_gap_of_the_whole_together() -> None:
    """Three tenths of half of 1% of the folds of all parts (4 x 4 PEs), which outlast the bytes.

    FF1 has the fewest steps with sums held (10 x 13 folds of 30), FF2 with inputs (13 x 10).
    """
    workload = make_workload(
        einsum("FF1", "H r f", "X r e", "W1 e f", r=40, e=30, f=50),
        vector("gelu", "gelu", "G r f", "H r f", r=40, f=50),
        einsum("FF2", "Y r o", "G r f", "W2 f o", r=40, o=30, f=50),
    )
    on = _toy("dram.bandwidth_bytes_per_second=unlimited")
    assert Goal.from_options(on, Options(), workload).slack == pytest.approx(
        0.0015 * 2 * 10 * 13 * 30 / 3
    )
    assert Goal.from_options(on, Options(), workload.select_operators(["FF1"])).slack == 0
    assert Goal.from_options(on, Options(patience=5), workload).slack == 0
    assert Goal.from_options(on, Options(objective="energy"), workload).slack == 0


class _Counting(Judge):
    """Notes what runs."""

    def run(self, workload: Workload, mapping: Mapping, below: float) -> RunOutcome:
        """Run, and note it."""
        self.ran = [*getattr(self, "ran", ()), (workload.fingerprint, mapping, below)]
        return super().run(workload, mapping, below)


def test_nothing_runs_twice() -> None:
    """In both kinds of softmax the same trees come up again and again."""
    judge = _Counting(_toy())
    workload = attention_workload(1, 1, 3, 2)
    problem = problem_of(workload, LA)
    goal = Goal(judge)
    for _ in range(2):
        search = TreeSearch(goal)
        for kind in ("flat-h", "flat-r"):
            flat.candidates(problem, search, Options(), kind).fastest()
    assert judge.ran
    finished = [task for task in judge.ran if task[2] == float("inf")]
    assert 0 < len(finished) == len(set(map(repr, finished)))


def test_one_run_is_enough_where_it_leaves_little_of_the_whole() -> None:
    """Two GEMMs that the array bounds: what a search may leave of each is more than it does."""
    workload = make_workload(
        einsum("FF1", "H r f", "X r e", "W1 e f", r=12, e=9, f=10),
        einsum("FF2", "Y r o", "H r f", "W2 f o", r=12, o=9, f=10),
    )
    for slack, few in ((1e6, True), (0.0, False)):
        judge = Judge(_toy())
        TreeSearch(Goal(judge, part=1000 * slack)).group(workload, "FF1")
        assert (len(judge.outcomes) <= 2) == few  # of the room, and of half of it


def test_among_about_as_fast_ones_the_one_that_moves_least_is_taken() -> None:
    """No other candidate within a tenth of the fastest takes less energy."""
    workload, on = gemm(m=12, k=10, n=9), _toy()
    found = TreeSearch(_goal(on, tolerance=0.1)).operator_candidates(workload, "gemm")
    fast = found.fastest()
    assert fast is not None
    cheap = found.find_cheaper(1.1 * fast.value)[-1]
    assert fast.cycles <= cheap.cycles <= 1.1 * fast.cycles
    assert cheap.dram_bytes <= fast.dram_bytes
    energies = []
    for one in (fast, cheap):
        mapping = mapping_of(workload, replace(GEMM, tree=one.tree))
        energies.append(sum(predict(workload, mapping, on).energy_pj.values()))
    assert energies[1] <= energies[0]


Figures = tuple[int, int, int]
"""Cycles, DRAM bytes and buffer bytes."""


class _EachAlone:
    """Figures of candidates, each run on its own; once, whatever the room."""

    def __init__(self, candidates: CandidateSet) -> None:
        self.candidates = candidates
        self.cycles: dict[int, int] = {}

    def figures(self, number: int) -> Figures:
        """Return the figures of one candidate."""
        candidates = self.candidates
        if number not in self.cycles:
            group = replace(candidates.group, tree=candidates.tree(number))
            self.cycles[number] = _run(candidates.workload, group, candidates.accelerator)
        dram, space = candidates.columns.dram[number], candidates.columns.space[number]
        return self.cycles[number], int(dram), int(space)

    def best(self, room: int) -> Figures | None:
        """Return the best figures of all that fit: no candidate is faster than its bound."""
        least = self.candidates.columns.bounds
        found: Figures | None = None
        for number in np.argsort(least, kind="stable"):
            if found is not None and least[number] > found[0]:
                break
            if self.candidates.columns.space[number] <= room:
                figures = self.figures(int(number))
                found = figures if found is None else min(found, figures)
        return found

    def require_chosen(self, room: int) -> None:
        """Require that what is chosen for a room is as fast as the best of all."""
        walk = CandidateWalk(self.candidates)
        walk.go(room, StoppingRule(gap=0.0, patience=float("inf")))
        best, chosen = self.best(room), walk.numbers()[:1]
        assert (best is None) == (not chosen)
        if best is not None:
            assert self.figures(chosen[0])[0] == best[0]


def test_the_chosen_gemm_is_the_best_of_all_candidates() -> None:
    workload = gemm(m=5, k=3, n=4, batch=2)
    space = space_of(workload, GEMM)
    families = einsum_families(space, space.operators[0], _toy())
    alone = _EachAlone(CandidateSet(GEMM, families, Judge(_toy())))
    for room in (64, 96):
        alone.require_chosen(room)


WHOLE_KEYS: list[FlatTile] = [(1, 2, 5), (1, 3, 5), (1, 1, 5)]


@pytest.mark.parametrize(
    "tiles",
    [
        WHOLE_KEYS,
        [(1, 2, 2), (1, 3, 3), (1, 1, 4)],
        [(1, 5, 5), (1, 5, 2), (2, 5, 3), (1, 2, 5), (1, 3, 2)],
    ],
)
def test_the_chosen_flat_tile_is_the_best_of_all_candidates(tiles: list[FlatTile]) -> None:
    problem = problem_of(attention_workload(1, 2, 5, 3), LA)
    families = list(flat_families(problem, tiles, online=False, pipelined=False))
    group = Group(operators=LA, tree=(), merged=problem.merged)
    alone = _EachAlone(CandidateSet(group, families, Judge(_toy())))
    for room in (64, 128, 160, 200, 1024):
        alone.require_chosen(room)


def test_the_runner_up_is_another_tree() -> None:
    """Also where what ran is looked at again, in less room or for its way to hold operands."""
    on, workload = _toy(), gemm(m=20, k=12, n=24)
    space = space_of(workload, GEMM)
    families = einsum_families(space, space.bound_operator("gemm"), on)
    found = search(_goal(on).grid(GEMM, families), _goal(on))
    trees = {one.tree: one.value for each in found.sets for one in each.scored_runs(UNLIMITED)}
    assert [found.account.value, found.account.runner_up] == sorted(trees.values())[:2]
    steps = [at for at, _ in found.account.curve]
    assert steps == sorted(steps)
    assert steps[-1] <= found.account.ran


@given(st.integers(1, 5000), st.integers(1, 300))
def test_tile_sizes(extent: int, side: int) -> None:
    """Sorted, from 1 to the rank, the rank itself among them, few enough to try all triples."""
    found = tile_sizes(extent, side)
    assert found == sorted(set(found))
    assert found[0] >= 1
    assert found[-1] == extent
    assert len(found) <= 30
    if extent <= side:
        assert found[0] == 1


def test_capacity() -> None:
    assert capacity(_toy()) == 1024
    assert capacity(_toy("buffer.capacity_bytes=unlimited")) == UNLIMITED


def test_operators_that_are_alike_are_searched_once() -> None:
    """Q, K and P of other names, but the same sizes: one search, each with its own names."""
    search = TreeSearch(_goal(_toy()))
    workload = gemm(m=5, k=6, n=7)
    find = search.operator_candidates
    first = find(workload, "gemm")
    assert find(gemm(m=5, k=6, n=7), "gemm").candidates is first.candidates
    assert search.on_one_core().operator_candidates(workload, "gemm").known is first.known
    assert find(workload, "gemm", kept=("A",)).candidates is not first.candidates
    assert find(gemm(m=5, k=6, n=8), "gemm").candidates is not first.candidates
    renamed = replace(workload.operator("gemm"), name="other")
    other = search.operator_candidates(replace(workload, operators=(renamed,)), "other")
    assert other.candidates is first.candidates
    chosen = other.fastest()
    assert chosen is not None
    assert isinstance(chosen.tree[-1], Do)
    assert chosen.tree[-1].operator == "other"


def _small(room: str) -> Accelerator:
    return _toy(f"buffer.capacity_bytes={room}", "dram.interleave_bytes=16 B")


@pytest.mark.parametrize("capacity_bytes", [400, 3000, 2**20])
def test_candidates_that_are_left_out_are_searched_before_a_search_ends(
    monkeypatch: pytest.MonkeyPatch, capacity_bytes: int
) -> None:
    """The choice is the same where nearly all candidates are left out at first."""
    layer, on = gemm(m=37, k=23, n=41), _toy(f"buffer.capacity_bytes={capacity_bytes}")
    expected = make_mapping(layer, on, "flex", Options(patience=10_000))
    included, include = [], CandidateSet.include_far

    def include_far(of: CandidateSet) -> None:
        included.append(of)
        include(of)

    monkeypatch.setattr(CandidateSet, "include_far", include_far)
    monkeypatch.setattr(candidate_set, "EFFORT", replace(EFFORT, far=1.001, many=0))
    assert make_mapping(layer, on, "flex", Options(patience=10_000)) == expected
    assert included


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 10**9), st.integers(0, 2)), min_size=1),
    st.integers(0, 10**9),
)
def test_what_is_left_out_is_far_from_something_smaller(
    candidates: list[tuple[int, int, int]], room: int
) -> None:
    bounds, space, holding = map(np.array, zip(*candidates, strict=True))
    is_far, far = find_far(bounds, space, holding, 2.0)
    for at in np.flatnonzero(is_far):
        like = (holding == holding[at]) & (space < space[at])
        assert bounds[at] > 2 * bounds[like].min()
    left = is_far & (space <= room)
    assert not left.any() or far.bound(room) <= bounds[left].min()
    assert far.bound(2**62) == (bounds[is_far].min() if is_far.any() else float("inf"))


def test_nothing_fits() -> None:
    """The smallest tiles are an array side, 4 x 4 of 2 B, of each of A, B and C."""
    said = refusal_of(
        TreeSearch(_goal(_small("64 B"))).group,
        gemm(m=50, k=60, n=70),
        "gemm",
        error=NothingFitsError,
    )
    expected = "gemm: no tiling fits the buffer of 64 B; the smallest that was tried needs 96 B"
    assert said == expected


def test_single_slots_if_two_do_not_fit() -> None:
    group = TreeSearch(_goal(_small("100 B"))).group(gemm(m=50, k=60, n=70), "gemm")
    slots = [node.slots for node in nodes(group.tree) if isinstance(node, Keep)]
    assert slots == [1, 1, 1]


@pytest.mark.parametrize(("q", "sides", "rows"), [(56, 2, 9), (56, 1, 4), (27, 1, 9)])
def test_rows_of_an_output_fill_whole_sides(q: int, sides: int, rows: int) -> None:
    """So many rows of ``q`` positions fit ``sides`` sides of 256, and one more doesn't."""
    assert rows * q <= sides * 256 < (rows + 1) * q
    workload = conv2d(m=4, c=4, p=q, q=q, r=3, s=3)
    group = Group(operators=("conv",), tree=(), merged=mergeable(workload, ["conv"]))
    found = tilings(space_of(workload, group), ("p", "q"), 256)
    assert {"p": rows, "q": q} in found


def test_equal_programs_run_once() -> None:
    """W has one slot, as no loop moves it; and a loop of one piece is none."""
    of = workload(einsum("o", "Z m n", "X m k", "W k n", m=64, k=32, n=32))
    trees = [
        (Loop("m", 16), Keep("X", slots=2), Keep("W", slots=slots), *more, Keep("Z"), do)
        for slots, more in ((1, ()), (2, ()), (3, (Loop("n", 32),)))
        for do in (Do("o", "array", "ws"),)
    ]
    programs = {
        lower(of, judged_mapping(of, "", (Group(operators=("o",), tree=tree),))) for tree in trees
    }
    judge = Judge(load_accelerator("edge"))
    cycles = judge.cycles(of, [(Group(operators=("o",), tree=tree),) for tree in trees])
    assert len(programs) == len(set(cycles)) == len(judge.outcomes) == 1


def test_a_run_of_another_search_counts_as_if_it_had_been_given_up_here() -> None:
    """A run that took 7 cycles is only known to take as long as a limit that it reaches."""
    of = workload(einsum("o", "Z m n", "X m k", "W k n", m=64, k=32, n=32))
    keeps: Tree = (*(Keep(name) for name in "XWZ"), Do("o", "array", "ws"))
    body, on = (Group(operators=("o",), tree=keeps),), load_accelerator("edge")
    other = Judge(on)
    other.cycles(of, [body])
    judge = Judge(on, shared=dict.fromkeys(other.outcomes, RunOutcome(7)))
    assert judge.judge(of, [body], 6) == [RunOutcome(6, is_exact=False)]
    assert judge.judge(of, [body], 7) == [RunOutcome(7, is_exact=False)]
    assert judge.judge(of, [body], 8) == [RunOutcome(7)]


def test_groups_on_other_cores_are_other_runs() -> None:
    """Two products one after the other on one core, or at once on two."""
    of = workload(
        einsum("left", "L m n", "X m k", "V k n", m=64, k=64, n=64),
        einsum("right", "R m n", "Y m k", "W k n", m=64, k=64, n=64),
    )
    groups = [
        Group(
            operators=(name,), tree=(*(Keep(tensor) for tensor in tensors), Do(name, "array", "ws"))
        )
        for name, tensors in (("left", "XVL"), ("right", "YWR"))
    ]
    places = ((range(1), range(1)), (range(1), range(1, 2)))
    bodies = [
        tuple(replace(group, place=place) for group, place in zip(groups, some, strict=True))
        for some in places
    ]
    judge = Judge(load_accelerator("edge", ["cores.count=2"]))
    alone, at_once = judge.cycles(of, bodies)
    assert at_once < alone
