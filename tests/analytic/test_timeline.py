"""Candidates that are timed together take what each takes alone."""

from dataclasses import replace

import numpy as np
import pytest

from simaccel.analytic import known
from simaccel.analytic.estimate import evaluate
from simaccel.analytic.family import (
    Family,
    Ints,
    Kept,
    family_of,
    ints,
    take,
    with_arrays,
    without_empty,
)
from simaccel.analytic.schedule import bodies
from simaccel.analytic.timing import lines
from simaccel.analytic.timing.timeline import timeline
from simaccel.analytic.units import Units
from simaccel.hardware import Stationarity
from simaccel.hardware.load import load_accelerator
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import Do, Fork, Group, Keep, Loop, Spread, Tree
from simaccel.workload import Workload, build, gemm


@pytest.fixture(autouse=True)
def _batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few candidates are timed one by one otherwise."""
    monkeypatch.setattr("simaccel.analytic.family._FEW", 1)


_HEADS = {"bh": ("b", "h")}


def _loops(**tiles: int) -> list[Loop]:
    """Return loops; one whose tile is all there is makes one piece."""
    return [Loop(rank=rank, tile=tile) for rank, tile in tiles.items()]


def _keeps(slots: int, *tensors: str) -> list[Keep]:
    return [Keep(tensor=tensor, slots=slots) for tensor in tensors]


def _array(operator: str, stationarity: Stationarity = "ws") -> Do:
    return Do(operator=operator, unit="array", stationarity=stationarity)


def _attend(q: int, d: int, c: int) -> Tree:
    return (*_loops(bh=1, q=q, c=c, d=d), *_keeps(3, "P", "V", "Z"), _array("A"))


def _flash(bh: int, q: int, c: int, slots: int) -> Tree:
    outside: Tree = (*_loops(bh=bh, q=q), *_keeps(slots, "Q", "Z"))
    inside: Tree = (*_loops(c=c), *_keeps(slots, "K", "V"), *_keeps(1, "S"))
    branches: tuple[Tree, ...] = (
        (_array("L"),),
        (Do(operator="softmax", unit="sfu"),),
        (_array("A", "is"),),
    )
    return (*outside, *inside, Fork(branches=branches))


def _together(families: list[Family]) -> Family:
    arrays: list[list[Ints]] = []
    for family in families:
        mine: list[Ints] = []
        with_arrays(family, lambda array, mine=mine: mine.append(array) or array)  # type: ignore[misc]
        arrays.append(mine)
    rows = iter(zip(*arrays, strict=True))
    return with_arrays(families[0], lambda _: ints(next(rows)))


@pytest.mark.parametrize(
    ("hw", "workload", "operators", "trees"),
    [
        (
            "edge_banked",
            build("bert", seq_len=256, batch=4, scope="la"),
            ("A",),
            [_attend(96, 64, 32), _attend(86, 32, 256)],
        ),
        (
            "edge",
            build("bert", seq_len=512, batch=64, scope="la"),
            ("L", "softmax", "A"),
            [_flash(2, 512, 96, 1), _flash(1, 256, 256, 2)],
        ),
    ],
    ids=["stores of another", "iterations that another has"],
)
def test_what_is_timed_together_takes_what_it_takes_alone(
    hw: str, workload: Workload, operators: tuple[str, ...], trees: list[Tree]
) -> None:
    on = load_accelerator(hw)
    groups = [Group(operators=operators, tree=tree, merged=_HEADS) for tree in trees]
    each = [family_of(space_of(workload, group), group) for group in groups]
    alone = [int(evaluate(family, on).timed()) for family in each]
    both = evaluate(_together(each), on).timed()
    assert both.tolist() == alone
    assert int(np.ravel(evaluate(take(_together(each), ints([1])), on).timed())[0]) == alone[1]


def test_candidates_that_go_apart_are_timed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    on, workload = load_accelerator("edge"), gemm(m=90, k=70, n=50)
    trees: list[Tree] = [
        (*_loops(m=m, n=n, k=k), *_keeps(slots, "A", "B", "C"), _array("gemm"))
        for m, n, k, slots in ((16, 16, 16, 1), (9, 7, 11, 2), (32, 5, 32, 3))
    ]
    groups = [Group(operators=("gemm",), tree=tree) for tree in trees]
    families = [family_of(space_of(workload, group), group) for group in groups]
    each = _together(families)
    together = evaluate(each, on).timed()
    known.forget()
    monkeypatch.setattr(lines, "_APART", lines.RECENT)
    monkeypatch.setattr(lines, "_EACH", 0)
    family = without_empty(each)
    with pytest.raises(lines.ApartError):
        timeline(bodies(family), family.space, Units(family, on), on)
    assert evaluate(each, on).timed().tolist() == together.tolist()


def test_pes_get_each_candidates_tiles_from_where_it_keeps_them() -> None:
    slow = ["dram.latency_cycles=50", "dram.bandwidth_bytes_per_second=1 GB/s"]
    on = load_accelerator("eyeriss_like", slow)
    workload, inside = gemm(m=20, k=12, n=10), (Loop("k", 5), Spread("k", 2, "rows"))
    at_pes = tuple(Keep(tensor, "pe") for tensor in "ABC")
    trees: list[Tree] = [
        (Loop("m", 6), *kept, Loop("n", 4), *inside, *at_pes, Do("gemm", "mac"))
        for kept in ((Keep("B"), Keep("C")), (Keep("C"),), (Keep("B"),))
    ]
    groups = [Group(operators=("gemm",), tree=tree) for tree in trees]
    each = [family_of(space_of(workload, group), group) for group in groups]
    slots = {"B": ints([1, 0, 1]), "C": ints([1, 1, 0])}
    branch = tuple(
        replace(node, slots=slots[node.tensor])
        if isinstance(node, Kept) and node.level == "buffer"
        else node
        for node in each[0].branch
    )
    together = evaluate(replace(each[0], branch=branch), on).timed()
    assert together.tolist() == [int(evaluate(family, on).timed()) for family in each]
