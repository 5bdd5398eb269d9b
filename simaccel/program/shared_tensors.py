"""The DRAM around an interpreted program, and the choice of iterations to execute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from simaccel.program.program import ProgramLoop
from simaccel.workload.vectors.kind import Array

Box = tuple[slice, ...]


class DramTensor(Protocol):
    """A tensor in DRAM, read and written in boxes: an array, or one that computes its values."""

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
        """Return whether the iteration at ``start`` of a loop's rank is to be executed."""

    def enter(self, operator: str) -> Mapping[str, DramTensor]:
        """Return an operator's DRAM tensors by view name, in the shapes of its views."""

    def leave(self, operator: str, tensors: Mapping[str, DramTensor]) -> None:
        """Take an operator's DRAM tensors back when it has ended."""

    def lay(self, operator: str, tensor: str, values: Array) -> Array | None:
        """Return a tensor kept around an operator in its view; None if it does not use it."""

    def put(self, operator: str, tensor: str, seen: Array, values: Array) -> None:
        """Write an operator's view (``seen``) of a tensor kept around it back into ``values``."""
