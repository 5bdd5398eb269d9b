"""The special function unit: passes of vector operators over blocks of elements."""

from __future__ import annotations

from typing import Literal, Protocol, Self, TypeVar

from pydantic import SerializerFunctionWrapHandler, model_serializer

from simaccel.hardware.quantity import Amount, Count, Cycles
from simaccel.hardware.spec import Spec


class InPasses(Protocol):
    """A piece of work in passes, in some of which each element is an exponential."""

    def with_exponentials(self, passes: int) -> Self:
        """Return it where an exponential takes so many passes."""


Form = TypeVar("Form", bound=InPasses)


class SfuSpec(Spec):
    """``lanes`` elements per cycle and pass; ``latency_cycles`` of pipeline per piece of work.

    ``passes`` of a whole softmax: 3 = maximum, exponential and sum, normalise; 2 = statistics
    that need one another are taken in one pass, here maximum and sum, for all kinds of work.
    ``exponential_passes``: what an exponential (or tanh, erf) takes where it is made of additions
    and multiplications; a pass of a softmax, of SiLU and of GELU is one of exponentials.
    """

    lanes: Count
    passes: Literal[2, 3] = 3
    latency_cycles: Cycles = 0
    exponential_passes: Count = 1

    @model_serializer(mode="wrap")
    def _without_absent(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        found: dict[str, object] = dump(self)
        if self.exponential_passes == 1:
            del found["exponential_passes"]
        return found

    def chosen(self, separate: Form, merged: Form | None) -> Form:
        """Return a piece of work as this unit does it: merged where it has such a form, or not."""
        apart = merged is None or self.passes > 2  # noqa: PLR2004 - merged
        form = separate if apart or merged is None else merged
        return form.with_exponentials(self.exponential_passes)

    def cycles(self, passes: int, elements: Amount) -> Amount:
        """Cycles for passes over ``elements`` elements, memory unlimited.

        >>> SfuSpec(lanes=128, latency_cycles=10).cycles(3, 64 * 500)
        760
        """
        return passes * -(-elements // self.lanes) + self.latency_cycles
