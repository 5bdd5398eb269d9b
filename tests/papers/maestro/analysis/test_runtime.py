"""The directives' runtime of folds, and trees on PEs as cluster levels."""

from fractions import Fraction
from itertools import pairwise
from math import ceil

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simaccel import gemm, load_accelerator
from simaccel.hardware import Accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.space import space_of
from simaccel.mapping.text import parse_text
from simaccel.mapping.tree import Group, paths
from simaccel.papers.maestro.analysis.analysis import analyse
from simaccel.papers.maestro.analysis.hardware import hardware_of
from simaccel.papers.maestro.analysis.runtime import OperatorTime, blocks_of, operator_times
from simaccel.papers.maestro.dataflows.reading import parse_directives
from simaccel.papers.maestro.dataflows.translating import directed_mapping
from simaccel.program.lowering import lower
from simaccel.workload import Vector, Workload
from simaccel.workload.layers import layers_workload
from tests.drawn_trees import Drawn, draw_case
from tests.draws import DRAWS
from tests.trees import einsum, mapping, vector, workload

TREE = """
mapping mine of {workload.name} {workload.fingerprint}
  group gemm
{loops}    keep A buffer, B buffer, C buffer
    do gemm array {stationarity}
"""


def _times(
    workload: Workload, accelerator: Accelerator, loops: str = "", stationarity: str = "ws"
) -> OperatorTime:
    text = TREE.format(workload=workload, loops=loops, stationarity=stationarity)
    (group,) = parse_text(text).groups
    (found,) = operator_times(space_of(workload, group), group, accelerator)
    return found


def _fill(accelerator: Accelerator, elements: int) -> int:
    """Cycles that elements of 2 bytes take through the NoC: its latency, then its rate."""
    rate = accelerator.distribution_rate.exact() / 2
    assert isinstance(rate, Fraction)
    return accelerator.lead_latency_cycles + ceil(elements / rate) - 1


def test_one_fold_by_hand() -> None:
    """4 x 4 PEs take 5 rows of A, B and C: first fill of columns and PEs, 5 steps, last sums.

    Inside, 5 links: 8 elements take 1 + 2 - 1 cycles and a sum leaves after 1; then each step 1.
    """
    toy = load_accelerator("toy")
    found = _times(gemm(m=5, k=4, n=4), toy)
    inside = (2 + 1 + 1) + 4
    assert found.cycles == inside + _fill(toy, 5 * 4 + 4 * 4) + _fill(toy, 5 * 4)
    assert found.transfers == found.cycles - 5
    assert found.written.endswith(
        "SpatialMap(1,1) N; TemporalMap(4,4) K; TemporalMap(5,5) M; Cluster(4,P); "
        "SpatialMap(1,1) K; TemporalMap(1,1) M"
    )


@pytest.mark.parametrize(
    ("stationarity", "sizes", "steps"),
    [
        ("ws", (7, 4, 4), 7),
        ("is", (4, 4, 7), 7),
        ("os", (4, 7, 4), 7),
        ("ws", (7, 9, 5), 2 * 3 * 7),
    ],
)
def test_without_a_noc_folds_take_their_streams(
    stationarity: str, sizes: tuple[int, int, int], steps: int
) -> None:
    m, k, n = sizes
    found = _times(gemm(m=m, k=k, n=n), load_accelerator("toy"), stationarity=stationarity)
    assert found.cycles is not None
    assert found.transfers is not None
    assert found.cycles - found.transfers == steps


@given(
    sizes=st.tuples(*[st.integers(1, 23)] * 3),
    cuts=st.lists(st.tuples(st.sampled_from("mkn"), st.integers(1, 9)), max_size=3),
    stationarity=st.sampled_from(("ws", "os", "is")),
)
@settings(max_examples=7 * DRAWS, deadline=None)
def test_blocks_are_those_of_plain_loops_and_each_is_paid_alone(
    sizes: tuple[int, int, int], cuts: list[tuple[str, int]], stationarity: str
) -> None:
    """MAESTRO's rule: a level above takes as long as the runs of what is inside, one by one."""
    m, k, n = sizes
    workload, toy = gemm(m=m, k=k, n=n), load_accelerator("toy")
    left = {"m": m, "k": k, "n": n}
    blocks = [left]
    loops = ""
    for rank, tile in cuts:
        if tile >= left[rank]:
            continue
        left = {**left, rank: tile}
        loops += f"    loop {rank} {tile}\n"
        blocks = [
            {**one, rank: min(tile, one[rank] - start)}
            for one in blocks
            for start in range(0, one[rank], tile)
        ]
    text = TREE.format(workload=workload, loops=loops, stationarity=stationarity)
    (group,) = parse_text(text).groups
    space = space_of(workload, group)
    ((outside, leaf),) = paths(group.tree)
    found = blocks_of(space, space.bound_operator(leaf.operator), outside)
    by_hand = [tuple(one[rank] for rank in "mkn") for one in blocks]
    assert found == {one: by_hand.count(one) for one in by_hand}
    alone = {
        one: _times(gemm(m=one[0], k=one[1], n=one[2]), toy, stationarity=stationarity).cycles
        for one in found
    }
    whole = _times(workload, toy, loops, stationarity)
    assert whole.cycles == sum(count * (alone[one] or 0) for one, count in found.items())


def test_parts_of_a_rank_are_blocks_of_their_own() -> None:
    """7 rows in pieces of 3, of each the first row alone: 1 + 2, 1 + 2, 1; by hand."""
    workload, toy = gemm(m=7, k=4, n=4), load_accelerator("toy")
    text = f"""
mapping mine of {workload.name} {workload.fingerprint}
  group gemm
    keep B buffer
    loop m 3
    part m 1 rest
      | keep A buffer, C buffer
        do gemm array ws
      | keep A buffer, C buffer
        do gemm array os
"""
    (group,) = parse_text(text).groups
    (found,) = operator_times(space_of(workload, group), group, toy)
    one = _times(gemm(m=1, k=4, n=4), toy).cycles
    two = _times(gemm(m=2, k=4, n=4), toy, stationarity="os").cycles
    assert one is not None
    assert two is not None
    assert found.cycles == 3 * one + 2 * two


HW = load_accelerator("maestro_256")
ROWS, COLUMNS = "Map(Sz(R),1) Y; ", "Map(Sz(S),1) X; "
ONE_LEVEL = (
    f"TemporalMap({{m}},{{m}}) K; Temporal{ROWS}Temporal{COLUMNS}SpatialMap({{c}},{{c}}) C;",
    f"SpatialMap({{m}},{{m}}) K; TemporalMap({{c}},{{c}}) C; Temporal{ROWS}Temporal{COLUMNS}",
    f"TemporalMap({{c}},{{c}}) C; TemporalMap({{m}},{{m}}) K; Temporal{ROWS}Spatial{COLUMNS}",
    f"Temporal{ROWS}SpatialMap({{m}},{{m}}) K; Temporal{COLUMNS}TemporalMap({{c}},{{c}}) C;",
)


@settings(max_examples=9 * DRAWS, deadline=None)
@given(st.sampled_from(ONE_LEVEL), st.data())
def test_a_level_of_directives_and_its_tree_take_as_long(text: str, data: st.DataObject) -> None:
    """MAESTRO's analysis of the directives: the same steps, NoC and first fill."""
    reach = data.draw(st.integers(1, 3), label="filter")
    stride = data.draw(st.integers(1, reach), label="stride")
    k, c = (data.draw(st.integers(1, 300), label=dim) for dim in "KC")
    y, x = (reach + data.draw(st.integers(0, 20), label=dim) for dim in "YX")
    m, n = (data.draw(st.integers(1, 4), label=dim) for dim in "mc")
    layers = parse_directives(
        f"Network n {{ Layer l {{ Type: CONV Stride {{ X: {stride}, Y: {stride} }} "
        f"Dimensions {{ K: {k}, C: {c}, R: {reach}, S: {reach}, Y: {y}, X: {x} }} "
        f"Dataflow {{ {text.format(m=m, c=n)} }} }} }}"
    ).layers
    workload = layers_workload("n", {one.name: one.layer.shape() for one in layers})
    (group,) = directed_mapping(layers, workload, HW).groups
    (found,) = operator_times(space_of(workload, group), group, HW)
    (theirs,) = analyse(layers, [hardware_of(HW)])
    assert found.cycles == theirs.figures()["runtime_cycles"]


def _cluster_times(of: Workload, group: Group, on: object = HW) -> tuple[OperatorTime, ...]:
    return operator_times(space_of(of, group), group, on)  # type: ignore[arg-type]


def _ideal(case: Drawn) -> dict[str, int] | None:
    """Return what directives say that each unit works without a NoC; None where one is silent."""
    found = {"array": 0, "sfu": 0}
    for group in case.mapping.groups:
        for one in _cluster_times(case.of, group, case.on):
            if one.silent:
                assert one.silent.startswith(("3 inputs", "no product of two factors"))
                return None
            unit = "sfu" if isinstance(case.of.operator(one.operator), Vector) else "array"
            found[unit] += case.of.times(group.operators[0]) * _alone(one)
    return found


def _alone(one: OperatorTime) -> int:
    """Return the cycles with a NoC that takes no time."""
    return (one.cycles or 0) - (one.transfers or 0)


@settings(max_examples=10 * DRAWS, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
@example(seed=724293, spatial=True)  # a loop between two spreads
@example(seed=223, spatial=True)
@example(seed=193, spatial=True)  # narrow elements in place of wide ones
@example(seed=531, spatial=True)
@example(seed=847, spatial=True)
def test_without_a_noc_trees_take_the_cycles_of_the_machine(seed: int, spatial: bool) -> None:  # noqa: FBT001
    """PEs that never wait, and vector units whose passes have no latency, to the cycle."""
    case = draw_case(seed, spatial=spatial)
    ideal = _ideal(case)
    if ideal is None:
        return
    run = Machine(case.on, lower(case.of, case.mapping)).run()
    busy = {unit: sum(one.engines[unit].busy for one in run.operators) for unit in ideal}
    if spatial:
        assert ideal["array"] == busy["array"]
    if not case.on.sfu.latency_cycles:
        assert ideal["sfu"] == busy["sfu"]


def test_a_loop_between_spreads_runs_in_each_pe() -> None:
    """7 of m on two PEs, 4 and 3; the PE with 4 takes 3, then 1; of 3 a lane has 2: 2 + 1 steps."""
    of = workload(einsum("E", "C m n", "A m k", "B k n", m=7, k=5, n=1))
    on = load_accelerator("maestro_256", ["array.lanes=2"])
    tree = """
        group E
          keep A buffer, B buffer, C buffer
          spread m 4 rows
          loop m 3
          spread m 2 lanes
          do E mac
        """
    (found,) = _cluster_times(of, mapping(of, tree).groups[0], on)
    assert _alone(found) == 5 * (2 + 1)


@pytest.mark.parametrize(
    ("hw", "unit", "macs"), [("maestro_256", "mac", 3 * 4 * 5), ("toy", "array os", 4)]
)
def test_what_is_made_in_place_has_the_elements_of_its_tile(hw: str, unit: str, macs: int) -> None:
    """P of a byte lies in S's tile of two: on 8-bit PEs a MAC of P takes two cycles, of Q one.

    A PE has all MACs; of an array that holds sums, 3 x 5 of them, a fold is the stream of 4 keys.
    """
    sizes = {"q": 3, "c": 4}
    of = workload(
        einsum("L", "S q c", "Q q d", "K c d", d=5, **sizes),
        vector("softmax", "softmax", "P q c", "S q c", axis="c", **sizes),
        einsum("A", "Z q e", "P q c", "V c e", e=5, **sizes),
        bits={"S": 16} | dict.fromkeys(["Q", "K", "P", "V", "Z"], 8),
    )
    tree = f"""
        group L+softmax+A
          keep Q buffer, K buffer, S buffer, V buffer, Z buffer
          fork
            | do L {unit}
            | do softmax sfu
            | do A {unit}
        """
    on = load_accelerator(hw, ["array.native_bits=8", "array.rows=5", "array.cols=5"])
    scores, _, values = _cluster_times(of, mapping(of, tree).groups[0], on)
    assert (_alone(scores), _alone(values)) == (5 if hw == "toy" else macs, 2 * macs)


def _convolution(window: str) -> tuple[Group, Workload]:
    of = workload(einsum("one", "O p", f"I {window}", "W r", p=9, r=5))
    (group,) = mapping(
        of,
        """
        group one
          loop p 1
          keep I pe, W pe, O pe
          loop r 1
          do one mac
        """,
    ).groups
    return group, of


def test_windows_with_dilation_have_no_word() -> None:
    group, of = _convolution("2*p+2*r")
    (found,) = _cluster_times(of, group)
    assert found.silent == "I slides over p+r with dilation, which the notation lacks"
    assert found.cycles is None


@pytest.mark.parametrize("stride", [1, 2, 4])
def test_of_a_window_comes_what_is_new(stride: int) -> None:
    """9 rows one by one, 5 taps, an element a cycle: first all, then what sets say, a sum a row."""
    group, of = _convolution(f"{stride}*p+r")
    on = load_accelerator("maestro_256", ["noc.distribution.link_bytes_per_cycle=2"])
    (found,) = _cluster_times(of, group, on)
    tiles = [{stride * p + r for r in range(5)} for p in range(9)]
    new = [len(now - before) for before, now in pairwise(tiles)]
    late = on.lead_latency_cycles - 1
    first = (5 + 5 + late) + 5 + (1 + late)
    assert found.cycles == first + sum(max(5, n + late) for n in new)


def test_tensors_that_enter_pes_at_several_depths_are_told() -> None:
    """Clusters have one depth, so that the levels are only close to such a tree."""
    of = workload(einsum("E", "C m n", "A m k", "B k n", m=4, k=6, n=5))
    for inner, is_told in (("", False), ("loop k 2\n    ", True)):
        keeps = f"keep A pe\n    {inner}keep B pe, C pe"
        tree = f"group E\n    spread m 1 rows\n    {keeps}\n    do E mac\n"
        (one,) = _cluster_times(of, mapping(of, tree).groups[0])
        assert one.written.startswith("as if PEs took all tensors") == is_told
