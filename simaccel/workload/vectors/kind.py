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
    In ``exponentials`` of the passes each element is an exponential (or tanh, erf).
    """

    passes: int
    reads: tuple[int, ...]
    writes: int
    exponentials: int = 0

    def with_exponentials(self, passes: int) -> Self:
        """Return these passes where an exponential takes a unit so many.

        >>> Passes(passes=3, reads=(3,), writes=2, exponentials=1).with_exponentials(10).passes
        12
        """
        if passes == 1 or self.exponentials == 0:
            return self
        return replace(self, passes=self.passes + self.exponentials * (passes - 1))


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

    ``inputs`` and up to ``optional`` more, of which the first has all ranks. The output lacks the
    ranks of ``windows``. ``axis_multiple`` divides the axis. Some are ``scaled``. Rows of some may
    see a part of the axis only (``masked``).
    """

    name: str
    steps: Mapping[str, VectorStep]
    inputs: int = 1
    optional: int = 0
    needs_axis: bool = False
    axis_multiple: int = 1
    windows: bool = False
    scaled: bool = False
    masked: bool = False


def whole(made: Callable[..., Array]) -> Meaning:
    """Return the meaning of a step that makes the output of the inputs alone."""
    return lambda inputs, _scale, _statistics: (made(*inputs), ())


def whole_scaled(made: Callable[..., Array]) -> Meaning:
    """Return the meaning of a step that makes the output of the scale and the inputs."""
    return lambda inputs, scale, _statistics: (made(scale, *inputs), ())


def one_pass(meaning: Meaning, inputs: int = 1, exponentials: int = 0) -> Mapping[str, VectorStep]:
    """Return the steps of a kind that passes once over its elements, its axis whole."""
    reads = (1,) * inputs
    step = VectorStep(passes=1, reads=reads, writes=1, exponentials=exponentials, meaning=meaning)
    return {"whole": step}
