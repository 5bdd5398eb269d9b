"""Vector operators as directives: their elements over the lanes of the SFU, once a pass.

MAESTRO's notation describes layers of MACs. A pass of a vector operator is one operation per
element without a sum, so its directive is ``SpatialMap(1,1)`` over lanes, as of an element-wise
layer. The passes depend on where the axis is cut: nowhere, in the operator's own branch
(statistics, then normalise), or in a loop that it shares (online, with passes that rescale sums).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from simaccel.hardware import Accelerator
from simaccel.mapping.space import BoundOperator, IterationSpace
from simaccel.mapping.tree import Loop
from simaccel.papers.maestro.analysis.ways import (
    Way,
    pieces_of,
    plain_ranks,
    repeats_of,
    sizes_of_blocks,
)
from simaccel.workload import VECTORS, Vector
from simaccel.workload.vectors import Passes


@dataclass(frozen=True)
class Pass:
    """``passes`` over each of ``blocks`` blocks of ``elements`` elements."""

    passes: int
    elements: int
    blocks: int


def passes_of(
    space: IterationSpace,
    op: BoundOperator,
    way: Way,
    others: Sequence[Way],
    accelerator: Accelerator,
) -> list[Pass]:
    """Return the passes of a vector operator; ``others`` are the ways of the group's leaves."""
    assert isinstance(op.operator, Vector)  # noqa: S101 - narrows the type
    steps, axis = VECTORS[op.operator.kind].steps, space.axes.get(op.name)
    whole = space.sizes.get(axis or "", 1)
    cutting = [
        at
        for at, node in enumerate(way)
        if isinstance(node, Loop) and node.rank == axis and node.tile < whole
    ]
    pieces = sum(pieces_of(space, [axis], way)[axis].values()) if axis and cutting else 1
    names = ["whole"] if pieces == 1 else ["statistics", "normalise"]
    shared = pieces > 1 and any(
        _common(way, other) > cutting[0] for other in others if other is not way
    )
    again, passes = repeats_of(space, op, way), []
    for name in ["online"] if shared else names:
        cost: Passes = accelerator.sfu.choose_form(steps[name], steps[name].merged)
        for sizes, blocks in sizes_of_blocks(space, op, way):
            elements = math.prod(sizes[rank] for rank in op.ranks)
            passes.append(Pass(cost.passes, elements, again * blocks))
            if cost.row_passes:
                passes.append(
                    Pass(cost.row_passes, elements // sizes.get(axis or "", 1), again * blocks)
                )
    return passes + (list(_corrections(space, op, way, accelerator)) if shared else [])


def cycles_of(passes: Sequence[Pass], accelerator: Accelerator) -> int:
    """Return the cycles of passes over the lanes, one after the other."""
    lanes = accelerator.sfu.lanes
    return sum(one.blocks * one.passes * -(-one.elements // lanes) for one in passes)


def _common(one: Way, other: Way) -> int:
    """Return how many nodes two ways share."""
    same = 0
    for first, second in zip(one, other, strict=False):
        if first is not second:
            break
        same += 1
    return same


def _corrections(
    space: IterationSpace, op: BoundOperator, way: Way, accelerator: Accelerator
) -> Iterator[Pass]:
    """Yield an online operator's passes over partial sums: rescale, and divide at the end."""
    assert isinstance(op.operator, Vector)  # noqa: S101 - narrows the type
    axis, steps = space.axes[op.name], VECTORS[op.operator.kind].steps
    rescale, divide = (
        accelerator.sfu.choose_form(steps[name], None).passes for name in ("rescale", "divide")
    )
    for reader in space.operators:
        if op.output.name not in reader.names or axis not in reader.reduced:
            continue
        ranks = plain_ranks(space, sorted(reader.output.names))
        pieces = pieces_of(space, [*ranks, axis], way)
        again = sum(pieces.pop(axis).values())
        elements = {1: 1}
        for parts in pieces.values():
            further: dict[int, int] = {}
            for size, count in elements.items():
                for more, n in parts.items():
                    further[size * more] = further.get(size * more, 0) + count * n
            elements = further
        for size, count in elements.items():
            yield Pass(rescale, size, count * (again - 1))
            yield Pass(divide, size, count)
