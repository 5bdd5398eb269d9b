"""Operators that are mapped alike: what they have in common, and a tree under other names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from simaccel.mapping.space import BoundOperator, IterationSpace
from simaccel.mapping.tree import Do, Fork, Keep, Loop, Node, Part, Tree

Names = Mapping[tuple[str, str], str]
"""New names of operators, tensors and ranks: by (kind, old name)."""


def renamed(tree: Tree, names: Names) -> Tree:
    """Return a tree for an operator that is mapped alike, under its names."""

    def one(node: Node) -> Node:
        if isinstance(node, Loop):
            return replace(node, rank=names.get(("rank", node.rank), node.rank))
        if isinstance(node, Keep):
            return replace(node, tensor=names.get(("tensor", node.tensor), node.tensor))
        if isinstance(node, Do):
            return replace(node, operator=names.get(("operator", node.operator), node.operator))
        if isinstance(node, Fork | Part):
            return replace(node, branches=tuple(renamed(branch, names) for branch in node.branches))
        return node

    return tuple(map(one, tree))


def names_of(seen: BoundOperator) -> list[tuple[str, str]]:
    """Return the names of an operator, its tensors, and its ranks in the order of their use."""
    tensors = [("tensor", name) for name, _ in seen.uses]
    return [("operator", seen.name), *tensors, *(("rank", rank) for rank in _used(seen))]


def _used(seen: BoundOperator) -> list[str]:
    """Return the ranks of an operator as its tensors have them, then those that none has."""
    terms = (rank for _, view in seen.uses for dim in view.terms for rank, _ in dim)
    return list(dict.fromkeys((*terms, *seen.ranks)))


def key_of(space: IterationSpace, seen: BoundOperator, kept: Sequence[str]) -> object:
    """Return what two operators have in common that are mapped alike, whatever their names."""
    number = {rank: at for at, rank in enumerate(_used(seen))}
    views = tuple(
        (
            tuple(tuple((number[rank], factor) for rank, factor in dim) for dim in view.terms),
            view.shape,
            view.bits,
        )
        for _, view in seen.uses
    )
    held = tuple(name.partition("#")[0] in kept for name, _ in seen.uses)
    same = tuple(seen.names.index(name) for name in seen.names)
    kind = getattr(seen.operator, "kind", "einsum")
    axes = [number.get(ranks.get(seen.name, "")) for ranks in (space.axes, space.rows)]
    sizes = tuple(space.sizes.get(rank) for rank in number)
    visible = getattr(seen.operator, "visible", None)
    masked = visible and (visible.before, visible.window)
    return kind, sizes, views, held, same, tuple(axes), masked
