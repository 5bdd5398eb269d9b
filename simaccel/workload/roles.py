"""The roles of an operator's ranks in products and sliding windows, and kinds of operators."""

from collections.abc import Container, Iterable
from typing import Final, Literal

from simaccel.workload.einsum import Operator, Vector
from simaccel.workload.workload import Workload

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


_EINSUMS: Final = ("GEMM", "convolution")


def operators_of(workload: Workload, name: str) -> list[str]:
    """Return the operators of a group by its name, as in ``L+softmax+A``."""
    return [name] if name in workload.by_name else name.split("+")


def kind_of(workload: Workload, row: str) -> str:
    """Return the kind of an operator or fused group by its name, as in ``L+softmax+A``.

    >>> from simaccel.workload import gemm
    >>> kind_of(gemm(m=2, k=2, n=2), "gemm")
    'GEMM'
    """
    names = [name for name in operators_of(workload, row) if name in workload.by_name]
    kinds = [_kind(workload.operator(name)) for name in names]
    if len(kinds) <= 1:
        return kinds[0] if kinds else row
    return f"fused {next((kind for kind in kinds if kind in _EINSUMS), kinds[0])}"


def attention_operators(workload: Workload) -> set[str]:
    """Return the names of the softmaxes between two einsums, and of these."""
    made = {operator.output.tensor: operator for operator in workload.operators}
    attentions: set[str] = set()
    for softmax in workload.operators:
        if isinstance(softmax, Vector) and softmax.kind == "softmax":
            einsums = [
                each
                for each in workload.operators
                if each is made.get(softmax.input.tensor)
                or softmax.output.tensor in {read.tensor for read in each.inputs}
            ]
            if len(einsums) > 1 and not any(isinstance(each, Vector) for each in einsums):
                attentions |= {softmax.name, *(each.name for each in einsums)}
    return attentions


def _kind(operator: Operator) -> str:
    """Return the kind of an operator: windows are convolutions, or poolings without weights."""
    windows = window_ranks(operator)
    if isinstance(operator, Vector):
        if windows:
            return "pooling"
        return "elementwise" if operator.axis is None else "row-wise"
    return "convolution" if windows else "GEMM"
