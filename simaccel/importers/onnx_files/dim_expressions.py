"""Sizes of dimensions that exporters write as sums and products of others."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Final

from simaccel.workload.sizes import MAX_LAYER_SIZE

_DOES: Final[Mapping[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


def expression_size(text: str, dims: Mapping[str, int], used: set[str]) -> int | None:
    """Return a size that follows from sizes of other dimensions, whose names become ``used``.

    None if one of them isn't known, or it is nothing of the kind.

    >>> used = set()
    >>> expression_size("past + 2*tokens", {"past": 5, "tokens": 3}, used), sorted(used)
    (11, ['past', 'tokens'])
    >>> expression_size("past + 1", {}, used), expression_size("s 1", {"s": 1}, used)
    (None, None)
    """
    try:
        body = ast.parse(text, mode="eval").body
        size = _evaluate(body, dims)
    except (SyntaxError, ValueError, KeyError, RecursionError, MemoryError):
        return None
    used.update(node.id for node in ast.walk(body) if isinstance(node, ast.Name))
    return size if 0 <= size <= MAX_LAYER_SIZE else None


def _evaluate(node: ast.expr, dims: Mapping[str, int]) -> int:
    if isinstance(node, ast.BinOp):
        does = _DOES[type(node.op)]
        return does(_evaluate(node.left, dims), _evaluate(node.right, dims))
    if isinstance(node, ast.Name):
        return dims[node.id]
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    raise ValueError(ast.dump(node))
