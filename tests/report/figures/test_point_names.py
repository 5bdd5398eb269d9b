"""Names beside points: where they are drawn, measured as matplotlib draws them."""

import itertools

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from simaccel.report.figures.facets import name_points
from simaccel.report.figures.style import style

_INCHES = (6.3, 3.2)


def _named(points: list[tuple[str, tuple[float, float]]]) -> Axes:
    with style():
        axes = Figure(figsize=_INCHES, dpi=200).add_axes((0.08, 0.18, 0.84, 0.75))
        axes.set(xlim=(0, 1), ylim=(0, 1))
        xs, ys = zip(*(place for _, place in points), strict=True)
        axes.scatter(xs, ys, s=4)
        name_points(axes, points, len(points))
    return axes


def _boxes(axes: Axes) -> dict[str, Bbox]:
    with style():
        return {text.get_text(): text.get_window_extent() for text in axes.texts}


@pytest.mark.parametrize("seed", range(5))
def test_names_lie_on_no_other_name_and_inside_of_the_axes(seed: int) -> None:
    draw = np.random.default_rng(seed)
    points = [(f"layer{at}", (draw.uniform(0.2, 0.9), draw.choice([0.7, 0.3]))) for at in range(12)]
    axes = _named(points)
    boxes = _boxes(axes)
    assert len(boxes) >= 6
    whole = axes.get_window_extent()
    assert all(whole.x0 <= box.x0 and box.x1 <= whole.x1 for box in boxes.values())
    pairs = itertools.combinations(boxes.values(), 2)
    assert not any(one.overlaps(other) for one, other in pairs)
    marks = axes.transData.transform([place for _, place in points])
    assert not any(box.contains(x, y) for box in boxes.values() for x, y in marks)


def test_points_at_one_place_have_one_name_and_a_crowded_one_has_a_line() -> None:
    crowd = [
        ("Q", (0.5, 0.5)),
        ("K", (0.501, 0.5)),
        ("FF1", (0.53, 0.5)),
        ("FF2", (0.56, 0.5)),
        ("alone", (0.9, 0.1)),
    ]
    axes = _named([*crowd, ("alone", (0.9, 0.1))])
    assert sorted(_boxes(axes)) == ["FF1", "FF2", "Q, K", "alone"]
    assert len(axes.lines) == 1  # FF1, with points on both sides, has no room right beside it
