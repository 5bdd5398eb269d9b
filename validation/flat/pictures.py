"""Lines and panels, as all exhibits draw them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from simaccel.report.figures.style import SERIES_COLOURS, SERIES_MARKERS
from simaccel.report.units import bytes_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points = Sequence[tuple[float, float]]


def curves(
    axes: Axes, lines: Mapping[str, Points], *, dashed: Iterable[str] = (), first: int = 0
) -> None:
    """Draw lines with marks, one colour each; the ``dashed`` ones have no marks."""
    plain = {*dashed}
    for at, (label, points) in enumerate(lines.items(), start=first):
        xs, ys = [x for x, _ in points], [y for _, y in points]
        colour = SERIES_COLOURS[at % len(SERIES_COLOURS)]
        if label in plain:
            axes.plot(xs, ys, "--", color=colour, label=label)
        else:
            mark = SERIES_MARKERS[at % len(SERIES_MARKERS)]
            axes.plot(xs, ys, color=colour, marker=mark, markersize=3, label=label)


def over_buffer(axes: Axes, title: str = "") -> None:
    """Make the horizontal axis one of buffer sizes."""
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: bytes_text(round(value)))
    axes.tick_params(axis="x", labelrotation=30)
    finish(axes, title, "buffer")


def finish(axes: Axes, title: str = "", label: str = "") -> None:
    """Set title, label of the horizontal axis and grid."""
    axes.set_title(title)
    axes.set_xlabel(label)
    axes.grid(visible=True, linewidth=0.3, alpha=0.6)
