"""Figure of a workload: operators from top to bottom, the tensors between them, what is fused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from simaccel.errors import Fault, InputError
from simaccel.report.figures.style import SERIES_COLOURS, SMALL_POINTS, new_figure
from simaccel.report.units import bytes_text, short_name
from simaccel.workload import Operator, Vector, Workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST: Final = 400
"""Operators one below or beside another."""
_BAND: Final = 45
"""Rows of a band; more stand in bands side by side."""
_BOX_WIDTH: Final = 1.6
_BOX_HEIGHT: Final = 0.34
_ROW_INCHES: Final = 0.62
_COLUMN_INCHES: Final = 1.95
_LANE_INCHES: Final = 0.12
_LETTERS: Final = 26
_ARROW: Final = {
    "arrowstyle": "-|>",
    "color": "#666666",
    "linewidth": 0.6,
    "shrinkA": 0,
    "shrinkB": 0,
}
_LABEL: Final[dict[str, Any]] = {
    "fontsize": SMALL_POINTS - 2,
    "color": "#444444",
    "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.3},
    "zorder": 4,  # above arrows, which stand where they have to
}
_FROM_OUTSIDE: Final = ("input", "cache")
"""Kinds of tensors that come in where no operator makes them."""
_SINGLE: Final = "#FFFFFF"
Place = tuple[float, float]


def draw_graph(workload: Workload, groups: Mapping[str, str] | None = None) -> Figure:
    """Draw operators with MACs (or elements) and weights, and the tensors between them with bytes.

    ``groups``: the group of each operator in a mapping; those of one group have one colour.

    Raises:
        InputError: more operators one below or beside another than a picture holds.

    """
    places = _places(workload)
    columns = max(x for x, _ in places.values()) - min(x for x, _ in places.values()) + 1
    rows = max(row for _, row in places.values()) + 1
    if max(rows, columns) > MOST:
        what = f"{rows:.0f} rows of up to {columns:.0f} operators"
        raise InputError([Fault("--plot", "operators", what, f"at most {MOST} either way")])
    scale, bands = _place_bands(workload, places)
    right = max(band.right + band.lanes for band in bands.values())
    height = _ROW_INCHES * min(rows, _BAND)
    figure = new_figure(max(3.3, right + _COLUMN_INCHES / 2), 0.5 + height)
    axes = figure.subplots()
    axes.set_axis_off()
    _draw_edges(axes, workload, scale, bands)
    colours = _colours(groups or {})
    for operator in workload.operators:
        _draw_box(axes, workload, operator, scale[operator.name], colours)
    axes.set_xlim(-_COLUMN_INCHES / 2, right)
    axes.set_ylim(-height + _ROW_INCHES / 2, _ROW_INCHES / 2)
    axes.set_title(_title(workload))
    return figure


@dataclass
class _Band:
    """Rows that stand in one band, in inches: where its boxes end, and room for lanes beside it."""

    number: int
    right: float
    lanes: float


def _place_bands(
    workload: Workload, places: Mapping[str, Place]
) -> tuple[dict[str, Place], dict[str, _Band]]:
    """Return the position of each operator in inches, and its band."""
    makers, scale, bands = _makers(workload), dict[str, Place](), dict[str, _Band]()
    number = {name: int(row) // _BAND for name, (_, row) in places.items()}
    left = 0.0
    for at in range(max(number.values()) + 1):
        inside = [name for name, band in number.items() if band == at]
        low = min(places[name][0] for name in inside)
        for name in inside:
            x, row = places[name]
            scale[name] = left + (x - low) * _COLUMN_INCHES, -(row % _BAND) * _ROW_INCHES
        detours = sum(
            places[operator.name][1] - places[name][1] > 1
            for operator in workload.operators
            for read in operator.inputs
            for name in makers.get(read.tensor, [])
            if number[name] == number[operator.name] == at
        )
        right = max(scale[name][0] for name in inside) + _BOX_WIDTH / 2
        band = _Band(at, right, _LANE_INCHES * (2 + detours))
        bands |= dict.fromkeys(inside, band)
        left = right + band.lanes + _COLUMN_INCHES / 2
    return scale, bands


def _title(workload: Workload) -> str:
    repeat = f", {workload.repeat} x the layer" if workload.repeat > 1 else ""
    count = len(workload.operators)
    return f"{workload.name}: {count} operators{repeat}, {_short(workload.macs)} MACs"


def _makers(workload: Workload) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for operator in workload.operators:
        found.setdefault(operator.output.tensor, []).append(operator.name)
    return found


def _places(workload: Workload) -> dict[str, Place]:
    """Return (column, row) of each operator: below all that it reads, those of a row side by side.

    Where no operator reads what another makes, they stand in their order.
    """
    makers = _makers(workload)
    linked = any(read.tensor in makers for each in workload.operators for read in each.inputs)
    rows: dict[str, int] = {}
    for at, operator in enumerate(workload.operators):
        made = [name for read in operator.inputs for name in makers.get(read.tensor, [])]
        before = [rows[name] for name in made if name in rows]
        rows[operator.name] = (1 + max(before, default=-1)) if linked else at
    counts, taken = Counter(rows.values()), Counter[int]()
    places = {}
    for name, row in rows.items():
        places[name] = (taken[row] - (counts[row] - 1) / 2, float(row))
        taken[row] += 1
    return places


def _draw_edges(
    axes: Axes,
    workload: Workload,
    places: Mapping[str, Place],
    bands: Mapping[str, _Band],
) -> None:
    """Draw an arrow for each tensor that is read: straight to the next row, else in a lane.

    Into another band it is a short arrow with the tensor's name.
    """
    makers, labelled = _makers(workload), set[str]()
    lanes, stubs = {band.number: band.right for band in bands.values()}, Counter[str]()
    ends = {(bands[name].number, y): x for name, (x, y) in sorted(places.items(), key=_column)}
    for operator in workload.operators:
        for read in operator.inputs:
            for name in makers.get(read.tensor, []):
                start, end, band = places[name], places[operator.name], bands[name].number
                if band != bands[operator.name].number:
                    _draw_stub(
                        axes, end, short_name(read.tensor, 12), 1 if stubs[operator.name] else -1
                    )
                    stubs[operator.name] += 1
                elif start[1] - end[1] > 1.5 * _ROW_INCHES:
                    lanes[band] += _LANE_INCHES
                    free = [place[0] == ends[band, place[1]] for place in (start, end)]
                    _draw_detour(axes, start, end, lanes[band], free)
                else:
                    low, high = start[1] - _BOX_HEIGHT / 2, end[1] + _BOX_HEIGHT / 2
                    axes.annotate("", (end[0], high), (start[0], low), arrowprops=_ARROW)
                if name not in labelled:
                    labelled.add(name)
                    size = bytes_text(workload.tensor_bytes(read.tensor))
                    text = f"{short_name(read.tensor, 12)} {size}"
                    side = -1 if end[0] > start[0] else 1
                    where = (start[0] + side * 0.06, start[1] - _BOX_HEIGHT / 2 - 0.02)
                    axes.text(*where, text, va="top", ha="left" if side > 0 else "right", **_LABEL)
            if workload.tensors[read.tensor].kind in _FROM_OUTSIDE and read.tensor not in makers:
                size = bytes_text(workload.tensor_bytes(read.tensor))
                text = f"{short_name(read.tensor, 12)} {size}"
                _draw_stub(axes, places[operator.name], text, 1 if stubs[operator.name] else -1)
                stubs[operator.name] += 1


def _draw_stub(axes: Axes, end: Place, text: str, side: int) -> None:
    """Draw a short arrow that comes from another band, left (-1) or right (1)."""
    x, high = end[0] + side * _BOX_WIDTH / 8, end[1] + _BOX_HEIGHT / 2
    axes.annotate("", (x, high), (x, high + 0.2), arrowprops=_ARROW)
    axes.text(x + side * 0.05, high + 0.1, text, ha="left" if side > 0 else "right", **_LABEL)


def _column(place: tuple[str, Place]) -> float:
    return place[1][0]


def _draw_detour(axes: Axes, start: Place, end: Place, lane: float, free: Sequence[bool]) -> None:
    """Draw an arrow that passes the rows between on the right of all boxes.

    ``free``: whether the way from the start, and that to the end, has no box of its row on it. One
    that isn't leads below its row, or above.
    """
    (x, y), (last, low) = start, end
    line: dict[str, Any] = {"color": "#666666", "linewidth": 0.6, "zorder": 0.5}
    if free[0]:
        xs, ys = [x + _BOX_WIDTH / 2, lane], [y, y]
    else:
        below, x = y - _BOX_HEIGHT / 2, x + _BOX_WIDTH * 3 / 8
        xs, ys = [x, x, lane], [below, below - 0.2, below - 0.2]
    if free[1]:
        turn, target = (lane, low), (last + _BOX_WIDTH / 2, low)
    else:
        above, last = low + _BOX_HEIGHT / 2, last + _BOX_WIDTH * 3 / 8
        turn, target = (last, above + 0.1), (last, above)
    axes.plot([*xs, lane, turn[0]], [*ys, turn[1], turn[1]], **line)
    axes.annotate("", target, turn, arrowprops=_ARROW, zorder=0.5)


def _draw_box(
    axes: Axes,
    workload: Workload,
    operator: Operator,
    place: Place,
    colours: Mapping[str, str],
) -> None:
    from matplotlib.patches import FancyBboxPatch

    x, y = place
    is_vector = isinstance(operator, Vector)
    box = FancyBboxPatch(
        (x - _BOX_WIDTH / 2, y - _BOX_HEIGHT / 2),
        _BOX_WIDTH,
        _BOX_HEIGHT,
        boxstyle="round,pad=0,rounding_size=0.08" if is_vector else "square,pad=0",
        facecolor=colours.get(operator.name, _SINGLE),
        edgecolor="#333333",
        linewidth=0.5 if is_vector else 1.0,
    )
    axes.add_patch(box)
    names = {
        read.tensor for read in operator.inputs if workload.tensors[read.tensor].kind == "weight"
    }
    weights = sum(map(workload.tensor_bytes, names))
    work = f"{_short(operator.macs)} MACs"
    if not operator.macs:
        kind = operator.kind if isinstance(operator, Vector) else ""
        told = [kind.replace("_", " ")] if kind and kind not in operator.name else []
        work = ", ".join([*told, f"{_short(_elements(operator))} el."])
    second = f"{work}, W {bytes_text(weights)}" if weights else work
    style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SMALL_POINTS - 1}
    axes.text(x, y + 0.075, short_name(operator.name, _LETTERS), fontweight="bold", **style)
    axes.text(x, y - 0.075, second, **style)


def _elements(operator: Operator) -> int:
    return operator.elements if isinstance(operator, Vector) else 0


def _short(number: int) -> str:
    """Write a count with three digits.

    >>> _short(4_089_184_256), _short(999)
    ('4.09 G', '999')
    """
    for size, unit in ((10**15, "P"), (10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return str(number)


def _colours(groups: Mapping[str, str]) -> dict[str, str]:
    """Return a light colour for each operator that shares its group with another."""
    from matplotlib.colors import to_hex, to_rgb

    sizes = Counter(groups.values())
    fused = [group for group in dict.fromkeys(groups.values()) if sizes[group] > 1]
    found = {}
    for name, group in groups.items():
        if group in fused:
            red, green, blue = to_rgb(SERIES_COLOURS[fused.index(group) % len(SERIES_COLOURS)])
            found[name] = to_hex((_light(red), _light(green), _light(blue)))
    return found


def _light(part: float) -> float:
    return 1 - 0.35 * (1 - part)
