"""Trees written as directives: those that were made of directives come back the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simaccel import gemm, load_accelerator
from simaccel.mapping.directives.dataflow import Cluster, DimMap
from simaccel.mapping.directives.reading import Directed
from simaccel.mapping.directives.translating import directed_mapping
from simaccel.mapping.directives.writing import directed_of
from simaccel.mapping.text import parse_text
from simaccel.mapping.tree import PE, Keep, Mapping
from simaccel.workload.described import DescribedLayer
from simaccel.workload.layers import layers_workload

HW = load_accelerator("maestro_256")


def same(one: Mapping, other: Mapping) -> bool:
    """Say whether two trees are alike but for the order in which a PE counts positions."""
    first, second = (mapping.groups[0].tree for mapping in (one, other))
    place = next(n for n, node in enumerate(first) if isinstance(node, Keep) and node.level == PE)
    return first[:place] == second[:place] and {*first[place:]} == {*second[place:]}


@pytest.mark.parametrize(
    "dataflow",
    [
        (DimMap("N", 2, 2, spatial=True), DimMap("K", 8, 8), DimMap("M", 4, 4)),
        (DimMap("M", 4, 4), DimMap("N", 2, 2, spatial=True), DimMap("K", 8, 8)),
        (
            DimMap("M", 4, 4),
            DimMap("N", 1, 1, spatial=True),
            DimMap("K", 32, 32),
            Cluster(16),
            DimMap("K", 2, 2, spatial=True),
        ),
    ],
    ids=["n-k-m", "m-n-k", "clusters"],
)
def test_directives_come_back(dataflow: tuple[DimMap | Cluster, ...]) -> None:
    layer = DescribedLayer(name="P", kind="GEMM", sizes={"M": 24, "K": 64, "N": 1040})
    workload = layers_workload("net", {"P": layer.shape()})
    mapping = directed_mapping([Directed(layer=layer, dataflow=dataflow)], workload, HW)
    found = directed_of(workload, mapping.groups[0], HW)
    assert found is not None
    assert found.layer == layer
    assert [one for one in found.dataflow if isinstance(one, Cluster)] == [
        one for one in dataflow if isinstance(one, Cluster)
    ]
    assert same(directed_mapping([found], workload, HW), mapping)


@settings(max_examples=15, deadline=None)
@given(st.tuples(*[st.integers(1, 40)] * 3), st.tuples(*[st.integers(1, 9)] * 3))
def test_what_is_written_says_the_same_tree(
    sizes: tuple[int, int, int], tiles: tuple[int, int, int]
) -> None:
    named = dict(zip("MKN", sizes, strict=True))
    layer = DescribedLayer(name="P", kind="GEMM", sizes=named)
    workload = layers_workload("net", {"P": layer.shape()})
    m, k, n = tiles
    dataflow = (DimMap("M", m, m), DimMap("N", n, n, spatial=True), DimMap("K", k, k))
    mapping = directed_mapping([Directed(layer=layer, dataflow=dataflow)], workload, HW)
    found = directed_of(workload, mapping.groups[0], HW)
    assert found is not None
    assert same(directed_mapping([found], workload, HW), mapping)


def test_what_no_directives_say() -> None:
    """PEs that go through tiles of 3 before single positions have a level that clusters lack."""
    workload = gemm(m=12, k=6, n=8)
    head = f"mapping mine of {workload.name} {workload.fingerprint}\n  group gemm\n"
    keeps = "    keep A pe x2, B pe x2, C pe x2\n"
    tail = "    loop m 1\n    loop k 1\n    do gemm mac\n"
    plain = parse_text(f"{head}    spread n 1 cols\n{keeps}{tail}")
    assert directed_of(workload, plain.groups[0], HW) is not None
    deep = parse_text(f"{head}    spread n 1 cols\n{keeps}    loop m 3\n{tail}")
    assert directed_of(workload, deep.groups[0], HW) is None
