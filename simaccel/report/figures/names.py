"""Names beside points of a figure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.path import Path
from matplotlib.transforms import Bbox

from simaccel.report.figures.axes import inches_of
from simaccel.report.units import short_name

_LETTERS: Final = 22
_SAME: Final = 3.0
"""Points nearer than this share a name, in typographic points."""
_BESIDE: Final = 4.0
"""Distance between a point and a name right beside it, in typographic points."""
_RINGS: Final = (12, 18, 26, 36, 50, 66)
"""Distances of names with a line to their point, in typographic points."""
_TURNS: Final = 16
"""Directions that are tried at each distance."""
_MARK: Final = 2.0
"""Half the size of a point, which no name may cover, in typographic points."""
_NOTE: Final[dict[str, Any]] = {
    "fontsize": "x-small",
    "ha": "center",
    "va": "center",
    "in_layout": False,
}
_LEAD: Final[dict[str, Any]] = {"color": "#888888", "linewidth": 0.4, "zorder": 2}
Points = npt.NDArray[np.float64]


class Name(NamedTuple):
    """The name of a point at a place in data coordinates."""

    text: str
    place: tuple[float, float]
    colour: str = "black"


def name_places(axes: Axes, names: Sequence[Name], most: int) -> None:
    """Write names beside points, or with a thin line to them; points at one place share a name.

    Everything else has to be drawn and laid out before. ``names``: the most important first. A name
    without a free place is left out.
    """
    scale = 1 / inches_of(72, axes)
    pixels, frame = axes.transData.transform, axes.get_window_extent()
    lines = [
        line.get_transform().transform_path(line.get_path())
        for line in axes.lines
        if line.get_linestyle() in ("-", "--", "-.", ":")
    ]
    spots = [pixels(line.get_xydata()) for line in axes.lines]
    spots += [pixels(dots.get_offsets()) for dots in axes.collections]
    taken = [Bbox([at - _MARK * scale, at + _MARK * scale]) for group in spots for at in group]
    taken += [text.get_window_extent() for text in axes.texts]
    leads: list[Path] = []
    merged = _merge([name._replace(place=tuple(pixels(name.place) / scale)) for name in names])
    for text, point, colour in merged[:most]:
        note = axes.text(0, 0, text, transform=axes.transAxes, color=colour, **_NOTE)
        size = np.array(note.get_window_extent().size) / scale
        for middle, is_led in _candidates(np.array(point), size):
            box = Bbox(np.array([middle - size / 2, middle + size / 2]) * scale)
            end = np.clip(point, middle - size / 2, middle + size / 2)
            lead = Path(np.array([point, end]) * scale)
            if (
                frame.count_contains(box.get_points()) == len(box.get_points())
                and not box.count_overlaps(taken)
                and not any(line.intersects_bbox(box, filled=False) for line in (*lines, *leads))
                and not (is_led and any(lead.intersects_path(other) for other in leads))
            ):
                taken.append(box)
                place = axes.transAxes.inverted().transform
                note.set_position(tuple(place(middle * scale)))
                if is_led:
                    leads.append(lead)
                    axes.plot(*place(lead.vertices).T, transform=axes.transAxes, **_LEAD)
                break
        else:
            note.remove()


def _candidates(point: Points, size: Points) -> Iterator[tuple[Points, bool]]:
    """Yield middles of a name, in typographic points: beside its point, then led to it."""
    for up in (-0.8, 0.8):
        for side in (1, -1):
            yield point + np.array([side * (_BESIDE + size[0] / 2), up * size[1]]), False
    for distance in _RINGS:
        for turn in range(_TURNS):
            angle = 2 * math.pi * turn / _TURNS
            away = np.array([math.cos(angle), math.sin(angle)])
            yield point + away * (distance + size / 2), True


def _merge(names: Sequence[Name]) -> list[Name]:
    """Merge the names of points at one place: all names, or the first and the number of the rest.

    >>> merged = _merge([Name("Q", (50, 50)), Name("K", (50, 50.1)), Name("A", (70, 50))])
    >>> [name.text for name in merged]
    ['Q, K', 'A']
    """
    groups: list[tuple[Name, list[str]]] = []
    for name in names:
        same = (own for at, own in groups if math.dist(at.place, name.place) < _SAME)
        if (own := next(same, None)) is None:
            groups.append((name, [name.text]))
        elif name.text not in own:
            own.append(name.text)
    merged = []
    for name, own in groups:
        text = ", ".join(own)
        if len(text) > _LETTERS:
            text = short_name(own[0], _LETTERS) + (f" +{len(own) - 1}" if own[1:] else "")
        merged.append(name._replace(text=text))
    return merged
