"""How far from optimal a search says it is, and what left it by which rule."""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simaccel import simulate
from simaccel.analytic.evaluation import evaluate
from simaccel.analytic.family import family_of
from simaccel.errors import InputError, SimaccelError
from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import Do, Group, Loop, Mapping, nodes
from simaccel.program.lowering import lower
from simaccel.report.accounts import account_json
from simaccel.schedulers import Options, make_mapping
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search import candidate_set
from simaccel.search.accounts import BOUND, NOT_ALLOWED, SAME, SearchAccount, floor_of_group
from simaccel.search.candidate_set import capacity
from simaccel.search.effort import EFFORT
from simaccel.search.goal import Goal
from simaccel.search.judge import Judge
from simaccel.search.walk import CandidateWalk, StoppingRule
from simaccel.study.scheduling import schedule_workload
from simaccel.workload import Workload, build, gemm
from tests.draws import DRAWS, some
from tests.program.programs import attention_workload, mapping_of
from tests.refusals import refusal_of
from tests.search.every_tree import every_tree, run_every_tree

_TOY = load_accelerator("toy", ["dram.interleave_bytes=16 B"])


def _searched(
    workload: Workload, dataflow: str, options: Options | None = None, on: Accelerator = _TOY
) -> tuple[int, list[SearchAccount]]:
    accounts: list[SearchAccount] = []
    asked = options or Options()
    asked = Options(**{**vars(asked), "on_account": accounts.append})
    mapping = make_mapping(workload, on, dataflow, asked)
    return _run(workload, mapping, on), accounts


def _run(workload: Workload, mapping: Mapping, on: Accelerator) -> int:
    return Machine(on, lower(workload, mapping)).run().cycles


@pytest.mark.parametrize(
    ("sizes", "room"),
    some(product([(2, 3, 2), (3, 3, 2), (1, 4, 3), (5, 1, 2)], ["64 B", "1 KiB"]), 8),
)
def test_what_is_called_optimal_is_the_best_of_all_trees(
    sizes: tuple[int, int, int], room: str
) -> None:
    """Each tree runs by itself; ranks of one position are never cut."""
    on = load_accelerator("toy", [f"buffer.capacity_bytes={room}", "dram.interleave_bytes=16 B"])
    m, k, n = sizes
    workload = gemm(m=m, k=k, n=n)
    prices = run_every_tree(workload, on)
    cycles, (account,) = _searched(workload, "flex", on=on)
    assert account.gap_text == "optimal of all its tile sizes and orders"
    assert account.gap == 0
    assert cycles == account.value <= min(prices)
    assert account.rest_bound <= min(prices)
    _, (short,) = _searched(workload, "flex", Options(patience=1), on=on)
    assert 0 < short.rest_bound <= min(prices)
    assert short.rest_bound <= cycles <= short.value  # what is near is in the space here


def test_ranks_beyond_sixteen_are_not_called_whole() -> None:
    """A rank of 17 is searched in a few sizes: optimal in the grid only."""
    _, (account,) = _searched(gemm(m=17, k=2, n=2), "flex")
    assert "all its tile sizes" not in account.gap_text


def _account(**figures: Any) -> SearchAccount:  # noqa: ANN401 - figures of an account
    return SearchAccount(name="alone", operators=("a",), **figures)


@pytest.mark.parametrize(
    ("space", "pruned", "complete", "says"),
    [
        (1, {}, True, "the only candidate"),
        (6, {SAME: 3, NOT_ALLOWED: 2}, True, "the only candidate"),
        (6, {SAME: 3}, True, "optimal of all its tile sizes and orders"),
        (6, {}, False, "optimal of a grid of tile sizes"),
    ],
)
def test_what_is_called_optimal_says_of_what(
    space: int, pruned: dict[str, int], *, complete: bool, says: str
) -> None:
    """A choice of one is no choice, whatever leaves it: a loop of one trip, or what was asked."""
    account = _account(space=space, pruned=pruned, complete=complete, rest_bound=9.0, value=9.0)
    assert account.gap_text == says


def test_all_candidates_are_accounted_for() -> None:
    for dataflow in some(("flash", "flex", "flat")):
        _, accounts = _searched(attention_workload(1, 1, 3, 2), dataflow)
        for one in accounts:
            assert one.space == sum(one.pruned.values()) + one.ran - one.outside
            assert one.ran > 0
            assert one.curve == tuple(sorted(set(one.curve), key=lambda step: -step[1]))


def test_no_mapping_is_below_the_floor() -> None:
    """17 x 5 x 4 MACs on 4 x 4 PEs."""
    macs = 17 * 5 * 4
    accounts: list[SearchAccount] = []
    options = Options(on_account=accounts.append)
    workload = gemm(m=17, k=5, n=4)
    mapping = make_mapping(workload, _TOY, "flex", options)
    (account,) = accounts
    assert account.floor >= math.ceil(macs / 16)
    assert account.floor <= account.value == _run(workload, mapping, _TOY)
    assert account.runner_up is None or account.runner_up >= account.value


_BEYOND = gemm(m=24, k=20, n=18) if DRAWS > 1 else gemm(m=17, k=5, n=4)
"""One of its ranks is beyond sixteen: searched in a few sizes."""
_CUT = gemm(m=24, k=8, n=8)


def _loops(*constraints: str) -> dict[str, int]:
    options = Options(constraints=constraints, patience=2)
    (group,) = make_mapping(_CUT, _TOY, "flex", options).groups
    return {node.rank: node.tile for node in nodes(group.tree) if isinstance(node, Loop)}


def test_constraints_of_a_dataflow() -> None:
    """Five pieces of 24 are of 5 at least; the order is as asked where both are cut."""
    assert _loops("dram.m=5")["m"] == 5
    assert set(_loops("dram=k,m")) <= {"k", "m"}
    assert math.ceil(24 / _loops("dram.m<=2", "dram.k=8").get("m", 24)) <= 2
    assert list(_loops("dram.order=k,n,m", "dram.m=4", "dram.n=4", "dram.k=4")) == ["k", "n", "m"]
    assert list(_loops("dram.order=M,K,N", "dram.M=4", "dram.N=4", "dram.K=4")) == ["m", "k", "n"]


@pytest.mark.parametrize(
    ("constraint", "held"), [("rows=m", "os"), ("cols=m", "is"), ("cols=n", "ws os")]
)
def test_ranks_on_the_sides_of_the_array(constraint: str, held: str) -> None:
    options = Options(constraints=(constraint,), patience=2)
    (group,) = make_mapping(_CUT, _TOY, "flex", options).groups
    assert isinstance(group.tree[-1], Do)
    assert group.tree[-1].stationarity in held.split()


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        ("dram.x=3", "--constrain: dram: rank: got 'x'; allowed: one of"),
        ("dram.m=17", "--constrain: dram.m: got 17; allowed: numbers of pieces that 24 can be cut"),
        ("dram.m=99", "--constrain: dram.m: got 99; allowed: numbers of pieces that 24 can be cut"),
        ("buffer.m=3", "--constrain: buffer: got 'buffer.m=3'; allowed: of a dataflow dram.RANK=N"),
        ("rows.m=3", "--constrain: rows: got 'rows.m=3'; allowed: of a dataflow dram.RANK=N"),
        ("dram", "command line: --constrain: got 'dram'; allowed: LEVEL=RANK"),
    ],
)
def test_what_no_tree_of_a_systolic_array_has(constraint: str, message: str) -> None:
    said = refusal_of(make_mapping, _CUT, _TOY, "flex", Options(constraints=(constraint,)))
    assert message in said


def test_naive_has_no_room_for_constraints() -> None:
    with pytest.raises(InputError, match="nothing with naive"):
        make_mapping(_CUT, _TOY, "naive", Options(constraints=("dram.m=2",)))


def test_sides_that_contradict_each_other() -> None:
    with pytest.raises(SimaccelError, match="--constrain"):
        make_mapping(_CUT, _TOY, "flex", Options(constraints=("rows=m", "cols=m")))


@pytest.mark.parametrize("workload", [_BEYOND, gemm(m=2, k=11, n=13)], ids=["grid", "space"])
def test_patience_is_never_better_than_all_and_never_out_of_its_grid(workload: Workload) -> None:
    """What is left is of the grid, whose best a search that goes on to the bounds has as its own.

    The best near the grid may be below: only where the grid has all sizes it can't be.
    """
    _, (whole,) = _searched(workload, "flex", Options(patience=10**9))
    _, (short,) = _searched(workload, "flex", Options(patience=1))
    assert whole.ended in ("bounds", "all judged")
    assert short.ended == "patience"
    assert whole.value <= short.value
    assert 0 < short.rest_bound <= whole.rest_bound
    assert short.complete == (workload is not _BEYOND)
    if short.complete:
        assert short.rest_bound <= whole.value
    assert short.none_below <= whole.value


def test_no_candidate_of_a_grid_is_below_what_is_left() -> None:
    """Some of all that fit are run, however far from the best; few are otherwise."""
    ran = []

    def walked(patience: float) -> CandidateWalk:
        grid = TreeSearch(Goal(Judge(_TOY))).operator_candidates(_BEYOND, "gemm").candidates
        walk = CandidateWalk(grid)
        walk.go(capacity(_TOY), StoppingRule(gap=0.0, patience=patience))
        ran.append(len(walk.cycles))
        return walk

    short, whole = walked(1), walked(float("inf"))
    grid = whole.candidates
    assert whole.left == whole.best == min(whole.cycles.values())
    fit = grid.fitting(capacity(_TOY))
    some = grid.run(fit[:: 11 if DRAWS > 1 else 307])
    assert short.left <= whole.left <= some.min()
    assert ran[0] < ran[1] < len(fit)


def test_lower_bounds_hold_for_each_candidate() -> None:
    """No run of a candidate is below what a search leaves it out by."""
    m, k, n = (13, 19, 11) if DRAWS > 1 else (5, 9, 3)
    workload = gemm(m=m, k=k, n=n, batch=2)
    for tree in every_tree(workload)[:: 997 if DRAWS > 1 else 347]:
        group = Group(operators=("gemm",), tree=(Loop("b", 1), *tree))
        family = family_of(space_of(workload, group), group)
        mapping = mapping_of(workload, group)
        unlimited = load_accelerator("toy", ["buffer.capacity_bytes=unlimited"])
        assert int(evaluate(family, unlimited).bound()) <= _run(workload, mapping, unlimited)


@pytest.mark.usefixtures("anew")
def test_the_same_from_two_processes() -> None:
    with ThreadPoolExecutor(2) as pool:
        options = Options(each=pool.map)
        found = schedule_workload(_BEYOND, _TOY, "flex", options)
        assert found == schedule_workload(_BEYOND, _TOY, "flex")


@pytest.mark.parametrize(
    ("left", "floor", "complete", "says"),
    [
        (1000.0, 996.0, False, "at most 0.41% above any mapping"),
        (1000.0, 800.0, False, "optimal of a grid of tile sizes, at most 25.00% above any mapping"),
        (1000.0, 0.0, False, "optimal of a grid of tile sizes"),
        (1000.0, 996.0, True, "optimal of all its tile sizes and orders"),
        (999.0, 996.0, False, "at most 0.41% above any mapping"),
        (999.0, 990.0, False, "at most 0.11% above the best of a grid of tile sizes"),
        (800.0, 0.0, True, "at most 25.00% above the best of all its tile sizes and orders"),
        (0.0, 800.0, False, "at most 25.00% above any mapping"),
        (0.0, 0.0, False, "not known"),
    ],
)
def test_what_is_near_any_mapping_says_so_first(
    left: float, floor: float, *, complete: bool, says: str
) -> None:
    account = _account(space=9, rest_bound=left, floor=floor, complete=complete, value=1000.0)
    assert account.gap_text == says


def test_what_has_one_product_of_a_batch_at_a_time_says_so() -> None:
    """A depthwise convolution and a batched product; a batch of one is a product like others."""
    depthwise = build("conv", shape="M=1,C=1,P=2,Q=2,R=2,S=2,G=3")
    several, alone = build("bmm", shape="H=2,M=3,K=2,N=3"), build("bmm", shape="H=1,M=3,K=2,N=3")
    for workload, is_batch in ((depthwise, True), (several, True), (alone, False)):
        _, (account,) = _searched(workload, "flex")
        text = "optimal of all its tile sizes and orders"
        assert account.gap_text == (f"{text}, one product at a time" if is_batch else text)
    _, (grid,) = _searched(build("bmm", shape="H=2,M=17,K=2,N=2"), "flex")
    assert grid.searched == "a grid of tile sizes, one product at a time"


def test_rules_have_one_order_in_data_however_an_account_was_stored() -> None:
    pruned = {"by bound": 1, "same": 2, "too large": 3}
    account = SearchAccount(name="x", operators=("x",), space=9, pruned=pruned, value=7.0)
    assert [*account_json(account, 1.0)["pruned"].items()] == [
        ("same", 2),
        ("too_large", 3),
        ("by_bound", 1),
    ]


def test_a_memory_without_tensors_does_not_loosen_the_floor() -> None:
    """By hand: 3 x 512 x 512 x 2 B at 1 TB/s and 1.05 GHz; memory that cores share is unlimited."""
    chip, layer = load_accelerator("tpu_v4"), gemm(m=512, k=512, n=512)
    assert chip.bytes_per_cycle() == Fraction(20_000, 21)
    assert chip.bytes_per_cycle(["weight", "shared"]) is None
    assert floor_of_group(layer, ["gemm"], chip, "cycles") == 1652


@pytest.mark.parametrize(
    ("stationarity", "count", "cycles"),
    [("ws", 1, 2 * 65), ("ws", 4, 33), ("os", 1, 65 * 2), ("free", 1, 2 * 65)],
)
def test_no_mapping_has_fewer_folds_than_the_product_of_its_sides(
    stationarity: str, count: int, cycles: int
) -> None:
    """By hand, 64 x 64 PEs: 65 rows of weights shift into two strips; 10 x 65 sums take 65 twice.

    Four folds of 10 steps would take less than the rows.
    """
    sides = [
        "array.rows=64",
        "array.cols=64",
        f"array.count={count}",
        "buffer.capacity_bytes=1 MiB",
    ]
    memory = "dram.bandwidth_bytes_per_second=unlimited"
    chip = load_accelerator("toy", [*sides, f"array.stationarity={stationarity}", memory])
    layer = gemm(m=10, k=65, n=65)
    assert floor_of_group(layer, ["gemm"], chip, "cycles") == cycles


@pytest.mark.parametrize("far", [1.5, 2.0])
def test_far_candidates_are_left_out_by_their_bounds(
    monkeypatch: pytest.MonkeyPatch, far: float
) -> None:
    pruned = []
    for times in (float("inf"), far):
        monkeypatch.setattr(candidate_set, "EFFORT", replace(EFFORT, far=times, many=0))
        _, (account,) = _searched(gemm(m=97, k=64, n=89), "flex")
        pruned.append(account.pruned)
    assert pruned[0] == pruned[1]
    assert pruned[0][BOUND] > 0


def test_products_share_an_array_along_its_diagonal_in_the_least_folds() -> None:
    """By hand: 10 x 32 sums of two products fit 64 x 64 PEs together and take 32 steps.

    Weights of 32 x 32 take ten steps, but 64 rows of them shift in first.
    """
    sides = ["array.rows=64", "array.cols=64", "array.diagonal=true", "buffer.capacity_bytes=1 MiB"]
    sides.append("dram.bandwidth_bytes_per_second=unlimited")
    layer = build("bmm", shape={"H": 2, "M": 10, "K": 32, "N": 32})
    assert floor_of_group(layer, ["bmm"], load_accelerator("toy", sides), "cycles") == 32
    held = load_accelerator("toy", [*sides, "array.stationarity=ws"])
    assert floor_of_group(layer, ["bmm"], held, "cycles") == 64


@settings(max_examples=10, deadline=None)
@given(
    sizes=st.tuples(*[st.integers(1, 20)] * 3),
    sides=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    kind=st.sampled_from(["free", "ws", "is", "os"]),
    count=st.integers(1, 3),
)
def test_no_run_is_below_the_floor_of_any_mapping(
    sizes: tuple[int, int, int], sides: tuple[int, int], kind: str, count: int
) -> None:
    places = [f"array.{name}={n}" for name, n in zip(("rows", "cols"), sides, strict=True)]
    chip = load_accelerator("toy", [*places, f"array.stationarity={kind}", f"array.count={count}"])
    layer = gemm(*sizes)
    floor = floor_of_group(layer, ["gemm"], chip, "cycles")
    options = Options(patience=20)  # the floor is of any mapping, not of the best alone
    for dataflow in ("naive", "flex"):
        assert simulate(layer, chip, dataflow, options=options).cycles >= floor
