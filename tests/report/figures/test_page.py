"""Whole figures: nothing sticks out or overlaps, everything is labelled, bytes are reproducible."""

from itertools import combinations
from pathlib import Path

import h5py
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from simaccel.report.figures import KINDS
from simaccel.report.figures.page import FigureOptions, draw_page, plot_trace, shown_window
from simaccel.report.figures.stall_stack import stall_stacks
from simaccel.report.figures.style import style
from simaccel.trace import TraceReader
from tests.report.figures.conftest import PATHS

PAGES = [*((kind,) for kind in KINDS), KINDS]
LABELS = {
    "timeline": {"engine", "time (cycles)"},
    "bandwidth": {"GB/s", "bytes per cycle"},
    "occupancy": {"bytes held", "time (cycles)"},
    "stalls": {"operator", "cycles of array (%)"},
}
each_page = pytest.mark.parametrize("kinds", PAGES, ids="+".join)


_shown: dict[tuple[Path, tuple[str, ...]], tuple[Figure, list[tuple[Text, Bbox]]]] = {}
"""Pages that were drawn, and their texts: tests look at them and change nothing."""


def shown(trace: TraceReader, kinds: tuple[str, ...]) -> tuple[Figure, list[tuple[Text, Bbox]]]:
    """Draw a page, once for all tests, and find its texts."""
    key = (Path(trace.path), kinds)
    if key not in _shown:
        figure = page_of(trace, kinds)
        _shown[key] = figure, texts_of(figure)
    return _shown[key]


def page_of(trace: TraceReader, kinds: tuple[str, ...]) -> Figure:
    with style():
        asked = FigureOptions(kinds=kinds)
        return draw_page(trace, shown_window(trace, asked), asked)


def texts_of(figure: Figure) -> list[tuple[Text, Bbox]]:
    """Every text that can be seen, with its box in pixels."""
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    with style():
        figure.draw(renderer)
    beyond = {
        tick.label1
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in axis.get_major_ticks()
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    }
    found = []
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        if text.get_visible() and text.get_text().strip() and text not in beyond:
            found.append((text, text.get_window_extent(renderer)))
    return found


@each_page
def test_no_text_sticks_out_and_none_overlaps(trace: TraceReader, kinds: tuple[str, ...]) -> None:
    figure, texts = shown(trace, kinds)
    width, height = figure.bbox.width, figure.bbox.height
    for text, box in texts:
        inside = box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height
        assert inside, (text.get_text(), box)
    for (one, a), (other, b) in combinations(texts, 2):
        wide = min(a.x1, b.x1) - max(a.x0, b.x0)
        high = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert wide <= 1 or high <= 1, (one.get_text(), other.get_text())


@each_page
def test_axes_and_colours_are_explained(trace: TraceReader, kinds: tuple[str, ...]) -> None:
    texts = {text.get_text() for text, _ in shown(trace, kinds)[1]}
    for kind in kinds:
        assert LABELS[kind] <= texts
    explained = {"timeline": "busy", "occupancy": "Q" if "Q" in texts else "A", "stalls": "busy"}
    assert {explained[kind] for kind in kinds if kind in explained} <= texts
    assert any(text.startswith(str(trace.figures["workload"])) for text in texts)


@each_page
def test_one_figure_is_a_column_wide_and_a_page_two(
    edge: TraceReader, kinds: tuple[str, ...]
) -> None:
    width, height = shown(edge, kinds)[0].get_size_inches()
    assert width == (3.3 if len(kinds) == 1 else 7)
    assert height < (4.5 if len(kinds) == 1 else 11)


def test_the_width_can_be_chosen(toy: TraceReader) -> None:
    with style():
        asked = [FigureOptions(kinds=["stalls"], columns=columns) for columns in (1, 2)]
        shown = shown_window(toy, asked[0])
        widths = [draw_page(toy, shown, one).get_size_inches()[0] for one in asked]
    assert widths == [3.3, 7]


def test_small_type_is_not_too_small(edge: TraceReader) -> None:
    """Nothing below 5.5 pt, the least that printers advise."""
    sizes = {float(text.get_fontsize()) for text, _ in shown(edge, KINDS)[1]}
    assert min(sizes) >= 5.5


def test_panels_of_a_page_share_their_edges(edge: TraceReader) -> None:
    figure, _ = shown(edge, KINDS)
    places = {
        (round(place.x0, 9), round(place.x1, 9))
        for place in (axes.get_position() for axes in figure.axes)
    }
    assert len(places) == 1


def test_titles_say_which_part_is_shown(edge: TraceReader) -> None:
    """67,999 cycles at 720 MHz are 94.4 us."""
    texts = " ".join(text.get_text() for text, _ in shown(edge, KINDS)[1])
    words = " ".join(texts.split())
    assert "Bandwidth (dashed: limit), all" in words
    assert "cycles 0 to 67,999 of 25,550,299 (94.4 us of 35.5 ms)" in words
    assert "dashed: a period of 33,266 cycles, 764 times" in words
    assert "all 25,550,299 cycles (35.5 ms)" in words


def test_the_same_trace_gives_the_same_bytes(toy: TraceReader, tmp_path: Path) -> None:
    for name in ("a", "b"):
        plot_trace(toy, tmp_path / f"{name}.svg", FigureOptions(kinds=["timeline"]))
    first, second = ((tmp_path / f"{name}.svg").read_bytes() for name in ("a", "b"))
    assert first == second
    assert len(first) > 5000


def test_what_is_shown_of_a_run(edge: TraceReader) -> None:
    default = shown_window(edge, FigureOptions())
    assert default.cycles("timeline") == default.cycles("occupancy") == (0, 67_999)
    assert default.cycles("bandwidth") == default.cycles("stalls") == (0, edge.cycles)
    asked = shown_window(edge, FigureOptions(start=5, end=700))
    assert {asked.cycles(kind) for kind in KINDS} == {(5, 700)}


def test_a_window_of_one_cycle_can_be_drawn(edge: TraceReader, tmp_path: Path) -> None:
    plot_trace(edge, tmp_path / "one.svg", FigureOptions(start=edge.cycles - 1))
    assert (tmp_path / "one.svg").stat().st_size > 1000


def test_a_partial_trace_is_drawn_and_says_so(tmp_path: Path) -> None:
    """It has no figures: its stacks come from rows, which with one operator are the same."""
    path = tmp_path / "part.h5"
    path.write_bytes(PATHS["toy_attention_flat"].read_bytes())
    with h5py.File(path, "r+") as file:
        file.attrs["complete"] = False
    with TraceReader.open(path) as partial, TraceReader.open(PATHS["toy_attention_flat"]) as whole:
        texts = {text.get_text() for text, _ in texts_of(page_of(partial, KINDS))}
        assert any(text.endswith("(partial)") for text in texts)
        (told,), (known,) = (stall_stacks(trace, "array") for trace in (partial, whole))
        assert (told.cycles, told.ideal_cycles) == (known.cycles, 0), "its MACs are not counted"
