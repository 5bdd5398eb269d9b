"""Lookups: what is read of a table, and the indices that are read with it, in the file's types."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from simaccel.analytic.floor.distinct import distinct_bytes
from simaccel.importers.onnx_files import load_onnx
from simaccel.workload.precision import with_precision
from tests.importers.onnx_files.models import Type, save

FLOAT, INT32, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
node = helper.make_node


def _floats(*shape: int) -> Any:  # noqa: ANN401 - an array
    return np.ones(shape, np.float32)


TABLE, FACTOR = {"t": _floats(100, 8)}, {"w": _floats(8, 5)}
Case = tuple[list[Any], dict[str, Type], Type, dict[str, Any], int]
CASES: dict[str, Case] = {
    # nodes, inputs, output, constants, bytes: each element once, of indices 8 or 4 bytes
    "rows of an embedding": (
        [node("Gather", ["t", "i"], ["e"]), node("MatMul", ["e", "w"], ["y"])],
        {"i": (INT64, [2, 4])},
        (FLOAT, [2, 4, 5]),
        TABLE | FACTOR,
        4 * 8 * 8 + 8 * 8 + 4 * (40 + 40),
    ),
    "more rows than the table has": (
        [node("Gather", ["t", "i"], ["y"])],
        {"i": (INT64, [2, 40])},
        (FLOAT, [2, 40, 8]),
        {"t": _floats(3, 8)},
        4 * 3 * 8 + 8 * 80 + 4 * 640,
    ),
    "one index for two tables": (
        [
            node("Gather", ["t", "i"], ["e"]),
            node("Gather", ["u", "i"], ["g"]),
            node("Add", ["e", "g"], ["y"]),
        ],
        {"i": (INT32, [4])},
        (FLOAT, [4, 8]),
        TABLE | {"u": _floats(20, 8)},
        4 * (32 + 32) + 4 * 4 + 4 * 32,
    ),
    "a table that a product reads, too": (
        [
            node("Gather", ["t", "i"], ["e"]),
            node("Transpose", ["t"], ["u"], perm=[1, 0]),
            node("MatMul", ["e", "u"], ["y"]),
        ],
        {"i": (INT64, [4])},
        (FLOAT, [4, 100]),
        TABLE,
        4 * 800 + 8 * 4 + 4 * 400,
    ),
    "columns of an activation": (
        [node("Relu", ["x"], ["h"]), node("Gather", ["h", "i"], ["y"], axis=1)],
        {"x": (FLOAT, [3, 10, 8]), "i": (INT64, [4])},
        (FLOAT, [3, 4, 8]),
        {},
        4 * 240 + 8 * 4 + 4 * 96,
    ),
    "indices that an operator makes": (
        [node("Add", ["i", "j"], ["k"]), node("Gather", ["t", "k"], ["y"])],
        {"i": (INT64, [7]), "j": (INT64, [7])},
        (FLOAT, [7, 8]),
        TABLE,
        8 * 14 + 4 * (56 + 56),
    ),
    "indices in another form and type": (
        [
            node("Transpose", ["i"], ["j"], perm=[1, 0]),
            node("Cast", ["j"], ["k"], to=INT64),
            node("Gather", ["t", "k"], ["y"]),
        ],
        {"i": (INT32, [2, 4])},
        (FLOAT, [4, 2, 8]),
        TABLE,
        4 * 8 + 4 * (64 + 64),
    ),
    "indices that are repeated": (
        [node("Expand", ["i", "s"], ["j"]), node("Gather", ["t", "j"], ["y"])],
        {"i": (INT64, [1, 4])},
        (FLOAT, [3, 4, 8]),
        TABLE | {"s": np.array([3, 4])},
        8 * 4 + 4 * (32 + 96),
    ),
    "elements": (
        [node("GatherElements", ["x", "i"], ["y"], axis=1)],
        {"x": (FLOAT, [4, 30]), "i": (INT64, [4, 6])},
        (FLOAT, [4, 6]),
        {},
        8 * 24 + 4 * (24 + 24),
    ),
    "blocks, by two numbers each": (
        [node("GatherND", ["x", "i"], ["y"])],
        {"x": (FLOAT, [4, 30, 8]), "i": (INT64, [6, 2])},
        (FLOAT, [6, 8]),
        {},
        8 * 12 + 4 * (48 + 48),
    ),
    "blocks of each sample": (
        [node("GatherND", ["x", "i"], ["y"], batch_dims=1)],
        {"x": (FLOAT, [4, 30, 8]), "i": (INT64, [4, 1])},
        (FLOAT, [4, 8]),
        {},
        8 * 4 + 4 * (32 + 32),
    ),
    # constant places are addresses: whoever reads the four rows reads them
    "rows at places that are known": (
        [node("Gather", ["x", "i"], ["h"]), node("Relu", ["h"], ["y"])],
        {"x": (FLOAT, [10, 8])},
        (FLOAT, [4, 8]),
        {"i": np.array([7, 1, 4, 9])},
        4 * (32 + 32),
    ),
    # one word is at one place, which is a number, like an address: its rows and the gain are read
    "one word with its position and segment": (
        [
            node(
                "EmbedLayerNormalization",
                ["i", "s", "t", "u", "v", "g", "", "", "p"],
                ["e", "mask"],
                domain="com.microsoft",
            ),
            node("MatMul", ["e", "w"], ["y"]),
        ],
        {name: (INT32, [1, 1]) for name in "isp"},
        (FLOAT, [1, 1, 5]),
        TABLE | FACTOR | {"u": _floats(3, 8), "v": _floats(2, 8), "g": _floats(8)},
        4 * (8 + 8 + 8 + 8) + 4 * (40 + 5),
    ),
    # words, positions and segments: 100, 3 and 2 rows of 8; a norm's gain
    "words, positions and segments": (
        [
            node(
                "EmbedLayerNormalization",
                ["i", "s", "t", "u", "v", "g", "", "", "p"],
                ["e", "mask"],
                domain="com.microsoft",
            ),
            node("MatMul", ["e", "w"], ["y"]),
        ],
        {name: (INT32, [2, 4]) for name in "isp"},
        (FLOAT, [2, 4, 5]),
        TABLE | FACTOR | {"u": _floats(3, 8), "v": _floats(2, 8), "g": _floats(8)},
        3 * 4 * 8 + 4 * (64 + 24 + 16 + 8) + 4 * (40 + 40),
    ),
}


def _load(tmp_path: Path, case: str, **sizes: int) -> Any:  # noqa: ANN401 - a workload
    nodes, inputs, made, constants, _ = CASES[case]
    own = {"com.microsoft": 1} if any(one.domain for one in nodes) else {}
    path = save(tmp_path / "m.onnx", nodes, inputs, {"y": made}, constants, opset=18, domains=own)
    return load_onnx(path, None, **sizes).workload


@pytest.mark.parametrize("case", CASES)
def test_a_lookup_reads_rows_and_indices(tmp_path: Path, case: str) -> None:
    workload = _load(tmp_path, case)
    assert not workload.account.entries_of("not taken")
    assert distinct_bytes(workload) == CASES[case][-1]


def test_indices_keep_their_type_where_other_elements_get_a_size(tmp_path: Path) -> None:
    case = "indices in another form and type"
    expected = 4 * 8 + 64 + 64
    assert distinct_bytes(_load(tmp_path, case, bytes_per_element=1)) == expected
    eight = {"weights": "int8", "activations": "int8"}
    assert distinct_bytes(with_precision(_load(tmp_path, case), eight)) == expected


def test_indices_of_many_numbers_are_named(tmp_path: Path) -> None:
    nodes = [node("GatherND", ["x", "i"], ["y"])]
    inputs: dict[str, Type] = {"x": (FLOAT, [4, 30, 8]), "i": (INT64, [6, 3])}
    path = save(tmp_path / "m.onnx", nodes, inputs, {"y": (FLOAT, [6])})
    (left,) = load_onnx(path).workload.account.entries_of("not taken")
    assert (left.why, left.elements) == ("indices of 3 numbers each: not moved", 18)
