"""L, softmax and A with rows of the intermediate that stay on chip."""

from dataclasses import replace

from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.tree import Keep, Tree
from simaccel.schedulers.attention import problem_of
from simaccel.schedulers.flex import place_trees
from simaccel.schedulers.resident_attention import Placed, ResidentSearch, stage_attention
from simaccel.schedulers.sequences import score
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.candidate_set import capacity
from simaccel.search.grid_search import Goal
from simaccel.search.judge import Judge
from simaccel.search.problems import parts
from simaccel.workload import build


def _set_slots(tree: Tree, slots: int) -> Tree:
    return tuple(replace(node, slots=slots) if isinstance(node, Keep) else node for node in tree)


def test_tiles_have_two_slots_beside_rows_that_stay() -> None:
    """Where all rows spill one slot may be enough; where they stay, the array waits for tiles."""
    workload = build("bert", batch=4, seq_len=128, scope="la")
    goal = Goal(Judge(load_accelerator("mxu_128")))
    (part,) = parts(workload)
    assert isinstance(part, tuple)
    problem = problem_of(workload, part)
    best = place_trees(problem, TreeSearch(goal), 0, capacity(goal.accelerator))
    assert best is not None
    with_one, with_two = (
        [(group, held, _set_slots(tree, slots)) for group, held, tree in best] for slots in (1, 2)
    )

    def trees(_rows: int, _room: int) -> list[Placed]:
        return with_one

    search = ResidentSearch(problem, goal, trees, lambda _rows, _room: 0.0)
    found = search.best("b")
    assert found is not None
    assert found.rows
    slow, fast = (
        score(workload, stage_attention(problem, found.rows, placed), goal)
        for placed in (with_one, with_two)
    )
    assert slow is not None
    assert fast is not None
    assert found.scored.cycles == fast.cycles < slow.cycles
