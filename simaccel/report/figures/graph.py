"""Figure of a workload: operators from top to bottom, the tensors between them, what is fused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from simaccel.errors import Fault, InputError
from simaccel.report.figures.axes import shortened
from simaccel.report.figures.style import SERIES_COLOURS, SMALL_POINTS, new_figure
from simaccel.report.units import bytes_text
from simaccel.workload import Operator, Vector, Workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST: Final = 100
"""Operators one below or beside another."""
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
    width = _COLUMN_INCHES * columns + _LANE_INCHES * (2 + _detours(workload, places))
    figure = new_figure(max(3.3, width), 0.5 + _ROW_INCHES * rows)
    axes = figure.subplots()
    axes.set_axis_off()
    scale = {name: (x * _COLUMN_INCHES, -row * _ROW_INCHES) for name, (x, row) in places.items()}
    _draw_edges(axes, workload, scale)
    colours = _colours(groups or {})
    for operator in workload.operators:
        _draw_box(axes, workload, operator, scale[operator.name], colours)
    xs = [x for x, _ in scale.values()]
    low = min(y for _, y in scale.values())
    lanes = _LANE_INCHES * (2 + _detours(workload, places))
    axes.set_xlim(min(xs) - _COLUMN_INCHES / 2, max(xs) + _BOX_WIDTH / 2 + lanes)
    axes.set_ylim(low - _ROW_INCHES / 2, _ROW_INCHES / 2)
    axes.set_title(_title(workload))
    return figure


def _detours(workload: Workload, places: Mapping[str, Place]) -> int:
    """Count the reads that pass a row."""
    makers = _makers(workload)
    return sum(
        places[operator.name][1] - places[name][1] > 1
        for operator in workload.operators
        for one in operator.inputs
        for name in makers.get(one.tensor, [])
    )


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
    rows: dict[str, int] = {}
    for at, operator in enumerate(workload.operators):
        before = [
            rows[name]
            for one in operator.inputs
            for name in makers.get(one.tensor, [])
            if name in rows
        ]
        read = any(one.tensor in makers for one in operator.inputs)
        rows[operator.name] = 1 + max(before) if before else (0 if read or at == 0 else -1)
    later = [name for name, row in rows.items() if row < 0]
    linked = len(later) + 1 < len(rows)
    for at, name in enumerate(later):
        rows[name] = 0 if linked else at + 1
    counts, taken = Counter(rows.values()), Counter[int]()
    places = {}
    for name, row in rows.items():
        places[name] = (taken[row] - (counts[row] - 1) / 2, float(row))
        taken[row] += 1
    return places


def _draw_edges(axes: Axes, workload: Workload, places: Mapping[str, Place]) -> None:
    """Draw an arrow for each tensor that is read: straight to the next row, else in a lane."""
    makers, labelled = _makers(workload), set[str]()
    lane = max(x for x, _ in places.values()) + _BOX_WIDTH / 2
    for operator in workload.operators:
        for one in operator.inputs:
            for name in makers.get(one.tensor, []):
                start, end = places[name], places[operator.name]
                if start[1] - end[1] > 1.5 * _ROW_INCHES:
                    lane += _LANE_INCHES
                    _draw_detour(axes, start, end, lane)
                else:
                    low, high = start[1] - _BOX_HEIGHT / 2, end[1] + _BOX_HEIGHT / 2
                    axes.annotate("", (end[0], high), (start[0], low), arrowprops=_ARROW)
                if name not in labelled:
                    labelled.add(name)
                    size = bytes_text(workload.tensor_bytes(one.tensor))
                    text = f"{shortened(one.tensor, 12)} {size}"
                    where = (start[0] + 0.06, start[1] - _BOX_HEIGHT / 2 - 0.02)
                    axes.text(*where, text, fontsize=SMALL_POINTS - 2, color="#444444", va="top")


def _draw_detour(axes: Axes, start: Place, end: Place, lane: float) -> None:
    """Draw an arrow that passes the rows between on the right of all boxes."""
    xs = [start[0] + _BOX_WIDTH / 2, lane, lane]
    axes.plot(xs, [start[1], start[1], end[1]], color="#666666", linewidth=0.6, zorder=0.5)
    target = (end[0] + _BOX_WIDTH / 2, end[1])
    axes.annotate("", target, (lane, end[1]), arrowprops=_ARROW, zorder=0.5)


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
    names = {one.tensor for one in operator.inputs if workload.tensors[one.tensor].kind == "weight"}
    weights = sum(map(workload.tensor_bytes, names))
    work = (
        f"{_short(operator.macs)} MACs" if operator.macs else f"{_short(_elements(operator))} el."
    )
    second = f"{work}, W {bytes_text(weights)}" if weights else work
    style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SMALL_POINTS - 1}
    axes.text(x, y + 0.075, shortened(operator.name, _LETTERS), fontweight="bold", **style)
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
