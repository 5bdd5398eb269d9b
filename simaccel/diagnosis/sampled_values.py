"""The part of a program that a check executes, and the values that it compares."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np

from simaccel.diagnosis.layout import Integers, split_places
from simaccel.diagnosis.plain_values import (
    drawn_values,
    einsum_values,
    vector_values,
    written_elements,
)
from simaccel.mapping.space import IterationSpace
from simaccel.mapping.tree import Group
from simaccel.program.program import Compute, Load, Node, ProgramLoop, Sfu, Tile, UnitCommand
from simaccel.program.program import Operator as OperatorNode
from simaccel.program.shared_tensors import Box
from simaccel.workload import Einsum, Operand, Operator, Workload
from simaccel.workload.vectors.kind import Array

MOST_KEPT = 1 << 20
"""The most elements of a tensor that is kept as an array."""


@dataclass
class WrittenTensor:
    """Values that a program has written to a large tensor, by position."""

    places: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    values: Array = field(default_factory=lambda: np.zeros(0))
    last: list[tuple[Integers, Array]] = field(default_factory=list)
    """What was written since the last read, latest first."""

    def write(self, places: Integers, values: Array) -> None:
        """Write elements; values already written are replaced."""
        self.last.insert(0, (places, values))

    def read(self, places: Integers, others: Array) -> Array:
        """Return elements; ``others`` are those of positions that nothing has written."""
        if self.last:
            pieces = zip(*self.last, (self.places, self.values), strict=True)
            together, values = map(np.concatenate, pieces)
            self.places, first = np.unique(together, return_index=True)
            self.values = values[first]
            self.last.clear()
        if not self.places.size:
            return others
        at = np.minimum(np.searchsorted(self.places, places), self.places.size - 1)
        return np.where(self.places[at] == places, self.values[at], others)


@dataclass(frozen=True)
class SampledGroups:
    """Groups that share tiles, and the sample of their program."""

    workload: Workload
    spaces: Map[str, tuple[Group, IterationSpace]]
    spans: Map[str, Span]
    """Of each rank that is not executed whole, the positions that are."""
    executed: float
    """Share of the work that the sample has."""
    kept: dict[str, Array] = field(default_factory=dict)
    """Values of small tensors, by position."""
    written: dict[str, WrittenTensor] = field(default_factory=dict)
    computed: dict[int, tuple[Box, Array]] = field(default_factory=dict)
    """What plain numpy has of a box of each operator's output, by the operator's number."""

    @cached_property
    def operators(self) -> list[Operator]:
        """All that the unit executes, in order."""
        inside = {one.name for _, space in self.spaces.values() for one in space.operators}
        return [one for one in self.workload.operators if one.name in inside]

    def read(self, tensor: str, flat: Integers) -> Array:
        """Return values by position in the whole tensor; NaN is what nothing has written yet."""
        shape = self.workload.shapes[tensor]
        if math.prod(shape) > MOST_KEPT:
            written = self.written.get(tensor, WrittenTensor())
            return written.read(flat, self._values_unwritten(tensor, split_places(flat, shape)))
        if tensor not in self.kept:
            everywhere = split_places(np.arange(math.prod(shape)), shape)
            self.kept[tensor] = self._values_unwritten(tensor, everywhere).reshape(-1)
        return self.kept[tensor][flat]

    def write(self, tensor: str, flat: Integers, values: Array) -> None:
        """Write values by position in the whole tensor."""
        if math.prod(self.workload.shapes[tensor]) > MOST_KEPT:
            self.written.setdefault(tensor, WrittenTensor()).write(flat, values)
        else:
            self.read(tensor, flat)
            self.kept[tensor][flat] = values

    def _values_unwritten(self, tensor: str, places: Sequence[Integers]) -> Array:
        written = written_elements(self.operators, tensor, places)
        return np.where(written, np.nan, drawn_values(self.workload, tensor, places))

    def values_before(self, tensor: str, box: Box) -> Array:
        """Return the values that a tensor has before the unit begins, of a box."""
        ranges = np.ix_(*(np.arange(one.start, one.stop) for one in box))
        return drawn_values(self.workload, tensor, ranges)

    def expected_values(self, tensor: str, box: Box, before: int) -> Array:
        """Return the values of a box after the first ``before`` operators, in plain numpy."""
        values = self.values_before(tensor, box)
        for number, operator in enumerate(self.operators[:before]):
            if operator.output.tensor == tensor:
                own = operator.output.box(operator.ranks)
                part = tuple(
                    slice(max(a.start, b.start), min(a.stop, b.stop))
                    for a, b in zip(own, box, strict=True)
                )
                if all(span.start < span.stop for span in part):
                    values[_part_of_box(part, box)] = self.compute(number, part)
        return values

    def compute(self, number: int, box: Box) -> Array:
        """Return what an operator makes of a box of its output; a box is computed once.

        One that reaches beyond those before is computed with them, and with as much again.
        """
        operator = self.operators[number]
        before, values = self.computed.get(number, (box, None))
        pairs = zip(before, box, strict=True)
        if values is None or any(b.start < a.start or a.stop < b.stop for a, b in pairs):
            whole = operator.output.box(operator.ranks)
            before = tuple(map(_widen_span, before, box, whole))
            values = self._compute(number, before)
            self.computed[number] = before, values
        return values[_part_of_box(box, before)]

    def _compute(self, number: int, box: Box) -> Array:
        """Return what an operator makes of a box, from what it reads for that."""
        operator = self.operators[number]
        low, sizes = dict.fromkeys(operator.ranks, 0), dict(operator.ranks)
        crop: list[slice] = []
        own = operator.output.box(operator.ranks)
        for dim, part, whole in zip(operator.output.projection, box, own, strict=True):
            first, n = part.start - whole.start, part.stop - part.start
            if dim.is_unit and dim.terms[0][0] != getattr(operator, "axis", ""):
                low[dim.terms[0][0]], sizes[dim.terms[0][0]] = first, n
                first = 0
            crop.append(slice(first, first + n))
        tensors, inputs = {}, []
        for at, operand in enumerate(operator.inputs):
            pairs = zip(_start(operand, low), operand.shape(sizes), strict=True)
            needed = tuple(slice(first, first + n) for first, n in pairs)
            tensors[f"{at}"] = self.expected_values(operand.tensor, needed, number)
            inputs.append(replace(operand, tensor=f"{at}", start=()))
        small = replace(
            operator, ranks=sizes, inputs=tuple(inputs), output=replace(operator.output, start=())
        )
        made = (
            einsum_values(small, tensors)
            if isinstance(small, Einsum)
            else vector_values(small, tensors, low)
        )
        return made.reshape(small.output.shape(sizes))[tuple(crop)]


def _part_of_box(part: Box, box: Box) -> Box:
    """Return a part of a box, counted from the start of the box."""
    pairs = zip(part, box, strict=True)
    return tuple(slice(a.start - b.start, a.stop - b.start) for a, b in pairs)


def _widen_span(before: slice, span: slice, whole: slice) -> slice:
    """Return a span that holds two; one that grows takes its size more, where there is as much."""
    size = before.stop - before.start
    low = before.start - size if span.start < before.start else before.start
    high = before.stop + size if span.stop > before.stop else before.stop
    return slice(max(whole.start, min(low, span.start)), min(whole.stop, max(high, span.stop)))


def _start(operand: Operand, low: Map[str, int]) -> tuple[int, ...]:
    starts = operand.start or (0,) * len(operand.projection)
    return tuple(
        start + sum(c * low[rank] for rank, c in dim.terms)
        for start, dim in zip(starts, operand.projection, strict=True)
    )


Span = tuple[int, int]
"""The first position, and the one after the last."""


def written_views(body: Sequence[Node]) -> set[str]:
    """Return the views of the tiles that engines write: results of iterations, more in each."""
    views: set[str] = set()
    for node in body:
        if isinstance(node, ProgramLoop | OperatorNode):
            views |= written_views(node.body)
        elif isinstance(node, Compute | Sfu | UnitCommand):
            views.add(node.out.view.name)
    return views


def widen(body: Sequence[OperatorNode], span: Span, rank: str, made: Collection[str]) -> Span:
    """Return a span of a rank, widened to whole commands and whole tiles of ``made`` tensors."""
    while True:
        low, high = span
        for first, end in _pieces(body, 0, rank, span, made):
            low, high = min(low, first), max(high, end)
        if (low, high) == span:
            return span
        span = low, high


def _pieces(
    body: Sequence[Node], at: int, rank: str, span: Span, made: Collection[str]
) -> Iterator[Span]:
    """Yield the spans of commands and tiles that share positions of a rank with a span."""
    for node in body:
        pieces: list[Span] = []
        starts = [at]
        if isinstance(node, ProgramLoop) and node.rank == rank:
            starts = [start for start in _starts(node, at) if takes_part(node, start, span)]
            starts = starts[:: max(1, len(starts) - 1)]
            if any(rank in names for names in _slid_ranks(node.body)):
                first = at + node.start - node.step
                pieces += [(first, start + _extent(node.body, rank)) for start in starts]
        if isinstance(node, ProgramLoop | OperatorNode):
            for start in starts:
                yield from _pieces(node.body, start, rank, span, made)
                pieces += [
                    piece
                    for tile in node.tiles
                    if tile.view.name in made
                    for piece in _tile(tile, start, rank)
                ]
        elif isinstance(node, Compute | Sfu) and rank in node.ranks:
            pieces.append((at, at + node.shape[node.ranks.index(rank)]))
        yield from (piece for piece in pieces if piece[0] < span[1] and span[0] < piece[1])


def _slid_ranks(body: Sequence[Node]) -> Iterator[Collection[str]]:
    """Yield the ranks of tiles that keep what they share with those of the iteration before."""
    for node in body:
        if isinstance(node, Load) and node.slides:
            yield node.tile.view.names
        elif isinstance(node, ProgramLoop):
            yield from (names for names in _slid_ranks(node.body) if node.rank not in names)


def _starts(loop: ProgramLoop, at: int) -> range:
    first = at + loop.start
    return range(first, first + loop.trips * max(1, loop.step), max(1, loop.step))


def _tile(tile: Tile, at: int, rank: str) -> Iterator[Span]:
    origin = tile.origin or (0,) * len(tile.shape)
    for dim, first, size in zip(tile.view.terms, origin, tile.shape, strict=True):
        if rank in dict(dim):
            yield at + first, at + first + size


def takes_part(loop: ProgramLoop, start: int, span: Span) -> bool:
    """Return whether an iteration of a loop over a rank has positions of a span."""
    return start < span[1] and span[0] < start + max(1, _extent(loop.body, loop.rank))


@lru_cache(maxsize=4096)
def _extent(body: tuple[Node, ...], rank: str) -> int:
    """Return how many positions of a rank the commands of a body have."""
    found = 0
    for node in body:
        if isinstance(node, ProgramLoop):
            more = (node.trips - 1) * node.step + node.start if node.rank == rank else 0
            inner = _extent(node.body, rank)
            found = max(found, more + inner if inner else 0)
        elif isinstance(node, Compute | Sfu):
            found = max(found, dict(zip(node.ranks, node.shape, strict=True)).get(rank, 1))
    return found


def work(body: Sequence[Node], at: Map[str, int], spans: Map[str, Span], least: int = 0) -> int:
    """Return MACs plus vector elements of the sampled iterations, at least ``least`` a command."""
    total = 0
    for node in body:
        if isinstance(node, Compute):
            total += max(node.macs, least)
        elif isinstance(node, Sfu):
            total += max(node.elements, least)
        elif isinstance(node, ProgramLoop):
            starts = _starts(node, at.get(node.rank, 0))
            if node.rank not in spans:
                total += len(starts) * work(node.body, at, spans, least)
            else:
                part = [start for start in starts if takes_part(node, start, spans[node.rank])]
                total += sum(
                    work(node.body, {**at, node.rank: start}, spans, least) for start in part
                )
    return total
