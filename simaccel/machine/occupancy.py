"""How much of the buffer is in use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from simaccel.machine.stateful import Stateful
from simaccel.mapping.program import Loop, Node, Operator, Program, rings


@dataclass(eq=False)
class Occupancy(Stateful):
    """Bytes of the buffer in use, and the most that were.

    ``enclosing`` are the bytes of tiles that live around each operator; all engines meet at an
    operator's end, so its peak is counted there.
    """

    STATE = ("n_bytes",)
    RECORDS = ("operator_peak_bytes", "peak_bytes")
    WIRING = ("enclosing",)

    enclosing: dict[str, int] = field(default_factory=dict)
    n_bytes: int = 0
    operator_peak_bytes: int = 0
    peak_bytes: int = 0

    def state(self) -> tuple[object, ...]:
        """Peaks need not repeat: a period that does leaves them as they are."""
        return (self.n_bytes,)

    def claim(self, n_bytes: int) -> None:
        """Take space."""
        self.n_bytes += n_bytes
        self.operator_peak_bytes = max(self.operator_peak_bytes, self.n_bytes)

    def release(self, n_bytes: int) -> None:
        """Give space back."""
        self.n_bytes -= n_bytes

    def close(self, operator: str) -> None:
        """Count the peak of an operator with the tiles around it."""
        peak = self.operator_peak_bytes + self.enclosing[operator]
        self.peak_bytes = max(self.peak_bytes, peak)
        self.operator_peak_bytes = self.n_bytes


def enclosing_bytes(program: Program) -> dict[str, int]:
    """Give the bytes of all slots of the tiles that live around each operator."""
    found: dict[str, int] = {}

    def visit(body: Sequence[Node], outer: dict[str, int]) -> None:
        for node in body:
            if isinstance(node, Operator):
                own = rings(node.body, node.tiles)
                found[node.name] = sum(n for name, n in outer.items() if name not in own)
            elif isinstance(node, Loop):
                visit(node.body, outer | {t.name: t.n_bytes * t.slots for t in node.tiles})

    visit(program.body, {})
    return found
