"""Recurrent layers, step by step."""

from __future__ import annotations

from typing import Final

from simaccel.files.accounting import AccountEntry
from simaccel.importers.onnx_files import layers
from simaccel.importers.onnx_files.building import Given
from simaccel.importers.onnx_files.constants import Shape
from simaccel.importers.onnx_files.layers import Factor
from simaccel.importers.onnx_files.places import NodePlace
from simaccel.importers.onnx_files.views import SlotView

_MOST_STEPS: Final = 256
"""Steps of a recurrent layer that are spelled out."""
_LENGTHS: Final = 4
"""Where what is no weight begins, of the inputs after the first."""


def recurrent(place: NodePlace) -> AccountEntry:
    """Map an LSTM, GRU or RNN: the inputs of all steps at once, then step by step."""
    first = bool(place.attribute("layout", 0))
    steps, batch, inner = place.shape(0)
    steps, batch = (batch, steps) if first else (steps, batch)
    turns, gates, _ = place.shape(1)
    hidden = place.shape(2)[-1]
    macs = turns * steps * batch * (inner + hidden) * gates
    if steps > _MOST_STEPS:
        why = f"{steps} steps; at most {_MOST_STEPS} are unrolled"
        return place.pass_node("not taken", why, macs)
    for number in range(_LENGTHS, len(place.node.input)):
        if place.node.input[number] not in place.network.weights:
            place.leaves(number, "lengths of sequences, or states before them: not read")
    for turn in range(turns):
        name = f"{place.name}.{turn}" if turns > 1 else place.name
        states = _steps(place, name, (steps, batch, inner), (gates, hidden))
        if turns == 1 and steps == 1 and not first:
            state = states[0]
            place.makes(SlotView(state.root, ((), (), *state.dims)))
        else:
            for state in states:
                place.building.store_in_dram(state)
        if turns == 1 and not first:
            place.makes(SlotView(states[-1].root, ((), *states[-1].dims)), 1)
    return place.take_node("gemms and gates", macs)


def _steps(place: NodePlace, name: str, shape: Shape, sizes: tuple[int, int]) -> list[SlotView]:
    """Add the steps of one direction; return the states."""
    building, (steps, batch, inner), (gates, hidden) = place.building, shape, sizes
    ahead = Factor((None, (inner, gates)), "weight")
    projected = layers.product(building, f"{name}.input", (place.shaped_input(0)[0], shape), ahead)
    weights = Factor((None, (hidden, gates)), "weight", name=f"{name}.R")
    states: list[SlotView] = []
    for step in range(steps):
        before: Given = (states[-1] if states else None, (batch, hidden))
        summed = layers.product(building, f"{name}.step{step}", before, weights)
        part = projected.slice_dim(0, step, 1)
        row = None if part is None else part.reshape((batch, gates))
        inputs: list[Given] = [(row, (batch, gates)), (summed, (batch, gates))]
        opened = building.vector(f"{name}.gates{step}", "residual", (batch, gates), inputs)
        both: list[Given] = [(opened.slice_dim(1, 0, hidden), (batch, hidden)), before]
        states.append(building.vector(f"{name}.state{step}", "product", (batch, hidden), both))
    return states
