"""Transposed convolutions as convolutions, one for each phase of the strides.

With stride s, position o = s j + a of the output is the sum of every s-th tap of the filter over
adjacent inputs: each phase a is a convolution with its own taps. Its results are stored as
[.., j, a, ..]. Each tap belongs to one phase, so that weights, inputs and multiply-accumulates are
those of the file, except at the edges: taps beyond the output are not computed, and taps before
the first input multiply zeros. Where the input has one position (the first layer of a generator),
each tap makes a position of its own, and only taps inside the output are computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

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

MOST_PHASES: Final = 256
"""The most convolutions that replace a transposed one."""


@dataclass(frozen=True)
class Phases:
    """The phases of a dimension of ``made`` positions.

    ``first``: of each phase with taps, (phase, window over the input). ``joined``: all phases
    are one operator, with a rank for the tap: filters neither overlap nor are cut off, or the input
    has one position.
    ``reach``: taps of the filter; of joined phases those inside the output. ``apart``: positions
    of the output between the taps of one input.
    """

    made: int
    stride: int
    reach: int
    first: tuple[tuple[int, FilterWindow], ...]
    joined: bool
    apart: int = 1

    @classmethod
    def of_dimension(
        cls, size: int, made: int, stride: int, reach: int, dilation: int, before: int
    ) -> Phases:
        """Return the phases of a dimension, at most one more than are allowed.

        ``size``: positions of the input; ``before``: positions of the output cut off in front.
        """
        cut, start = -(-before // dilation), -before % dilation
        taps_inside = min(reach - cut, -(-(made - start) // dilation))
        if size == 1 and taps_inside > 0:
            first, blocks = ((start, FilterWindow(1, 1)),), -(-made // dilation)
            return cls(made, blocks, taps_inside, first, joined=True, apart=dilation)
        if reach == stride > 1 == dilation and not before and made % stride == 0:
            first = ((0, FilterWindow(made // stride, 1)),)
            return cls(made, stride, reach, first, joined=True)
        windows: list[tuple[int, FilterWindow]] = []
        common = math.gcd(stride, dilation)
        step, apart_by = dilation // common, stride // common
        inverse = pow(step, -1, apart_by)
        for phase in range(min(stride, made)):
            if len(windows) > MOST_PHASES:
                break
            at = phase + before
            # taps with at - tap * dilation a multiple of the stride
            taps = range(at // common * inverse % apart_by, reach, apart_by)
            if taps and at % common == 0:
                lowest = (at - taps[-1] * dilation) // stride
                count = -(-(made - phase) // stride)
                windows.append((phase, FilterWindow(count, len(taps), 1, step, -lowest)))
        return cls(made, stride, reach, tuple(windows), joined=False)


def transposed_conv(
    builder: WorkloadBuilder,
    name: str,
    operand: NodeInput,
    filters: Filters,
    phases: Sequence[Phases],
) -> SlotView:
    """Add the convolutions of all phases, and return their joint output."""
    taps = [each.reach if each.joined else 1 for each in phases]
    root = builder.root(f"{name}.O", "output", made=True)
    view = SlotView(root, ())
    for number, way in enumerate(product(*(each.first for each in phases))):
        windows = [window for _, window in way]
        image = WindowedOperand(builder, name, operand, windows)
        use, sizes, (samples, outer, inner) = image.read_filtered(filters)
        inside = [(f"f{at}", size) for at, size in enumerate(taps) if size > 1]
        sizes |= dict(inside)
        reach = [r for _, r in WINDOW_RANKS if r in sizes] + [rank for rank, _ in inside]
        label = f"{name}.{number}" if number else name
        view, slots = _view_of_phase(
            root, (samples, outer), sizes, phases, [phase for phase, _ in way], taps
        )
        read = {rank for terms, _ in use.slots.values() for rank, _ in terms}
        reach += [
            rank for rank in sizes if rank not in {*read, *outer, *inner, *reach}
        ]  # of size 1
        weights = builder.read_own(f"{label}.W", [*outer, *inner, *reach], sizes, "weight")
        builder.add(PendingOperator(label, sizes, (use, weights), SlotUse(root, slots)))
    return view


def _view_of_phase(
    root: StoredTensor,
    lead: Sequence[Sequence[str]],
    sizes: dict[str, int],
    phases: Sequence[Phases],
    at: Sequence[int],
    taps: Sequence[int],
) -> tuple[SlotView, dict[int, tuple[Terms, int]]]:
    """Return the view of the whole output, and the place of a phase in it; adds its ranks."""
    stored: list[int] = []
    slots: dict[int, tuple[Terms, int]] = {}
    dims: list[tuple[SlotSpan, ...]] = []

    def slot(rank: str, size: int, start: int = 0) -> SlotSpan:
        slots[len(stored)] = ((rank, 1),), start
        stored.append(size)
        return SlotSpan(len(stored) - 1, 0, size)

    dims += [tuple(slot(rank, sizes[rank]) for rank in ranks) for ranks in lead]
    for number, (phases_of, phase) in enumerate(zip(phases, at, strict=True)):
        place = WINDOW_RANKS[-len(phases) :][number][0]
        sizes.setdefault(place, 1)
        spans = [slot(place, -(-phases_of.made // (phases_of.stride * phases_of.apart)))]
        digits = (
            ("u", phases_of.stride, phase // phases_of.apart),
            ("d", phases_of.apart, phase % phases_of.apart),
        )
        for letter, size, start in digits:
            if letter == "u" and taps[number] > 1:
                spans.append(slot(f"f{number}", size))
            elif size > 1:
                sizes[f"{letter}{number}"] = 1
                spans.append(slot(f"{letter}{number}", size, start))
        dims.append(tuple(spans))
    root.sizes = stored
    return SlotView(root, tuple(dims)), slots
