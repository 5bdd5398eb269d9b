"""Blocks that are known: the same figures as without, each size once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simaccel import load_accelerator
from simaccel.analytic import known_blocks
from simaccel.analytic.array import FoldEdges, FoldFigures, charge_folds, edges
from simaccel.analytic.family import Ints
from simaccel.analytic.known_blocks import Bits, KnownBlocks, Shape, find_known
from simaccel.hardware import STATIONARITIES, Stationarity

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
    folds["stationarity"] = stationarity
    for seed in (0, 1, 0):
        shape = _shape(seed)
        found = find_known(FoldFigures, charge_folds, on, BITS, shape, **folds)
        assert np.array_equal(found.figures, charge_folds(on, shape, **folds).figures)
        around = find_known(FoldEdges, edges, on, BITS, shape, stationarity=stationarity)
        alone = edges(on, shape, stationarity)
        assert all(np.array_equal(around[name], alone[name]) for name in FoldEdges.NAMES)


def test_a_size_is_priced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def price(new: Shape) -> Ints:
        asked.append(new[0].size)
        return np.stack([new[0] * 1000 + new[1], new[2] * 1000 + new[3]])

    known, shape = KnownBlocks(BITS), _shape(2)
    first = known.find(shape, price)
    assert first.shape == (2, 5, 7, 6)
    assert np.array_equal(first[0], np.broadcast_to(shape[0] * 1000 + shape[1], (5, 7, 6)))
    assert np.array_equal(known.find(shape, price), first)
    assert asked == [5 * 7 * 6]
    assert known.find((*shape[:2], shape[2][:1], shape[3][:1]), price).shape == (2, 5, 1, 1)
    assert asked == [5 * 7 * 6]
    monkeypatch.setattr(known_blocks, "_MOST_BLOCKS", 5 * 7 * 6 + 1)
    assert np.array_equal(known.find(_shape(3), price), KnownBlocks(BITS).find(_shape(3), price))
    assert known.codes.size == 5 * 7 * 6 + 1


def test_sizes_of_many_bits_are_counted_without() -> None:
    on, shape = load_accelerator("edge"), _shape(4)
    folds: dict[str, Any] = {"widths": (8, 8, 32), "accumulate": False, "stationarity": "ws"}
    found = find_known(FoldFigures, charge_folds, on, (16, 16, 16, 16), shape, **folds)
    assert np.array_equal(found.figures, charge_folds(on, shape, **folds).figures)
