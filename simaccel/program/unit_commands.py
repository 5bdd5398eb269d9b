"""Commands of units that have one of their own: text form, meaning and work of each.

`simaccel.units` has the unit itself. Text, interpreter, plans and engines take whatever
`UNIT_COMMANDS` lists.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from simaccel.errors import suggest
from simaccel.hardware import Accelerator
from simaccel.hardware.chips import LINK_ACTS, LinkAct
from simaccel.hardware.links import LINK_SENT
from simaccel.program.program import Tile, UnitCommand, UnitWork
from simaccel.units import LINK


@dataclass(frozen=True, kw_only=True)
class Link(UnitCommand):
    """Links: a collective of a chunk of a tensor, ``tile``, whose outcome on this chip is ``out``.

    It goes over rings of chips of these sizes; ``n_bytes`` as of `ChipPod.messages`. A ``send``
    is over as the last byte has left, over so many links as ``rings`` has; a ``receive`` is for
    free, once all has come.
    """

    unit: ClassVar[str] = LINK
    form: ClassVar[re.Pattern[str]] = re.compile(
        r"link (\S+) (\S+) = (\S+) over ([\dx]+) of (\d+)B"
    )

    kind: LinkAct
    rings: tuple[int, ...]
    n_bytes: int

    @property
    def text(self) -> str:
        """The command as text."""
        rings, names = "x".join(map(str, self.rings)), f"{self.out.name} = {self.tile.name}"
        return f"link {self.kind} {names} over {rings} of {self.n_bytes}B"

    @classmethod
    def parse(cls, groups: tuple[str, ...], scope: Mapping[str, Tile]) -> Self:
        """Read the groups of ``form``."""
        kind, out, tile, rings, n_bytes = groups
        for known in LINK_ACTS:
            if known == kind:
                sizes = tuple(int(size) for size in rings.split("x"))
                return cls(
                    kind=known, out=scope[out], tile=scope[tile], rings=sizes, n_bytes=int(n_bytes)
                )
        raise ValueError(f"{kind}: {suggest(kind, LINK_ACTS)}")

    def work(self, accelerator: Accelerator) -> UnitWork:
        """Return the cycles of the links: bytes sent leave the buffer, as many come there."""
        chips, name, n_bytes = accelerator.pod, self.out.view.name, self.n_bytes
        if self.kind == "receive":
            return UnitWork(0, 0, n_bytes, ((("link_read", name), n_bytes),))
        if self.kind == "send":
            sent = n_bytes * math.prod(self.rings)
            cycles = chips.link_rate(accelerator.clock_hz).cycles(n_bytes)
            return UnitWork(cycles, n_bytes, 0, (((LINK_SENT, name), sent),))
        collective = self.kind, n_bytes, self.rings
        sent = chips.sent_bytes(*collective)
        return UnitWork(
            cycles=chips.cycles(*collective, accelerator.clock_hz),
            read_bytes=sent,
            written_bytes=sent,
            moved=(((LINK_SENT, self.tile.view.name), sent), (("link_read", name), sent)),
        )

    def lag_cycles(self, accelerator: Accelerator) -> int:
        """Return the cycles from when the last byte of a message has left until it is there."""
        return accelerator.links.hop_cycles * math.prod(self.rings)


UNIT_COMMANDS: Final[Mapping[str, type[UnitCommand]]] = {
    command.unit: command for command in (Link,)
}
"""By the first word of their text, the name of the unit."""
