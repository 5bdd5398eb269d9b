"""The picture of a workload: every operator has a box, what is read has an arrow."""

from pathlib import Path

import pytest
from matplotlib.patches import FancyBboxPatch

from simaccel.errors import InputError
from simaccel.report.figures.graph import MOST, draw_graph
from simaccel.report.figures.style import save_figure, style
from simaccel.workload import (
    Einsum,
    Tensor,
    Workload,
    gemm,
    layers_workload,
    network,
    operand,
    transformer,
)
from simaccel.workload.einsum import Kind
from simaccel.workload.layers import Product


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

    def layer(name: str, given: str, made: str) -> Einsum:
        inputs = (operand(f"{given} b k"), operand(f"W{name} k n"))
        return Einsum(name, {"b": 2, "k": 2, "n": 2}, inputs, operand(f"{made} b n"))

    pairs = {"a": "X S", "b": "S Y", "c": "U T", "d": "T Z"}
    operators = tuple(layer(name, *how.split()) for name, how in pairs.items())
    names: dict[Kind, str] = {"input": "X U", "output": "Y Z", "intermediate": "S T"}
    names["weight"] = " ".join(f"W{name}" for name in pairs)
    kinds = {name: kind for kind, some in names.items() for name in some.split()}
    tensors = {name: Tensor(name, 1, kind) for name, kind in kinds.items()}
    with style():
        axes = draw_graph(Workload("two", operators, tensors)).axes[0]
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
