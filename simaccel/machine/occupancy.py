"""The bytes of the buffer in use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from simaccel.machine.probes import TileProbe
from simaccel.machine.stateful import Record, State, StatefulPart
from simaccel.program.fit import operators_with_tiles, rings
from simaccel.program.program import BUFFER, Program


@dataclass(eq=False)
class Occupancy(StatefulPart):
    """Bytes of the buffer in use, and their peak; tiles in PEs are only reported to probes.

    ``enclosing``: bytes of the tiles that live around each operator. They count from the end of the
    previous operator, or from the first claim; an operator's peak is recorded at its end.
    """

    enclosing: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    lanes: dict[str, TileProbe] = field(default_factory=dict)
    """Probes by tile; empty without a listener."""
    n_bytes: State[int] = 0
    operator: State[str] = ""
    ended: State[bool] = True
    """Whether the operator has ended and no operator has claimed space since."""
    following: State[str] = ""
    """The operator that has claimed space for early loads."""
    operator_peak_bytes: Record[int] = 0
    peak_bytes: Record[int] = 0

    def state(self) -> tuple[object, ...]:
        """Return the bytes in use, without peaks: a period that repeats does not raise them."""
        return self.n_bytes, self.operator, self.ended, self.following

    def claim(self, operator: str, tile: str, n_bytes: int, place: str) -> None:
        """Claim space for a tile."""
        if place == BUFFER:
            self.n_bytes += n_bytes
        self.operator_peak_bytes = max(self.operator_peak_bytes, self.n_bytes)
        if self.ended:
            self._enter(operator)
        elif operator != self.operator:
            self.following = operator
        if self.lanes:
            self.lanes[tile].hold(n_bytes)

    def _enter(self, operator: str) -> None:
        """Switch to the tiles around another operator."""
        before = self.enclosing.get(self.operator, {})
        after = self.enclosing.get(operator, {})
        self.operator, self.ended, self.following = operator, False, ""
        for tile, lane in self.lanes.items():
            lane.hold(after.get(tile, 0) - before.get(tile, 0))

    def release(self, tile: str, n_bytes: int, place: str) -> None:
        """Release the space of a tile."""
        if place == BUFFER:
            self.n_bytes -= n_bytes
        if self.lanes:
            self.lanes[tile].hold(-n_bytes)

    def close(self, operator: str) -> None:
        """Record the peak of an operator, with the tiles around it."""
        around = sum(self.enclosing.get(operator, {}).values())
        self.peak_bytes = max(self.peak_bytes, self.operator_peak_bytes + around)
        self.operator_peak_bytes = self.n_bytes
        self.ended = True
        if self.following:
            self._enter(self.following)


def enclosing_bytes(program: Program) -> dict[str, dict[str, int]]:
    """Return the bytes of all slots of the tiles that live around each operator, by tile."""
    found: dict[str, dict[str, int]] = {}
    for operator, tiles in operators_with_tiles(program.body):
        own = rings(operator.body, operator.tiles)
        found[operator.name] = {t.name: t.n_bytes * t.slots for t in tiles if t.name not in own}
    return found
