"""Renaming of tensors in keeps, from the workload's names to those of one chip's tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from simaccel.mapping.tree import Group, Keep, Mapping, Node, ResidentScope, rewrite
from simaccel.workload.names import renamed_use, tensor_of

Rename = Callable[[str], str]


def rename_keeps(mapping: Mapping, in_group: Callable[[Group], Rename]) -> Mapping:
    """Return a mapping with the tensors of its keeps renamed; ``in_group``: the names in a group.

    A keep around groups gets the name of the first group inside that has another name for it.
    """
    body: list[Group | ResidentScope] = []
    for part in mapping.body:
        ways = [in_group(group) for group in part.groups]
        groups = tuple(map(_group, part.groups, ways))
        keeps = tuple(_keep_around(keep, ways) for keep in part.keeps)
        is_scope = isinstance(part, ResidentScope)
        body += [ResidentScope(keeps=keeps, groups=groups)] if is_scope else groups
    return replace(mapping, body=tuple(body))


def _keep_around(keep: Keep, ways: list[Rename]) -> Keep:
    names = dict.fromkeys(way(keep.tensor) for way in ways)
    return replace(keep, tensor=next((n for n in names if n != keep.tensor), keep.tensor))


def _group(group: Group, rename: Rename) -> Group:
    def rename_node(node: Node) -> Node:
        if not isinstance(node, Keep):
            return node
        return replace(node, tensor=renamed_use(node.tensor, rename(tensor_of(node.tensor))))

    return replace(group, tree=rewrite(group.tree, rename_node))
