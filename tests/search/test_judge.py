"""The judge of a search: runs by what decides their cycles."""

from dataclasses import replace

from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.tree import Do, Group, Keep
from simaccel.search.judge import Judge
from tests.trees import einsum, workload


def test_groups_on_other_cores_are_other_runs() -> None:
    """Two products one after the other on one core, or at once on two."""
    of = workload(
        einsum("left", "L m n", "X m k", "V k n", m=64, k=64, n=64),
        einsum("right", "R m n", "Y m k", "W k n", m=64, k=64, n=64),
    )
    groups = [
        Group(operators=(name,), tree=(*map(Keep, tensors), Do(name, "array", "ws")))
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
