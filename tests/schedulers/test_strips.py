"""Strips, rows that stay on chip and shortcuts around convolutions, by hand."""

from dataclasses import replace
from itertools import pairwise

import pytest
import yaml

from simaccel.diagnosis.check import check
from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.checks import faults
from simaccel.mapping.space import space_of
from simaccel.mapping.text import parse_tree
from simaccel.mapping.tree import Group, Keep, Loop, ResidentScope, Tree, nodes
from simaccel.program.lowering import lower
from simaccel.program.program import Compute, commands
from simaccel.schedulers import NothingFitsError, make_mapping
from simaccel.schedulers.attention import Placed, problem_of, stage_attention
from simaccel.schedulers.sequences import score
from simaccel.schedulers.staged_attention import StagedAttention
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.candidate_set import capacity
from simaccel.search.goal import Goal
from simaccel.search.judge import Judge
from simaccel.search.problems import parts
from simaccel.study.experiment import simulate
from simaccel.workload import ModelDimensions, Workload, attention, gemm, parse_workload
from simaccel.workload.conv import Conv
from simaccel.workload.layers import layers_workload
from simaccel.workload.linking import IMAGE
from tests.nodes import connected, linked, pooling, rectified
from tests.program.programs import mapping_of

CHIP = load_accelerator("tpu_v1")
TILE = 256 * 256


def test_weights_come_as_whole_folds_in_four_slots() -> None:
    """300 x 520: 2 x 3 folds, edges filled up; 100 rows at once."""
    of = gemm(m=100, k=300, n=520, bytes_per_element=1)
    result = simulate(of, CHIP, "strips")
    (group,) = result.mapping.groups
    (held,) = [node for node in nodes(group.tree) if isinstance(node, Keep) and node.tensor == "B"]
    assert held.slots == 4
    assert result.run.macs == 6 * TILE * 100
    assert result.run.moved["dram_read", "B"] == 6 * TILE
    folds = [one for one in commands(result.program.body) if isinstance(one, Compute)]
    assert all(one.shape[-2:] == (256, 256) or one.macs == TILE * 100 for one in folds)


def test_a_stream_of_weights_is_as_fast_as_their_memory() -> None:
    """A fold each ceil(65,536 B x 700 MHz / 34 GB/s) = 1,350 cycles, however many there are."""
    cycles = [
        simulate(gemm(m=200, k=256, n=256 * n, bytes_per_element=1), CHIP, "strips").run.cycles
        for n in (8, 16, 24)
    ]
    assert [after - before for before, after in pairwise(cycles)] == [8 * 1350] * 2


def test_rows_are_as_many_as_the_accumulator_takes_in_equal_pieces() -> None:
    """8 x 19 x 19 = 2,888 rows, 2,048 fit: two pieces of four boards; one position at a time."""
    of = layers_workload("c", {"c": Conv(n=8, m=256, c=256, p=19, q=19, r=3, s=3)})
    (group,) = make_mapping(of, CHIP, "strips").groups
    loops = {node.rank: node.tile for node in nodes(group.tree) if isinstance(node, Loop)}
    assert (loops["n"], loops["p"], loops["q"]) == (4, 19, 19)
    assert (loops["r"], loops["s"], loops["c"], loops["m"]) == (1, 1, 256, 256)


def test_it_says_what_is_too_small() -> None:
    tight = load_accelerator("tpu_v1", ["memories.weight.staging_bytes=63 KiB"])
    with pytest.raises(NothingFitsError, match=r"gemm: a row beside a fold.*staging_bytes"):
        make_mapping(gemm(m=9, k=256, n=256, bytes_per_element=1), tight, "strips")


def test_it_runs_on_any_systolic_array() -> None:
    """7 x 11 x 5 on 8 x 8, without accumulator or memories: 2 x 1 folds of 64 PEs for 7 rows."""
    toy = load_accelerator("toy")
    of = gemm(m=7, k=11, n=5)
    run = simulate(of, toy, "strips").run
    folds = -(-11 // toy.array.rows) * -(-5 // toy.array.cols)
    assert run.macs == folds * toy.array.pes * 7


def test_a_vector_operator_stands_in_the_group_of_its_einsum() -> None:
    """In place over all that was made, so that no group without weights stands between layers."""
    nodes_ = [
        connected("one", IMAGE, 300, 1, 520),
        rectified("act", "one", 520, 1),
        connected("two", "act", 400, 1, 256),
    ]
    result = simulate(linked(*nodes_, batch=100), CHIP, "strips")
    assert [group.name for group in result.mapping.groups] == ["one+act", "two"]
    moved = {name for (level, name) in result.run.moved if level == "dram_write"}
    assert moved == {"act.O", "two.O"}
    folds, vectors = 2 * 3 + 2, 100 * 768
    assert result.run.macs == folds * TILE * 100
    assert result.run.elements == vectors
    assert result.run.cycles < (folds + 2) * 1350


def test_poolings_come_in_as_few_pieces_as_fit() -> None:
    """8 images of 9 x 9 windows of 3 x 3 over 64 channels: one piece, and 20 cycles of latency."""
    nodes_ = [pooling("pool", IMAGE, 64, 9, reach=3, stride=1, padding=1)]
    assert (
        simulate(linked(*nodes_, batch=8), CHIP, "strips").run.cycles == 8 * 64 * 81 * 9 // 256 + 20
    )


def _set_slots(tree: Tree, slots: int) -> Tree:
    return tuple(replace(node, slots=slots) if isinstance(node, Keep) else node for node in tree)


def test_tiles_have_two_slots_beside_rows_that_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all rows spill one slot may be enough; where they stay, the array waits for tiles."""
    heads = ModelDimensions(hidden=128, heads=2, head_size=64, ff_size=128)
    workload = attention(heads, batch=2, seq_len=128, scope="la")
    goal = Goal(Judge(load_accelerator("mxu_128")))
    (part,) = parts(workload)
    assert isinstance(part, tuple)
    problem = problem_of(workload, part)
    staged = StagedAttention(problem, TreeSearch(goal))
    best = staged.place(0, capacity(goal.accelerator))
    assert best is not None
    with_one, with_two = (
        [(group, held, _set_slots(tree, slots)) for group, held, tree in best] for slots in (1, 2)
    )

    def place(*_asked: object, **_more: object) -> list[Placed]:
        return with_one

    monkeypatch.setattr(StagedAttention, "place", place)
    found = staged.map("b")
    assert found is not None
    (scope,), figures = found
    assert isinstance(scope, ResidentScope)  # some rows stay
    counts = [rows for rows, (known, _) in staged.known.items() if known == found]
    slow, fast = (
        score(workload, stage_attention(problem, counts[0], placed), goal)
        for placed in (with_one, with_two)
    )
    assert slow is not None
    assert fast is not None
    assert figures.cycles == fast.cycles < slow.cycles


NAMES = ("relu", "conv", "add")


def _shortcut() -> Workload:
    """Return relu, a convolution of 3 x 3 over it, padded, and the sum of both."""
    document = """
        kind: einsums
        name: block
        tensors: {I: {kind: input}, P: {kind: intermediate}, W: {kind: weight},
                  O: {kind: intermediate}, Y: {kind: output}}
        operators:
          relu:
            {kind: relu, ranks: {i0: 4, i1: 5, i2: 5}, inputs: ["I[i0,i1,i2]"],
             output: "P[i0+0,i1+1,i2+1]"}
          conv:
            {ranks: {c: 4, p: 5, r: 3, q: 5, s: 3, m: 4},
             inputs: ["P[c,p+r,q+s]", "W[m,c,r,s]"], output: "O[m,p,q]"}
          add:
            {kind: residual, ranks: {i0: 4, i1: 5, i2: 5},
             inputs: ["O[i0,i1,i2]", "P[i0+0,i1+1,i2+1]"], output: "Y[i0,i1,i2]"}
    """
    return parse_workload(yaml.safe_load(document))


@pytest.mark.parametrize("dataflow", ["naive", "flex", "best"])
def test_a_shortcut_around_a_padded_convolution_is_scheduled(dataflow: str) -> None:
    of, on = _shortcut(), load_accelerator("edge")
    mapping = make_mapping(of, on, dataflow)
    assert faults(of, mapping, on) == []
    assert [one.operator for one in check(of, mapping, lower(of, mapping))][-1] == "add"


def test_a_group_with_such_a_shortcut_is_refused() -> None:
    of = _shortcut()
    group = Group(operators=NAMES, tree=())
    assert space_of(of, group).circular
    tree = parse_tree(
        "keep I buffer, P buffer, W buffer, O buffer, Y buffer\n"
        "fork\n  | do relu sfu\n  | do conv array ws\n  | do add sfu\n"
    )
    found = faults(of, mapping_of(of, Group(operators=NAMES, tree=tree)))
    assert [one.allowed for one in found] == ["another group: relu sees another box of P"]
