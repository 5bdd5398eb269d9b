"""Layout of a tensor on chips: which digits of a chip's number cut which dimension.

Spreads at the outside of a group are the digits of a chip's number, the first one the most
significant; digits that no spread takes are of chips that do the same. A digit is a `ChipAxis`:
chips a ``stride`` apart, ``size`` of them. A tensor's dimension is cut by some of them, from the
outside in; a digit that cuts none of them replicates the tensor, or, if it cuts a rank that is
summed over, leaves partial sums.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from simaccel.hardware.chips import ChipAxis
from simaccel.hardware.collectives import Collective

Digits = tuple[ChipAxis, ...]


class NoCommonDigitsError(Exception):
    """Chips are divided in two ways of which neither refines the other."""


def refine_digits(axis: ChipAxis, strides: Collection[int]) -> Iterator[ChipAxis]:
    """Yield the digits that an axis falls into at other strides, the most significant first.

    >>> list(refine_digits(ChipAxis(1, 64), {8, 1}))
    [(8, 8), (1, 8)]

    Raises:
        NoCommonDigitsError: a stride is inside the axis and doesn't divide it.

    """
    end = axis.stride * axis.size
    inside = sorted((length for length in strides if axis.stride < length < end), reverse=True)
    for stride in (*inside, axis.stride):
        if end % stride or stride % axis.stride:
            raise NoCommonDigitsError
        yield ChipAxis(stride, end // stride)
        end = stride


def runs(digits: Iterable[ChipAxis]) -> tuple[ChipAxis, ...]:
    """Join digits that follow one another, the least significant first.

    >>> runs([ChipAxis(8, 8), ChipAxis(1, 8)]), runs([ChipAxis(8, 2), ChipAxis(1, 4)])
    (((1, 64),), ((1, 4), (8, 2)))
    """
    chip_axiss: list[ChipAxis] = []
    for digit in sorted(digits):
        last = chip_axiss[-1] if chip_axiss else None
        if last is not None and last.stride * last.size == digit.stride:
            chip_axiss[-1] = ChipAxis(last.stride, last.size * digit.size)
        else:
            chip_axiss.append(digit)
    return tuple(chip_axiss)


@dataclass(frozen=True)
class ChipLayout:
    """The digits that cut each dimension, from the outside in, and those over which sums lie.

    ``first``: of the chips that have it, from which digits count.
    """

    dims: tuple[Digits, ...]
    partial: frozenset[ChipAxis] = frozenset()
    first: int = 0

    @property
    def pieces(self) -> int:
        """Number of pieces that the tensor is cut into."""
        return math.prod(one.size for dim in self.dims for one in dim)

    def box(self, shape: Sequence[int], chip: int) -> tuple[slice, ...]:
        """Return the positions of a tensor that a chip has, as counted from the first one.

        >>> ChipLayout(((ChipAxis(2, 2),), ())).box((6, 5), 3)
        (slice(3, 6, None), slice(0, 5, None))
        """
        slices = []
        for size, digits in zip(shape, self.dims, strict=True):
            start, left = 0, size
            for digit in digits:
                left //= digit.size
                start += left * (chip // digit.stride % digit.size)
            slices.append(slice(start, start + left))
        return tuple(slices)


@dataclass(frozen=True)
class LayoutStep:
    """A collective over some digits, and how the tensor lies after it."""

    kind: Collective
    digits: tuple[ChipAxis, ...]
    behind: ChipLayout


def moves(made: ChipLayout, read: ChipLayout) -> Iterator[LayoutStep]:
    """Yield the collectives between how a tensor is made and how it is read, none if they agree.

    What is left to do after the last of them is to take a part of what a chip has. Partial sums
    are scattered where the reader wants them cut, else reduced everywhere; then digits change
    dimensions; then what is missing is gathered. Where the chips among which digits would change
    don't have together what each of them is to have, all that is cut otherwise is gathered.

    >>> whole, cut = ChipLayout(((), ())), ChipLayout(((), (ChipAxis(1, 8),)))
    >>> [one.kind for one in moves(ChipLayout(((), ()), frozenset({ChipAxis(1, 8)})), cut)]
    ['reduce_scatter']
    >>> [one.kind for one in moves(cut, whole)], list(moves(whole, cut))
    (['all_gather'], [])
    """
    chip_layout = made
    scattered = _scatter_digits(made, read)
    if scattered is not None:
        chip_layout = ChipLayout(scattered, made.partial - _digits(scattered))
        yield LayoutStep(
            "reduce_scatter", _sort_digits(made.partial & _digits(scattered)), chip_layout
        )
    if chip_layout.partial:
        digits, chip_layout = _sort_digits(chip_layout.partial), ChipLayout(chip_layout.dims)
        yield LayoutStep("all_reduce", digits, chip_layout)
    for moved in (_swap_then_gather(chip_layout, read), _gather(chip_layout, read)):
        stages = [chip_layout, *(step.behind for step in moved), read]
        if all(map(_have_together, stages, stages[1:], (*(step.digits for step in moved), ()))):
            yield from moved
            return


def _swap_then_gather(have: ChipLayout, read: ChipLayout) -> list[LayoutStep]:
    """Return an all-to-all of digits that change dimensions, and a gather of those that go."""
    kept = [_common(own, its) for own, its in zip(have.dims, read.dims, strict=True)]
    rest = {digit for dim, n in zip(have.dims, kept, strict=True) for digit in dim[n:]}
    more = {digit for dim, n in zip(read.dims, kept, strict=True) for digit in dim[n:]}
    steps: list[LayoutStep] = []
    if swapped := rest & more:
        dims = tuple(
            (
                *own[:n],
                *_select_digits(its[n:], swapped),
                *(digit for digit in own[n:] if digit not in swapped),
            )
            for own, its, n in zip(have.dims, read.dims, kept, strict=True)
        )
        have = ChipLayout(dims)
        steps.append(LayoutStep("all_to_all", _sort_digits(swapped), have))
    if gathered := rest - more:
        dims = tuple(tuple(digit for digit in dim if digit not in gathered) for dim in have.dims)
        steps.append(LayoutStep("all_gather", _sort_digits(gathered), ChipLayout(dims)))
    return steps


def _gather(have: ChipLayout, read: ChipLayout) -> list[LayoutStep]:
    """Return the gather of all digits after those that both ways begin with."""
    dims = tuple(own[: _common(own, its)] for own, its in zip(have.dims, read.dims, strict=True))
    rest = _digits(have.dims) - _digits(dims)
    return [LayoutStep("all_gather", _sort_digits(rest), ChipLayout(dims))] if rest else []


def _have_together(before: ChipLayout, behind: ChipLayout, digits: Digits) -> bool:
    """Return whether chips that differ in ``digits`` alone have together what each is to have.

    >>> halves, sixths = ((ChipAxis(1, 2),),), ((ChipAxis(2, 3), ChipAxis(1, 2)),)
    >>> _have_together(ChipLayout(halves), ChipLayout(sixths), ())  # chip 1 has no second sixth
    False
    """
    pairs = list(zip(before.dims, behind.dims, strict=True))
    shape = [math.prod(digit.size for dim in pair for digit in dim) for pair in pairs]
    others = _digits((*before.dims, *behind.dims)) - set(digits)
    members = _chips(digits)
    for first in _chips(others):
        there = np.zeros(shape, dtype=np.bool_)
        for member in members:
            there[before.box(shape, first + member)] = True
        if not all(there[behind.box(shape, first + member)].all() for member in members):
            return False
    return True


def _chips(digits: Iterable[ChipAxis]) -> list[int]:
    """Return the numbers of chips that have any of some digits, and nought in all others."""
    places = (range(0, one.stride * one.size, one.stride) for one in digits)
    return [sum(chip) for chip in product(*places)]


def _scatter_digits(made: ChipLayout, read: ChipLayout) -> tuple[Digits, ...] | None:
    """Return the dimensions after a reduce-scatter, if the reader wants partial sums cut."""
    dims = []
    for mine, its in zip(made.dims, read.dims, strict=True):
        more = its[len(mine) :] if its[: len(mine)] == mine else ()
        taken = []
        for one in more:
            if one not in made.partial:
                break
            taken.append(one)
        dims.append((*mine, *taken))
    return tuple(dims) if tuple(dims) != made.dims else None


def _digits(dims: Sequence[Digits]) -> set[ChipAxis]:
    return {one for dim in dims for one in dim}


def _select_digits(digits: Digits, chosen: Collection[ChipAxis]) -> Digits:
    return tuple(one for one in digits if one in chosen)


def _sort_digits(digits: Iterable[ChipAxis]) -> tuple[ChipAxis, ...]:
    return tuple(sorted(digits))


def _common(one: Digits, other: Digits) -> int:
    """Return how many digits two dimensions begin with alike."""
    for at, (mine, its) in enumerate(zip(one, other, strict=False)):
        if mine != its:
            return at
    return min(len(one), len(other))
