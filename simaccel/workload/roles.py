"""The roles of an operator's ranks: in a matrix product, and in sliding windows."""

from collections.abc import Container, Iterable
from typing import Final, Literal

from simaccel.workload.einsum import Operator

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


def window_ranks(operator: Operator) -> set[str]:
    """Return the ranks of sliding windows, which are added up in an index of an input.

    Over one of them the operator goes: its output lacks it. Tokens of experts, which lie one expert
    after the other, are added up too, and are no window.
    """
    made = {*operator.output.ranks}
    dims = (dim.terms for operand in operator.inputs for dim in operand.projection)
    windows = (dict(terms) for terms in dims if len(terms) > 1)
    return {rank for ranks in windows if not made.issuperset(ranks) for rank in ranks}
