"""The judge of a search: runs by what decides their cycles."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.tree import Do, Group, Keep, Loop, Tree
from simaccel.program.lowering import lower
from simaccel.search.judge import Judge, mapping_of
from tests.trees import einsum, workload


def test_equal_programs_run_once() -> None:
    """W has one slot, as no loop moves it; and a loop of one piece is none."""
    of = workload(einsum("o", "Z m n", "X m k", "W k n", m=64, k=32, n=32))
    trees = [
        (Loop("m", 16), Keep("X", slots=2), Keep("W", slots=slots), *more, Keep("Z"), do)
        for slots, more in ((1, ()), (2, ()), (3, (Loop("n", 32),)))
        for do in (Do("o", "array", "ws"),)
    ]
    programs = {
        lower(of, mapping_of(of, "", (Group(operators=("o",), tree=tree),))) for tree in trees
    }
    judge = Judge(load_accelerator("edge"))
    cycles = judge.cycles(of, [(Group(operators=("o",), tree=tree),) for tree in trees])
    assert len(programs) == len(set(cycles)) == len(judge.outcomes) == 1


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


def test_long_runs_of_a_workload_go_to_other_processes() -> None:
    """A run alone, short ones, and long ones until they took what others take to start stay here.

    So do those of which nobody knows how long they take.
    """
    of = workload(einsum("o", "Z m n", "X m k", "W k n", m=64, k=32, n=32))
    keeps: Tree = (*(Keep(name) for name in "XWZ"), Do("o", "array", "ws"))
    bodies = [(Group(operators=("o",), tree=(Loop("m", tile), *keeps)),) for tile in range(4, 16)]
    handed: list[int] = []

    def each(work: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterable[Any]:
        handed.append(len(tasks))
        return map(work, tasks)

    judge = Judge(load_accelerator("edge"), each)
    for seconds, spent, some in (
        (0.0, 9.0, bodies[:2]),
        (0.001, 9.0, bodies[2:4]),
        (1.0, 0.0, bodies[4:6]),
        (1.0, 9.0, bodies[6:9]),
        (1.0, 9.0, bodies[9:10]),
    ):
        judge.seconds[of.fingerprint], judge.spent = seconds, spent
        judge.cycles(of, some)
    assert handed == [3]
    assert judge.cycles(of, bodies) == Judge(judge.accelerator).cycles(of, bodies)
