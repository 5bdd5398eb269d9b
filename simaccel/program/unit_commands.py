"""Commands of units that have one of their own: text form, meaning and work of each.

`simaccel.units` has the unit itself. Text, interpreter, plans and engines take whatever
`UNIT_COMMANDS` lists.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from simaccel.errors import suggest
from simaccel.hardware import Accelerator
from simaccel.hardware.chips import COLLECTIVES, LINK_SENT, Collective
from simaccel.program.program import Tile, UnitCommand, UnitWork
from simaccel.units import LINK


@dataclass(frozen=True, kw_only=True)
class Link(UnitCommand):
    """Links: a collective of a chunk of a tensor, ``tile``, whose outcome on this chip is ``out``.

    It goes over rings of chips of these sizes; ``n_bytes`` as of `ChipsSpec.messages`.
    """

    unit: ClassVar[str] = LINK
    form: ClassVar[re.Pattern[str]] = re.compile(
        r"link (\S+) (\S+) = (\S+) over ([\dx]+) of (\d+)B"
    )

    kind: Collective
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
        for known in COLLECTIVES:
            if known == kind:
                sizes = tuple(int(size) for size in rings.split("x"))
                return cls(
                    kind=known, out=scope[out], tile=scope[tile], rings=sizes, n_bytes=int(n_bytes)
                )
        raise ValueError(f"{kind}: {suggest(kind, COLLECTIVES)}")

    def work(self, accelerator: Accelerator) -> UnitWork:
        """Return the cycles of the links: bytes sent leave the buffer, as many come there."""
        chips, collective = accelerator.chips, (self.kind, self.n_bytes, self.rings)
        sent, out = chips.sent_bytes(*collective), self.out.view.name
        return UnitWork(
            cycles=chips.cycles(*collective, accelerator.clock_hz),
            read_bytes=sent,
            written_bytes=sent,
            moved=(((LINK_SENT, self.tile.view.name), sent), (("link_read", out), sent)),
        )


UNIT_COMMANDS: Final[Mapping[str, type[UnitCommand]]] = {
    command.unit: command for command in (Link,)
}
"""By the first word of their text, the name of the unit."""
