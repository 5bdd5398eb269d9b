"""The special function unit (SFU): a vector unit that makes passes over blocks of elements.

A pass processes ``lanes`` elements a cycle; functions such as exponentials may take a lane several
operations. Softmaxes and norms also have passes over one element (statistic) per row.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar, Literal, Protocol, Self, TypeVar

from simaccel.hardware.quantity import Amount, Count, Cycles
from simaccel.hardware.spec import Spec


class InPasses(Protocol):
    """Work of a vector operator on a block: passes over all elements, and over one of each row."""

    @property
    def passes(self) -> int:
        """Passes over all elements."""

    @property
    def row_passes(self) -> int:
        """Passes over one element of each row."""

    def with_operations(self, operations: Mapping[str, int]) -> Self:
        """Return the same with the passes of a unit that takes these operations per function."""


Form = TypeVar("Form", bound=InPasses)


class OperationsSpec(Spec):
    """Operations that a lane needs per function of an element: 1 is in the pass, others are more.

    ``rsqrt``: a root or its reciprocal; ``divide``: a quotient or reciprocal. ``reduce``: the sum
    or maximum of a row over lanes that hold parts of it, in operations of one lane beyond the
    pass. Norms have ``rsqrt`` and ``reduce`` once per row, a softmax ``reduce``. ``deviation``: of
    a layer norm, the squared difference from the mean; ``affine``: of a norm, the product with the
    row's root, gain and bias.
    """

    OMITTED: ClassVar = (
        *("exp", "erf", "tanh", "sigmoid", "rsqrt", "divide", "reduce", "deviation", "affine"),
    )

    exp: Count = 1
    erf: Count = 1
    tanh: Count = 1
    sigmoid: Count = 1
    rsqrt: Count = 1
    divide: Count = 1
    reduce: Count = 1
    deviation: Count = 1
    affine: Count = 1

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """Operations by function."""
        return {name: getattr(self, name) for name in self.OMITTED}


class SfuSpec(Spec):
    """The vector unit: ``lanes`` elements per cycle and pass, ``latency_cycles`` per block of work.

    ``passes``: of a softmax. 3: maximum; exponential and sum; normalisation. 2: the unit merges
    passes for statistics of a row (maximum with sum; in layer norms mean with variance).
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
        """Return the ``merged`` passes if this unit merges them, else the ``separate`` ones."""
        form = separate if merged is None or self.passes > 2 else merged  # noqa: PLR2004 - as above
        return form.with_operations(self.operations.counts)

    def cycles(self, work: InPasses, elements: Amount, rows: Amount) -> Amount:
        """Return the cycles of work on a block of ``elements`` in ``rows``, without memory waits.

        >>> from simaccel.workload.vectors import Passes
        >>> softmax = Passes(passes=3, reads=(3,), writes=2)
        >>> SfuSpec(lanes=128, latency_cycles=10).cycles(softmax, 64 * 500, 64)
        760
        """
        if not work.passes and not work.row_passes:
            return 0 * elements  # a copy of DMA engines
        pass_cycles, row_pass_cycles = -(-elements // self.lanes), -(-rows // self.lanes)
        return work.passes * pass_cycles + work.row_passes * row_pass_cycles + self.latency_cycles
