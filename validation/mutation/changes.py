"""Changes of a figure that a slip of the hand could make, found in the syntax tree of a module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_OPERATORS: Final[dict[type[ast.AST], tuple[str, str]]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.FloorDiv: ("//", "*"),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}
"""What stands there, and what stands there then."""
_CALLS: Final = {"max": "min", "min": "max", "ceil": "floor", "all": "any", "any": "all"}


@dataclass(frozen=True)
class Change:
    """One change: ``old``, of so many bytes from ``start`` on, becomes ``new``."""

    line: int
    start: int
    old: str
    new: str

    def made(self, text: str) -> str:
        """Return the text of the module with it."""
        source = text.encode()
        end = self.start + len(self.old.encode())
        return (source[: self.start] + self.new.encode() + source[end:]).decode()


def changes(text: str) -> list[Change]:
    """Find what could be changed in the functions of a module; never in what they only say."""
    tree = ast.parse(text)
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    by_place = {
        (change.start, change.old): change
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for statement in function.body
        for node in _figures(statement)
        for change in _of(node, text.encode(), starts)
    }
    return sorted(by_place.values(), key=lambda change: (change.start, change.old))


def _figures(node: ast.AST) -> Iterator[ast.AST]:
    """Walk what is computed: not annotations, texts, errors, assertions."""
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list"}:
            continue
        for below in value if isinstance(value, list) else [value]:
            if isinstance(below, ast.AST):
                yield from _figures(below)


def _of(node: ast.AST, source: bytes, starts: list[int]) -> Iterator[Change]:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        old = ast.get_source_segment(source.decode(), node) or ""  # 0x10, 1_000
        yield Change(node.lineno, _at(node, starts), old, str(node.value + 1))
    elif isinstance(node, ast.BinOp):
        yield from _between(node.left, node.op, node.right, source, starts)
    elif isinstance(node, ast.BoolOp):
        yield from _between(node.values[0], node.op, node.values[1], source, starts)
    elif isinstance(node, ast.Compare):
        yield from _between(node.left, node.ops[0], node.comparators[0], source, starts)
    elif isinstance(node, ast.AugAssign):
        yield from _between(node.target, node.op, node.value, source, starts)
    elif isinstance(node, ast.Call):
        yield from _of_call(node, source, starts)


def _of_call(node: ast.Call, source: bytes, starts: list[int]) -> Iterator[Change]:
    """Another function of the same arguments, or two plain names among them exchanged."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in _CALLS and node.func.end_col_offset is not None:
        end = starts[(node.func.end_lineno or node.lineno) - 1] + node.func.end_col_offset
        yield Change(node.lineno, end - len(name), name, _CALLS[name])
    if name == "isinstance":
        return
    for left, right in zip(node.args, node.args[1:], strict=False):
        if isinstance(left, ast.Name) and isinstance(right, ast.Name) and left.id != right.id:
            start, end = _at(left, starts), _at(right, starts)
            between = source[start + len(left.id.encode()) : end].decode()
            old = f"{left.id}{between}{right.id}"
            yield Change(node.lineno, start, old, f"{right.id}{between}{left.id}")


def _between(
    left: ast.expr, operator: ast.AST, right: ast.expr, source: bytes, starts: list[int]
) -> Iterator[Change]:
    if type(operator) not in _OPERATORS or left.end_lineno is None or left.end_col_offset is None:
        return
    begin = starts[left.end_lineno - 1] + left.end_col_offset
    end = _at(right, starts)
    old, new = _OPERATORS[type(operator)]
    at = source.find(old.encode(), begin, end)
    if at >= 0:
        yield Change(left.end_lineno, at, old, new)


def _at(node: ast.expr, starts: list[int]) -> int:
    return starts[node.lineno - 1] + node.col_offset
