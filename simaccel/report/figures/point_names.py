"""Names beside the points of a figure: none over another, over a line or over a point."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from simaccel.report.units import short_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LETTERS: Final = 22
_LETTER_INCHES, _LINE_INCHES = 0.042, 0.1
"""Width of a letter of a name, and height of its line."""
_AXES: Final = 0.82
"""Part of a figure that its axes take, about."""
_SAME: Final = 0.012
"""Points that are nearer than this have one name."""
_APART: Final = 0.03
"""A name without a line to its point is so far from others."""
_SHIFTS: Final = tuple(side * 0.03 * at for at in range(10) for side in (1, -1))
_STEPS: Final = (1.8, -1.8, *(-1.8 - 1.2 * at for at in range(1, 9)))
"""Where a name with a line to its point may stand: how far to the side, how many lines away."""
_PARTS: Final = 24
"""Places along a line that are looked at."""
Place = tuple[float, float]


@dataclass(frozen=True)
class _Box:
    """A name in parts of the axes, and where the line to its point ends."""

    left: float
    middle: float
    width: float
    height: float
    led: bool = False

    def is_inside(self) -> bool:
        """Whether all of it is inside of the axes."""
        beside = self.left >= 0 and self.left + self.width <= 1
        return beside and self.height / 2 <= self.middle <= 1 - self.height / 2

    def holds(self, place: Place, apart: float = 0.0) -> bool:
        """Whether a place is inside, or nearer than ``apart``."""
        inside = self.left - apart <= place[0] <= self.left + self.width + apart
        return inside and abs(place[1] - self.middle) <= self.height / 2 + apart

    def overlaps(self, other: _Box) -> bool:
        """Whether two names lie on each other."""
        beside = self.left + self.width < other.left or other.left + other.width < self.left
        return not beside and abs(self.middle - other.middle) < self.height

    def leads_from(self, point: Place) -> list[Place]:
        """Return places along the line from the point to the name, none for one beside it."""
        if not self.led:
            return []
        low, high = self.left, self.left + self.width
        end = (
            min(max(point[0], low), high),
            self.middle - math.copysign(self.height * 0.42, self.middle - point[1]),
        )
        return [
            (
                point[0] + (end[0] - point[0]) * at / _PARTS,
                point[1] + (end[1] - point[1]) * at / _PARTS,
            )
            for at in range(1, _PARTS + 1)
        ]


def axes_place(axes: Axes, x: float, y: float) -> Place:
    """Return where a point of the data is in parts of the axes, whose limits are final."""
    left, up = axes.transAxes.inverted().transform(axes.transData.transform((x, y)))
    return float(left), float(up)


def name_points(
    axes: Axes,
    points: Sequence[tuple[str, Place]],
    lines: Sequence[Place],
    most: int,
    colours: Mapping[str, str] | None = None,
) -> None:
    """Write names beside points, or with a thin line to them; points at one place have one name.

    ``points``: the most important first; ``lines``: places that no name lies on, both in parts of
    the axes. ``colours``: of texts that aren't black. A name that finds no room is left out.
    """
    taken: list[_Box] = []
    leads: list[list[Place]] = []
    width, height = axes.get_figure(root=True).get_size_inches()  # type: ignore[union-attr]
    spec = axes.get_subplotspec()
    down, across = (1, 1) if spec is None else spec.get_gridspec().get_geometry()
    letter, line = _LETTER_INCHES * across / width / _AXES, _LINE_INCHES * down / height / _AXES
    named, colours = _merge(points), colours or {}
    for text, point in named[:most]:
        others = [place for _, place in named if place != point]
        for box in _candidates(point, len(text) * letter, line):
            lead = box.leads_from(point)
            blocked = (
                not box.is_inside()
                or any(box.overlaps(other) for other in taken)
                or any(box.holds(place, 0.008 if box.led else _APART) for place in others)
                or any(box.holds(place, 0.008) for place in lines)
                or any(box.holds(place) for old in leads for place in old)
                or any(old.holds(place) for old in taken for place in lead)
                or any(_cross(lead, old) for old in leads)
            )
            if not blocked:
                taken.append(box)
                leads.append(lead)
                _write(axes, text, box, lead, colours.get(text.partition(" +")[0], "black"))
                break


def _merge(points: Sequence[tuple[str, Place]]) -> list[tuple[str, Place]]:
    """Give points at one place one name: all of theirs, or the first and the number of the others.

    >>> _merge([("Q", (0.5, 0.5)), ("K", (0.5, 0.501)), ("A", (0.7, 0.5))])
    [('Q, K', (0.5, 0.5)), ('A', (0.7, 0.5))]
    """
    groups: list[tuple[list[str], Place]] = []
    for name, place in points:
        near = (names for names, at in groups if math.dist(at, place) < _SAME)
        names = next(near, None)
        if names is None:
            groups.append(([name], place))
        elif name not in names:
            names.append(name)
    merged = []
    for names, place in groups:
        text = ", ".join(names)
        if len(text) > _LETTERS:
            rest = f" +{len(names) - 1}" if names[1:] else ""
            text = short_name(names[0], _LETTERS) + rest
        merged.append((text, place))
    return merged


def _candidates(point: Place, width: float, line: float) -> Iterator[_Box]:
    """Yield the places for a name: right beside its point, then farther away."""
    x, y = point
    for up in (-0.8 * line, 0.8 * line):
        for left in (x + 0.015, x - 0.015 - width):
            yield _Box(left, y + up, width, line)
    for step in _STEPS:
        for shift in _SHIFTS:
            yield _Box(x + shift - width / 2, y + step * line, width, line, led=True)


def _cross(one: Sequence[Place], other: Sequence[Place]) -> bool:
    """Whether two straight lines, as places along them, cross."""
    if not one or not other:
        return False
    (a, b), (c, d) = (one[0], one[-1]), (other[0], other[-1])
    return _turn(a, b, c) * _turn(a, b, d) <= 0 and _turn(c, d, a) * _turn(c, d, b) <= 0


def _turn(a: Place, b: Place, c: Place) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _write(axes: Axes, text: str, box: _Box, lead: Sequence[Place], colour: str) -> None:
    if lead:
        xs, ys = zip(*lead, strict=True)
        axes.plot(xs, ys, transform=axes.transAxes, color="#888888", linewidth=0.4, zorder=2)
    where = (box.left + box.width / 2, box.middle)
    style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": "x-small", "color": colour}
    axes.text(*where, text, transform=axes.transAxes, **style)
