"""Operators before the sizes of their tensors are final, and the elements they use from outside."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from simaccel.importers.onnx_files.constants import Shape
from simaccel.importers.onnx_files.views import SlotUse, StoredTensor
from simaccel.lazy import np
from simaccel.workload.einsum import Einsum, Operator, Vector, VisibleSpan

_MOST_MARKED: Final = 10**8
"""Elements of the largest tensor whose used elements are counted; of a larger one all count."""


@dataclass
class PendingOperator:
    """An operator whose tensors may still get a border of zeros.

    ``kind``: of a vector operator; None: an einsum.
    """

    name: str
    ranks: Mapping[str, int]
    inputs: tuple[SlotUse, ...]
    output: SlotUse
    kind: str | None = None
    axis: str | None = None
    visible: VisibleSpan | None = None

    def operator(self) -> Operator:
        """Return the operator; all uses of its tensors must be settled."""
        inputs = tuple(one.operand(self.ranks) for one in self.inputs)
        output = self.output.operand(self.ranks)
        if self.kind is None:
            return Einsum(self.name, self.ranks, inputs, output)
        return Vector(
            self.name, self.kind, self.ranks, inputs, output, self.axis, visible=self.visible
        )


def note_distinct(
    roots: Iterable[StoredTensor],
    pending: Sequence[PendingOperator],
    shapes: Mapping[str, Shape],
) -> None:
    """Set how many distinct elements each stored tensor brings in from outside or takes out.

    A tensor that goes to DRAM only for a reader without a view takes none out. Several stored
    tensors of one input share its elements (``shapes``), in their order.
    """
    left = {name: math.prod(shape) for name, shape in shapes.items()}
    for root in roots:
        if root.made and root.kept and not root.leaves:
            root.distinct = 0
        if root.made or not root.outside:
            continue
        count = _count_used(root, pending)
        parts = {
            name: min(most, count, left.get(name, most)) for name, most in root.outside.items()
        }
        left |= {name: left.get(name, part) - part for name, part in parts.items()}
        more = sum(parts.values())
        root.distinct = more if more < count else root.distinct


def _count_used(root: StoredTensor, pending: Sequence[PendingOperator]) -> int:
    """Return the number of distinct elements that operators use of a tensor that none makes."""
    if root.distinct is not None:
        return root.distinct
    if math.prod(root.sizes) > _MOST_MARKED:
        return math.prod(root.sizes)
    marks = np.zeros(tuple(root.sizes), dtype=np.bool_)
    for operator in pending:
        for use in operator.inputs:
            if use.root is root:
                use.mark(operator.ranks, marks)
    return int(np.count_nonzero(marks))
