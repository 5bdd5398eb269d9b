"""The precision of an accelerator: number formats of its tensors and sums, and their rates."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from simaccel.errors import suggest
from simaccel.hardware.quantity import Count
from simaccel.hardware.spec import Spec
from simaccel.numbers import BITS, BYTE, PACKED_BITS, Element


def _number(value: object) -> object:
    if isinstance(value, str) and value in BITS:
        return value
    raise PydanticCustomError("number", "{allowed}", {"allowed": suggest(str(value), BITS)})


NumberName = Annotated[str, BeforeValidator(_number)]


NativeBits = Annotated[int, Field(strict=True, ge=1, le=64)]


_UNSAID: Final = {PACKED_BITS: "int4", BYTE: "int8"}
"""The format that elements without one are taken for, by their bits."""


class MultipliedAsSpec(Spec):
    """Number formats that an array multiplies as other ones: at their rate, in their pieces.

    ``int4`` and ``int8`` also hold for elements of as many bits without a number format.
    """

    int4: NumberName | None = None
    int8: NumberName | None = None
    fp4: NumberName | None = None
    fp8: NumberName | None = None
    fp16: NumberName | None = None
    int16: NumberName | None = None
    int32: NumberName | None = None
    tf32: NumberName | None = None

    def bits(self, element: Element) -> int:
        """Return the bits of the number format that an element is multiplied as.

        >>> floats, integers = MultipliedAsSpec(fp8="bf16"), MultipliedAsSpec(int8="bf16")
        >>> [one.bits(element) for one in (floats, integers) for element in ((8, "fp8"), (8, ""))]
        [16, 8, 8, 16]
        """
        bits, number = element
        name = number if number and BITS[number] == bits else _UNSAID.get(bits, "")
        of: str | None = getattr(self, name) if name else None
        return bits if of is None else BITS[of]


def cycles_per_mac(native_bits: int | None, bits: Iterable[int]) -> int:
    """Return the cycles of a MAC from the bits of its operands: one per product of their pieces.

    A multiplier of ``native_bits`` takes a wider operand in ceil(bits / native_bits) pieces, a
    narrower one as one; None: every operand as one.

    >>> [cycles_per_mac(8, bits) for bits in ((8, 8), (8, 16), (16, 16), (4, 8))]
    [1, 2, 4, 1]
    """
    return 1 if native_bits is None else math.prod(-(-one // native_bits) for one in bits)


class NarrowRatesSpec(Spec):
    """MACs of a PE per cycle if both operands have at most 8 bits, and at most 4 bits."""

    bits8: Count = 1
    bits4: Count | None = None

    def rate_of(self, bits: Iterable[int]) -> int:
        """Return the MACs of a PE per cycle from the bits of the operands.

        >>> rates = NarrowRatesSpec(bits8=2, bits4=4)
        >>> [rates.rate_of(bits) for bits in ((8, 8), (4, 8), (4, 4), (8, 16))]
        [2, 2, 4, 1]
        """
        widest = max(bits)
        if widest <= PACKED_BITS and self.bits4 is not None:
            return self.bits4
        return self.bits8 if widest <= BYTE else 1


class PrecisionSpec(Spec):
    """Number formats of weights, activations and caches for workloads without any, and of sums.

    ``sums``: the format in ``array.accumulator``; it sets the bytes of an element there.
    """

    weights: NumberName | None = None
    activations: NumberName | None = None
    cache: NumberName | None = None
    sums: NumberName | None = None

    @property
    def by_class(self) -> dict[str, str]:
        """The given number formats by class of tensors."""
        given = {one: getattr(self, one) for one in ("weights", "activations", "cache")}
        return {name: number for name, number in given.items() if number is not None}

    def wrong_sums(self, *, accumulates: bool) -> str:
        """Return what is allowed in place of a wrong ``sums``; empty if it is right."""
        if self.sums is None:
            return ""
        if not accumulates:
            return "nothing without array.accumulator: sums have the output's number"
        return "a number of whole bytes" if BITS[self.sums] == PACKED_BITS else ""


def with_sums(document: Any) -> Any:  # noqa: ANN401 - whatever stands in a file
    """Return a document with the bytes of ``precision.sums`` in its accumulator.

    >>> with_sums({"precision": {"sums": "int32"}, "array": {"accumulator": {}}})["array"]
    {'accumulator': {'bytes_per_element': 4}}
    """
    fields = document if isinstance(document, dict) else {}
    precision, array = fields.get("precision"), fields.get("array")
    number = precision.get("sums") if isinstance(precision, dict) else None
    accumulator = array.get("accumulator") if isinstance(array, dict) else None
    if not isinstance(accumulator, dict) or not isinstance(number, str):
        return document
    n_bytes = BITS.get(number, 0) // BYTE
    if not n_bytes:
        return document
    array = {**fields["array"], "accumulator": {**accumulator, "bytes_per_element": n_bytes}}
    return {**fields, "array": array}
