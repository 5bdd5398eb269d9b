"""The closed form of trees on spatial arrays against their execution point by point."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from simaccel.analytic.evaluation import FamilyTotals, evaluate
from simaccel.hardware.levels import ROLES
from simaccel.mapping.tree import Group
from simaccel.search.mapspace.mapping_target import MappingTarget
from simaccel.search.mapspace.space import EinsumMapspace, spaces
from simaccel.search.mapspace.tiling_batch import TilingBatch
from simaccel.workload import Einsum, Tensor
from tests.analytic.nest_cases import Case, NestMapping, draw_case
from tests.analytic.nest_oracle import Counts, execute, expected_output
from tests.draws import DRAWS

SEEDS = 20 * DRAWS
MAPPINGS = 3
WIDTHS = (1, 2, 4)  # bytes per element of input, weight, output


def _tensors(einsum: Einsum) -> dict[str, Tensor]:
    names = [given.tensor for given in einsum.inputs]
    found = {name: Tensor(name, width) for name, width in zip(names, WIDTHS, strict=False)}
    return found | {einsum.output.tensor: Tensor(einsum.output.tensor, WIDTHS[-1])}


def _candidates(case: Case, mapping: NestMapping) -> TilingBatch:
    ranks, hierarchy = list(case.einsum.ranks), case.hierarchy
    factors = [[level.factors.get(rank, 1) for rank in ranks] for level in mapping.levels]
    memories = [mapping.levels[at] for at in hierarchy.temporal]
    return TilingBatch(
        factors=np.array([factors]),
        orders=np.array([[[ranks.index(rank) for rank in one.order] for one in memories]]),
        keeps=np.array([[[role in one.keep for role in ROLES] for one in memories]]),
    )


def _made(
    case: Case, mapping: NestMapping
) -> tuple[MappingTarget, EinsumMapspace, TilingBatch, Group]:
    target = MappingTarget(
        einsum=case.einsum,
        tensors=_tensors(case.einsum),
        accelerator=case.accelerator,
        strategy="ruby",
        room=case.hierarchy,
    )
    ranks = {rank: mapping.padded.get(rank, n) for rank, n in case.einsum.ranks.items()}
    (space,) = spaces(case.einsum, case.hierarchy, "pfm")
    space = replace(space, einsum=replace(case.einsum, ranks=ranks))
    candidates = _candidates(case, mapping)
    return target, space, candidates, target.group(space, candidates)


def _moved(totals: FamilyTotals) -> dict[tuple[str, str], int]:
    return {
        level: int(np.max(n))
        for level, n in totals.counts.moved.items()
        if np.any(n) and not level[0].startswith("noc")
    }


def _expected(case: Case, run: Counts) -> dict[tuple[str, str], int]:
    einsum = case.einsum
    names = dict(zip(ROLES, (one.tensor for one in einsum.inputs), strict=False))
    names["output"] = einsum.output.tensor
    width = dict(zip(ROLES, WIDTHS, strict=True))
    found = {}
    for way, counted in (("read", run.reads), ("write", run.writes)):
        for (level, role), n in counted.items():
            place = f"pe.{role}" if level == "pe" else level
            if n:
                found[f"{place}_{way}", names[role]] = n * width[role]
    return found


@pytest.mark.parametrize("block", range(10))
def test_the_closed_form_equals_the_execution(block: int) -> None:
    for seed in range(block * SEEDS // 10, (block + 1) * SEEDS // 10):
        case = draw_case(seed, MAPPINGS)
        for mapping in case.mappings:
            run = execute(case.einsum, case.hierarchy, mapping, WIDTHS)
            sizes = {r: mapping.padded.get(r, n) for r, n in case.einsum.ranks.items()}
            assert run.output == expected_output(case.einsum, sizes)
            target, space, candidates, group = _made(case, mapping)
            totals = target.totals(group)
            assert _moved(totals) == _expected(case, run), seed
            family = target.family(space, candidates)
            assert _moved(evaluate(family, target.accelerator)) == _moved(totals)
            assert int(totals.counts.macs) == run.macs == math.prod(sizes.values())
            assert int(totals.resources["array"]) == run.steps
            tiles = target.tile_bytes(space, candidates)[..., 0]
            for at, memory in enumerate(case.hierarchy.memories):
                for index, (role, width) in enumerate(zip(ROLES, WIDTHS, strict=True)):
                    assert tiles[at, index] == run.tiles.get((memory.name, role), 0) * width


def test_the_random_cases_have_what_can_go_wrong() -> None:
    """Remainders, bypass, fan-outs, padding."""
    cases = [draw_case(seed, MAPPINGS) for seed in range(100)]
    mappings = [m for case in cases for m in case.mappings]
    assert sum(bool(m.padded) for m in mappings) > 12
    assert sum(len(given.keep) in {1, 2} for m in mappings for given in m.levels[1:]) > 60
    fits = []
    for case in cases:
        for mapping in case.mappings:
            target, space, candidates, _ = _made(case, mapping)
            fits.append(bool(target.fits(space, candidates)[0]))
    assert 0.1 < np.mean(fits) < 0.95
