"""The best orders of tilings against all of their orders one by one."""

from __future__ import annotations

import numpy as np
import pytest

from simaccel.importers.accelerators import load_accelerator
from simaccel.search.effort import OBJECTIVES, Effort, Objective
from simaccel.search.mapspace.blocks import Population
from simaccel.search.mapspace.mapping_target import MappingTarget
from simaccel.search.mapspace.nests import map_einsum
from simaccel.search.mapspace.ordered_tilings import best_orders
from simaccel.search.mapspace.space import EinsumMapspace, Genes
from simaccel.search.mapspace.tiling_batch import rows
from simaccel.workload.conv import parse_conv
from tests.search.mapspace.blocks import in_all_orders
from tests.search.mapspace.test_mapspace_search import product_of, target, toy

EYERISS = load_accelerator(
    "eyeriss_like", ["array.dataflow=[]", "dram.bandwidth_bytes_per_second=1 GB/s"]
)
WINDOWS = parse_conv("M=4,C=6,P=8,Q=6,R=3,S=3").einsum("conv")
GOALS = {
    "windows over each other": target(WINDOWS, EYERISS, "ruby-s"),
    "weights past the buffer": target(WINDOWS, EYERISS, "ruby", ["buffer.keep=input,output"]),
    "a given order": target(product_of(12, 10, 9), EYERISS, "ruby", ["dram.order=n,m"]),
    "one memory": target(product_of(12, 10, 9), toy(4, 64), "ruby"),
}


def valid(goal: MappingTarget, n: int) -> tuple[EinsumMapspace, Genes, np.ndarray]:
    """Return tilings that fit, drawn at random."""
    (space,) = goal.spaces()
    genes, factors = space.fitting(space.random(np.random.default_rng(0), n, perfect=True))
    fits = goal.fits(space, space.candidates(genes, factors))
    return space, genes.take(fits), rows(factors, fits)


@pytest.mark.parametrize("name", GOALS)
def test_the_best_orders_are_the_best_of_all(name: str) -> None:
    """To the last bit, for each objective."""
    goal = GOALS[name]
    space, genes, factors = valid(goal, 150)
    every, all_factors = in_all_orders(space, genes, factors)
    row = np.repeat(np.arange(len(genes)), space.book.counts(factors).prod(axis=1))
    assert len(genes) > 20
    for objective in OBJECTIVES:
        value, tie = goal.score(space, space.candidates(every, all_factors), objective)
        tilings = space.candidates(genes, factors)
        found = best_orders(goal, space, tilings, objective)
        for at in range(len(genes)):
            mine = np.flatnonzero(row == at)
            best = min(zip(value[mine].tolist(), tie[mine].tolist(), strict=True))
            assert (found.values[at], found.ties[at]) == best
        ordered = space.candidates(Genes(genes.chains, found.orders, genes.keeps), factors)
        again = goal.score(space, ordered, objective)
        assert np.array_equal(again[0], found.values)
        assert np.array_equal(again[1], found.ties)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_good_ones_of_a_whole_mapspace_are_those_of_all_its_mappings(
    objective: Objective,
) -> None:
    goal = target(product_of(8, 6, 4), EYERISS, "pfm")
    (space,) = goal.spaces()
    found = map_einsum(goal, Effort(objective=objective)).found
    assert found.complete
    assert found.good is not None
    _, genes, factors = space.block(0, space.combinations)
    every = space.candidates(*in_all_orders(space, genes, factors))
    every = every.take(goal.fits(space, every))
    value, tie = goal.score(space, every, objective)
    wide = every.factors[:, space.hierarchy.spatial].reshape(len(every), -1)
    _, niches = np.unique(wide, axis=0, return_inverse=True)
    nothing = np.zeros((len(every), 1), dtype=np.int64)
    best = Population(value, tie, niches, Genes(nothing, nothing, np.arange(len(every)))).elite()
    again = goal.score(space, found.good, objective)
    assert again[0].tolist() == best.values.tolist()
    assert again[1].tolist() == best.ties.tolist()
    assert found.valid == len(every)
