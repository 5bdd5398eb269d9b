"""The special function unit: passes of vector operators over blocks of elements."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar, Literal, Protocol, Self, TypeVar

from pydantic import SerializerFunctionWrapHandler, model_serializer

from simaccel.hardware.quantity import Amount, Count, Cycles
from simaccel.hardware.spec import Spec


class InPasses(Protocol):
    """A piece of work: passes over all elements, and over one element of each row."""

    @property
    def passes(self) -> int:
        """Passes over all elements."""

    @property
    def row_passes(self) -> int:
        """Passes over one element of each row."""

    def with_operations(self, operations: Mapping[str, int]) -> Self:
        """Return the piece of work on a unit with these operations per function."""


Form = TypeVar("Form", bound=InPasses)


class OperationsSpec(Spec):
    """Operations of a lane per function of an element; the first one is the pass itself.

    ``rsqrt``: a root or its reciprocal; ``divide``: a quotient or reciprocal. ``reduce``: the sum
    or maximum of a row over lanes that hold parts of it, in operations of one lane beyond the
    pass. Norms have ``rsqrt`` and ``reduce`` once per row, a softmax ``reduce``. ``deviation``: of
    a layer norm, the squared difference from the mean; ``affine``: of a norm, the product with the
    row's root, gain and bias.
    """

    exp: Count = 1
    erf: Count = 1
    tanh: Count = 1
    sigmoid: Count = 1
    rsqrt: Count = 1
    divide: Count = 1
    reduce: Count = 1
    deviation: Count = 1
    affine: Count = 1

    @model_serializer(mode="wrap")
    def _without_ones(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        found: dict[str, object] = dump(self)
        return {name: value for name, value in found.items() if value != 1}

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """Operations by function."""
        names = (name for name in type(self).model_fields if name != "source")
        return {name: getattr(self, name) for name in names}


class SfuSpec(Spec):
    """The vector unit: ``lanes`` elements per cycle and pass, ``latency_cycles`` per piece of work.

    ``passes``: of a whole softmax. 3: maximum; exponential and sum; normalisation. 2: statistics
    that depend on one another take one pass (here maximum and sum), for all kinds of work.
    ``operations``: of functions that take more than one.
    """

    OMITTED: ClassVar = ("operations",)

    REPLACED: ClassVar[Mapping[str, str]] = {
        "exponential_passes": "operations: {exp: N, sigmoid: N, erf: N, tanh: N}, each its own"
    }

    lanes: Count
    passes: Literal[2, 3] = 3
    latency_cycles: Cycles = 0
    operations: OperationsSpec = OperationsSpec()

    def choose_form(self, separate: Form, merged: Form | None) -> Form:
        """Return the form of a piece of work on this unit, with its operations per function."""
        apart = merged is None or self.passes > 2  # noqa: PLR2004 - merged
        form = separate if apart or merged is None else merged
        return form.with_operations(self.operations.counts)

    def cycles(self, work: InPasses, elements: Amount, rows: Amount) -> Amount:
        """Return the cycles of a piece of work on ``elements`` in ``rows``, memory unlimited.

        >>> from simaccel.workload.vectors import Passes
        >>> softmax = Passes(passes=3, reads=(3,), writes=2)
        >>> SfuSpec(lanes=128, latency_cycles=10).cycles(softmax, 64 * 500, 64)
        760
        """
        if not work.passes and not work.row_passes:
            return 0 * elements  # a copy of DMA engines
        each, once = -(-elements // self.lanes), -(-rows // self.lanes)
        return work.passes * each + work.row_passes * once + self.latency_cycles
