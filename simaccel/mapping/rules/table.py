"""The rules of a group's tree, in the order in which faults are reported."""

from typing import Final

from simaccel.mapping.rules import resident, tensors, units
from simaccel.mapping.rules.rule import GroupRule, LeafRule, PathRule

RULES: Final = (
    GroupRule(tensors.repeat_faults),
    GroupRule(tensors.part_faults),
    LeafRule(tensors.partial_sum_faults),
    LeafRule(tensors.fold_faults),
    PathRule(tensors.array_spread_faults),
    LeafRule(tensors.coverage_faults),
    LeafRule(tensors.remake_faults),
    LeafRule(tensors.unfinished_read_faults),
    LeafRule(tensors.tile_home_faults),
    GroupRule(tensors.shared_tile_faults),
    LeafRule(tensors.in_place_faults),
    GroupRule(tensors.ahead_faults),
    LeafRule(units.window_faults),
    LeafRule(units.axis_faults),
    LeafRule(units.derived_rank_faults),
    PathRule(units.keep_level_faults),
    GroupRule(units.lifetime_faults),
    GroupRule(units.part_keep_faults),
    PathRule(units.fan_order_faults),
    PathRule(units.pe_node_faults),
    PathRule(units.pe_keep_faults),
    LeafRule(resident.operand_faults),
)
