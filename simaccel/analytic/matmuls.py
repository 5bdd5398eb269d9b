"""What a block costs on a systolic array: its folds, what is around them, and in time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeVar

import numpy as np

from simaccel.analytic.array import (
    Edges,
    Folded,
    Sides,
    by_number,
    chosen,
    chosen_figure,
    edges,
    folded,
    in_order,
)
from simaccel.analytic.blocks import Block, levelled
from simaccel.analytic.family import Bools, Ints, ints
from simaccel.analytic.pointwise import anywhere, everywhere, larger, pick
from simaccel.hardware import Accelerator

_FIGURES: Final = ("cycles", "read_port", "write_port", "reading", "writing")
_FEW: Final = 8
"""Folds of a block that are told apart."""
_Of = TypeVar("_Of", Edges, Folded, list[Folded])


@dataclass(frozen=True)
class Matmul:
    """A block out[g, m, n] (+)= a[g, m, k] b[g, k, n]; what its cost depends on.

    ``widths``: bits per element of a, b and out; ``pace``: cycles of a MAC; ``sides``: rows and
    columns of a full fold, where they are not the array's; ``held``: place of what the array holds
    in ``STATIONARITIES``.
    """

    accelerator: Accelerator = field(compare=False)
    shape: tuple[Ints, Ints, Ints, Ints]
    widths: tuple[int, int, int]
    pace: int
    sides: Sides
    held: Ints

    @property
    def is_one(self) -> bool:
        """Whether all is the same for all candidates: such blocks are equal where they cost so."""
        every = (*self.shape, *self.sides, self.held)
        return not any(isinstance(one, np.ndarray) for one in every)

    def folds(self, *, accumulate: bool) -> list[Folded]:
        """Return all folds together, by what the array holds where that is free."""
        return self._options(folded, widths=self.widths, accumulate=accumulate)

    def _one_by_one(self, *, accumulate: bool) -> list[list[Folded]]:
        """Return the folds of blocks that have few, each by what the array holds."""
        every: list[list[Folded]] = self._options(
            in_order, widths=self.widths, accumulate=accumulate, most=_FEW
        )
        return [list(options) for options in zip(*every, strict=True)]

    def edges(self) -> Edges:
        """Return what is before and after the folds."""
        return levelled(chosen(self.held, self._options(edges, pace=self.pace)))

    def _options(self, of: Callable[..., _Of], **more: object) -> list[_Of]:
        sides = [side if side is None else ints(side) for side in self.sides]
        shape = [ints(side) for side in self.shape]
        return by_number(self.held, partial(of, self.accelerator, shape, sides=sides, **more))

    def block(self, begun: Bools) -> Block:
        """Return what it costs in time; ``begun``: where it adds to sums."""
        (found,) = self._blocks(begun, lambda *, accumulate: [self.folds(accumulate=accumulate)])
        waits = found.waits | (3 * larger(found.read, found.write) > found.cycles)
        one_by_one = self._blocks(begun, self._one_by_one) if anywhere(waits) else []
        folds = tuple(map(levelled, one_by_one))
        return levelled(replace(found, edges=self.edges(), folds=folds))

    def _blocks(self, begun: Bools, of: Callable[..., list[list[Folded]]]) -> list[Block]:
        def figures(*, accumulate: bool) -> list[list[Ints]]:
            every = of(accumulate=accumulate)
            return [[chosen_figure(self.held, one, name) for name in _FIGURES] for one in every]

        some, whole = anywhere(begun), everywhere(begun)
        found = figures(accumulate=some)
        if some and not whole:
            both = zip(found, figures(accumulate=False), strict=True)
            found = [list(map(partial(pick, begun), *each)) for each in both]
        return [Block(c, r, w, reading=rs, writing=ws) for c, r, w, rs, ws in found]
