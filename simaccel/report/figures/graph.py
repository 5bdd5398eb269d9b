"""Figure of a workload: operators from top to bottom, tensors between them, and fused groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from networkx import DiGraph, topological_generations

from simaccel.errors import Fault, InputError
from simaccel.report.figures.style import SERIES_COLOURS, SMALL_POINTS, Axes, Figure, new_figure
from simaccel.report.units import bytes_text, large_count, short_name
from simaccel.workload import Operator, Vector, Workload

MOST: Final = 400
"""Most operators below or beside one another."""
_BAND: Final = 45
"""Most rows of a band; further bands stand beside it."""
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
"""Kinds of tensors that are drawn as inputs if no operator makes them."""
_SINGLE: Final = "#FFFFFF"
_Position = tuple[float, float]


def draw_graph(workload: Workload, groups: Mapping[str, str] | None = None) -> Figure:
    """Draw operators with MACs (or elements) and weights, and the tensors between them with bytes.

    ``groups``: the group of each operator in a mapping; each group has a colour.

    Raises:
        InputError: more operators one below or beside another than a picture holds.
    """
    graph, order = _graph(workload), [operator.name for operator in workload.operators]
    rows = [[name] for name in order]
    if graph.edges:  # each below all that it reads
        rows = [sorted(row, key=order.index) for row in topological_generations(graph)]
    columns = max(map(len, rows))
    if max(len(rows), columns) > MOST:
        what = f"{len(rows)} rows of up to {columns} operators"
        raise InputError([Fault("--plot", "operators", what, f"at most {MOST} either way")])
    places = {
        name: ((at - (len(row) - 1) / 2) * _COLUMN_INCHES, -number * _ROW_INCHES)
        for number, row in enumerate(rows)
        for at, name in enumerate(row)
    }
    bands = [_Band(rows[at : at + _BAND], graph) for at in range(0, len(rows), _BAND)]
    height = _ROW_INCHES * min(len(rows), _BAND)
    widths = [band.width for band in bands]
    figure = new_figure(max(3.3, sum(widths)), 0.5 + height)
    panels = figure.subplots(1, len(bands), squeeze=False, width_ratios=widths)[0]
    colours = _colours(groups or {})
    for number, (axes, band) in enumerate(zip(panels, bands, strict=True)):
        top = (0.5 - number * _BAND) * _ROW_INCHES
        axes.set(xlim=(band.left, band.left + band.width), ylim=(top - height, top))
        axes.set_axis_off()
        _draw_edges(axes, workload, graph, places, band)
        for name in band.row_of:
            _draw_box(axes, workload, workload.operator(name), places[name], colours)
    repeat = f", {workload.repeat} x the layer" if workload.repeat > 1 else ""
    count = f"{len(workload.operators)} operators{repeat}"
    panels[0].set_title(f"{workload.name}: {count}, {large_count(workload.macs)} MACs")
    return figure


class _Band:
    """Rows that stand in one band: the row of each operator, and the size in inches.

    ``passing``: the edges of its arrows that pass rows, each of which has a lane.
    """

    def __init__(self, rows: Sequence[Sequence[str]], graph: DiGraph[str]) -> None:
        self.row_of = {name: at for at, row in enumerate(rows) for name in row}
        inside = ((a, b) for a, b in graph.edges if a in self.row_of and b in self.row_of)
        self.passing = {(a, b) for a, b in inside if self.row_of[b] - self.row_of[a] > 1}
        self.left = -max(map(len, rows)) * _COLUMN_INCHES / 2
        self.width = -2 * self.left + _LANE_INCHES * (2 + len(self.passing))


def _graph(workload: Workload) -> DiGraph[str]:
    makers: dict[str, list[str]] = {}
    for operator in workload.operators:
        makers.setdefault(operator.output.tensor, []).append(operator.name)
    graph: DiGraph[str] = DiGraph()
    graph.add_nodes_from(operator.name for operator in workload.operators)
    for operator in workload.operators:
        for read in operator.inputs:
            graph.add_edges_from((name, operator.name) for name in makers.get(read.tensor, ()))
    return graph


def _draw_edges(
    axes: Axes,
    workload: Workload,
    graph: DiGraph[str],
    places: Mapping[str, _Position],
    band: _Band,
) -> None:
    """Draw an arrow for each tensor that is read: straight to the next row, else in a lane.

    What comes from another band, or from outside, is a short arrow with the tensor's name.
    """
    lane = -band.left
    for name in band.row_of:
        end, stubs = places[name], _outside_texts(workload, workload.operator(name))
        for made in graph.predecessors(name):
            start, tensor = places[made], workload.operator(made).output.tensor
            if made not in band.row_of:
                stubs.append(short_name(tensor, 12))
            elif (made, name) in band.passing:
                lane += _LANE_INCHES
                _draw_detour(axes, start, end, lane)
            else:
                low, high = start[1] - _BOX_HEIGHT / 2, end[1] + _BOX_HEIGHT / 2
                axes.annotate("", (end[0], high), (start[0], low), arrowprops=_ARROW)
        for at, text in enumerate(stubs):
            _draw_stub(axes, end, text, 1 if at else -1)
        if after := next(graph.successors(name), None):
            side = -1 if places[after][0] > end[0] else 1
            where = (end[0] + side * 0.06, end[1] - _BOX_HEIGHT / 2 - 0.02)
            text = _tensor_text(workload, workload.operator(name).output.tensor)
            axes.text(*where, text, va="top", ha="left" if side > 0 else "right", **_LABEL)


def _outside_texts(workload: Workload, operator: Operator) -> list[str]:
    made = {other.output.tensor for other in workload.operators}
    names = (read.tensor for read in operator.inputs if read.tensor not in made)
    kinds = {name: workload.tensors[name].kind for name in names}
    return [_tensor_text(workload, name) for name, kind in kinds.items() if kind in _FROM_OUTSIDE]


def _tensor_text(workload: Workload, tensor: str) -> str:
    return f"{short_name(tensor, 12)} {bytes_text(workload.tensor_bytes(tensor))}"


def _draw_stub(axes: Axes, end: _Position, text: str, side: int) -> None:
    """Draw a short arrow that comes from another band, left (-1) or right (1)."""
    x, high = end[0] + side * _BOX_WIDTH / 8, end[1] + _BOX_HEIGHT / 2
    axes.annotate("", (x, high), (x, high + 0.2), arrowprops=_ARROW)
    axes.text(x + side * 0.05, high + 0.1, text, ha="left" if side > 0 else "right", **_LABEL)


def _draw_detour(axes: Axes, start: _Position, end: _Position, lane: float) -> None:
    """Draw an arrow that passes the rows between on the right of all boxes, from gap to gap."""
    (x, below), (last, above) = (
        (at + _BOX_WIDTH * 3 / 8, y + side * _BOX_HEIGHT / 2)
        for (at, y), side in ((start, -1), (end, 1))
    )
    xs, ys = [x, x, lane, lane, last], [below, *[below - 0.2] * 2, *[above + 0.1] * 2]
    axes.plot(xs, ys, color="#666666", linewidth=0.6, zorder=0.5)
    axes.annotate("", (last, above), (last, above + 0.1), arrowprops=_ARROW, zorder=0.5)


def _draw_box(
    axes: Axes, workload: Workload, operator: Operator, place: _Position, colours: Mapping[str, str]
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
    work = f"{large_count(operator.macs)} MACs"
    if not operator.macs:
        kind = operator.kind if isinstance(operator, Vector) else ""
        kinds = [kind.replace("_", " ")] if kind and kind not in operator.name else []
        elements = operator.elements if isinstance(operator, Vector) else 0
        work = ", ".join([*kinds, f"{large_count(elements)} el."])
    second = f"{work}, W {bytes_text(weights)}" if weights else work
    style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SMALL_POINTS - 1}
    axes.text(x, y + 0.075, short_name(operator.name, _LETTERS), fontweight="bold", **style)
    axes.text(x, y - 0.075, second, **style)


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
