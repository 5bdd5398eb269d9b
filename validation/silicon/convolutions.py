"""Convolutions as a chip's compiler runs them: channels on rows, filters on columns, tap by tap."""

from __future__ import annotations

import math

from simaccel.hardware import Accelerator
from simaccel.mapping.tree import Do, Group, Keep, Loop, Tree
from simaccel.workload import Conv, conv2d
from validation.silicon.booked import remembered
from validation.silicon.kernels import BUFFER, cycles_of


@remembered
def streamed_conv_cycles(
    on: Accelerator, conv: Conv, *, n_bytes: int = 1, merged: bool = False
) -> int:
    """Return the cycles of a convolution as one kernel: while it works on a piece the next comes.

    Inputs stay and filters come as many at a time as the array has columns; where inputs or results
    don't fit, as many rows of the image as do, and the filters again for each. Taps along the width
    are merged into channels where both fit the rows of the array (``merged``).
    """
    rows, filters = conv.p, min(conv.m, on.array.cols)
    while _too_large(on, 2 * _n_bytes(conv, 1, rows, filters, n_bytes)) and rows > 1:
        rows = -(-rows // 2)
    loops = _cut(conv, n=1, p=rows, m=filters)
    taps = "r" if merged and conv.c * conv.s <= on.array.rows else "rs"
    return _cycles(on, conv, n_bytes, loops, {"I": 2, "W": 2, "O": 2}, taps)


def _cut(conv: Conv, **tiles: int) -> tuple[Loop, ...]:
    return tuple(Loop(rank, tile) for rank, tile in tiles.items() if tile < conv.ranks[rank])


def _cycles(
    on: Accelerator,
    conv: Conv,
    n_bytes: int,
    loops: tuple[Loop, ...],
    slots: dict[str, int],
    one_by_one: str = "rs",
) -> int:
    """Return the cycles of a convolution whose tiles are kept inside of all loops.

    ``one_by_one``: ranks of taps that are gone through one after the other.
    """
    workload = conv2d(
        n=conv.n,
        m=conv.m,
        c=conv.c,
        p=conv.p,
        q=conv.q,
        r=conv.r,
        s=conv.s,
        stride=conv.stride,
        bytes_per_element=n_bytes,
    )
    (einsum,) = workload.operators
    keeps = tuple(Keep(name, BUFFER, count) for name, count in slots.items())
    taps = tuple(Loop(rank, 1) for rank in one_by_one if conv.ranks[rank] > 1)
    tree: Tree = (*loops, *keeps, *taps, Do(einsum.name, "array", "ws"))
    return cycles_of(workload, on, Group(operators=(einsum.name,), tree=tree, merged={}))


def _too_large(on: Accelerator, n_bytes: int) -> bool:
    capacity = on.buffer.capacity_bytes
    return capacity is not None and n_bytes > capacity


def _n_bytes(conv: Conv, images: int, rows: int, filters: int, n_bytes: int) -> int:
    """Return the bytes of inputs, filters and results of some images, output rows and filters."""
    sides = [
        (out - 1) * stride + kernel
        for out, stride, kernel in zip((rows, conv.q), conv.stride, (conv.r, conv.s), strict=True)
    ]
    inputs = images * conv.c * math.prod(sides)
    results = images * filters * rows * conv.q
    return n_bytes * (inputs + filters * conv.c * conv.r * conv.s + results)
