"""Layouts of tensors on chips: which digits of a chip's number cut which dimension.

The outermost spreads of a group are the digits of a chip's number, the first the most significant;
chips that differ only in a digit without a spread do the same work. A digit is a `ChipAxis`:
``size`` chips, ``stride`` apart. Some digits cut a dimension of a tensor, from the outside in; a
digit that cuts none replicates the tensor, or, if it cuts a rank that is summed over, leaves
partial sums. Where pieces overlap, as the rows of a convolution's input do, or leave a border that
no chip has, a `ChipWindow` gives the positions of a dimension that each chip has.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import product, takewhile
from typing import Final, NamedTuple

import numpy as np

from simaccel.hardware.chips import ChipAxis
from simaccel.hardware.collectives import Collective

Digits = tuple[ChipAxis, ...]
_PAIR: Final = 2
"""Number of chips of which each has only the other as a neighbour."""


class NoCommonDigitsError(Exception):
    """Two groups divide the chips in ways that no common digits describe."""


def refine_digits(axis: ChipAxis, strides: Collection[int]) -> Iterator[ChipAxis]:
    """Yield the digits into which other strides divide an axis, the most significant first.

    >>> list(refine_digits(ChipAxis(1, 64), {8, 1}))
    [ChipAxis(stride=8, size=8), ChipAxis(stride=1, size=8)]

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


class ChipWindow(NamedTuple):
    """Pieces of a dimension: piece n has ``size`` positions from ``start + n * step`` on."""

    dimension: int
    start: int
    step: int
    size: int


@dataclass(frozen=True)
class ChipLayout:
    """The layout of a tensor: which part of it each chip has.

    ``dims``: the digits that cut each dimension, from the outside in. ``partial``: digits over
    which each chip has a partial sum. ``first``: the first chip that has a part, from which digits
    count. ``windows``: of dimensions that are not cut into equal, disjoint parts.
    """

    dims: tuple[Digits, ...]
    partial: frozenset[ChipAxis] = frozenset()
    first: int = 0
    windows: tuple[ChipWindow, ...] = ()

    @property
    def pieces(self) -> int:
        """Number of pieces that the tensor is cut into."""
        return math.prod(one.size for dim in self.dims for one in dim)

    def box(self, shape: Sequence[int], chip: int) -> tuple[slice, ...]:
        """Return the slices of a tensor that a chip has; ``chip`` counts from `first`.

        >>> ChipLayout(((ChipAxis(2, 2),), ())).box((6, 5), 3)
        (slice(3, 6, None), slice(0, 5, None))
        >>> ChipLayout(((ChipAxis(1, 2),),), windows=(ChipWindow(0, 1, 3, 5),)).box((9,), 1)
        (slice(4, 9, None),)
        """
        slices = []
        for at, size in enumerate(shape):
            window = self.window(at, size)
            start = window.start + self.place(at, chip) * window.step
            slices.append(slice(start, start + window.size))
        return tuple(slices)

    def place(self, dimension: int, chip: int) -> int:
        """Return the index of the piece of a dimension that a chip has."""
        place = 0
        for digit in self.dims[dimension]:
            place = place * digit.size + chip // digit.stride % digit.size
        return place

    def elements(self, shape: Sequence[int]) -> int:
        """Return the elements of a tensor of this shape that a chip has."""
        return math.prod(span.stop - span.start for span in self.box(shape, 0))

    def window(self, dimension: int, size: int) -> ChipWindow:
        """Return the pieces of a dimension of this size that chips have."""
        for one in self.windows:
            if one.dimension == dimension:
                return one
        for digit in self.dims[dimension]:
            size //= digit.size
        return ChipWindow(dimension, 0, size, size)


@dataclass(frozen=True)
class LayoutStep:
    """A collective over some digits; ``layout``: the tensor's layout after it.

    ``halo``: of an exchange of edges, the fraction of its part that a chip sends its neighbours.
    """

    kind: Collective
    digits: tuple[ChipAxis, ...]
    layout: ChipLayout
    halo: Fraction | None = None


def moves(made: ChipLayout, read: ChipLayout, shape: Sequence[int] = ()) -> Iterator[LayoutStep]:
    """Yield the collectives that bring a tensor from the layout ``made`` to the layout ``read``.

    ``shape``: of the tensor, needed if a layout has windows. There are none if each chip has what
    it reads, or more. In order: partial sums are reduce-scattered along the dimensions that the
    reader cuts, else all-reduced; digits that change dimensions are swapped (all-to-all); missing
    parts are gathered. If the chips that would swap don't have, together, what each of them needs,
    all that is cut in another way is gathered instead. If only windows differ in the end,
    neighbours send one another the missing edges (a halo); if they don't have them, the dimension
    is gathered.

    >>> whole, cut = ChipLayout(((), ())), ChipLayout(((), (ChipAxis(1, 8),)))
    >>> [one.kind for one in moves(ChipLayout(((), ()), frozenset({ChipAxis(1, 8)})), cut)]
    ['reduce_scatter']
    >>> [one.kind for one in moves(cut, whole)], list(moves(whole, cut))
    (['all_gather'], [])
    """
    apart = tuple(at for at, _ in enumerate(made.dims) if _differ_in_windows(made, read, at, shape))
    for gathered in ((), apart):
        dims = tuple(() if at in gathered else dim for at, dim in enumerate(read.dims))
        steps = [
            replace(step, layout=_with_borders(step.layout, made))
            for step in _moves(replace(made, windows=()), ChipLayout(dims))
        ]
        halo = _halo([made, *(step.layout for step in steps)][-1], read, apart, shape)
        if gathered == apart or halo is not None:
            yield from (*steps, *(halo or ()))
            return


def _differ_in_windows(made: ChipLayout, read: ChipLayout, at: int, shape: Sequence[int]) -> bool:
    """Return whether a dimension with windows has another layout where it is read."""
    if all(window.dimension != at for window in (*made.windows, *read.windows)):
        return False
    windows = [layout.window(at, shape[at]) for layout in (made, read)]
    return made.dims[at] != read.dims[at] or windows[0] != windows[1]


def _with_borders(behind: ChipLayout, made: ChipLayout) -> ChipLayout:
    """Return a layout after a move of equal parts, with the border that the maker's windows leave.

    >>> windows = (ChipWindow(0, 1, 3, 3),)  # four parts of 12 rows, with one above them
    >>> made = ChipLayout(((ChipAxis(2, 2), ChipAxis(1, 2)),), windows=windows)
    >>> _with_borders(ChipLayout(((ChipAxis(2, 2),),)), made).windows
    (ChipWindow(dimension=0, start=1, step=6, size=6),)
    """
    windows = []
    for at, start, step, _ in made.windows:
        pieces, left = (math.prod(size for _, size in way.dims[at]) for way in (made, behind))
        if left > 1:
            part = step * pieces // left
            windows.append(ChipWindow(at, start, part, part))
    return replace(behind, windows=tuple(windows))


def _halo(
    have: ChipLayout, read: ChipLayout, apart: Sequence[int], shape: Sequence[int]
) -> list[LayoutStep] | None:
    """Return the exchanges of edges between neighbours; None if these lack what a chip needs.

    Dimensions follow one another, so that corners come by way of a neighbour.
    """
    if not apart or have.dims != read.dims:
        return None
    steps = list[LayoutStep]()
    for at in apart:
        others = [window for window in have.windows if window.dimension != at]
        need = [window for window in read.windows if window.dimension == at]
        behind = replace(have, windows=tuple(sorted(others + need)))
        edges = _edges(have, behind, at, shape)
        if edges is None:
            return None
        steps += edges
        have = behind
    return steps


def _edges(
    have: ChipLayout, behind: ChipLayout, at: int, shape: Sequence[int]
) -> list[LayoutStep] | None:
    """Return the exchange of edges along a dimension; of two edges both have the larger's size.

    None if neighbours lack what a chip needs.
    """
    own, needed = (layout.window(at, shape[at]) for layout in (have, behind))
    digits = behind.dims[at]
    if own.step != needed.step or list(digits) != sorted(digits, reverse=True):
        return None
    before = own.start - needed.start
    after = needed.start + needed.size - own.start - own.size
    sides = [side for side in (before, after) if side > 0]
    if not sides:
        return []
    if max(sides) > own.size:
        return None
    is_pair = math.prod(digit.size for digit in digits) == _PAIR
    kind: Collective = "shift" if len(sides) == 1 else "swap" if is_pair else "halo"
    rows = max(sides) * (2 if kind == "halo" else 1)
    return [LayoutStep(kind, _sort_digits(digits), behind, Fraction(rows, own.size))]


@lru_cache(1 << 12)
def _moves(made: ChipLayout, read: ChipLayout) -> tuple[LayoutStep, ...]:
    """Return the collectives between two layouts without windows."""
    chip_layout, steps = made, list[LayoutStep]()
    scattered = _scatter_digits(made, read)
    if scattered is not None:
        own = _digits(scattered)
        chip_layout = ChipLayout(scattered, made.partial - own)
        steps.append(LayoutStep("reduce_scatter", _sort_digits(made.partial & own), chip_layout))
    if chip_layout.partial:
        digits, chip_layout = _sort_digits(chip_layout.partial), ChipLayout(chip_layout.dims)
        steps.append(LayoutStep("all_reduce", digits, chip_layout))
    for moved in (_swap_then_gather(chip_layout, read), _gather(chip_layout, read)):
        stages = [chip_layout, *(step.layout for step in moved), read]
        if all(map(_have_together, stages, stages[1:], (*(step.digits for step in moved), ()))):
            return (*steps, *moved)
    return tuple(steps)


def _swap_then_gather(have: ChipLayout, read: ChipLayout) -> list[LayoutStep]:
    """Return an all-to-all of the digits that change dimensions, and a gather of those that end."""
    kept = [_common(own, need) for own, need in zip(have.dims, read.dims, strict=True)]
    rest = {digit for dim, n in zip(have.dims, kept, strict=True) for digit in dim[n:]}
    more = {digit for dim, n in zip(read.dims, kept, strict=True) for digit in dim[n:]}
    steps: list[LayoutStep] = []
    if swapped := rest & more:
        dims = tuple(
            (
                *own[:n],
                *(digit for digit in need[n:] if digit in swapped),
                *(digit for digit in own[n:] if digit not in swapped),
            )
            for own, need, n in zip(have.dims, read.dims, kept, strict=True)
        )
        have = ChipLayout(dims)
        steps.append(LayoutStep("all_to_all", _sort_digits(swapped), have))
    if gathered := rest - more:
        dims = tuple(tuple(digit for digit in dim if digit not in gathered) for dim in have.dims)
        steps.append(LayoutStep("all_gather", _sort_digits(gathered), ChipLayout(dims)))
    return steps


def _gather(have: ChipLayout, read: ChipLayout) -> list[LayoutStep]:
    """Return a gather of all digits but those with which both layouts begin."""
    dims = tuple(own[: _common(own, need)] for own, need in zip(have.dims, read.dims, strict=True))
    rest = _digits(have.dims) - _digits(dims)
    return [LayoutStep("all_gather", _sort_digits(rest), ChipLayout(dims))] if rest else []


def _have_together(before: ChipLayout, behind: ChipLayout, digits: Digits) -> bool:
    """Return whether chips that differ only in ``digits`` have, together, what each of them needs.

    >>> halves, sixths = ((ChipAxis(1, 2),),), ((ChipAxis(2, 3), ChipAxis(1, 2)),)
    >>> _have_together(ChipLayout(halves), ChipLayout(sixths), ())  # chip 1 has no second sixth
    False
    """
    pairs = [
        _without_common(own, need, digits)
        for own, need in zip(before.dims, behind.dims, strict=True)
    ]
    before = ChipLayout(tuple(own for own, _ in pairs))
    behind = ChipLayout(tuple(need for _, need in pairs))
    shape = [math.prod(digit.size for dim in pair for digit in dim) for pair in pairs]
    others = _digits((*before.dims, *behind.dims)) - set(digits)
    members = _chips(digits)
    for first in _chips(others):
        covered = np.zeros(shape, dtype=np.bool_)
        for member in members:
            covered[before.box(shape, first + member)] = True
        if not all(covered[behind.box(shape, first + member)].all() for member in members):
            return False
    return True


def _without_common(own: Digits, its: Digits, digits: Digits) -> tuple[Digits, Digits]:
    """Return two cuts of a dimension without what they begin with alike, but for ``digits``.

    What both begin with says in which part of the dimension a chip is, in the same way.
    """
    n = _common(own, its)
    n = next((at for at in range(n) if own[at] in digits), n)
    return own[n:], its[n:]


def _chips(digits: Iterable[ChipAxis]) -> list[int]:
    """Return the numbers of the chips whose other digits are 0."""
    places = (range(0, one.stride * one.size, one.stride) for one in digits)
    return [sum(chip) for chip in product(*places)]


def _scatter_digits(made: ChipLayout, read: ChipLayout) -> tuple[Digits, ...] | None:
    """Return the dimensions after a reduce-scatter; None if the reader cuts no partial sums."""
    dims = []
    for own, need in zip(made.dims, read.dims, strict=True):
        more = need[len(own) :] if need[: len(own)] == own else ()
        dims.append((*own, *takewhile(made.partial.__contains__, more)))
    return tuple(dims) if tuple(dims) != made.dims else None


def _digits(dims: Sequence[Digits]) -> set[ChipAxis]:
    return {one for dim in dims for one in dim}


def _sort_digits(digits: Iterable[ChipAxis]) -> tuple[ChipAxis, ...]:
    return tuple(sorted(digits))


def _common(one: Digits, other: Digits) -> int:
    """Return the number of digits with which both dimensions begin."""
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))))
