"""What a run moves at least: below every run of the machine and every front."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simaccel import load_accelerator, simulate
from simaccel.analytic.floor.compulsory import distinct_bytes
from simaccel.analytic.floor.floor import floor_of, on_chip_bytes, pebbling_bytes
from simaccel.analytic.floor.problem import problem_of
from simaccel.machine.machine import Machine
from simaccel.mapping.text import parse_tree
from simaccel.mapping.tree import Do, Group, Mapping, WorkloadReference
from simaccel.papers.orojenesis.single import Mapspace, bound
from simaccel.program.lowering import lower
from simaccel.run.run import run_mapping
from simaccel.schedulers import DATAFLOWS, Options
from simaccel.search.effort import Effort
from simaccel.search.problems import NothingFitsError
from simaccel.workload import ModelDimensions, Workload, attention, conv2d, gemm, network
from tests.agreement import dram_total
from tests.drawn_trees import Drawn, draw_case, draw_held
from tests.draws import DRAWS, some
from tests.program.programs import (
    FlatTiles,
    attention_workload,
    flat_group,
    mapping_of,
    reserved_bytes,
)
from tests.program.tree_cases import CASES


def test_distinct_elements_of_more_than_memory_holds() -> None:
    rows = 2**40
    workload = gemm(m=rows, k=3, n=2, bytes_per_element=1)
    assert distinct_bytes(workload) == 3 * rows + 6 + 2 * rows


def test_a_cache_that_a_group_makes_and_uses_is_written_alone() -> None:
    """Q, K, V and Z have 4 x 3 elements of two bytes, S has 4 x 4: each crosses DRAM once."""
    base = attention_workload(1, 1, 4, 3)
    cached = {**base.tensors, "S": replace(base.tensors["S"], kind="cache")}
    workload = replace(base, tensors=cached)
    tree = parse_tree(
        "loop bh 1\nkeep K buffer, V buffer\nloop q 4\n"
        "keep Q buffer, Z buffer, S buffer, P buffer\n"
        "fork\n  | do L array ws\n  | do softmax sfu\n  | do A array ws\n"
    )
    group = replace(flat_group(workload, FlatTiles(rows=4, keys=4)), tree=tree)
    found = run_mapping(workload, load_accelerator("toy"), mapping_of(workload, group))
    least = 2 * (4 * 4 * 3 + 4 * 4)
    assert dram_total(found.run.moved) == distinct_bytes(workload) == least


@pytest.mark.parametrize(
    ("draw", "spatial"), [(draw_case, False), (draw_case, True), (draw_held, False)]
)
@settings(max_examples=3 * DRAWS, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_no_random_tree_is_below(draw: Callable[..., Drawn], seed: int, *, spatial: bool) -> None:
    """With the bytes that its own tiles take as the buffer, or all that an array of PEs has."""
    case = draw(seed, spatial=spatial)
    program = lower(case.of, case.mapping)
    run = Machine(case.on, program).run()
    n_bytes = on_chip_bytes(case.on) if spatial else reserved_bytes(program)
    floor = floor_of(case.of, case.mapping, n_bytes)
    assert dram_total(run.moved) >= floor.least_bytes >= floor.compulsory_bytes > 0


@pytest.mark.parametrize("name", CASES)
def test_no_example_is_below(name: str) -> None:
    """Trees with tensors, and parts of them, that stay on chip around several groups, too."""
    of, one = CASES[name]
    units = {node.unit for group in one.groups for node in group.tree if isinstance(node, Do)}
    hw = load_accelerator(
        "eyeriss_like" if "mac" in units else "toy", ["buffer.capacity_bytes=unlimited"]
    )
    program = lower(of, one)
    if "mac" in units:
        return  # their memories are checked by the tests of random trees
    floor = floor_of(of, one, reserved_bytes(program))
    moved = dram_total(Machine(hw, program).run().moved)
    assert moved >= floor.least_bytes >= floor.compulsory_bytes


@pytest.mark.parametrize("dataflow", some(DATAFLOWS))
def test_no_scheduler_is_below(dataflow: str) -> None:
    dimensions = ModelDimensions(hidden=6, heads=2, head_size=3, ff_size=8)
    workload = attention(dimensions, batch=1, seq_len=3, scope="la")
    hw = load_accelerator("toy", ["buffer.capacity_bytes=1 KiB"])
    try:
        result = simulate(workload, hw, dataflow)
    except NothingFitsError:
        assert dataflow.startswith("fla")  # whole rows of a whole batch or head
        return
    floor = floor_of(workload, result.mapping, on_chip_bytes(hw))
    assert dram_total(result.run.moved) >= floor.least_bytes >= floor.compulsory_bytes > 0


@pytest.mark.parametrize("hw", ["simba_like"])
def test_no_mapspace_is_below(hw: str) -> None:
    workload = network("alexnet", layer="conv5")
    accelerator = load_accelerator(hw)
    options = Options(effort=Effort(objective="cycles", patience=500))
    result = simulate(workload, accelerator, "ruby-s", options=options)
    floor = floor_of(result.workload, result.mapping, on_chip_bytes(accelerator))
    assert dram_total(result.run.moved) >= floor.least_bytes > 0


def own(workload: Workload) -> Mapping:
    name = workload.operators[0].name
    reference = WorkloadReference(workload.name, workload.fingerprint)
    return Mapping(workload=reference, dataflow="", body=(Group(operators=(name,), tree=()),))


@settings(max_examples=3 * DRAWS, deadline=None)
@given(st.tuples(*[st.integers(1, 12)] * 4), st.tuples(*[st.sampled_from([1, 2, 4])] * 3))
def test_no_front_of_products_is_below(
    sizes: tuple[int, int, int, int], widths: tuple[int, int, int]
) -> None:
    m, k, n, batch = sizes
    widths_by = dict(zip("ABC", widths, strict=True))
    workload = gemm(m=m, k=k, n=n, batch=batch, bytes_by_tensor=widths_by)
    found = bound(problem_of(workload, "gemm"), Mapspace(imperfect=True, uneven=True))
    for room, moved in found.front.points():
        assert floor_of(workload, own(workload), room).least_bytes <= moved


@pytest.mark.parametrize(
    "sizes",
    [
        {"m": 8, "c": 4, "p": 9, "q": 8, "r": 3, "s": 3},
        {"m": 4, "c": 4, "p": 6, "q": 6, "r": 2, "s": 2, "stride": 3},
        {"m": 4, "c": 2, "p": 6, "q": 5, "r": 3, "s": 2, "dilation": 2, "g": 2, "n": 2},
    ],
)
def test_no_front_of_convolutions_is_below(sizes: dict[str, int]) -> None:
    workload = conv2d(**sizes, bytes_per_element=1)  # type: ignore[arg-type]
    found = bound(problem_of(workload, "conv"), Mapspace(imperfect=sizes.get("g", 1) == 1))
    for room, moved in found.front.points():
        assert floor_of(workload, own(workload), room).least_bytes <= moved


def test_pebbling_is_close_to_what_is_attained() -> None:
    """Within a tenth where the buffer is small beside the operands: two-sided knowledge."""
    problem = problem_of(gemm(m=4096, k=4096, n=4096, bytes_per_element=1), "gemm")
    front = bound(problem, Mapspace(imperfect=True, uneven=True)).front
    for room in (64, 1024, 65536):
        at = front.find_point(room)
        assert at is not None
        assert 0.9 < pebbling_bytes(problem, room) / front.accesses[at] <= 1


def test_pebbling_by_formula() -> None:
    """2 MACs / sqrt(S) - 2 S, up to a phase that isn't full."""
    problem = problem_of(gemm(m=4096, k=4096, n=4096, bytes_per_element=1), "gemm")
    for room in (64, 1024, 65536):
        formula = 2 * 4096**3 / room**0.5 - 2 * room
        assert pebbling_bytes(problem, room) == pytest.approx(formula, rel=1e-3)
