"""Bits per element of tensors and of the tiles that hold them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice

from simaccel.analytic.family import Family, TreePath
from simaccel.analytic.pieces import PathCuts
from simaccel.hardware import Accelerator
from simaccel.mapping.space import BoundOperator, holding_tensor
from simaccel.mapping.view import TensorView
from simaccel.numbers import Element
from simaccel.workload.names import tensor_of


@dataclass
class BitWidths:
    """Bits per element in one family, and the cuts along its paths."""

    family: Family
    _stored: dict[str, int] = field(default_factory=dict, init=False)
    _widths: dict[TreePath, list[int]] = field(default_factory=dict, init=False)
    _cuts: dict[TreePath, PathCuts] = field(default_factory=dict, init=False)
    _names: dict[TreePath, list[str]] = field(default_factory=dict, init=False)
    _paces: dict[TreePath, Fraction] = field(default_factory=dict, init=False)

    def cuts(self, path: TreePath) -> PathCuts:
        """Return the cuts along a path, which are cached."""
        if path not in self._cuts:
            self._cuts[path] = PathCuts(self.family.space, path)
        return self._cuts[path]

    def width(self, name: str) -> int:
        """Return the bits per element of a tensor in DRAM, by its name in the tree."""
        return self.family.space.workload.tensors[tensor_of(name)].bits

    def in_place(self, name: str) -> list[str]:
        """Return the tensors that are written in place in another's tile."""
        return [out for out, source in self.family.aliases.items() if source == name]

    def tile_width(self, name: str, view: TensorView) -> int:
        """Return the bits per element of a tile: the most of all tensors written in it."""
        if name not in self._stored:
            self._stored[name] = max(map(self.width, (name, *self.in_place(name))))
        return max(view.bits, self._stored[name])

    def tile_of(self, path: TreePath, use: str) -> str:
        """Return the name of the tile that holds an operand of a leaf, possibly in place."""
        name = self.family.aliases.get(use, use)
        if name in path.kept:
            return name
        return holding_tensor(self.family.space.workload, name, self.family.around)

    def names(self, path: TreePath, op: BoundOperator) -> list[str]:
        """Return the tensors whose tiles an operator uses."""
        if path not in self._names:
            self._names[path] = [tensor_of(self.tile_of(path, use)) for use, _ in op.uses]
        return self._names[path]

    def widths(self, path: TreePath, op: BoundOperator) -> list[int]:
        """Return the bits per element of the tiles that an operator uses."""
        if path not in self._widths:
            self._widths[path], around = [], {keep.tensor for keep in self.family.around}
            for use, view in op.uses:
                name, held = self.tile_of(path, use), view
                if name in around and name not in path.kept:
                    held = view.as_wide(self._kept_bits(name))
                self._widths[path].append(self.tile_width(name, held))
        return self._widths[path]

    def pace(self, accelerator: Accelerator, path: TreePath, op: BoundOperator) -> Fraction:
        """Return the cycles of a step for the elements in an operator's tiles."""
        if path not in self._paces:
            elements = islice(self.elements(path, op), len(op.inputs))
            self._paces[path] = accelerator.array.pace(elements)
        return self._paces[path]

    def elements(self, path: TreePath, op: BoundOperator) -> Iterator[Element]:
        """Return the elements of the tiles that an operator uses."""
        tensors = self.family.space.workload.tensors
        numbers = (tensors[name].number for name in self.names(path, op))
        return zip(self.widths(path, op), numbers, strict=True)

    def _kept_bits(self, name: str) -> int:
        workload, around = self.family.space.workload, self.family.around
        if name in self.family.around_bits:
            return self.family.around_bits[name]
        return max(
            tensor.bits
            for one, tensor in workload.tensors.items()
            if holding_tensor(workload, one, around) == name
        )
