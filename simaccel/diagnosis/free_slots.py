"""Programs whose tiles have as many buffer slots as can be of use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from simaccel.program import program as nodes

FREE_SLOTS = 16
"""Slots of a tile whose slots are freed. More gain nothing where a loop is bound by a resource,
and cost events: a run repeats only once all slots have been filled."""


def with_free_slots(program: nodes.Program) -> nodes.Program:
    """Return a program whose tiles have at least ``FREE_SLOTS`` slots each."""
    body = tuple(_more_slots(node, _SlotScope()) for node in program.body)
    return nodes.Program(name=program.name, body=body)


@dataclass(frozen=True)
class _SlotScope:
    """The scope of a node: slots of the tiles in it, and the most slots of partial sums."""

    slots: Mapping[str, int] = field(default_factory=dict)
    sums: Mapping[str, int] = field(default_factory=dict)

    def add_slots(self, tile: nodes.Tile) -> nodes.Tile:
        """Return a tile with more slots.

        Partial sums that go away and come back get no more than there are tiles of them in any
        step of the reduction: then a free slot tells that the sums to be loaded have been stored.
        """
        most = min(FREE_SLOTS, self.sums.get(tile.name, FREE_SLOTS))
        return replace(tile, slots=max(most, tile.slots))


def _more_slots(node: nodes.Node, around: _SlotScope) -> nodes.Node:
    """Return a node whose tiles have more slots."""
    if isinstance(node, nodes.ProgramLoop | nodes.Operator):
        if isinstance(node, nodes.Operator):
            sums = {  # as many as in the shortest step of a reduction around them
                name: min(_in_steps(node.body, name, ranks)[1], default=FREE_SLOTS)
                for name, ranks in _going_back(node).items()
            }
            around = replace(around, sums=sums)
        tiles = tuple(around.add_slots(tile) for tile in node.tiles)
        slots = {**around.slots, **{tile.name: tile.slots for tile in tiles}}
        around = replace(around, slots=slots)
        return replace(node, tiles=tiles, body=tuple(_more_slots(n, around) for n in node.body))
    return _with_slots(node, around.slots)


def _in_steps(body: Sequence[nodes.Node], name: str, ranks: frozenset[str]) -> tuple[int, set[int]]:
    """Count the tiles of a name in a body, and in each step of the reductions inside.

    Tiles inside such a step count for it alone: it is the innermost one.
    """
    own, steps = 0, set[int]()
    for node in body:
        if not isinstance(node, nodes.ProgramLoop):
            continue
        inside, below = _in_steps(node.body, name, ranks)
        inside += any(tile.name == name for tile in node.tiles)
        steps |= below
        if node.rank in ranks and node.core is None:
            own += node.trips * inside
        elif inside:
            steps.add(inside)
    return own, steps


def _with_slots(command: nodes.Command, slots: Mapping[str, int]) -> nodes.Command:
    """Return a command whose tiles have the slots of their names, each operand in its own view."""

    def add_slots(value: Any) -> Any:  # noqa: ANN401 - the value of any field
        if isinstance(value, nodes.Tile):
            return replace(value, slots=slots[value.name])
        return tuple(map(add_slots, value)) if type(value) is tuple else value

    changed = {own.name: add_slots(getattr(command, own.name)) for own in fields(command)}
    return replace(command, **changed)


def _going_back(operator: nodes.Operator) -> dict[str, frozenset[str]]:
    """Name the tiles that are stored and loaded again in one operator (sums), with their ranks.

    Of a rank that follows from others, with those.
    """
    derived = dict(operator.derived)
    ways: dict[type, dict[tuple[str, str], nodes.Tile]] = {nodes.Load: {}, nodes.Store: {}}
    for command in nodes.commands(operator.body):
        if isinstance(command, nodes.Load | nodes.Store):
            view, _ = nodes.transfer_of(command)
            ways[type(command)][command.tile.name, view.name] = command.tile
    both = ways[nodes.Load].keys() & ways[nodes.Store].keys()
    return {
        name: frozenset(
            own for rank in tile.view.names for own, _ in ((rank, 1), *derived.get(rank, ()))
        )
        for (name, view), tile in ways[nodes.Load].items()
        if (name, view) in both
    }
