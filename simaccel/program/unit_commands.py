"""Commands of further units: text form, meaning and work of each.

The units are in `simaccel.units`. Text, interpreter, plans and engines support all commands of
`UNIT_COMMANDS`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from simaccel.errors import suggest
from simaccel.hardware import Accelerator
from simaccel.hardware.collectives import AXIS_FORMS, LINK_ACTS, LinkAct, LinkAxis
from simaccel.hardware.links import LINK_RECEIVED, LINK_SENT
from simaccel.program.program import Tile, UnitCommand, UnitWork
from simaccel.units import LINK

_AXIS: Final = re.compile(r"(\d+)([a-z_]*)(?:@(\d+))?(?:/([1-9]\d*))?")


@dataclass(frozen=True, kw_only=True)
class Link(UnitCommand):
    """A command of the links: a collective on a chunk, ``tile``, with the result ``out``.

    ``axes``: its dimensions; ``n_bytes``: as in `collective_cost`. Its links are busy until the
    last byte has left; the result arrives a lag later. Of a ``send`` the axes are the links of its
    route; a ``receive`` costs nothing once the data have arrived. A ``send_receive`` has one tile
    where a chip only sends, or only receives, with no links to pass.
    """

    unit: ClassVar[str] = LINK
    form: ClassVar[re.Pattern[str]] = re.compile(r"link (\S+) (\S+) = (\S+) over (\S+) of (\d+)B")

    kind: LinkAct
    axes: tuple[LinkAxis, ...]
    n_bytes: int

    @property
    def text(self) -> str:
        """The command as text."""
        axes, names = "x".join(map(axis_text, self.axes)), f"{self.out.name} = {self.tile.name}"
        return f"link {self.kind} {names} over {axes} of {self.n_bytes}B"

    @classmethod
    def parse(cls, groups: tuple[str, ...], scope: Mapping[str, Tile]) -> Self:
        """Return the command from the groups of ``form``; ValueError for an unknown kind."""
        kind, out, tile, text, n_bytes = groups
        axes = tuple(map(parse_axis, text.split("x")))
        for known in LINK_ACTS:
            if known == kind:
                return cls(
                    kind=known, out=scope[out], tile=scope[tile], axes=axes, n_bytes=int(n_bytes)
                )
        raise ValueError(f"{kind}: {suggest(kind, LINK_ACTS)}")

    def work(self, accelerator: Accelerator) -> UnitWork:
        """Return the cycles of the links; the buffer's ports carry the bytes sent and received."""
        pod, name, n_bytes = accelerator.pod, self.out.view.name, self.n_bytes
        if self.kind == "receive":
            return UnitWork(0, 0, n_bytes, (((LINK_RECEIVED, name), n_bytes),))
        channels = pod.link_cycles(self.kind, n_bytes, self.axes)
        cycles = max((n for _, n in channels), default=0)
        sent = leaves = comes = pod.cost(self.kind, n_bytes, self.axes).sent_bytes
        if self.kind in ("send", "send_receive"):
            is_one = self.kind == "send" or self.out.name == self.tile.name
            leaves, comes = n_bytes if sent else 0, 0 if is_one and sent else n_bytes
        moved = ((LINK_SENT, self.tile.view.name), sent), ((LINK_RECEIVED, name), comes)
        nonzero = tuple((level, amount) for level, amount in moved if amount)
        lag = 0 if self.kind == "send" else self.lag_cycles(accelerator)
        return UnitWork(cycles, leaves, comes, nonzero, channels, lag)

    def lag_cycles(self, accelerator: Accelerator) -> int:
        """Return the cycles from the departure of the last byte to its arrival."""
        return accelerator.pod.lag_cycles(self.kind, self.axes)


def axis_text(axis: LinkAxis) -> str:
    """Return a dimension as text.

    >>> axis_text(LinkAxis(4)), axis_text(LinkAxis(2, "line", 1)), axis_text(LinkAxis(2, stride=8))
    ('4', '2line@1', '2/8')
    """
    form = "" if axis.form == "ring" else axis.form
    place = (f"@{axis.number}" if axis.number else "") + (f"/{axis.stride}" * (axis.stride > 1))
    return f"{axis.size}{form}{place}"


def parse_axis(text: str) -> LinkAxis:
    """Parse the text of a dimension.

    >>> parse_axis("2line@1")
    LinkAxis(size=2, form='line', number=1, stride=1)

    Raises:
        ValueError: it is none.
    """
    match = _AXIS.fullmatch(text)
    for form in AXIS_FORMS if match else ():
        if match is not None and form == (match[2] or "ring"):
            return LinkAxis(int(match[1]), form, int(match[3] or 0), int(match[4] or 1))
    forms = ", ".join(AXIS_FORMS)
    raise ValueError(f"{text}: a size, a form ({forms}), @ and a dimension, / and links apart")


UNIT_COMMANDS: Final[Mapping[str, type[UnitCommand]]] = {
    command.unit: command for command in (Link,)
}
"""The commands by the first word of their text, the name of the unit."""
