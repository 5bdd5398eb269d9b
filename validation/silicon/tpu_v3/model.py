"""The measured operators of a TPU v3 core as kernels on ``hwconfigs/tpu_v3``.

Calibrated: ``groups.start_cycles`` on the GEMM of 512, ``sfu.lanes`` on the softmax of 2,048 x
2,048, ``sfu.operations`` of a layer norm on that of 2,048 x 768; no constant on any other row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from simaccel.hardware import Accelerator
from simaccel.units import SFU
from simaccel.workload import Conv
from simaccel.workload.vectors import VECTORS
from validation.silicon.booked import START, book
from validation.silicon.convolutions import conv_cycles
from validation.silicon.kernels import gemm_cycles, loaded, vector_cycles
from validation.silicon.networks import resnet

Sizes = tuple[int, ...]

LANES: Final = 128
"""Numbers in a row of an array as it lies in HBM: channels, then filters, are padded to it."""
FUSED_SOFTMAX_PASSES: Final = 2
"""In an attention kernel the division falls on the result, whose rows are short."""
CALIBRATION: Final = ("gemm_512x512x512", "softmax_2048x2048", "layernorm_2048x768")
_BERT: Final = {
    "bert_base": (768, 12, 3072),
    "bert_large": (1024, 16, 4096),
    "bert_xlarge": (2048, 32, 8192),
}
"""Width, heads, hidden width of the feed-forward."""
_TOKENS: Final = 512
_RESNETS: Final = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152")


def predict(rows: Sequence[Mapping[str, str]]) -> list[int]:
    """Return the cycles of rows by their ``workload``.

    Raises:
        ValueError: one that the model doesn't know.

    """
    on = loaded("tpu_v3")
    return [_cycles(on, row["workload"]) for row in rows]


def _cycles(on: Accelerator, workload: str) -> int:
    kind, _, text = workload.partition("_")
    if workload in _BERT:
        return _block(on, *_BERT[workload])
    if workload in _RESNETS:
        layers = sum(_conv_layer(_inside(on), layer) for layer in resnet(int(workload[6:])))
        book(START, on.groups.start_cycles)
        return on.groups.start_cycles + layers
    count, cycles = _KINDS.get(kind, (0, None))
    sizes = tuple(int(size) for size in text.split("x") if size.isascii() and size.isdigit())
    if cycles is None or len(sizes) != text.count("x") + 1 or count not in (None, len(sizes)):
        allowed = ", ".join((*(name + _SIZES[n] for name, (n, _) in _KINDS.items()), *_WHOLE))
        raise ValueError(f"workload: got {workload!r}; allowed: {allowed}")
    if not all(sizes[: count if count != _CONV_SIZES else -1]):
        raise ValueError(f"workload: got {workload!r}; allowed: sizes from 1")
    return cycles(on, sizes)


def _gemm(on: Accelerator, sizes: Sizes) -> int:
    return gemm_cycles(on, *sizes)


def _layer_norm(on: Accelerator, sizes: Sizes) -> int:
    return _rows(on, math.prod(sizes), _passes(on, "layer_norm"))


def _softmax(on: Accelerator, sizes: Sizes) -> int:
    return _rows(on, math.prod(sizes), _passes(on, "softmax"))


def _passes(on: Accelerator, kind: str) -> int:
    """Return the passes over all elements that a whole operator takes on this unit."""
    step = VECTORS[kind].steps["whole"]
    return on.sfu.choose_form(step, step.merged).passes


def _rows(on: Accelerator, elements: int, passes: int) -> int:
    return vector_cycles(on, elements, reads=1, passes=passes, n_bytes=2)


def _attention(on: Accelerator, sizes: Sizes) -> int:
    """One kernel: scores, softmax and their product with the values; scores stay on chip."""
    heads, tokens, width = sizes
    inside = _inside(on, ["memories.cache.bandwidth_bytes_per_second=unlimited"])
    scores = gemm_cycles(inside, tokens, width, tokens, batch=heads, kept="C")
    attend = gemm_cycles(inside, tokens, tokens, width, batch=heads, kept="A")
    softmax = FUSED_SOFTMAX_PASSES * -(-heads * tokens * tokens // on.sfu.lanes)
    book(SFU, softmax)
    book(START, on.groups.start_cycles)
    return on.groups.start_cycles + scores + softmax + attend


def _inside(on: Accelerator, more: Sequence[str] = ()) -> Accelerator:
    """Return the core as a kernel of a compiled network sees it: it need not be started."""
    return loaded(on.name, "groups.start_cycles=0", *more)


def _conv(on: Accelerator, sizes: Sizes) -> int:
    """Return the cycles of a convolution of a batch of images, padding included.

    Sizes as in the table: batch, height, width, channels, filters, kernel, stride, padding.
    """
    batch, height, width, channels, filters, kernel, stride, padding = sizes
    out = [(side + 2 * padding - kernel) // stride + 1 for side in (height, width)]
    if min(out) < 1:
        raise ValueError(f"a kernel of {kernel} on {height} x {width}, padded by {padding}")
    conv = Conv(
        n=batch,
        m=filters,
        c=channels,
        p=out[0],
        q=out[1],
        r=kernel,
        s=kernel,
        stride=(stride, stride),
    )
    return _conv_layer(on, conv)


def _conv_layer(on: Accelerator, conv: Conv) -> int:
    """Return the cycles of a convolution whose channels and filters fill whole rows of lanes."""
    padded = {name: -(-getattr(conv, name) // LANES) * LANES for name in "cm"}
    return conv_cycles(on, replace(conv, **padded))


def _block(on: Accelerator, width: int, heads: int, hidden: int) -> int:
    """An encoder block of 512 tokens, started once; residuals go with the norms.

    The compiler brings weights while the kernel before works: they cost no time of their own.
    """
    rows = _TOKENS
    inside = _inside(on, ["memories.weight.bandwidth_bytes_per_second=unlimited"])
    projections = sum(gemm_cycles(inside, rows, width, width) for _ in range(4))
    feed_forward = gemm_cycles(inside, rows, width, hidden) + gemm_cycles(
        inside, rows, hidden, width
    )
    norms = sum(_rows(inside, rows * width, _passes(inside, "layer_norm")) for _ in range(2))
    gelu = _rows(inside, rows * hidden, 1)
    attention = _attention(on, (heads, rows, width // heads))
    return projections + feed_forward + norms + gelu + attention


_CONV_SIZES: Final = 8
_SIZES: Final = {3: "_AxBxC", None: "_AxB...", _CONV_SIZES: "_NxHxWxCxMxKxSxP"}
_WHOLE: Final = (*_RESNETS, *_BERT)
_KINDS: Final[Mapping[str, tuple[int | None, Callable[[Accelerator, Sizes], int]]]] = {
    "gemm": (3, _gemm),
    "conv": (_CONV_SIZES, _conv),
    "layernorm": (None, _layer_norm),
    "softmax": (None, _softmax),
    "attention": (3, _attention),
}
"""How many sizes an operator has, any number if it is None, and what says its cycles."""
