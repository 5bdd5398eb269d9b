"""Groups that are mapped alike: the key that they share, and trees under other names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from simaccel.mapping.space import BoundOperator, IterationSpace
from simaccel.mapping.tree import Do, Keep, Loop, Node, Spread, Tree, rewrite
from simaccel.numbers import SHARED
from simaccel.workload.names import tensor_of

NameList = list[tuple[str, str]]
"""(kind, name) of operators, tensors and ranks."""
Names = Mapping[tuple[str, str], str]
"""New names of operators, tensors and ranks, by (kind, old name)."""


def rename_tree(tree: Tree, names: Names) -> Tree:
    """Return the tree of one group under the names of another that is mapped alike."""

    def rename_node(node: Node) -> Node:
        if isinstance(node, Loop | Spread):
            return replace(node, rank=names.get(("rank", node.rank), node.rank))
        if isinstance(node, Keep):
            return replace(node, tensor=names.get(("tensor", node.tensor), node.tensor))
        if isinstance(node, Do):
            return replace(node, operator=names.get(("operator", node.operator), node.operator))
        return node

    return rewrite(tree, rename_node)


def names_of(operators: Sequence[BoundOperator]) -> NameList:
    """Return the names of operators, of their tensors, and of ranks in the order of use."""
    found: dict[tuple[str, str], None] = {}
    for op in operators:
        tensors = [("tensor", name) for name, _ in op.uses]
        used = (rank for _, view in op.uses for dim in view.terms for rank, _ in dim)
        ranks = (("rank", rank) for rank in (*used, *op.ranks))
        found |= dict.fromkeys([("operator", op.name), *tensors, *ranks])
    return list(found)


def key_of(space: IterationSpace, kept: Sequence[str]) -> object:
    """Return a key that is equal for groups that are mapped alike, whatever their names."""
    places = {named: at for at, named in enumerate(names_of(space.operators))}
    number = {name: at for (kind, name), at in places.items() if kind == "rank"}
    tensor = {name: at for (kind, name), at in places.items() if kind == "tensor"}
    sizes = tuple(space.sizes.get(rank) for rank in number)
    apart = tuple(tensor[name] for name in space.made if name in space.escapes)
    return sizes, apart, tuple(_key(space, one, kept, number, tensor) for one in space.operators)


def _key(
    space: IterationSpace,
    op: BoundOperator,
    kept: Sequence[str],
    number: Mapping[str, int],
    tensor: Mapping[str, int],
) -> object:
    views = tuple(
        (
            tensor[name],
            tuple(tuple((number[rank], factor) for rank, factor in dim) for dim in view.terms),
            view.shape,
            view.bits,
            tensor_of(name) in kept,
            view.kind == SHARED,
        )
        for name, view in op.uses
    )
    kind = getattr(op.operator, "kind", "einsum")
    axes = tuple(number.get(ranks.get(op.name, "")) for ranks in (space.axes, space.rows))
    visible = getattr(op.operator, "visible", None)
    masked = visible and (visible.before, visible.window)
    return kind, views, axes, masked
