"""Numbers by their names and as text, and bytes of elements: those of 4 bits lie two in a byte.

What moves or lies as one is packed on its own: a tile, what one fold reads of an operand, what a
step of the vector unit reads, what a PE keeps. Its bytes are rounded up, so that none shares a byte
with another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Amount = TypeVar("Amount", int, "npt.NDArray[np.int64]", "npt.NDArray[np.float64]")
"""A number of elements or bytes, or an array of them, one per candidate mapping."""

BYTE: Final = 8
"""Bits of a byte."""
SHARED: Final = "shared"
"""The class of tensors in a buffer that cores share."""
PACKED_BITS: Final = 4
"""Bits of what is packed two in a byte; all else is whole bytes."""
BITS: Final[Mapping[str, int]] = {
    "int4": 4,
    "fp4": 4,
    "int8": 8,
    "fp8": 8,
    "int16": 16,
    "bf16": 16,
    "fp16": 16,
    "int32": 32,
    "tf32": 32,
    "fp32": 32,
    "fp64": 64,
}
"""Bits of an element in memory by the name of its number; tf32 computes with 19 of its 32."""
TOLD_APART: Final = ("fp4", "fp8", "fp16", "int16", "int32", "tf32")
"""Numbers that are told apart from others of as many bits; all else goes by its bits alone."""
Element = tuple[int, str]
"""Bits of an element in memory, and its number if that is one of `TOLD_APART`; else empty."""


SUMS: Final = "sums"
"""What an accelerator's accumulator holds, beside the classes of tensors."""


def plain(value: Any) -> Any:  # noqa: ANN401 - plain data of any form
    """Return plain data with None for each unknown number (NaN).

    >>> plain({"energy_pj": [math.nan, 2.5]})
    {'energy_pj': [None, 2.5]}
    """
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def blocks(extent: int, tile: int) -> Iterator[tuple[int, int, int]]:
    """Yield (start, number, size) of the full tiles of a rank and of the smaller last one.

    >>> list(blocks(10, 4))
    [(0, 2, 4), (8, 1, 2)]
    """
    full, rest = divmod(extent, tile)
    if full:
        yield 0, full, tile
    if rest:
        yield full * tile, 1, rest


def in_bytes(elements: Amount, bits: int) -> Amount:
    """Return the bytes of elements that lie together: of 4 bits two in a byte, rounded up.

    >>> in_bytes(7, 16), in_bytes(7, 4), in_bytes(8, 4)
    (14, 4, 4)
    """
    if bits == PACKED_BITS:
        return -(-elements // 2)
    return elements * (bits // BYTE)


def size_text(n_bytes: float) -> str:
    """Write a size in bytes, with three significant digits.

    >>> size_text(47815066), size_text(1000), size_text(0)
    ('45.6 MiB', '1000 B', '0 B')
    """
    return scaled_text(n_bytes, 1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB"))


def scaled_text(value: float, step: int, units: Sequence[str]) -> str:
    """Write a value in the unit of which it is 1 or more and less than a step."""
    at = 0
    while value >= step and at < len(units) - 1:
        value /= step
        at += 1
    whole = at == 0 and value == int(value)
    return f"{value:.0f} {units[at]}" if whole else f"{significant_text(value)} {units[at]}"


def significant_text(value: float) -> str:
    """Write a number with three significant digits, or all of those before its point.

    >>> significant_text(0.01234), significant_text(1234.5)
    ('0.0123', '1234')
    """
    if value == 0:
        return "0"
    decimals = max(0, 3 - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{decimals}f}"


_LOG_RATIO: Final = 8


def is_logarithmic(low: float, high: float) -> bool:
    """Return whether an axis from one number to another is logarithmic: they are far apart.

    >>> is_logarithmic(1, 8), is_logarithmic(2, 8), is_logarithmic(0, 8)
    (True, False, False)
    """
    return bool(0 < low * _LOG_RATIO <= high < math.inf)
