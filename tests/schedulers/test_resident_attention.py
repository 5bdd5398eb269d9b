"""L, softmax and A with rows of the intermediate that stay on chip."""

from dataclasses import replace

import pytest

from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.tree import Keep, ResidentScope, Tree
from simaccel.schedulers.attention import problem_of
from simaccel.schedulers.resident_attention import Placed, stage_attention
from simaccel.schedulers.sequences import score
from simaccel.schedulers.staged_attention import StagedAttention
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.candidate_set import capacity
from simaccel.search.goal import Goal
from simaccel.search.judge import Judge
from simaccel.search.problems import parts
from simaccel.workload import build


def _set_slots(tree: Tree, slots: int) -> Tree:
    return tuple(replace(node, slots=slots) if isinstance(node, Keep) else node for node in tree)


def test_tiles_have_two_slots_beside_rows_that_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all rows spill one slot may be enough; where they stay, the array waits for tiles."""
    workload = build("bert", batch=4, seq_len=128, scope="la")
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
