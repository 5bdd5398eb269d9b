"""Transposed convolutions as convolutions, one or several for each phase of the strides.

With stride s, position o = s j + a of the output is the sum of every s-th tap of the filter over
adjacent inputs: each phase a is a convolution with its own taps. Its results are stored as
[.., j, a, ..]. Positions at an edge of the input have fewer taps. A phase is one dense convolution,
which multiplies zeros there; or it is cut into runs of positions with the same taps, which share
its weights and have the products of the file alone. Where the input has one position (the first
layer of a generator), phases are always cut.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Final, NamedTuple

from simaccel.importers.onnx_files.builder import NodeInput, WorkloadBuilder
from simaccel.importers.onnx_files.layers import Filters, WindowedOperand
from simaccel.importers.onnx_files.places import WINDOW_RANKS, FilterWindow
from simaccel.importers.onnx_files.views import (
    PendingOperator,
    SlotSpan,
    SlotUse,
    SlotView,
    StoredTensor,
)
from simaccel.workload.einsum import Terms

MOST_PIECES: Final = 256
"""The most convolutions that replace a transposed one."""


class PhaseCut(NamedTuple):
    """Positions of an output's dimension that one convolution makes, ``at`` the first of them.

    ``tap``: its first tap, of the ``taps`` that its phase has weights for.
    """

    phase: int
    at: int
    window: FilterWindow
    tap: int
    taps: int


@dataclass(frozen=True)
class CutDimension:
    """The pieces of an output's dimension, which is stored as [j, ``blocks``, ``apart``].

    ``joined``: so many pieces of one tap each are one operator with a rank for the tap, as they
    read the same inputs: filters that neither overlap nor are cut off, or an input of one position.
    ``apart``: positions of the output between these taps.
    """

    made: int
    pieces: Sequence[PhaseCut]
    blocks: int
    apart: int = 1
    joined: int = 1

    @classmethod
    def of_pieces(cls, made: int, stride: int, every: Iterable[PhaseCut]) -> CutDimension:
        """Return a dimension of ``made`` positions; of too many pieces at most one too many."""
        pieces: list[PhaseCut] = []
        for piece in every:
            pieces.append(piece)
            if len(pieces) > MOST_PIECES and piece.window != pieces[0].window:
                return cls(made, pieces, stride)
        pieces.sort(key=lambda piece: piece.at)
        steps = {after.at - before.at for before, after in pairwise(pieces)}
        if len(steps) == 1 and {piece.window for piece in pieces} == {pieces[0].window}:
            (apart,), window = steps, pieces[0].window
            blocks = -(-made // apart) if window.outputs == 1 else stride // apart
            fits = window.outputs == 1 or pieces[-1].at < stride == blocks * apart
            if fits and window.taps == 1:
                first = pieces[0]._replace(tap=0, taps=1)
                return cls(made, [first], blocks, apart, len(pieces))
        return cls(made, pieces, stride)

    @property
    def hull(self) -> FilterWindow:
        """One window over all inputs that the pieces read."""
        windows = [piece.window for piece in self.pieces]
        before = max((window.zeros_before for window in windows), default=0)
        ends = (window.length - window.zeros_before for window in windows)
        return FilterWindow(1, before + max(ends, default=1), zeros_before=before)


def pieces_of(
    size: int, made: int, stride: int, reach: int, dilation: int, before: int, *, exact: bool
) -> Iterator[PhaseCut]:
    """Yield the pieces of each phase of a dimension that has taps.

    ``size``: positions of the input; ``made``: of the output; ``before``: of the output, cut off in
    front. ``exact``: phases are cut.
    """
    common = math.gcd(stride, dilation)
    step, apart_by = dilation // common, stride // common
    inverse = pow(step, -1, apart_by)
    for phase in range(min(stride, made)):
        at = phase + before
        # taps with at - tap * dilation a multiple of the stride
        taps = range(at // common * inverse % apart_by, reach, apart_by)
        if not taps or at % common:
            continue
        lowest = (at - taps[-1] * dilation) // stride
        dense = FilterWindow(-(-(made - phase) // stride), len(taps), 1, step, -lowest)
        runs = [(0, dense.outputs, range(dense.taps))]
        if exact or size == 1:
            runs = [*runs_inside(dense, size)]
        for start, count, inside in runs:
            used = range(runs[-1][2][0], runs[0][2][-1] + 1)
            first = lowest + start + inside[0] * step
            window = FilterWindow(count, len(inside), 1, step, -first)
            yield PhaseCut(phase, phase + start * stride, window, inside[0] - used[0], len(used))


def runs_inside(window: FilterWindow, size: int) -> Iterator[tuple[int, int, range]]:
    """Yield the runs of positions with the same taps on one of ``size`` elements, not on zeros.

    Of each run: first position, positions, taps. The window has no stride.

    >>> [*runs_inside(FilterWindow(4, 3, zeros_before=1), 4)]
    [(0, 1, range(1, 3)), (1, 2, range(0, 3)), (3, 1, range(0, 2))]
    """
    step, last = window.dilation, size - 1 + window.zeros_before
    firsts = (tap * step - window.zeros_before for tap in range(window.taps))
    edges = {edge for first in firsts for edge in (-first, size - first)}
    inner = sorted(edge for edge in edges if 0 < edge < window.outputs)
    for start, end in pairwise((0, *inner, window.outputs)):
        least = max(0, -((start - window.zeros_before) // step))
        taps = range(least, min(window.taps - 1, (last - start) // step) + 1)
        if taps:
            yield start, end - start, taps


def transposed_conv(
    builder: WorkloadBuilder,
    name: str,
    operand: NodeInput,
    filters: Filters,
    dims: Sequence[CutDimension],
) -> SlotView:
    """Add the convolutions of all pieces, and return their joint output."""
    root = builder.root(f"{name}.O", "output", made=True)
    view, filters_of = SlotView(root, ()), dict[tuple[int, ...], StoredTensor]()
    hulls = [dim.hull for dim in dims]
    source, shared = WindowedOperand(builder, name, operand, hulls).image(filters.parts)
    builder.read_tensors |= {source} if isinstance(source, str) else set()
    for number, pieces in enumerate(product(*(dim.pieces for dim in dims))):
        windows = [piece.window for piece in pieces]
        image = WindowedOperand(builder, name, (shared, operand[1]), windows)
        use, sizes, (samples, outer, inner) = image.read_filtered(filters)
        sizes |= {f"f{at}": dim.joined for at, dim in enumerate(dims) if dim.joined > 1}
        places, taps = zip(*image.window_ranks, strict=True)
        parts = dict(zip(taps, pieces, strict=True))
        for tap, part in parts.items():
            if part.taps > 1:
                sizes.setdefault(tap, 1)
        label = f"{name}.{number}" if number else name
        view, slots = _view_of_piece(root, (samples, outer), sizes, dims, pieces)
        read = {rank for terms, _ in use.slots.values() for rank, _ in terms}
        ranks = [*outer, *inner, *(tap for tap in taps if tap in sizes)]
        ranks += [rank for rank in sizes if rank not in {*read, *places, *ranks}]  # of phases, taps
        phases = tuple(part.phase for part in pieces)
        if phases not in filters_of:
            whole = sizes | {tap: part.taps for tap, part in parts.items()}
            stored = [whole[rank] for rank in ranks]
            filters_of[phases] = builder.root(f"{label}.W", "weight", stored)
        starts = [parts[rank].tap if rank in parts else 0 for rank in ranks]
        terms = (((rank, 1),) for rank in ranks)
        weights = SlotUse(filters_of[phases], dict(enumerate(zip(terms, starts, strict=True))))
        builder.add(PendingOperator(label, sizes, (use, weights), SlotUse(root, slots)))
    return view


def _view_of_piece(
    root: StoredTensor,
    lead: Sequence[Sequence[str]],
    sizes: dict[str, int],
    cuts: Sequence[CutDimension],
    pieces: Sequence[PhaseCut],
) -> tuple[SlotView, dict[int, tuple[Terms, int]]]:
    """Return the view of the whole output, and the place of pieces in it; adds its ranks."""
    stored: list[int] = []
    slots: dict[int, tuple[Terms, int]] = {}
    dims: list[tuple[SlotSpan, ...]] = []

    def slot(rank: str, size: int, start: int = 0) -> SlotSpan:
        slots[len(stored)] = ((rank, 1),), start
        stored.append(size)
        return SlotSpan(len(stored) - 1, 0, size)

    dims += [tuple(slot(rank, sizes[rank]) for rank in ranks) for ranks in lead]
    for number, (cut, piece) in enumerate(zip(cuts, pieces, strict=True)):
        place = WINDOW_RANKS[-len(cuts) :][number][0]
        sizes.setdefault(place, 1)
        row, inside = divmod(piece.at, cut.blocks * cut.apart)
        spans = [slot(place, -(-cut.made // (cut.blocks * cut.apart)), row)]
        digits = (
            ("u", cut.blocks, inside // cut.apart),
            ("d", cut.apart, inside % cut.apart),
        )
        for letter, size, start in digits:
            if letter == "u" and cut.joined > 1:
                spans.append(slot(f"f{number}", size, start))
            elif size > 1:
                sizes[f"{letter}{number}"] = 1
                spans.append(slot(f"{letter}{number}", size, start))
        dims.append(tuple(spans))
    root.sizes = stored
    return SlotView(root, tuple(dims)), slots
