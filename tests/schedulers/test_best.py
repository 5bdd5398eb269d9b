"""The cheapest way of steps; sums of objectives; what is picked is the best of its space."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

import pytest

from simaccel.diagnosis.check import check
from simaccel.errors import SimaccelError
from simaccel.hardware import STATIONARITIES, Stationarity
from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.tree import Group
from simaccel.schedulers import Options, make_mapping
from simaccel.schedulers.generators import steps_of
from simaccel.schedulers.group_search import GroupSearch
from simaccel.schedulers.schedule_steps import ScheduleStep, cheapest, least_total, least_work
from simaccel.schedulers.sequences import additive_value
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.accounts import SearchAccount
from simaccel.search.effort import EFFORT
from simaccel.search.goal import Goal
from simaccel.search.judge import Judge, ScoredTree, shared_outcomes
from simaccel.study.experiment import simulate
from simaccel.workload import ModelDimensions, attention, build, gemm
from simaccel.workload.attention import Scope
from tests.draws import some
from tests.small_pods import linked_layers
from validation.search.brute import SMALL, Case, simulated
from validation.search.supersets import compared, draw_chain

_ONE = (Group(operators=("one",), tree=()),)


@dataclass
class _Known:
    """Candidates of which bound and work are known."""

    value: float
    least_work: float

    def bound(self, _room: int) -> float:
        """Return the bound, whatever the room."""
        return self.value


def _step(
    start: int, stop: int, value: float, moved: int = 0, kept: int = 0, work: float = 0
) -> ScheduleStep:
    chosen = ScoredTree((), value, 0, moved, kept)
    known, goal = cast("GroupSearch", _Known(value, work)), Goal(Judge(load_accelerator("toy")))
    return ScheduleStep(start, stop, "alone", known, goal, body=_ONE, scored=chosen)


def test_a_workload_keeps_what_its_largest_group_does() -> None:
    """A fused pair that needs 60 bytes is less than 40 and 40 together, and more than either."""
    alone, fused = [_step(0, 1, 40), _step(1, 2, 40)], _step(0, 2, 60)
    assert cheapest([*alone, fused], 2) == [fused]
    assert cheapest([*alone, fused], 2, max) == alone


def test_of_equals_the_one_that_moves_and_then_keeps_least_is_taken() -> None:
    first, less, least = _step(0, 1, 5, 9, 1), _step(0, 1, 5, 7, 3), _step(0, 1, 5, 7, 2)
    assert cheapest([first, less, least, _step(0, 1, 6)], 1) == [least]


def test_a_way_of_many_steps_reads_each_a_few_times() -> None:
    """A network of thousands of layers asks for its way once a layer."""
    reads = 0

    class Counted(ScheduleStep):
        def __getattribute__(self, name: str) -> object:
            nonlocal reads
            reads += name in ("start", "stop", "value")
            return super().__getattribute__(name)

    steps = [_step(at, at + 1, 1.0) for at in range(200)]
    for step in steps:
        step.__class__ = Counted
    assert cheapest(steps, 200) == steps
    assert least_total(steps, 0, 200, lambda step: step.value) == 200
    assert reads <= 30 * 200  # not 200 x 200 and more


def test_least_work_is_that_of_the_way_with_the_least_over_a_step_if_asked() -> None:
    """Alone 3 + 4 + 5; the first two as one have 6, the last two 10: 6 + 5, or over these 3 + 10.

    A step that was no gain is in no way.
    """
    alone = [_step(0, 1, 30, work=3), _step(1, 2, 40, work=4), _step(2, 3, 50, work=5)]
    first, last = _step(0, 2, 60, work=6), _step(1, 3, 60, work=10)
    steps = [*alone, first, last]
    assert least_work(steps, 3) == 11
    assert least_work(steps, 3, last) == 13
    assert least_total(steps, 0, 3, lambda step: step.value) == 90
    first.leave_out()
    assert least_work(steps, 3) == 12


@pytest.mark.parametrize(("hw", "tokens"), some([("edge_tpu", 12), ("mxu_128", 32)]))
def test_no_dataflow_takes_fewer_cycles_than_the_least_work(hw: str, tokens: int) -> None:
    """What is held between groups, or as one of them, takes no work of array and SFU away."""
    workload = build("bert", batch=1, seq_len=tokens, scope="la")
    accelerator, options = load_accelerator(hw), Options(patience=2)
    search = TreeSearch(Goal.from_options(accelerator, options, workload))
    least = least_work(steps_of(workload, search, options), len(workload.operators))
    naive, flex = (
        simulate(workload, accelerator, dataflow, options=options).run.cycles
        for dataflow in ("naive", "flex")
    )
    assert naive >= flex >= least > 0.4 * flex


@pytest.mark.parametrize("hw", ["tpu_v4", "tpu_v6e"])
def test_rows_of_one_position_are_cut_by_the_ranks_before(hw: str) -> None:
    """A decode rotates 8 x 64 rows of 128: no slower than adding two tensors of as many elements.

    A tile of one row each takes 40 times that.
    """
    workload = build("llama3-70b", phase="decode", kv_len=64, batch=8, scope="block")
    search = TreeSearch(Goal.from_options(load_accelerator(hw), Options(), workload))
    rotated, added = (search.fastest(workload, name)[1] for name in ("rotary.Q", "add1"))
    assert rotated.cycles <= added.cycles


def test_a_pooling_has_blocks_of_many_channels() -> None:
    """A loop over single channels would wait for the latency of DRAM at each of 256: 68,512 cycles.

    By hand: 27 x 27 and 13 x 13 positions of 256 channels, 459,776 B at 546 B a cycle, and 730.
    """
    pool = build("alexnet", scope="model").select_operators(["pool2"])
    cycles = simulate(pool, load_accelerator("tpu_v5e"), "flex").run.cycles
    assert 842 < cycles < 1.1 * (842 + 730)


def test_a_convolution_may_have_overlapping_windows_behind_it() -> None:
    """The rows that two windows read are rows of one convolution, which is computed once."""
    layers = {
        "conv": {"kind": "conv", "shape": {"M": 2, "C": 2, "P": 5, "Q": 5, "R": 1, "S": 1}},
        "pool": {"kind": "pooling", "shape": {"P": 2, "Q": 2, "R": 3, "S": 3}, "stride": 2},
    }
    result = simulate(linked_layers(**layers), load_accelerator("toy"), "best")
    check(result.workload, result.mapping, result.program)
    assert result.run.macs == 2 * 2 * 5 * 5


def _flags() -> Iterator[tuple[str, Options]]:
    yield from ((dataflow, Options(tolerance=0.0)) for dataflow in ("flat", "flex", "naive"))
    for dataflow in ("flat", "flash"):
        yield dataflow, Options(tolerance=0.0, pipeline=True, stationarity="ws")


@pytest.mark.parametrize(
    ("hw", "batch", "tokens", "scope"),
    some([("edge_tpu", 1, 32, "la"), ("mxu_128", 1, 97, "la"), ("edge", 1, 128, "block")]),
)
def test_no_dataflow_or_flag_is_faster_than_best(
    hw: str, batch: int, tokens: int, scope: Scope
) -> None:
    """On edge_tpu a softmax takes as long as L and A: beside one another they save a sixth."""
    workload = build("bert", batch=batch, seq_len=tokens, scope=scope)
    on, best_of_all = load_accelerator(hw), Options(tolerance=0.0)
    cycles = simulate(workload, on, "best", options=best_of_all).run.cycles
    flags = some(_flags())
    others = [simulate(workload, on, flow, options=flag).run.cycles for flow, flag in flags]
    assert cycles <= min(others) * (1 + EFFORT.gap)
    if hw == "edge_tpu":
        assert cycles < 0.85 * others[0]


@pytest.mark.parametrize(
    "case", some(reversed(SMALL)), ids=lambda case: f"{case.dataflow}-{case.shape}"
)
def test_no_mapping_of_the_space_is_faster(case: Case) -> None:
    """Primes, remainders, and buffers in which most of the mappings don't fit."""
    every, fit, optimum = simulated(case)
    assert 0 < fit <= every
    assert optimum is not None
    assert case.picked() <= optimum


def test_the_best_product_need_not_have_the_best_softmax() -> None:
    """The softmax with the least energy times delay of its own makes that of all three 13% more."""
    case = Case("naive-b", (2, 2, 3, 1), 544, 32, holds="is", objective="edp")
    assert case.picked() == simulated(case)[2]


@pytest.mark.parametrize("seed", [10, 105])
def test_no_narrower_choice_is_faster_where_groups_overlap(seed: int) -> None:
    """A tree that is slower alone may wait less for the group before it: 26 of 397 cycles."""
    case = draw_chain(seed)
    for larger, smaller, most, cycles in compared(case):
        assert most <= cycles * (1 + case.tolerance + EFFORT.gap), (larger, smaller)


@pytest.mark.parametrize(
    ("hw", "rows", "inner", "held"), [("mxu_128", 272, 32, "ws"), ("tpu_v5e", 312, 192, "is")]
)
def test_two_products_are_as_fast_freely_as_with_one_held(
    hw: str, rows: int, inner: int, held: Stationarity
) -> None:
    """They overlap: freely they once took 1,507 and 4,267 cycles, for 1,399 and 3,736."""
    sizes = ModelDimensions(hidden=inner, heads=1, head_size=inner, ff_size=4 * inner)
    block = attention(sizes, batch=1, seq_len=rows, scope="block", bytes_per_element=2)
    pair, on = block.select_operators(["FF1", "FF2"]), load_accelerator(hw)
    free, fixed = (
        simulate(pair, on, "flex", options=Options(tolerance=0, stationarity=kind)).run.cycles
        for kind in (None, held)
    )
    assert free <= fixed


def test_products_in_a_row_are_as_fast_as_with_another_tree_of_any_one() -> None:
    """Equal ones differ in what is before and after them: all alike took 963 cycles, for 891."""
    sizes = ModelDimensions(hidden=32, heads=1, head_size=32, ff_size=128)
    block = attention(sizes, batch=1, seq_len=104, scope="block")
    row, on = block.select_operators("QKV"), load_accelerator("edge_tpu")
    body = make_mapping(row, on, "flex", Options(tolerance=0)).body
    others = [
        (
            *body[:at],
            *make_mapping(row.select_operators(name), on, "flex", held).body,
            *body[at + 1 :],
        )
        for at, name in enumerate("QKV")
        for held in (Options(tolerance=0, stationarity=kind) for kind in STATIONARITIES)
    ]
    (cycles,), exchanged = Judge(on).cycles(row, [body]), Judge(on).cycles(row, others)
    assert cycles <= min(exchanged) <= max(exchanged) < math.inf


def test_a_search_runs_nothing_again_and_finds_what_it_finds_alone() -> None:
    """Searches of a process share what ran, whatever they gave up at."""
    block, on = build("bert", batch=1, seq_len=16, scope="block"), load_accelerator("edge")
    others, alone, after = list[SearchAccount](), list[SearchAccount](), list[SearchAccount]()
    shared_outcomes.cache_clear()
    mapping = make_mapping(block, on, "best", Options(on_account=alone.append))
    ran = len(shared_outcomes(on))
    shared_outcomes.cache_clear()
    make_mapping(block, on, "flex", Options(on_account=others.append))
    before = len(shared_outcomes(on))
    again = make_mapping(block, on, "best", Options(on_account=after.append))
    assert (again, after) == (mapping, alone)
    assert len(shared_outcomes(on)) < before + ran, "some were the same"


def test_searches_do_not_share_runs_of_other_number_formats() -> None:
    """Of as many bytes: the array of `tpu_v6e` multiplies int8 in half the time of fp8."""
    on, plain = load_accelerator("tpu_v6e"), gemm(256, 256, 256, bytes_per_element=1)
    fp8 = {name: replace(tensor, number="fp8") for name, tensor in plain.tensors.items()}
    both = [plain, replace(plain, tensors=fp8)]
    bodies = [make_mapping(workload, on, "naive").body for workload in both]
    alone = [Judge(on).cycles(one, [body]) for one, body in zip(both, bodies, strict=True)]
    assert alone[0] < alone[1]
    for order in ((0, 1), (1, 0)):
        shared_outcomes.cache_clear()
        for at in order:
            judge = Judge.from_workload(on, both[at])
            assert judge.cycles(both[at], [bodies[at]]) == alone[at]


def test_what_has_no_mapping_that_fits_is_refused() -> None:
    case = Case("flat", (1, 1, 7, 8), 40, holds="ws")
    assert simulated(case)[1:] == (0, None)
    with pytest.raises(SimaccelError):
        case.picked()


@pytest.mark.parametrize("dataflow", ["flat", pytest.param("flash", marks=pytest.mark.long)])
def test_one_block_of_one_head_has_nothing_to_run_early(dataflow: str) -> None:
    """Two tokens: pipelined they were a fork ahead without a loop outside, an internal error."""
    case = Case(dataflow, (1, 1, 2, 2), 144, 2, pipeline=True)
    assert case.picked() <= (simulated(case)[2] or 0)


def test_energy_times_delay_adds_up_by_roots() -> None:
    """Groups of 2 J and 3 s, 4 J and 6 s: together 6 J and 9 s, which is 54 Js, not 6 + 24."""
    goal = Goal(Judge(load_accelerator("edge")), "edp")
    total = additive_value(2 * 3, goal) + additive_value(4 * 6, goal)
    assert total**2 == pytest.approx(6 * 9)


def test_groups_of_unequal_power_take_more_than_the_sum_says() -> None:
    """1 J and 4 s, 4 J and 1 s: 25 Js, of which the roots give 16."""
    goal = Goal(Judge(load_accelerator("edge")), "edp")
    assert 2 * additive_value(4, goal) == math.sqrt(16)


def test_other_objectives_are_sums_already() -> None:
    goal = Goal(Judge(load_accelerator("edge")), "energy")
    assert additive_value(7.0, goal) == 7.0
