"""Elements in the memory of a chip, of tensors of which operators read only a part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from simaccel.mapping.chips.layout import ChipLayout
from simaccel.workload import Tensor, Workload


def divide_stored(
    workload: Workload,
    tensors: Mapping[str, Tensor],
    layouts: Mapping[str, tuple[str, ChipLayout]],
) -> dict[str, Tensor]:
    """Return a chip's tensors with the elements that its memory holds.

    Chips share a table by its rows if they share the weights of layers, as many as share them most
    (Megatron's vocabulary-parallel embedding). Other tensors they share as they read them.
    ``workload``: of all chips; ``layouts``: tensor of it, and layout, by a chip's name.
    """
    known = workload.tensors
    whole = {name for name in known if known[name].kind == "weight" and not known[name].stored}
    most = max((layout.pieces for name, layout in layouts.values() if name in whole), default=1)
    divided = {}
    for name, tensor in tensors.items():
        origin, layout = layouts[name]
        row, pieces = (workload.shapes[origin][-1], most) if tensor.table else (1, layout.pieces)
        stored = tensor.stored and -(-tensor.stored // (row * pieces)) * row
        divided[name] = replace(tensor, stored=stored)
    return divided
