"""A candidate that ran, with its figures and the cost by which near-ties are decided."""

from __future__ import annotations

from dataclasses import dataclass

from simaccel.mapping.tree import Tree
from simaccel.search.effort import Objective

Cost = tuple[float, float, float, float]
"""Cycles (0 if they are the objective), energy in pJ (0 if unknown), DRAM bytes, buffer bytes."""


@dataclass(frozen=True)
class ScoredTree:
    """A candidate that ran: its tree, objective, cycles, DRAM bytes and buffer bytes.

    ``energy_pj``: 0 if energies are unknown, or nothing depends on them.
    """

    tree: Tree
    value: float
    cycles: int
    dram_bytes: int
    buffer_bytes: int
    energy_pj: float = 0.0

    @property
    def rank(self) -> tuple[float, int, int, int]:
        """Sort key: the objective, then cycles, DRAM bytes and buffer bytes."""
        return self.value, self.cycles, self.dram_bytes, self.buffer_bytes

    def cost(self, objective: Objective) -> Cost:
        """Return the cost that decides between near-ties of an objective; less is better."""
        first = 0.0 if objective == "cycles" else float(self.cycles)
        return first, self.energy_pj, float(self.dram_bytes), float(self.buffer_bytes)


def main_cost(cost: Cost) -> float:
    """Return the first figure that counts: cycles unless the objective, else known pJ, else bytes.

    >>> main_cost((0.0, 0.0, 512.0, 64.0))
    512.0
    """
    cycles, energy, moved, _ = cost
    return cycles or energy or moved
