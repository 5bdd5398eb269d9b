"""Kinds of vector operators: steps on blocks, each with its passes and its meaning in numpy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self, TypeAlias

from simaccel.lazy import np

if TYPE_CHECKING:
    import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[np.float64]"
Statistics = tuple[Array, ...]
"""Statistics of each row so far, as arrays with an axis of size 1; empty at the start of a row."""
Meaning = Callable[[Sequence[Array], float, Statistics], tuple["Array | None", Statistics]]
"""(inputs, scale, statistics) -> (output or None, statistics), on arrays that broadcast.

Arrays have a dimension for each row rank of the block, of size 1 if they lack the rank, and a last
one for the axis, or for all positions of a window (of size 1 if there is neither).
"""

MAKES_STATISTICS = ("statistics", "online")
"""Steps that compute a row's statistics, from empty ones at the beginning of its axis."""
NEEDS_STATISTICS = ("normalise", "rescale", "divide")
"""Steps that need the final statistics of their rows."""


@dataclass(frozen=True, kw_only=True)
class Passes:
    """Passes of a vector unit over one block.

    ``passes``: over all elements of the block (the product of its ranks). ``reads[i]``: times that
    each element of input i is read; ``writes``: times that each output element is written.
    ``functions``: evaluated once per element, ``row_functions``: once per row; names as in
    ``sfu.operations``. ``row_passes``: further passes over one element per row.
    """

    passes: int
    reads: tuple[int, ...]
    writes: int
    functions: tuple[str, ...] = ()
    row_functions: tuple[str, ...] = ()
    row_passes: int = 0

    def with_operations(self, operations: Mapping[str, int]) -> Self:
        """Return the passes on a unit with these operations per function, 1 by default.

        The first operation of a function is part of its pass, further ones are passes.

        >>> softmax = Passes(passes=3, reads=(3,), writes=2, functions=("exp",))
        >>> softmax.with_operations({"exp": 10}).passes
        12
        """
        more, in_rows = (
            sum(operations.get(name, 1) - 1 for name in names)
            for names in (self.functions, self.row_functions)
        )
        if not more and not in_rows:
            return self
        return replace(self, passes=self.passes + more, row_passes=self.row_passes + in_rows)


@dataclass(frozen=True, kw_only=True)
class VectorStep(Passes):
    """A step: its passes, or ``merged`` ones on a unit that merges them, and its meaning.

    It reads the first ``len(reads)`` inputs of the operator, or all if there are fewer.
    """

    meaning: Meaning
    merged: Passes | None = None


@dataclass(frozen=True, kw_only=True)
class VectorKind:
    """A kind of vector operator.

    ``steps`` by name: ``whole`` if axis and windows are whole in the block. If a loop of the
    operator's own branch cuts the axis: ``statistics`` of all pieces, then ``normalise``. If a
    shared loop cuts it: ``online``, ``rescale`` of an accumulator (in place) before it is added
    to, and ``divide`` at the end.

    It has ``inputs`` and up to ``optional`` more inputs; the first has all ranks unless the kind
    ``repeats`` it. The output lacks the ranks of ``windows``. The axis is a multiple of
    ``axis_multiple``. ``scaled``: it has a scale; ``masked``: it may have a mask.
    """

    name: str
    steps: Mapping[str, VectorStep]
    inputs: int = 1
    optional: int = 0
    needs_axis: bool = False
    axis_multiple: int = 1
    windows: bool = False
    repeats: bool = False
    scaled: bool = False
    masked: bool = False


def whole(made: Callable[..., Array]) -> Meaning:
    """Return the meaning of a step whose output is a function of the inputs."""
    return lambda inputs, _scale, _statistics: (made(*inputs), ())


def whole_scaled(made: Callable[..., Array]) -> Meaning:
    """Return the meaning of a step whose output is a function of the scale and the inputs."""
    return lambda inputs, scale, _statistics: (made(scale, *inputs), ())


def one_pass(meaning: Meaning, inputs: int = 1, function: str = "") -> Mapping[str, VectorStep]:
    """Return the steps of a kind with one pass over its elements and a whole axis.

    ``function``: evaluated once per element, as in ``sfu.operations``.
    """
    reads, functions = (1,) * inputs, (function,) if function else ()
    step = VectorStep(passes=1, reads=reads, writes=1, functions=functions, meaning=meaning)
    return {"whole": step}


@dataclass(frozen=True)
class RankOrder:
    """The order of a block's ranks: ``rows``, then those of the last dimension, ``inner``."""

    sizes: Mapping[str, int]
    rows: tuple[str, ...]
    inner: tuple[str, ...]

    @classmethod
    def from_ranks(
        cls, sizes: Mapping[str, int], output: Sequence[str], axis: str | None
    ) -> RankOrder:
        """Return the order for an output's ranks; the axis, or the ranks it lacks, come last."""
        rows = tuple(rank for rank in sizes if rank in output and rank != axis)
        return cls(sizes, rows, tuple(rank for rank in sizes if rank not in rows))

    def take(self, values: Array, ranks: Sequence[str]) -> Array:
        """Return an array with dimensions ``ranks`` in this order, of size 1 for ranks it lacks."""
        own = [rank for rank in (*self.rows, *self.inner) if rank in ranks]
        inner = math.prod(self.sizes[rank] for rank in self.inner if rank in ranks)
        shape = [self.sizes[rank] if rank in ranks else 1 for rank in self.rows]
        return values.transpose([ranks.index(rank) for rank in own]).reshape([*shape, inner])

    def give(self, made: Array, ranks: Sequence[str]) -> Array:
        """Return a result with dimensions in the order of the output's ``ranks``.

        It is repeated along row ranks that it lacks.
        """
        rows = [self.sizes[rank] for rank in self.rows]
        if made.ndim > len(rows):
            made = np.broadcast_to(made, [*rows, made.shape[-1]])
        own = [rank for rank in (*self.rows, *self.inner) if rank in ranks]
        natural = made.reshape([self.sizes[rank] for rank in own])
        return natural.transpose([own.index(rank) for rank in ranks])
