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


def _places(size: int, reach: int, made: int, stride: int, apart: int, before: int) -> list[int]:
    """Return the output of each pair of an element and a tap that has one."""
    pairs = product(range(size), range(reach))
    places = [at * stride + tap * apart - before for at, tap in pairs]
    return [place for place in places if 0 <= place < made]


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
    share = f"{1 - needed / macs:.1%} of its MACs are products with zeros around the input"
    told = [f"ConvTranspose_0: {share}; without them it has {needed:,} of {macs:,}"]
    assert workload.account.lines() == (told if needed < macs else [])
    result = simulate(workload, load_accelerator("edge_tpu"), "naive-m")
    assert result.run.macs == macs
    assert check(workload, result.mapping, result.program)
    assert made.ndim == 2 + len(size)


def test_bytes_of_a_transposed_convolution(tmp_path: Path) -> None:
    how = {"strides": [2, 2], "pads": [1] * 4, "output_padding": [1, 1]}
    path, made = _saved(tmp_path, (12, 12), (3, 3), (40, 24), **how)
    assert made.shape == (1, 24, 24, 24)
    elements = 40 * 12 * 12 + 40 * 24 * 9 + 24 * 24 * 24
    assert distinct_bytes(load_onnx(path, {}, 2).workload) == 2 * elements  # of the first: 56,448


@settings(max_examples=8 * DRAWS, deadline=None)
@given(st.data())
def test_drawn_transposed_convolutions(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    def draw(least: int, most: int) -> int:
        return data.draw(st.integers(least, most))

    dims = draw(1, 2)
    size, reach = (tuple(draw(1, n) for _ in range(dims)) for n in (5, 4))
    strides, apart = ([draw(1, n) for _ in range(dims)] for n in (3, 2))
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
    places = [_places(*one) for one in steps]
    needed = channels[0] * channels[1] * math.prod(map(len, places))
    if not needed:
        return
    workload = load_onnx(path).workload
    (line,) = workload.account.lines() or [f"without them it has {workload.macs:,} of"]
    assert f"without them it has {needed:,} of" in line
    if all(n == 1 for n in size):
        assert workload.macs == needed
    if all(
        len({*one}) == length or n == 1
        for n, one, length in zip(size, places, outputs, strict=True)
    ):
        _has_values(workload, made, size, strides)


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
            tensors[name][box] = np.arange(1.0, 1 + count).reshape(tensors[name][box].shape)
    (output,) = {one.output.tensor for one in workload.operators}
    found = expected_values(workload, tensors)[output]
    if 1 in size:  # outputs that no tap makes are zero, and may not be stored
        assert np.array_equal(found[found != 0], made[made != 0])
        return
    places = []  # stored as [position, phase], the last of which may be beyond the output
    for s, length in zip(strides, made.shape[2:], strict=True):
        step = min(s, length)
        places.append(-(-length // step) * step)
    stored = found.reshape(*made.shape[:2], *places)
    whole: Any = (..., *(slice(n) for n in made.shape[2:]))
    assert np.array_equal(stored[whole], made)
