"""Transposed convolutions: MACs counted by hand and by listing, values by onnx's evaluator."""

import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx.reference
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from simaccel import load_accelerator, simulate
from simaccel.analytic.floor.compulsory import distinct_bytes
from simaccel.diagnosis.check import check
from simaccel.diagnosis.plain_values import expected_values
from simaccel.errors import InputError
from simaccel.importers.onnx_files import load_onnx
from tests.draws import DRAWS
from tests.importers.onnx_files.models import save


def _saved(
    path: Path,
    size: tuple[int, ...],
    reach: tuple[int, ...],
    channels: tuple[int, int] = (1, 1),
    **how: Any,  # noqa: ANN401 - attributes of all kinds
) -> tuple[Path, Any]:
    """Return the file of one transposed convolution of 1s, and its values on numbers from 1 on.

    ``channels``: of the input, and of the output in each group.
    """
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], **how)
    weights = np.ones((*channels, *reach), np.float32)
    x = np.arange(1, 1 + channels[0] * int(np.prod(size)), dtype=np.float32)
    shape = [1, channels[0], *size]
    kinds = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("x", "w", "y")]
    groups = how.get("group", 1)
    alone = helper.make_node("ConvTranspose", ["x", "w"], ["y"], **(how | {"group": 1}))
    graph = helper.make_graph([alone], "g", kinds[:2], kinds[2:])
    evaluator = onnx.reference.ReferenceEvaluator(helper.make_model(graph))  # which has no groups
    parts = zip(np.split(x.reshape(shape), groups, 1), np.split(weights, groups, 0), strict=True)
    values: list[Any] = [evaluator.run(None, {"x": one, "w": of}) for one, of in parts]
    made = np.concatenate([np.asarray(value[0]) for value in values], 1)
    types = {"x": (TensorProto.FLOAT, shape)}, {"y": (TensorProto.FLOAT, [*made.shape])}
    return save(path / "up.onnx", [node], *types, {"w": weights}), made


def _products(
    size: int, reach: int, made: int, stride: int, apart: int, before: int
) -> list[tuple[int, int]]:
    """Return of each pair of a tap and an element with an output: (how far behind, output)."""
    taps = range(-before, reach * apart - before, apart)
    pairs = ((tap, at * stride + tap) for tap, at in product(taps, range(size)))
    return [(tap, place) for tap, place in pairs if 0 <= place < made]


@pytest.mark.parametrize(
    ("size", "reach", "how", "macs", "needed"),
    [
        # 16 outputs of 2 taps; the first tap of the first element and the last of the last are cut
        ((8, 8), (4, 4), {"strides": [2, 2], "pads": [1] * 4}, 32**2, 30**2),
        # prime sizes, and an output more: rows 0, 2, .. have 1 tap, the others 2
        (
            (7, 5),
            (3, 3),
            {"strides": [2, 2], "pads": [1] * 4, "output_padding": [1, 1]},
            21 * 15,
            280,
        ),
        # groups: two of 3 to 2 channels
        ((5,), (4,), {"strides": [2], "pads": [1, 1], "group": 2}, 2 * 6 * 20, 2 * 6 * 18),
        # no padding: 7 outputs of 4 taps, of which 4 elements have 16
        ((4,), (4,), {}, 7 * 4, 4 * 4),
        # each element has outputs of its own
        ((12, 12), (3, 3), {"strides": [3, 3]}, 144 * 9, 144 * 9),
        # the first layer of a generator: an element makes 4 x 4 outputs
        ((1, 1), (4, 4), {}, 16, 16),
        # of one element and 4 taps the first and the last are cut
        ((1, 1), (4, 4), {"strides": [2, 2], "pads": [1] * 4}, 4, 4),
        # a row: one element with 3 taps by 7 outputs of 4 taps
        ((1, 4), (3, 4), {}, 3 * 28, 3 * 16),
        # outputs behind the last tap have no product
        ((1,), (3,), {"strides": [5], "output_padding": [4]}, 3, 3),
        # taps apart: positions 0, 2, 4; of 0, 3, .., 12 the first and the last are cut
        ((1,), (3,), {"dilations": [2]}, 3, 3),
        ((1,), (5,), {"dilations": [3], "pads": [2, 1], "strides": [4]}, 3, 3),
        # each element has 17 x 17 outputs of its own: one operator
        ((2, 2), (17, 17), {"strides": [17, 17]}, 4 * 289, 4 * 289),
    ],
)
def test_macs_of_a_transposed_convolution(
    size: tuple[int, ...],
    reach: tuple[int, ...],
    how: dict[str, Any],
    macs: int,
    needed: int,
    tmp_path: Path,
) -> None:
    channels = (6, 2) if "group" in how else (1, 1)
    path, made = _saved(tmp_path, size, reach, channels, **how)
    workload = load_onnx(path).workload
    assert workload.macs == macs
    pieces = load_onnx(path, transposed="exact").workload
    assert (pieces.macs, pieces.account.lines()) == (needed, [])
    share = f"{1 - needed / macs:.1%} of its MACs are products with zeros around the input"
    left = f"without them (transposed=exact) it has {needed:,} of {macs:,}"
    told = [f"ConvTranspose_0: {share}; {left}"]
    assert workload.account.lines() == (told if needed < macs else [])
    for read in (workload, pieces):
        result = simulate(read, load_accelerator("edge_tpu"), "naive-m")
        assert result.run.macs == read.macs
        assert check(read, result.mapping, result.program)
    assert made.ndim == 2 + len(size)


def test_bytes_of_a_transposed_convolution(tmp_path: Path) -> None:
    how = {"strides": [2, 2], "pads": [1] * 4, "output_padding": [1, 1]}
    path, made = _saved(tmp_path, (12, 12), (3, 3), (40, 24), **how)
    assert made.shape == (1, 24, 24, 24)
    elements = 40 * 12 * 12 + 40 * 24 * 9 + 24 * 24 * 24
    assert distinct_bytes(load_onnx(path, {}, 2).workload) == 2 * elements  # of the first: 56,448
    exact = load_onnx(path, {}, 2, "exact").workload  # pieces share the weights of their phase
    assert distinct_bytes(exact) == 2 * elements


@settings(max_examples=8 * DRAWS, deadline=None)
@given(st.data())
def test_drawn_transposed_convolutions(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    def draw(least: int, most: int) -> int:
        return data.draw(st.integers(least, most))

    dims = draw(1, 3)
    size, reach = (tuple(draw(1, n) for _ in range(dims)) for n in (5, 4))
    strides, apart = ([draw(1, n) for _ in range(dims)] for n in (3, 3))
    spans = [(n - 1) * d + 1 for n, d in zip(reach, apart, strict=True)]
    pads = [draw(0, span - 1) for span in (*spans, *spans)]
    extra = [draw(0, one - 1) for one in strides]
    each = list(zip(size, strides, spans, pads[:dims], pads[dims:], extra, strict=True))
    outputs = [s * (n - 1) + span - before - behind + x for n, s, span, before, behind, x in each]
    if min(outputs) < 1:
        return
    how = {"strides": strides, "dilations": apart, "pads": pads, "output_padding": extra}
    groups = draw(1, 2)
    channels = groups * draw(1, 2), draw(1, 2)
    folder = tmp_path_factory.mktemp("drawn")
    path, made = _saved(folder, size, reach, channels, **how, group=groups)
    steps = list(zip(size, reach, outputs, strides, apart, pads[:dims], strict=True))
    products = [_products(*one) for one in steps]
    needed = channels[0] * channels[1] * math.prod(map(len, products))
    if not needed:
        with pytest.raises(InputError, match="no input reaches its output"):
            load_onnx(path, transposed="exact")
        return
    dense, exact = (load_onnx(path, transposed=how).workload for how in ("dense", "exact"))
    assert exact.macs == needed
    behind = [{tap for tap, _ in each} for each in products]
    weights = (name for name, one in exact.tensors.items() if one.kind == "weight")
    elements = sum(math.prod(exact.shapes[name]) for name in weights)
    assert elements == channels[0] * channels[1] * math.prod(map(len, behind))
    (line,) = dense.account.lines() or [f"(transposed=exact) it has {dense.macs:,} of"]
    assert f"(transposed=exact) it has {needed:,} of" in line
    if all(n == 1 for n in size):
        assert dense.macs == needed
    all_made = len({place for _, place in products[0]}) == outputs[0]
    for workload in (dense, exact):
        _has_values(workload, made, (channels[0], *size), strides)
        if dims == 1 and channels == (1, 1) and all_made and size[0] > 1:
            assert _offsets(workload, workload.operators, strides[0]) == sorted(behind[0])


@pytest.mark.parametrize("how", ["dense", "exact"])
def test_pieces_read_one_input(tmp_path: Path, how: str) -> None:
    """Of an input that another layer stored by phases, too, in another form."""
    nodes = [
        helper.make_node("ConvTranspose", ["x", "w"], ["a"], strides=[2], pads=[1, 1], name="a"),
        helper.make_node("ConvTranspose", ["a", "w"], ["y"], strides=[2], pads=[1, 1], name="b"),
    ]
    types = {"x": (TensorProto.FLOAT, (1, 1, 3))}, {"y": (TensorProto.FLOAT, (1, 1, 12))}
    path = save(tmp_path / "two.onnx", nodes, *types, {"w": np.ones((1, 1, 4), np.float32)})
    workload = load_onnx(path, transposed=how).workload
    second = [one for one in workload.operators if one.name.startswith("b")]
    # y[2 i + t - 1] has w[t] a[i]
    assert _offsets(workload, second, 2) == [-1, 0, 1, 2]
    assert workload.shapes["b.I"] == ((8,) if how == "dense" else (6,))


def _has_values(workload: Any, made: Any, size: Any, strides: Any) -> None:  # noqa: ANN401
    """Require the values of onnx's evaluator, of filters of 1s on numbers from 1 on."""
    tensors = {}
    for name, shape in workload.shapes.items():
        tensor = workload.tensors[name]
        tensors[name] = np.ones(shape) if tensor.kind == "weight" else np.zeros(shape)
        if tensor.kind == "input":
            inside = tensor.inside or [(0, length) for length in shape]
            box = tuple(slice(*one) for one in inside)
            count = tensors[name][box].size
            if count < math.prod(size):  # inputs behind the last that an output reads
                return
            tensors[name][box] = np.arange(1.0, 1 + count).reshape(tensors[name][box].shape)
    (output,) = {one.output.tensor for one in workload.operators}
    found = expected_values(workload, tensors)[output]
    assert np.array_equal(found[found != 0], made[made != 0])
    if 1 in size[1:]:  # stored in another order of phases
        return
    places = []  # stored as [position, phase], the last of which may be beyond the output
    for s, length in zip(strides, made.shape[2:], strict=True):
        step = min(s, length)
        places.append(-(-length // step) * step)
    if found.size == math.prod((*made.shape[:2], *places)):  # phases without taps are not stored
        stored = found.reshape(*made.shape[:2], *places)
        whole: Any = (..., *(slice(n) for n in made.shape[2:]))
        assert np.array_equal(stored[whole], made)


def _offsets(workload: Any, operators: Any, stride: int) -> list[int]:  # noqa: ANN401
    """Return by weight of one dimension how far behind its input's place its outputs are."""
    (given,) = {one.inputs[0].tensor for one in operators}
    first, end = (workload.tensors[given].inside or [(0, math.prod(workload.shapes[given]))])[0]
    found: dict[tuple[str, int], set[int]] = {}
    for one in operators:
        for at in product(*(range(size) for size in one.ranks.values())):
            where = dict(zip(one.ranks, at, strict=True))
            place, weight, made = (
                np.ravel_multi_index(
                    [
                        start + sum(factor * where[rank] for rank, factor in dim.terms)
                        for start, dim in zip(
                            operand.start or [0] * len(operand.projection),
                            operand.projection,
                            strict=True,
                        )
                    ],
                    workload.shapes[operand.tensor],
                )
                for operand in (*one.inputs, one.output)
            )
            if first <= place < end:
                key = one.inputs[1].tensor, int(weight)
                found.setdefault(key, set()).add(int(made - stride * (place - first)))
    offsets = [offset for each in found.values() for offset in each]
    assert len(offsets) == len(found)
    return sorted(offsets)
