"""Trees on spatial arrays against their execution point by point; blocks that are known."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from simaccel import load_accelerator
from simaccel.analytic import known_blocks
from simaccel.analytic.array import FoldEdges, FoldFigures, charge_folds, edges, select_figures
from simaccel.analytic.evaluation import FamilyTotals, evaluate
from simaccel.analytic.family import Ints, ints
from simaccel.analytic.known_blocks import Bits, KnownBlocks, Shape, find_known, number_blocks
from simaccel.hardware import STATIONARITIES, Stationarity
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


BITS: Bits = (4, 11, 9, 12)


def _shape(seed: int) -> Shape:
    """Return sizes that broadcast: g x m of one axis, k of another, n of a third."""
    drawn = np.random.default_rng(seed)
    g, m = drawn.integers(1, 16, (5, 1, 1)), drawn.integers(0, 2048, (5, 1, 1))
    return g, m, drawn.integers(1, 512, (7, 1)), drawn.integers(1, 4096, 6)


@pytest.mark.parametrize("stationarity", STATIONARITIES)
def test_known_folds_are_those_that_are_counted(stationarity: Stationarity) -> None:
    on = load_accelerator("tpu_v4_4x4x4")
    folds: dict[str, Any] = {"widths": (16, 16, 32), "accumulate": True}
    which = STATIONARITIES.index(stationarity)
    for seed in (0, 1, 0):
        shape = _shape(seed)
        blocks = shape, which
        (found,) = find_known(FoldFigures, charge_folds, on, BITS, blocks, tuple(folds.items()))
        counted = charge_folds(on, shape, stationarity, **folds)
        assert np.array_equal(found.figures, counted.figures)
        (around,) = find_known(FoldEdges, edges, on, BITS, blocks, ())
        assert np.array_equal(around.figures, edges(on, shape, stationarity).figures)


def test_blocks_of_several_stationarities() -> None:
    shape, which = _shape(5), ints([0, 2]).reshape(-1, 1, 1, 1)
    kind = {"widths": (16, 16, 32), "accumulate": False}
    on = load_accelerator("tpu_v4_4x4x4")
    options = find_known(FoldFigures, charge_folds, on, BITS, (shape, which), tuple(kind.items()))
    chosen = select_figures(which, options)
    both: tuple[tuple[int, Stationarity], ...] = ((0, "ws"), (1, "is"))
    for at, stationarity in both:
        alone = charge_folds(on, shape, stationarity, widths=(16, 16, 32), accumulate=False)
        assert np.array_equal(chosen.figures[:, at], alone.figures)


def test_a_size_is_priced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def price(new: Shape) -> Ints:
        asked.append(new[0].size)
        return np.stack([new[0] * 1000 + new[1], new[2] * 1000 + new[3]])

    known, shape = KnownBlocks(BITS), _shape(2)
    blocks = number_blocks(shape, BITS)
    first = known.find(blocks, price)
    assert first.shape == (2, 5, 7, 6)
    assert np.array_equal(first[0], np.broadcast_to(shape[0] * 1000 + shape[1], (5, 7, 6)))
    assert np.array_equal(known.find(blocks, price), first)
    assert asked == [5 * 7 * 6]
    few = number_blocks((*shape[:2], shape[2][:1], shape[3][:1]), BITS)
    assert known.find(few, price).shape == (2, 5, 1, 1)
    assert asked == [5 * 7 * 6]
    monkeypatch.setattr(known_blocks, "_MOST_BLOCKS", 5 * 7 * 6 + 1)
    others = number_blocks(_shape(3), BITS)
    assert np.array_equal(known.find(others, price), KnownBlocks(BITS).find(others, price))
    assert known.codes.size == 5 * 7 * 6 + 1


def test_sizes_of_many_bits_are_counted_without() -> None:
    on, shape = load_accelerator("edge"), _shape(4)
    folds: dict[str, Any] = {"widths": (8, 8, 32), "accumulate": False}
    wide = (16, 16, 16, 16)
    (found,) = find_known(FoldFigures, charge_folds, on, wide, (shape, 0), tuple(folds.items()))
    assert np.array_equal(found.figures, charge_folds(on, shape, "ws", **folds).figures)
