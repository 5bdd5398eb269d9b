"""Kinds of vector operators: steps of work on blocks, each with its passes and its meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


Array: TypeAlias = "npt.NDArray[np.float64]"
Statistics = tuple[Array, ...]
"""What is known of each row so far, as arrays with the axis of size 1; empty at a row's start."""
Meaning = Callable[[Sequence[Array], float, Statistics], tuple["Array | None", Statistics]]
"""(inputs, scale, statistics) -> (output or None, statistics), on arrays that are lined up.

All have a dimension for each row rank of the block, of size 1 where they lack the rank, and a
last one for the axis (or for all positions of a window; of size 1 if there is neither).
"""

MAKES_STATISTICS = ("statistics", "online")
"""Steps that begin a row with empty statistics where its axis begins, and bring them up to date."""
NEEDS_STATISTICS = ("normalise", "rescale", "divide")
"""Steps that need the statistics of their rows."""


@dataclass(frozen=True, kw_only=True)
class Passes:
    """Passes of a vector unit over one block.

    ``passes`` over all elements of the block (the product of its ranks); each element of the
    block of input i is read ``reads[i]`` times, each of the output's is written ``writes`` times.
    ``functions``: what is evaluated at each element in one of the passes, ``row_functions``: once
    for each row, that is for all elements along the axis; names are those of ``sfu.operations``.
    ``row_passes``: over one element a row each, beside the passes.
    """

    passes: int
    reads: tuple[int, ...]
    writes: int
    functions: tuple[str, ...] = ()
    row_functions: tuple[str, ...] = ()
    row_passes: int = 0

    def with_operations(self, operations: Mapping[str, int]) -> Self:
        """Return these passes where a unit takes so many operations for functions, else one.

        The first operation of a function is its pass.

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
    """A step of work: its passes, fewer where a unit has them ``merged``, and its meaning.

    It takes the first ``len(reads)`` inputs of the operator, or as many of them as there are.
    """

    meaning: Meaning
    merged: Passes | None = None


@dataclass(frozen=True, kw_only=True)
class VectorKind:
    """A kind of vector operator.

    ``steps`` by name: ``whole`` where axis and windows are whole in the block; where the axis is
    cut in a branch of its own, ``statistics`` of all pieces and then ``normalise``; where it is
    cut in a loop that others share, ``online``, ``rescale`` of an accumulator (in place) before
    it is added to, and ``divide`` at the end.

    ``inputs`` and up to ``optional`` more, of which the first has all ranks, but where the kind
    ``repeats`` it. The output lacks the ranks of ``windows``. ``axis_multiple`` divides the axis.
    Some are ``scaled``. Rows of some may see a part of the axis only (``masked``).
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
    """Return the meaning of a step that makes the output of the inputs alone."""
    return lambda inputs, _scale, _statistics: (made(*inputs), ())


def whole_scaled(made: Callable[..., Array]) -> Meaning:
    """Return the meaning of a step that makes the output of the scale and the inputs."""
    return lambda inputs, scale, _statistics: (made(scale, *inputs), ())


def one_pass(meaning: Meaning, inputs: int = 1, function: str = "") -> Mapping[str, VectorStep]:
    """Return the steps of a kind that passes once over its elements, its axis whole.

    ``function``: what it evaluates at each.
    """
    reads, functions = (1,) * inputs, (function,) if function else ()
    step = VectorStep(passes=1, reads=reads, writes=1, functions=functions, meaning=meaning)
    return {"whole": step}
