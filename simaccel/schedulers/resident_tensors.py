"""Tensors that could be held in the buffer between groups, and from which group to which."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from simaccel.mapping.tree import Fork, Group, Keep, Node, Part, ResidentScope, Tree
from simaccel.numbers import in_bytes
from simaccel.workload import Operator, Workload
from simaccel.workload.names import tensor_of


@dataclass(frozen=True)
class ResidentTensor:
    """A tensor that could be held from group ``first`` to group ``last``.

    ``tensors``: the tensor and those that overwrite it in place, in order.
    """

    tensors: tuple[str, ...]
    first: int
    last: int
    n_bytes: int

    @property
    def name(self) -> str:
        """The tensor that gives the tile its name."""
        return self.tensors[0]


def repetition_of(workload: Workload, one: Group | ResidentScope) -> tuple[bool, int]:
    """Return what decides whether groups can share held tensors: if and how often they repeat."""
    group = one if isinstance(one, Group) else one.groups[0]
    return group.operators[0] in workload.once, workload.times(group.operators[0])


def resident_tensors(workload: Workload, groups: Sequence[Group]) -> list[ResidentTensor]:
    """Return the intermediates that go from one group to later ones and have no other reader.

    An output of a vector operator that overwrites its input shares the input's tile, if no later
    operator reads the input.
    """
    lives = dict(_lives(workload, groups))
    over = _in_place_outputs(workload, groups, lives)
    candidates = []
    for name in lives:
        if name in over:
            continue
        tensors = [name]
        while (then := next((o for o, i in over.items() if i == tensors[-1]), None)) is not None:
            tensors.append(then)
        first, last = lives[name][0], lives[tensors[-1]][1]
        candidates.append(ResidentTensor(tuple(tensors), first, last, _bytes(workload, tensors)))
    return candidates


def _bytes(workload: Workload, tensors: Sequence[str]) -> int:
    bits = max(workload.tensors[name].bits for name in tensors)
    return in_bytes(math.prod(workload.shapes[tensors[0]]), bits)


def _lives(workload: Workload, groups: Sequence[Group]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield tensors with the group that makes them first, and the last one that reads them."""
    place = {name: at for at, group in enumerate(groups) for name in group.operators}
    for name, users in _users(workload).items():
        placed = all(user.name in place for user in users)
        if workload.tensors[name].kind != "intermediate" or not placed:
            continue
        makers = [place[user.name] for user in users if user.output.tensor == name]
        readers = [place[user.name] for user in users if user.output.tensor != name]
        if readers and max(makers) < max(readers) and max(makers) <= min(readers):
            yield name, (min(makers), max(readers))


def _users(workload: Workload) -> dict[str, list[Operator]]:
    """Return the operators that read or make each tensor, in their order."""
    users: dict[str, list[Operator]] = {name: [] for name in workload.tensors}
    for operator in workload.operators:
        for name in {operand.tensor for operand in (*operator.inputs, operator.output)}:
            users[name].append(operator)
    return users


def uses_tensor(operator: Operator, tensor: str) -> bool:
    """Return whether an operator reads or writes a tensor."""
    return any(given.tensor == tensor for given in (*operator.inputs, operator.output))


def _in_place_outputs(
    workload: Workload, groups: Sequence[Group], lives: dict[str, tuple[int, int]]
) -> dict[str, str]:
    """Return the outputs that can overwrite an input that is not read later: output -> input."""
    sources = {}
    for at, group in enumerate(groups):
        if len(group.operators) > 1:
            continue
        operator = workload.operator(group.operators[0])
        made = operator.output.tensor
        source = workload.in_place.get(made)
        if source is None or source not in lives or made not in lives or lives[source][1] != at:
            continue
        if [operand.tensor for operand in operator.inputs].count(source) == 1:
            sources[made] = source
    return sources


def minimise_slots(tree: Tree) -> Tree:
    """Return a tree with the fewest slots: one, or two where an iteration begins early."""
    most = 2 if any(isinstance(node, Fork) and node.ahead for node in tree) else 1
    return tuple(
        replace(node, slots=min(node.slots, most))
        if isinstance(node, Keep)
        else replace(node, branches=tuple(map(minimise_slots, node.branches)))
        if isinstance(node, Fork | Part)
        else node
        for node in tree
    )


def remove_tiles(tree: Tree, kept: set[str], own: dict[str, str]) -> Tree:
    """Return a tree without the tiles of ``kept``; ``own``: outputs that overwrite one of these."""
    nodes: list[Node] = []
    for node in tree:
        if isinstance(node, Keep) and tensor_of(node.tensor) in kept:
            nodes += [
                replace(node, tensor=out) for out, source in own.items() if source == node.tensor
            ]
        elif isinstance(node, Fork | Part):
            inner = tuple(remove_tiles(branch, kept, own) for branch in node.branches)
            nodes.append(replace(node, branches=inner))
        else:
            nodes.append(node)
    return tuple(nodes)
