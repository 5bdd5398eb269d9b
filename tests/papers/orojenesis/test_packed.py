"""Bounds where elements have 4 bits: below all that any tiling moves, rounded up tile by tile."""

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from simaccel.analytic.family import family_of
from simaccel.analytic.floor.floor import pebbling_bytes
from simaccel.analytic.floor.problem import problem_of
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import Do, Group, Keep, Loop, Tree
from simaccel.papers.orojenesis.segment import figures
from simaccel.papers.orojenesis.single import Mapspace
from simaccel.papers.orojenesis.whole import workload_bound
from simaccel.study.experiment import simulate
from simaccel.workload import Workload, build
from tests.agreement import dram_total
from tests.draws import DRAWS
from tests.machine.accelerators import accelerator

SIDES = st.integers(1, 7)
NUMBERS = st.sampled_from(["int4", "int4", "int8", "fp16"])


@st.composite
def _products(draw: st.DrawFn) -> Workload:
    shape = ",".join(f"{rank}={draw(SIDES)}" for rank in "MKN")
    precision = {one: draw(NUMBERS) for one in ("weights", "activations")}
    return build("gemm", shape=shape, precision=precision)


@given(_products(), st.data())
@settings(max_examples=7 * DRAWS)
def test_no_tiling_moves_less_with_as_much_room(of: Workload, data: st.DataObject) -> None:
    sizes = {rank: data.draw(st.integers(1, of.operators[0].ranks[rank])) for rank in "mkn"}
    order = data.draw(st.sampled_from([*permutations("mkn")]))
    loops = tuple(Loop(rank, sizes[rank]) for rank in order)
    tree: Tree = (*loops, *(Keep(name) for name in "ABC"), Do("gemm", "array", "ws"))
    group = Group(operators=("gemm",), tree=tree)
    room, moved = map(int, figures(family_of(space_of(of, group), group)))
    found = workload_bound(of, Mapspace(imperfect=True))
    at = found.front.find_point(room)
    assert at is not None
    assert int(found.front.accesses[at]) <= moved
    assert pebbling_bytes(problem_of(of, "gemm"), room) <= moved


@given(_products())
@settings(max_examples=5 * DRAWS)
def test_its_mapping_moves_what_it_says(of: Workload) -> None:
    """The machine rounds up each tile: it moves no less than the bound, and what is told beside."""
    found = workload_bound(of, Mapspace(imperfect=True))
    chosen = found.point(len(found.front) - 1)
    mapping = found.mapping(chosen)
    assert mapping is not None
    moved = simulate(of, accelerator(), mapping).run.moved
    dram = dram_total(moved)
    assert dram == chosen.moved_bytes >= chosen.dram_bytes


def test_a_product_of_odd_sizes_by_hand() -> None:
    """3 x 5 x 7 in half bytes: one element of each is 3 of them, two bytes.

    Each of 105 MACs reads both operands, and each of 21 sums is written once: 231 half bytes. With
    more room each tensor moves once, in bytes of its own: 15, 35 and 21 half bytes.
    """
    of = build("gemm", shape="M=3,K=5,N=7", precision={"weights": "int4", "activations": "int4"})
    front = workload_bound(of, Mapspace(imperfect=True)).front
    assert (front.buffer[0], front.accesses[0]) == (2, 116)
    assert front.accesses[-1] == 8 + 18 + 11
