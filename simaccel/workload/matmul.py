"""The roles of an einsum's ranks in a matrix product."""

from collections.abc import Container, Iterable
from typing import Final, Literal

Part = Literal["g", "m", "k", "n"]
"""The role of a rank in out[g,m,n] = sum over k of a[g,m,k] * b[g,k,n]."""
_PARTS: Final[dict[tuple[bool, ...], Part]] = {
    (True, True, True): "g",
    (True, False, True): "m",
    (True, True, False): "k",
    (False, True, True): "n",
}


def part_of(rank: str, tensors: Iterable[Container[str]]) -> Part | None:
    """Return the role of a rank; None if it is in one tensor only, or in none.

    ``tensors``: the ranks of the first input, the second and the output.

    >>> [part_of(rank, ("bmk", "bkn", "bmn")) for rank in "bmknq"]
    ['g', 'm', 'k', 'n', None]
    """
    return _PARTS.get(tuple(rank in ranks for ranks in tensors))
