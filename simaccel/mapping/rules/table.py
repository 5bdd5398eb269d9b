"""The rules of a group's tree, in the order in which faults are reported."""

from collections.abc import Callable, Iterator
from typing import Final

from simaccel.mapping.node_text import Finding, node_text
from simaccel.mapping.rules import resident, tensors, units
from simaccel.mapping.walk import Located, Site, TreeWalk

Rule = Callable[[TreeWalk], Iterator[Finding]]
"""What breaks it in a group."""


def _of_leaf(check: Callable[[TreeWalk, Site], Iterator[str]]) -> Rule:
    """Return a rule of each leaf and the nodes around it; ``check``: what is allowed there."""

    def rule(walk: TreeWalk) -> Iterator[Finding]:
        for site in walk.sites:
            for allowed in check(walk, site):
                yield site.place, node_text(site.do), allowed

    return rule


def _of_nodes(check: Callable[[TreeWalk, Site], Iterator[Located]]) -> Rule:
    """Return a rule of the nodes around each leaf; one around several leaves is reported once."""

    def rule(walk: TreeWalk) -> Iterator[Finding]:
        by_place: dict[str, Finding] = {}
        for site in walk.sites:
            for step, allowed in check(walk, site):
                by_place[step.place] = step.place, node_text(step.node), allowed
        yield from by_place.values()

    return rule


RULES: Final[tuple[Rule, ...]] = (
    tensors.repeat_faults,
    tensors.part_faults,
    _of_leaf(tensors.partial_sum_faults),
    _of_leaf(tensors.fold_faults),
    _of_nodes(tensors.array_spread_faults),
    _of_leaf(tensors.coverage_faults),
    _of_leaf(tensors.remake_faults),
    _of_leaf(tensors.unfinished_read_faults),
    _of_leaf(tensors.tile_home_faults),
    tensors.shared_tile_faults,
    _of_leaf(tensors.in_place_faults),
    tensors.ahead_faults,
    _of_leaf(units.window_faults),
    _of_leaf(units.axis_faults),
    _of_leaf(units.derived_rank_faults),
    _of_nodes(units.keep_level_faults),
    units.lifetime_faults,
    units.part_keep_faults,
    _of_nodes(units.fan_order_faults),
    _of_nodes(units.pe_node_faults),
    _of_nodes(units.pe_keep_faults),
    _of_leaf(resident.operand_faults),
)
