"""Readings of a dataflow as the paper means it, and corrections of the released tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from simaccel.papers.maestro.analysis.paper import CaseRules


@dataclass(frozen=True, kw_only=True)
class DirectiveReading:
    """A way to make figures.

    ``fan_out``: L1 writes count every PE that takes an element. ``resident``: the L2 requirement
    is what has to stay so that nothing enters L2 twice, and L1 holds outputs, not their inputs.
    ``offchip``: the off-chip time is that of each tensor once. ``no_multicast``, ``no_reduction``:
    cluster levels (0 is the outermost) that can't.
    """

    rules: CaseRules = field(default_factory=CaseRules)
    fan_out: bool = True
    resident: bool = True
    offchip: bool = True
    no_multicast: frozenset[int] = frozenset()
    no_reduction: frozenset[int] = frozenset()

    def rules_at(self, depth: int) -> CaseRules:
        """Return the rules of a cluster level."""
        return replace(
            self.rules,
            multicast=depth not in self.no_multicast,
            reduction=depth not in self.no_reduction,
        )


PAPER: Final = DirectiveReading()


@dataclass(frozen=True)
class Correction:
    """A defect of the released tool that the default reading corrects.

    ``defect`` is its number in the list of docs/guide/directives.md.
    """

    defect: str
    says: str
    field: str

    def undo(self, reading: DirectiveReading) -> DirectiveReading:
        """Return a reading without this correction."""
        if hasattr(reading, self.field):
            return replace(reading, **{self.field: False})  # type: ignore[arg-type]
        return replace(reading, rules=replace(reading.rules, **{self.field: False}))


CORRECTIONS: Final[Mapping[str, Correction]] = {
    "edge_tiles": Correction(
        "6", "a smaller tile of a level has smaller tiles inside", "edge_tiles"
    ),
    "stride": Correction("5", "outputs of a tile follow from the stride", "stride"),
    "wrapped": Correction(
        "9", "a tile that comes again after an outer dimension moved is fetched again", "wrapped"
    ),
    "fan_out": Correction("9", "L1 writes count every PE that takes an element", "fan_out"),
    "sums": Correction(
        "8", "sums leave when others take their place, and are read back if not complete", "sums"
    ),
    "resident": Correction(
        "10, 15", "L2 holds what is used again, L1 outputs and not their inputs", "resident"
    ),
    "offchip": Correction("2", "off chip, each tensor moves once", "offchip"),
}
"""Corrections by name. Energy (defect 1) and rows of outputs at edges (7) have no switch: they
follow from counts that are right."""
