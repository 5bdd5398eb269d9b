"""Blocks that are known: the same figures as without, each size once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simaccel import load_accelerator
from simaccel.analytic import known_blocks
from simaccel.analytic.array import FoldEdges, FoldFigures, charge_folds, edges, select_figures
from simaccel.analytic.family import Ints, ints
from simaccel.analytic.known_blocks import Bits, KnownBlocks, ManyBlocks, Shape, find_known
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
    which = STATIONARITIES.index(stationarity)
    for seed in (0, 1, 0):
        shape = _shape(seed)
        blocks = ManyBlocks.of_shape(shape, which)
        (found,) = find_known(FoldFigures, charge_folds, on, BITS, blocks, tuple(folds.items()))
        counted = charge_folds(on, shape, stationarity, **folds)
        assert np.array_equal(found.figures, counted.figures)
        (around,) = find_known(FoldEdges, edges, on, BITS, blocks, ())
        alone = edges(on, shape, stationarity)
        assert all(np.array_equal(around[name], alone[name]) for name in FoldEdges.NAMES)


def test_blocks_are_alike_by_what_is_in_their_arrays() -> None:
    shape, which = _shape(5), ints([0, 2]).reshape(-1, 1, 1, 1)
    again = tuple(array.copy() for array in shape)
    blocks = ManyBlocks.of_shape(shape, which)
    assert blocks == ManyBlocks.of_shape((again[0], again[1], again[2], again[3]), which.copy())
    again[3][2] += 1
    assert blocks != ManyBlocks.of_shape((again[0], again[1], again[2], again[3]), which)
    assert blocks != ManyBlocks.of_shape(shape, which[::-1])
    assert blocks != ManyBlocks.of_shape((*shape[:3], shape[3].reshape(1, -1)), which)
    kind = {"widths": (16, 16, 32), "accumulate": False}
    on = load_accelerator("tpu_v4_4x4x4")
    options = find_known(FoldFigures, charge_folds, on, BITS, blocks, tuple(kind.items()))
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
    folds: dict[str, Any] = {"widths": (8, 8, 32), "accumulate": False}
    blocks, wide = ManyBlocks.of_shape(shape, 0), (16, 16, 16, 16)
    (found,) = find_known(FoldFigures, charge_folds, on, wide, blocks, tuple(folds.items()))
    assert np.array_equal(found.figures, charge_folds(on, shape, "ws", **folds).figures)
