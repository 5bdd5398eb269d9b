"""Style of figures: widths, type sizes, and a colour and hatch for each activity of an engine.

Nothing here imports matplotlib at the top: the palette also serves pages that draw without it.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from simaccel.errors import Fault, InputError, suggest
from simaccel.files.targets import STDOUT, require_target, writing
from simaccel.units import CAUSES

if TYPE_CHECKING:
    from matplotlib.artist import Artist as Artist
    from matplotlib.axes import Axes as Axes
    from matplotlib.axis import Axis as Axis
    from matplotlib.figure import Figure as Figure
    from matplotlib.figure import FigureBase as FigureBase
    from matplotlib.figure import SubFigure as SubFigure
else:  # types for those who draw, without loading matplotlib
    Artist = Axes = Axis = Figure = FigureBase = SubFigure = object

SINGLE_COLUMN_INCHES: Final = 3.3
DOUBLE_COLUMN_INCHES: Final = 7.0
SMALL_POINTS: Final = 7.0
TITLE_POINTS: Final = 7.5
SUFFIXES: Final = (".png", ".svg", ".pdf")
DPI: Final = 300
_LETTERS_PER_INCH: Final = 15
"""Letters of a title per inch."""

CAUSE_COLOURS: Final[Mapping[str, tuple[str, str]]] = {
    name: (cause.colour, cause.hatch) for name, cause in CAUSES.items()
}
"""Colour (RGB hex) and matplotlib hatch of each activity of an engine, in the order of stacks."""
CAUSE_LABELS: Final = {name: cause.label for name, cause in CAUSES.items()}
"""Labels of causes."""

SERIES_COLOURS: Final = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#F0E442",
    "#882255",
)
"""Colours of series (tiles, dataflows), in the order of use."""
SERIES_HATCHES: Final = ("", "////", "..", "xxxx", "\\\\\\\\", "----")
SERIES_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "*")
LIMIT_COLOUR: Final = "#000000"

_RC: Final[Mapping[str, object]] = MappingProxyType(
    {
        "font.family": "DejaVu Sans",
        "font.size": SMALL_POINTS,
        "axes.titlesize": TITLE_POINTS,
        "axes.labelsize": SMALL_POINTS,
        "xtick.labelsize": 6.5,
        "ytick.labelsize": 6.5,
        "legend.fontsize": 6.5,
        "axes.linewidth": 0.6,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "xtick.major.size": 2.5,
        "ytick.major.size": 2.5,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "grid.linewidth": 0.3,
        "grid.alpha": 0.6,
        "lines.linewidth": 1.0,
        "hatch.linewidth": 0.4,
        "legend.frameon": False,
        "legend.handlelength": 1.4,
        "legend.handleheight": 0.9,
        "legend.columnspacing": 1.2,
        "legend.handletextpad": 0.5,
        # Editable text in PDF, as publishers ask; outlines in SVG, so that it looks the same
        # where the font is missing.
        "pdf.fonttype": 42,
        "svg.fonttype": "path",
        "svg.hashsalt": "simaccel",
        "savefig.dpi": DPI,
    }
)

_NO_DATES: Final[Mapping[str, Mapping[str, None]]] = MappingProxyType(
    {
        ".png": {"Software": None},
        ".svg": {"Date": None, "Creator": None},
        ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    }
)
"""Metadata to leave out, so that the same figure gives the same bytes."""


@contextmanager
def style() -> Iterator[None]:
    """Set the style of figures in a ``with`` block, in which a figure is built and saved.

    Afterwards, matplotlib's settings are as before.
    """
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)  # type: ignore[arg-type]
        yield


def new_figure(width_inches: float, height_inches: float, title: str = "") -> Figure:
    """Return an empty figure with automatic layout. Call it inside ``style()``."""
    from matplotlib.figure import Figure

    from simaccel.report.titles import wrap_title

    figure = Figure((width_inches, height_inches), layout="constrained")
    if title:
        text = wrap_title(title, int(_LETTERS_PER_INCH * width_inches))
        figure.suptitle(text, fontsize="medium", x=0.01, ha="left")
    return figure


def svg_text(figure: Figure) -> str:
    """Return a figure as an SVG element of a page. Call it inside ``style()``."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata=dict(_NO_DATES[".svg"]))
    text = out.getvalue()
    return text[text.index("<svg") :]


def cause_look(cause: str) -> tuple[str, str]:
    """Return the colour and the hatch of a cause; unknown ones have a look, too."""
    return CAUSE_COLOURS.get(cause, ("#FFFFFF", "ooo"))


def in_order(causes: Iterable[str]) -> list[str]:
    """Return causes in the order of stacks and legends; unknown ones come last.

    >>> in_order({"idle", "sfu", "busy"})
    ['busy', 'sfu', 'idle']
    """
    places = {cause: at for at, cause in enumerate(CAUSE_COLOURS)}
    return sorted(causes, key=lambda cause: (places.get(cause, len(places)), cause))


def require_figure_target(
    path: str | Path, *, force: bool = False, inputs: Iterable[str | Path] = ()
) -> Path:
    """Refuse a path to which a figure can't be written, before anything is drawn.

    Raises:
        InputError: the suffix is none of ``SUFFIXES``, or as of ``require_target``.
    """
    if path != STDOUT and Path(path).suffix.lower() not in SUFFIXES:
        path = Path(path)
        suffix = path.suffix.lower() or path.name
        raise InputError([Fault(str(path), "suffix", suffix, suggest(suffix, SUFFIXES))])
    return require_target(path, force=force, inputs=inputs)


def save_figure(
    figure: Figure, path: str | Path, *, force: bool = False, inputs: Iterable[str | Path] = ()
) -> Path:
    """Write a figure in the format of the suffix. Call it inside ``style()``.

    The same figure gives the same bytes; the target is never half-written.

    Raises:
        InputError: as of ``require_figure_target``, or writing fails.
    """
    path = require_figure_target(path, force=force, inputs=inputs)
    suffix = path.suffix.lower()
    kind: dict[str, Any] = {"format": suffix[1:], "metadata": dict(_NO_DATES[suffix])}
    with writing(path, force=force, inputs=inputs) as partial:
        figure.savefig(partial, dpi=DPI, **kind)
    return path
