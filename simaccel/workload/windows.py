"""Sliding windows of operators: those of convolutions and poolings."""

from __future__ import annotations

from simaccel.workload.einsum import Operator


def window_ranks(operator: Operator) -> set[str]:
    """Return the ranks of sliding windows, which are added up in an index of an input.

    Over one of them the operator goes: its output lacks it. Tokens of experts, which lie one expert
    after the other, are added up too, and are no window.
    """
    made = {*operator.output.ranks}
    dims = (dim.terms for operand in operator.inputs for dim in operand.projection)
    windows = (dict(terms) for terms in dims if len(terms) > 1)
    return {rank for ranks in windows if not made.issuperset(ranks) for rank in ranks}
