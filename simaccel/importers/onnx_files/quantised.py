"""Nodes that change how numbers are stored: quantising, dequantising, and casts.

What is stored in a few bits is read so: a factor and a zero point are applied as elements enter an
operator, and what leaves one for a quantisation alone is rounded on the way.
"""

from __future__ import annotations

from simaccel.files.accounting import AccountEntry
from simaccel.importers.onnx_files.places import NodePlace
from simaccel.importers.onnx_files.view_nodes import follow


def dequantise(place: NodePlace) -> AccountEntry:
    """Read a tensor as it is stored; a pass of its own where the graph's output is dequantised."""
    name = place.node.input[0]
    if place.node.output[0] in place.network.outputs:
        return _pass(place)
    view = place.building.view_external(name, f"{place.name}.I")
    if view is None:
        return _pass(place)
    _alias(place)
    return place.pass_node("harmless", "read as it is stored; its factor is applied on the way")


def quantise(place: NodePlace) -> AccountEntry:
    """Store what an operator makes in few bits; a pass of its own where others read it, too."""
    if not place.is_only_reader(0):
        return _pass(place)
    _narrow(place)
    return place.pass_node("harmless", "rounded as it is stored")


def cast(place: NodePlace) -> AccountEntry:
    """Store what an operator makes in other numbers, or read a tensor as it is stored."""
    if place.is_only_reader(0):
        _narrow(place)
        return place.pass_node("harmless", "rounded as it is stored")
    return place.pass_node("harmless", "addresses" if follow(place) else "addresses what is stored")


def _narrow(place: NodePlace) -> None:
    root = place.building.views[place.node.input[0]].root
    root.bits = place.building.made_bits
    _alias(place)


def _alias(place: NodePlace) -> None:
    given, made = place.node.input[0], place.node.output[0]
    place.building.views[made] = place.building.views[given]
    place.building.read_tensors.add(given)
    if given in place.building.derived:
        place.building.derived.add(made)


def _pass(place: NodePlace) -> AccountEntry:
    given = [place.shaped_input(0)]
    place.makes(place.building.vector(place.name, "scale", place.made, given))
    return place.take_node("scale")
