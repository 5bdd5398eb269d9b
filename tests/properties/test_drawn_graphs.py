"""Random small ONNX graphs by every dataflow: the work is the workload's, and so are the values.

`make validate` draws more of them, and `validation.graphs` larger ones.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from simaccel import load_accelerator, simulate
from simaccel.dataflows import ON_ANY_ARRAY
from simaccel.diagnosis.check import check
from simaccel.hardware import Accelerator
from simaccel.mapping.tree import Mapping
from simaccel.schedulers import Options, canonical_dataflow, make_mapping
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.accounts import SearchAccount
from simaccel.search.effort import Effort
from simaccel.search.goal import Goal
from simaccel.workload import Workload
from tests.drawn_graphs import KINDS, Shape, drawn_row, drawn_workload, model_of, workload_of
from tests.draws import DRAWS, new_seeds
from tests.trees import einsum, vector, workload
from validation import searches

Node = onnx.NodeProto
EDGE, SPATIAL = load_accelerator("edge"), load_accelerator("eyeriss_like")
GRAPHS, ROWS = 4 * DRAWS, 28 if DRAWS == 1 else 500 * DRAWS
CHUNKS, PARTS = 2, 4
EFFORT = Options(effort=Effort(patience=50, exhaustive=50))
QUICK = replace(searches.QUICK, effort=Effort(patience=5, exhaustive=5))


def _on(dataflow: str) -> Accelerator:
    return SPATIAL if dataflow.startswith("ruby") else EDGE


def _run(of: Workload, dataflow: str, mapping: Mapping) -> None:
    """Run a mapping, and compare its values.

    A run is held to the work of its workload (`run.conservation`).
    """
    result = simulate(of, _on(dataflow), mapping)
    checked = check(of, mapping, result.program)
    outputs = {tensor.name for tensor in of.tensors.values() if tensor.kind == "output"}
    for compared, operator in zip(checked, of.operators, strict=True):
        assert operator.output.tensor not in outputs or compared.compared == compared.elements


def _right(of: Workload, dataflow: str) -> None:
    _run(of, dataflow, make_mapping(of, _on(dataflow), dataflow, EFFORT))


def _all_right(of: Workload, dataflows: Iterable[str], options: Options) -> dict[str, Mapping]:
    """Map a graph by dataflows, and compare the values of each mapping once."""
    mappings = {name: make_mapping(of, _on(name), name, options) for name in dataflows}
    different: list[object] = []
    for dataflow, mapping in mappings.items():
        if mapping.body not in different:
            different.append(mapping.body)
            _run(of, dataflow, mapping)
    return mappings


class _Kept(dict[object, Any]):
    """Results of searches that stay known when a search ends."""

    def clear(self) -> None:
        """Keep all."""


@pytest.fixture(scope="module")
def shared() -> Iterator[None]:
    """Make the searches of all dataflows know each operator that one of them has searched."""
    known: dict[object, _Kept] = defaultdict(_Kept)
    begin_alone = TreeSearch.__init__

    def begin(search: TreeSearch, goal: Goal, *fixed: Any) -> None:  # noqa: ANN401 - as it takes
        begin_alone(search, goal, *fixed)
        search.results = known[goal.accelerator.name, goal.objective, bool(fixed)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TreeSearch, "__init__", begin)
        yield


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_values_of_random_graphs(chunk: int) -> None:
    """By each of all dataflows; those that are said to be alike are."""
    for seed in range(chunk, GRAPHS, CHUNKS):
        of = drawn_workload(1000 + seed, *(() if seed == 0 else (3, 3)))
        mappings = _all_right(of, [*ON_ANY_ARRAY, "ruby-s"], EFFORT)
        for dataflow, mapping in mappings.items():
            assert mapping.body == mappings[canonical_dataflow(dataflow, of)].body


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("chunk", range(PARTS))
def test_values_of_many_small_graphs(chunk: int) -> None:
    """Of dataflows that have the same mapping of a graph one is searched."""
    for seed in (*range(chunk, ROWS, PARTS), *new_seeds(PARTS, chunk, PARTS)):
        of = workload_of(drawn_row(seed))
        _all_right(of, dict.fromkeys(canonical_dataflow(name, of) for name in ON_ANY_ARRAY), QUICK)


def test_small_graphs_have_what_larger_ones_have() -> None:
    """Most are different, and of each thing that fusion may trip over there are several."""
    models = [drawn_row(seed) for seed in range(100)]
    assert len({model.SerializeToString() for model in models}) > 90
    features = Counter(feature for model in models for feature in _features(model))
    assert set(features) >= {*KINDS, "border", "stride", "groups", "read twice"}
    assert min(features.values()) > 4


def _features(model: onnx.ModelProto) -> set[str]:
    """Return kinds of nodes, and what their windows and inputs have."""
    found: set[str] = set()
    reads = [name for node in model.graph.node for name in dict.fromkeys(node.input)]
    if max(map(reads.count, reads)) > 1:
        found.add("read twice")
    for node in model.graph.node:
        found.add(node.op_type)
        given = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        has = {"border": any(given.get("pads", ())), "groups": given.get("group", 1) > 1}
        has["stride"] = any(stride > 1 for stride in given.get("strides", ()))
        found |= {name for name, is_there in has.items() if is_there}
    return found


def _window(
    name: str, given: str, kind: str, reach: int, stride: int = 1, pads: int = 0, groups: int = 1
) -> Node:
    inputs = [given, f"{name}.filters"] if kind == "Conv" else [given]
    more: dict[str, Any] = {"group": groups} if kind == "Conv" else {}
    return helper.make_node(
        kind,
        inputs,
        [name],
        name=name,
        kernel_shape=[reach, reach],
        strides=[stride, stride],
        pads=[pads] * 4,
        **more,
    )


def _node(name: str, kind: str, *inputs: str) -> Node:
    return helper.make_node(kind, list(inputs), [name], name=name)


def _case(x: Shape, ends: dict[str, Shape], filters: dict[str, Shape], *nodes: Node) -> Workload:
    weights = [
        numpy_helper.from_array(np.ones(size, dtype=np.float32), f"{name}.filters")
        for name, size in filters.items()
    ]
    return workload_of(model_of(nodes, {"x": x, **ends}, weights))


CASES = {
    # 5 x 6 positions, of 2 channels from 2 x 9 each; then 7 x 8 with the border, from 2 each
    "a border in between": (
        1304,
        _case(
            (1, 2, 5, 6),
            {"B": (1, 2, 7, 8)},
            {"A": (2, 2, 3, 3), "B": (2, 2, 1, 1)},
            _window("A", "x", "Conv", 3, pads=1),
            _window("B", "A", "Conv", 1, pads=1),
        ),
    ),
    # 3 x 3 positions from 9 each, of which the pooling's windows reach 2 x 2
    "a window that doesn't divide": (
        81,
        _case(
            (1, 1, 5, 5),
            {"C": (1, 1, 1, 1)},
            {"A": (1, 1, 3, 3)},
            _window("A", "x", "Conv", 3),
            _window("B", "A", "MaxPool", 2, 2),
            _node("C", "Relu", "B"),
        ),
    ),
    # 3 x 3 positions from 9 each, then 5 x 5 with the border from one each
    "a border before vector operators": (
        106,
        _case(
            (1, 1, 5, 5),
            {"E": (1, 1, 5, 5)},
            {"A": (1, 1, 3, 3), "B": (1, 1, 1, 1)},
            _window("A", "x", "Conv", 3, 2, 1),
            _window("B", "A", "Conv", 1, pads=1),
            _node("C", "Relu", "B"),
            _node("D", "Tanh", "C"),
            _node("E", "Add", "D", "C"),
        ),
    ),
    # 4 x 4 positions, of 2 channels from 2 x 9 each
    "one that is read again later": (
        576,
        _case(
            (1, 2, 4, 4),
            {"E": (1, 2, 4, 4)},
            {"E": (2, 2, 3, 3)},
            _node("A", "Sigmoid", "x"),
            _node("B", "Add", "A", "x"),
            _node("C", "Sigmoid", "B"),
            _node("D", "Add", "C", "A"),
            _window("E", "D", "Conv", 3, pads=1),
        ),
    ),
    "two readers of one tensor": (
        0,
        _case(
            (1, 3, 4, 4),
            {"B": (1, 3, 1, 1), "C": (1, 3, 4, 4)},
            {},
            _node("A", "Sigmoid", "x"),
            _node("B", "GlobalAveragePool", "A"),
            _node("C", "Relu", "A"),
        ),
    ),
    # 3 x 3 positions, of 2 channels from 2 x 9 each
    "a mean added to itself": (
        324,
        _case(
            (1, 2, 5, 5),
            {"C": (1, 2, 1, 1)},
            {"A": (2, 2, 3, 3)},
            _window("A", "x", "Conv", 3),
            _node("B", "GlobalAveragePool", "A"),
            _node("C", "Add", "B", "B"),
        ),
    ),
    "windows over a softmax": (
        0,
        _case(
            (1, 2, 8, 7),
            {"B": (1, 2, 6, 5)},
            {},
            helper.make_node("Softmax", ["x"], ["A"], name="A", axis=-1),
            _window("B", "A", "MaxPool", 3),
        ),
    ),
    # 3 x 3 positions of 2 channels, from 9 each of their own
    "filters over functions of a softmax": (
        162,
        _case(
            (1, 2, 5, 5),
            {"D": (1, 2, 3, 3)},
            {"D": (2, 1, 3, 3)},
            helper.make_node("Softmax", ["x"], ["A"], name="A", axis=2),
            _node("B", "Relu", "A"),
            _node("C", "Add", "B", "A"),
            _window("D", "C", "Conv", 3, groups=2),
        ),
    ),
    # 4 x 4 positions of the pooling, of which a filter of 3 x 3 reaches 3 x 3 at stride 2
    "more than the last one reads": (
        9,
        _case(
            (1, 1, 5, 5),
            {"C": (1, 1, 1, 1)},
            {"C": (1, 1, 3, 3)},
            _window("A", "x", "AveragePool", 2),
            _node("B", "Relu", "A"),
            _window("C", "B", "Conv", 3, 2),
        ),
    ),
}


@pytest.mark.parametrize("dataflow", ["naive", "strips", "best"])
@pytest.mark.parametrize("case", CASES)
def test_a_group_of_what_sees_different_extents(case: str, dataflow: str) -> None:
    """MACs by hand; values against plain numpy."""
    macs, of = CASES[case]
    assert of.macs == macs
    _right(of, dataflow)


def test_what_is_left_out_is_told() -> None:
    accounts: list[SearchAccount] = []
    make_mapping(CASES["a border in between"][1], EDGE, "best", Options(on_account=accounts.append))
    (left,) = [one for one in accounts if one.unfused_reason]
    assert left.operators == ("A", "B")
    assert left.gap_text == "left out: A sees another box of A.O"


@pytest.mark.parametrize("dataflow", ["naive", "flex", "flat", "flash", "best"])
@pytest.mark.parametrize("tensor", ["S", "P"])
def test_scores_that_others_read_are_no_attention(tensor: str, dataflow: str) -> None:
    """What is between L, softmax and A leaves the chip: nothing may be written over it."""
    ranks = {"q": 3, "c": 4, "d": 2}
    of = workload(
        einsum("L", "S q c", "Q q d", "K c d", **ranks),
        vector("softmax", "softmax", "P q c", "S q c", axis="c", q=3, c=4),
        einsum("A", "Z q d", "P q c", "V c d", **ranks),
        vector("other", "relu", "X q c", f"{tensor} q c", q=3, c=4),
    )
    _right(of, dataflow)
