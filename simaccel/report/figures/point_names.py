"""Names beside the points of a figure: none over another, over a line or over a point."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from simaccel.report.figures.style import Axes
from simaccel.report.units import short_name

_LETTERS: Final = 22
_SAME: Final = 3.0
"""Points on paper that are nearer than this have one name, in typographic points."""
_BESIDE: Final = 4.0
"""Between a point and a name right beside it, in typographic points."""
_RINGS: Final = (12, 18, 26, 36, 50, 66)
"""Distances of names that have a line to their point."""
_TURNS: Final = 16
"""Directions that are tried at each distance."""
_MARK: Final = 2.0
"""Half the size of a point that no name lies on, in typographic points."""
_NOTE: Final[dict[str, Any]] = {
    "fontsize": "x-small",
    "ha": "center",
    "va": "center",
    "in_layout": False,
}
_LEAD: Final[dict[str, Any]] = {"color": "#888888", "linewidth": 0.4, "zorder": 2}
Place = tuple[float, float]
Points = npt.NDArray[np.float64]


def name_points(
    axes: Axes,
    points: Sequence[tuple[str, Place]],
    most: int,
    colours: Mapping[str, str] | None = None,
) -> None:
    """Write names beside points, or with a thin line to them; points at one place have one name.

    All else is drawn and laid out before. ``points``: in data, the most important first;
    ``colours``: of texts that aren't black. A name that finds no free place is left out.
    """
    from matplotlib.path import Path
    from matplotlib.transforms import Bbox

    scale = axes.get_figure(root=True).dpi / 72  # type: ignore[union-attr]
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
    for text, point in _merge([(name, tuple(pixels(at) / scale)) for name, at in points])[:most]:
        note = axes.text(0, 0, text, transform=axes.transAxes, **_NOTE)
        note.set_color((colours or {}).get(text.partition(" +")[0], "black"))
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


def _merge(points: Sequence[tuple[str, Place]]) -> list[tuple[str, Place]]:
    """Give points at one place one name: all of theirs, or the first and the number of the others.

    >>> _merge([("Q", (50, 50)), ("K", (50, 50.1)), ("A", (70, 50))])
    [('Q, K', (50, 50)), ('A', (70, 50))]
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
