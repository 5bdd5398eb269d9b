"""Figures look the same everywhere, are written whole or not at all; pictures of workloads."""

import itertools
from pathlib import Path

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from simaccel.errors import InputError
from simaccel.report.figures.graph import MOST, draw_graph
from simaccel.report.figures.style import (
    CAUSE_COLOURS,
    CAUSE_LABELS,
    SUFFIXES,
    in_order,
    new_figure,
    require_figure_target,
    save_figure,
    style,
)
from simaccel.trace.schema import CAUSES
from simaccel.workload import gemm, layers_workload, network, transformer
from simaccel.workload.layers import Product
from tests.trees import einsum, workload

Colour = npt.NDArray[np.float64]

# Machado, Oliveira and Fernandes, IEEE TVCG 15(6), 2009, severity 1: on linear RGB.
BLINDNESS = {
    "none": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
    "grey": np.tile([0.2126, 0.7152, 0.0722], (3, 1)),
}
LEAST_DIFFERENCE = 10
"""In CIE L*a*b*; 2 is what an eye just sees side by side."""


def seen(colour: str, blindness: str) -> Colour:
    """A colour in L*a*b* (D65) as an eye sees it."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(BLINDNESS[blindness] @ linear, 0, 1)
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    x, y, z = np.cbrt(to_xyz @ linear / np.array([0.9505, 1.0, 1.089]))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("blindness", BLINDNESS)
def test_causes_with_the_same_hatch_differ_in_colour_for_every_eye(blindness: str) -> None:
    for (a, (one, hatch)), (b, (other, its)) in itertools.combinations(CAUSE_COLOURS.items(), 2):
        difference = np.linalg.norm(seen(one, blindness) - seen(other, blindness))
        assert hatch != its or difference > LEAST_DIFFERENCE, (a, b, difference)


def test_every_cause_has_a_look_and_a_name() -> None:
    assert set(CAUSE_COLOURS) == set(CAUSE_LABELS) == set(CAUSES)
    assert in_order(CAUSES)[0] == "busy"
    assert in_order([*CAUSES, "new"])[-2:] == ["idle", "new"]


def drawn() -> Figure:
    """A figure with all that may depend on the day or on chance."""
    figure = new_figure(3.3, 2)
    axes = figure.subplots()
    axes.bar([1], [2], hatch="//", label="bytes")
    axes.set_xlabel("time (cycles)")
    axes.legend()
    return figure


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_same_figure_gives_the_same_bytes_whatever_the_settings(
    suffix: str, tmp_path: Path
) -> None:
    contents = []
    for name, size in (("a", 10), ("b", 30)):
        with mpl.rc_context({"font.size": size, "svg.hashsalt": None, "savefig.dpi": size}):
            with style():
                contents.append(save_figure(drawn(), tmp_path / (name + suffix)).read_bytes())
            assert mpl.rcParams["font.size"] == size
    assert contents[0] == contents[1]
    assert len(contents[0]) > 1000
    for word in (b"Date", b"/tmp", b"matplotlib version"):
        assert word not in contents[0]


TARGETS = {
    "a.jpg": r"a\.jpg: suffix: got '\.jpg'; (did you mean '\.png'\?|allowed: one of \.png, \.svg)",
    "a": r"a: suffix: got 'a'; allowed: one of \.png, \.svg, \.pdf",
    "old.svg": r"old\.svg: output: got 'a file that exists'; allowed: a new file, or --force",
}


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_that_cannot_be_is_refused_with_what_may_be(name: str, tmp_path: Path) -> None:
    (tmp_path / "old.svg").write_text("old")
    with pytest.raises(InputError, match=TARGETS[name]):
        require_figure_target(tmp_path / name)
    assert (tmp_path / "old.svg").read_text() == "old"


def test_force_replaces_a_file_and_suffixes_may_be_capitals(tmp_path: Path) -> None:
    (tmp_path / "old.SVG").write_text("old")
    with style():
        save_figure(drawn(), tmp_path / "old.SVG", force=True)
    assert (tmp_path / "old.SVG").read_bytes().startswith(b"<?xml")
    assert [one.name for one in tmp_path.iterdir()] == ["old.SVG"]


def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def savefig(_: Figure, path: Path, **__: object) -> None:
        path.write_text("half")
        raise OSError("disk full")

    monkeypatch.setattr(Figure, "savefig", savefig)
    target = tmp_path / "old.pdf"
    target.write_text("old")
    with style(), pytest.raises(InputError):
        save_figure(drawn(), target, force=True)
    assert target.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["old.pdf"]


def test_boxes_texts_and_colours() -> None:
    workload = transformer("llama3-8b", phase="decode", kv_len=99)
    fused = dict.fromkeys(("L", "softmax", "A"), "L+softmax+A") | {"O": "O"}
    with style():
        axes = draw_graph(workload, fused).axes[0]
    boxes = [one for one in axes.patches if isinstance(one, FancyBboxPatch)]
    assert len(boxes) == len(workload.operators)
    coloured = [one for one in boxes if one.get_facecolor()[:3] != (1.0, 1.0, 1.0)]
    assert len(coloured) == 3
    texts = {one.get_text() for one in axes.texts}
    assert {one.name for one in workload.operators} <= texts
    assert {"16.8 M MACs, W 32.0 MiB", "X1 8.00 KiB", "V 200 KiB"} <= texts
    places = {one.get_text(): one.get_position() for one in axes.texts}
    assert places["L"][1] > places["softmax"][1] > places["A"][1] > places["O"][1]


def test_operators_that_share_nothing_stand_in_their_order() -> None:
    with style():
        axes = draw_graph(network("alexnet", scope="layers")).axes[0]
    places = {one.get_text(): one.get_position() for one in axes.texts}
    assert places["conv1"][1] > places["conv2"][1] > places["fc8"][1]
    assert len({places[name][0] for name in ("conv1", "conv2", "fc8")}) == 1


def test_what_reads_stands_below_what_makes_it() -> None:
    """Two chains beside each other: the first layers in one row, the second ones in the next."""
    pairs = {"a": "X S", "b": "S Y", "c": "U T", "d": "T Z"}
    operators = [
        einsum(name, f"{made} b n", f"{given} b k", f"W{name} k n", b=2, k=2, n=2)
        for name, (given, made) in ((name, how.split()) for name, how in pairs.items())
    ]
    with style():
        axes = draw_graph(workload(*operators, weights=[f"W{name}" for name in pairs])).axes[0]
    rows = {one.get_text(): one.get_position()[1] for one in axes.texts}
    assert rows["a"] == rows["c"] > rows["b"] == rows["d"]


def test_many_rows_stand_in_bands() -> None:
    """ResNet-50 has 69 rows: the picture is 45 high; what comes from the first band is named."""
    with style():
        figure = draw_graph(network("resnet50", scope="model"))
    assert figure.get_size_inches()[1] == pytest.approx(0.5 + 45 * 0.62)
    first, second = ({one.get_text() for one in axes.texts} for axes in figure.axes)
    assert "conv1" in first - second
    assert "fc1000" in second - first
    assert "res4c.O" in second  # of the shortcut that goes from one band to the next


def test_the_same_workload_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        with style():
            save_figure(draw_graph(gemm(m=2, k=3, n=4)), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_what_no_picture_holds_is_refused() -> None:
    many = {f"fc{at}": Product(m=1, k=2, n=3) for at in range(MOST + 1)}
    with pytest.raises(InputError, match=f"at most {MOST} either way"):
        draw_graph(layers_workload("many", many))
