"""Convolutions against plain loops over padded images."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.diagnosis.check import check
from simaccel.diagnosis.plain_values import einsum_values
from simaccel.importers.accelerators import load_accelerator
from simaccel.program.lowering import lower
from simaccel.schedulers import make_mapping
from simaccel.workload import Conv, Einsum, Workload, conv2d, parse_workload
from simaccel.workload.conv import positions
from simaccel.workload.vectors.kind import Array
from tests.draws import some
from tests.refusals import refusal_of

SIZE = "a whole number from 1 to 1073741824"
SMALL = st.integers(1, 3)
CONVS = st.builds(
    Conv,
    **dict.fromkeys("ngmcpqrs", SMALL),
    stride=st.tuples(SMALL, SMALL),
    dilation=st.tuples(SMALL, SMALL),
)


def _workload(conv: Conv) -> Workload:
    sizes: dict[str, Any] = {**conv.ranks, "stride": conv.stride, "dilation": conv.dilation}
    return conv2d(**sizes)


def _einsum(conv: Conv) -> Einsum:
    (einsum,) = _workload(conv).operators
    assert isinstance(einsum, Einsum)
    return einsum


def _tensors(conv: Conv, seed: int = 0) -> dict[str, Array]:
    numbers, shapes = np.random.default_rng(seed), _workload(conv).shapes
    return {name: numbers.integers(-9, 9, shapes[name]).astype(float) for name in "IW"}


def _direct(conv: Conv, image: Array, filters: Array) -> tuple[Array, int]:
    """Slide filters over images of shape (n, g*c, h, w), as frameworks do; also count MACs."""
    out = np.zeros((conv.n, conv.g * conv.m, conv.p, conv.q))
    macs = 0
    for n, k, p, q in product(*map(range, out.shape)):
        group = k // conv.m
        for c, r, s in product(range(conv.c), range(conv.r), range(conv.s)):
            row = p * conv.stride[0] + r * conv.dilation[0]
            column = q * conv.stride[1] + s * conv.dilation[1]
            out[n, k, p, q] += image[n, group * conv.c + c, row, column] * filters[k, c, r, s]
            macs += 1
    return out, macs


@given(CONVS)
def test_values_and_macs_are_those_of_a_direct_convolution(conv: Conv) -> None:
    einsum, tensors = _einsum(conv), _tensors(conv)
    _, _, _, rows, columns = tensors["I"].shape
    image = tensors["I"].reshape(conv.n, conv.g * conv.c, rows, columns)
    filters = tensors["W"].reshape(conv.g * conv.m, conv.c, conv.r, conv.s)
    expected, macs = _direct(conv, image, filters)
    found = einsum_values(einsum, tensors)
    assert found.shape == (conv.n, conv.g, conv.m, conv.p, conv.q)
    assert np.array_equal(found.reshape(expected.shape), expected)
    assert einsum.macs == macs
    assert conv.weights == filters.size


@given(CONVS)
def test_the_input_is_what_the_filter_reaches(conv: Conv) -> None:
    shape = _workload(conv).shapes["I"]
    rows = {p * conv.stride[0] + r * conv.dilation[0] for p in range(conv.p) for r in range(conv.r)}
    columns = {
        q * conv.stride[1] + s * conv.dilation[1] for q in range(conv.q) for s in range(conv.s)
    }
    assert (min(rows), min(columns)) == (0, 0)
    assert shape == (conv.n, conv.g, conv.c, max(rows) + 1, max(columns) + 1)


def test_a_tile_needs_its_halo() -> None:
    # 7 x 7 filters with a step of 2 (ResNet's first layer): a tile of 4 rows reaches over 13
    image, *_ = _einsum(Conv(m=64, c=3, p=112, q=112, r=7, s=7, stride=(2, 2))).inputs
    assert image.shape({"n": 1, "g": 1, "c": 3, "p": 4, "q": 112, "r": 7, "s": 7}) == (
        (1, 1, 3, 13, 229)
    )


@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 5), st.integers(0, 4))
def test_positions_are_counted(size: int, reach: int, stride: int, padding: int) -> None:
    whole = size + 2 * padding
    starts = [start for start in range(0, whole, stride) if start + reach <= whole]
    if starts:
        assert positions(size, reach, stride, padding) == len(starts)


def test_depthwise_and_one_number_for_both_directions() -> None:
    workload = conv2d(g=32, m=1, c=1, p=112, q=112, r=3, s=3, stride=2, dilation=(1, 2))
    assert str(workload.operators[0]) == (
        "conv: O[n,g,m,p,q] = I[n,g,c,2*p+r,2*q+2*s] W[g,m,c,r,s]"
    )
    assert workload.shapes["I"] == (1, 32, 1, 225, 227)
    assert workload.macs == 32 * 112 * 112 * 9
    assert workload.tensor_bytes("W") == 32 * 9 * 2


def test_a_convolution_comes_back_from_its_parameters() -> None:
    workload = conv2d(m=4, c=3, p=5, q=6, r=3, s=2, n=2, stride=(2, 1), bytes_by_tensor={"W": 1})
    again = parse_workload(dict(workload.parameters))
    assert (again, again.parameters) == (workload, workload.parameters)
    assert (again.tensors["W"].bytes_per_element, again.tensors["I"].bytes_per_element) == (1, 2)


def test_all_faults_are_reported() -> None:
    sizes: dict[str, Any] = {"m": 0, "c": 10**12, "p": "x", "q": 1, "r": 1, "s": 1}
    said = refusal_of(conv2d, **sizes, stride=(0, 1), bytes_by_tensor={"B": 2})
    assert said.splitlines() == [
        f"conv: M: got 0; allowed: {SIZE}",
        f"conv: C: got 1000000000000; allowed: {SIZE}",
        f"conv: P: got 'x'; allowed: {SIZE}",
        f"conv: stride.height: got 0; allowed: {SIZE}",
        "conv: bytes_by_tensor.B: got 2; allowed: one of I, W, O",
    ]


@pytest.mark.parametrize("stride", [(1, 2, 3), (1,), [], "23"])
def test_a_stride_is_one_number_or_two(stride: Any) -> None:  # noqa: ANN401 - none of them is one
    sizes: dict[str, Any] = dict.fromkeys("mcpqrs", 1)
    assert refusal_of(conv2d, **sizes, stride=stride).splitlines() == [
        f"conv: stride.height: got {stride!r}; allowed: {SIZE}",
        f"conv: stride.width: got {stride!r}; allowed: {SIZE}",
    ]


def test_two_numbers_may_be_a_list() -> None:
    sizes: dict[str, Any] = dict.fromkeys("mcpqrs", 1)
    assert conv2d(**sizes, stride=[2, 1]) == conv2d(**sizes, stride=(2, 1))


@pytest.mark.parametrize("dataflow", some(["naive", "flex-r", "flex", "flat", "best"]))
@pytest.mark.parametrize(
    "conv",
    [
        Conv(n=2, g=2, m=5, c=7, p=3, q=3, r=1, s=1),
        Conv(n=2, g=2, m=5, c=3, p=4, q=3, r=3, s=2, stride=(2, 1), dilation=(1, 2)),
        Conv(m=1, c=1, p=4, q=1, r=3, s=1),
    ],
    ids=["pointwise", "sliding", "rows"],
)
def test_convolutions_run_on_a_systolic_array(dataflow: str, conv: Conv) -> None:
    workload = _workload(conv)
    mapping = make_mapping(workload, load_accelerator("toy"), dataflow)
    (checked,) = check(workload, mapping, lower(workload, mapping))
    assert checked.compared == checked.elements == conv.n * conv.g * conv.m * conv.p * conv.q
