"""The DRAM around a program that the interpreter executes, and which iterations it executes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from simaccel.program.program import ProgramLoop
from simaccel.workload.vectors.kind import Array

Box = tuple[slice, ...]


class DramTensor(Protocol):
    """A tensor in DRAM of which boxes are read and written: an array, or made as it is read."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of its dimensions."""

    def __getitem__(self, where: Box, /) -> Array:
        """Return the values of a box."""

    def __setitem__(self, where: Box, values: Array, /) -> None:
        """Write the values of a box."""


class SharedTensors(Protocol):
    """The DRAM around a program whose operators see the same tensor in different shapes."""

    def wants(self, loop: ProgramLoop, start: int) -> bool:
        """Return whether an iteration of a loop is executed; its rank begins at ``start``."""

    def enter(self, operator: str) -> Mapping[str, DramTensor]:
        """Return what an operator finds in DRAM: view name -> values of the view's shape."""

    def leave(self, operator: str, tensors: Mapping[str, DramTensor]) -> None:
        """Take what the operator leaves in DRAM."""

    def lay(self, operator: str, tensor: str, values: Array) -> Array | None:
        """Return a tensor that is kept around an operator as it sees it; None if it doesn't."""

    def put(self, operator: str, tensor: str, seen: Array, values: Array) -> None:
        """Put what an operator saw of a tensor kept around it back into all of its values."""
