"""The work that a program does for its operators, and the elements that it stores.

Both follow from its loops without running them: the work of a body that occurs several times is
summed once, and stores are boxes under loops, merged if the loops' steps leave no gap.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from simaccel.mapping.view import TensorView
from simaccel.program.program import Compute, Node, Operator, ProgramLoop, Sfu, Store, Tile

_MAKES: Final = frozenset({"whole", "normalise", "online"})
"""Steps of a vector operator that write its output; each element is written by one of them."""
_MOST_CELLS: Final = 1 << 16
"""The most cells of a grid in which boxes are joined exactly; else only volumes are compared."""
Interval = tuple[int, int]
"""(first position, end)."""
Box = tuple[tuple[Interval, ...], ...]
"""The intervals of positions in each dimension."""
Outside = tuple[tuple[str, int, int, int], ...]
"""Loops around a command: (rank, start, step, trips)."""


def work_of_commands(operator: Operator) -> Counter[tuple[str, str]]:
    """Return the work of one run of an operator's commands, by unit of work and owner.

    Keys are ``("MACs", output tensor)`` for einsums, ``("elements", operator)`` for vector
    operators.
    """
    known: dict[int, Counter[tuple[str, str]]] = {}

    def count_work(body: Sequence[Node]) -> Counter[tuple[str, str]]:
        if id(body) not in known:
            work: Counter[tuple[str, str]] = Counter()
            for node in body:
                if isinstance(node, ProgramLoop):
                    for key, n in count_work(node.body).items():
                        work[key] += node.trips * n
                elif isinstance(node, Compute):
                    work["MACs", node.out.view.name] += node.macs
                elif isinstance(node, Sfu) and node.step in _MAKES:
                    work["elements", node.operator] += node.elements
            known[id(body)] = work
        return known[id(body)]

    return count_work(operator.body)


def missing_elements(operator: Operator, output: TensorView, held: Sequence[Box]) -> str:
    """Return as text the elements of an output that are neither stored nor held; empty if none.

    ``output``: in the operator's view; ``held``: boxes that stay on chip.
    """
    boxes = [*held, *(box for name, box in _Stores(operator).boxes() if name == output.name)]
    for dim, size in enumerate(output.shape):
        spans = merge_intervals([span for box in boxes for span in box[dim]])
        if spans != ((0, size),):
            text = ", ".join(f"{start}..{stop}" for start, stop in spans[:3]) or "none"
            return f"positions {text} of dimension {dim} are stored, not 0..{size}"
    edges = [
        sorted({at for box in boxes for span in box[dim] for at in span})
        for dim in range(len(output.shape))
    ]
    if math.prod(len(places) - 1 for places in edges) <= _MOST_CELLS:
        for cell in np.argwhere(~_covered_cells(edges, boxes))[:1]:
            at = [marks[int(index)] for marks, index in zip(edges, cell, strict=True)]
            return f"the element at {at} is not stored"
        return ""
    sizes = ((sum(stop - start for start, stop in spans) for spans in box) for box in boxes)
    elements, volume = math.prod(output.shape), sum(map(math.prod, sizes))
    return "" if volume >= elements else f"{volume} of {elements} elements are stored"


def _covered_cells(edges: Sequence[Sequence[int]], boxes: Sequence[Box]) -> npt.NDArray[np.bool_]:
    """Return which cells of the grid of ``edges`` (by dimension) the boxes cover."""
    covered = np.zeros([len(marks) - 1 for marks in edges], dtype=np.bool_)
    for box in boxes:
        inside = [np.zeros(n, dtype=np.bool_) for n in covered.shape]
        for cells, spans, marks in zip(inside, box, edges, strict=True):
            for start, stop in spans:
                cells[bisect_left(marks, start) : bisect_left(marks, stop)] = True
        covered[np.ix_(*inside)] = True
    return covered


def merge_intervals(spans: Sequence[Interval]) -> tuple[Interval, ...]:
    """Return the intervals with touching and overlapping ones joined.

    >>> merge_intervals([(4, 6), (0, 2), (2, 3)])
    ((0, 3), (4, 6))
    """
    intervals: list[Interval] = []
    for start, stop in sorted(spans):
        if intervals and start <= intervals[-1][1]:
            intervals[-1] = intervals[-1][0], max(stop, intervals[-1][1])
        else:
            intervals.append((start, stop))
    return tuple(intervals)


@dataclass
class _Stores:
    """The DRAM stores of an operator."""

    operator: Operator
    known: dict[int, bool] = field(default_factory=dict)
    """Whether a body has stores, by its identity."""

    def boxes(self) -> Iterator[tuple[str, Box]]:
        """Yield the tensor and the box of each store, in all iterations."""
        declared = dict.fromkeys((tile.name for tile in self.operator.tiles), 0)
        yield from self._body(self.operator.body, (), declared)

    def _body(
        self, body: Sequence[Node], outside: Outside, declared: dict[str, int]
    ) -> Iterator[tuple[str, Box]]:
        for node in body:
            if isinstance(node, ProgramLoop):
                if self._stores_any(node.body):
                    around = (*outside, (node.rank, node.start, node.step, node.trips))
                    inside = dict.fromkeys((tile.name for tile in node.tiles), len(around))
                    yield from self._body(node.body, around, {**declared, **inside})
            elif isinstance(node, Store) and node.target is None and node.tile.name in declared:
                loops = outside[: declared[node.tile.name]]
                yield (node.view or node.tile.view).name, self._box(node.tile, loops)

    def _stores_any(self, body: Sequence[Node]) -> bool:
        if id(body) not in self.known:
            self.known[id(body)] = any(
                self._stores_any(node.body)
                if isinstance(node, ProgramLoop)
                else isinstance(node, Store)
                for node in body
            )
        return self.known[id(body)]

    def _box(self, tile: Tile, outside: Outside) -> Box:
        derived = dict(self.operator.derived)
        origin = tile.origin or (0,) * len(tile.shape)
        box = []
        for dim, size, start in zip(tile.view.terms, tile.shape, origin, strict=True):
            terms = [
                (own, stride * factor)
                for rank, stride in dim
                for own, factor in derived.get(rank, ((rank, 1),))
            ]
            loops = [(stride, loop) for own, stride in terms for loop in outside if loop[0] == own]
            first = start + sum(stride * begin for stride, (_, begin, _, _) in loops)
            steps = [(stride * step, trips) for stride, (_, _, step, trips) in loops]
            box.append(_repeat_interval((first, first + size), steps))
        return tuple(box)


def _repeat_interval(span: Interval, steps: Sequence[tuple[int, int]]) -> tuple[Interval, ...]:
    """Return the intervals that an interval covers if it is repeated by each (step, trips).

    >>> _repeat_interval((0, 3), [(6, 2), (3, 2)]), _repeat_interval((0, 1), [(2, 2)])
    (((0, 12),), ((0, 1), (2, 3)))
    """
    intervals: tuple[Interval, ...] = (span,)
    for step, trips in sorted(steps):
        if len(intervals) == 1 and step <= intervals[0][1] - intervals[0][0]:
            intervals = ((intervals[0][0], intervals[0][1] + step * (trips - 1)),)
        else:
            intervals = merge_intervals(
                [(a + n * step, b + n * step) for n in range(trips) for a, b in intervals]
            )
    return intervals
