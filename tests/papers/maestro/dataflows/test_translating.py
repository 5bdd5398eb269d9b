"""Dataflows on the machine: what it moves is what the analysis counts, to the element."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simaccel import load_accelerator, simulate
from simaccel.diagnosis.check import check
from simaccel.hardware import Accelerator
from simaccel.mapping.checks import faults
from simaccel.mapping.text import tree_text
from simaccel.papers.maestro.analysis.analysis import analyse
from simaccel.papers.maestro.analysis.hardware import hardware_of
from simaccel.papers.maestro.dataflows.dataflow import NotDirectedError
from simaccel.papers.maestro.dataflows.reading import parse_directives
from simaccel.papers.maestro.dataflows.translating import directed_mapping
from simaccel.workload import Workload
from simaccel.workload.layers import layers_workload
from tests.data_files import data_beside
from tests.draws import DRAWS

DATA = data_beside(__file__)

TABLE_3 = {
    "C-P": """TemporalMap(1,1) K; TemporalMap(Sz(R),1) Y; TemporalMap(Sz(S),1) X;
        TemporalMap(Sz(R),Sz(R)) R; TemporalMap(Sz(S),Sz(S)) S; SpatialMap(1,1) C;""",
    "X-P": """TemporalMap(1,1) K; TemporalMap(1,1) C; TemporalMap(Sz(R),Sz(R)) R;
        TemporalMap(Sz(S),Sz(S)) S; TemporalMap(Sz(R),1) Y; SpatialMap(Sz(S),1) X;""",
    "YX-P": """TemporalMap(1,1) K; SpatialMap(Sz(R),1) Y; TemporalMap(8+Sz(S)-1,8) X;
        TemporalMap(1,1) C; TemporalMap(Sz(R),Sz(R)) R; TemporalMap(Sz(S),Sz(S)) S;
        Cluster(8, P); SpatialMap(Sz(S),1) X;""",
    "YR-P": """TemporalMap(2,2) C; TemporalMap(2,2) K; SpatialMap(Sz(R),1) Y;
        TemporalMap(Sz(S),1) X; TemporalMap(Sz(R),Sz(R)) R; TemporalMap(Sz(S),Sz(S)) S;
        Cluster(Sz(R), P); SpatialMap(1,1) Y; SpatialMap(1,1) R;""",
    "KC-P": """SpatialMap(1,1) K; TemporalMap(64,64) C; TemporalMap(Sz(R),Sz(R)) R;
        TemporalMap(Sz(S),Sz(S)) S; TemporalMap(Sz(R),1) Y; TemporalMap(Sz(S),1) X;
        Cluster(64, P); SpatialMap(1,1) C;""",
}
HARDWARE = load_accelerator("maestro_256")


def _text(sizes: dict[str, int], stride: int, dataflow: str, kind: str = "CONV") -> str:
    dims = ", ".join(f"{dim}: {size}" for dim, size in sizes.items())
    return (
        f"Network n {{ Layer l {{ Type: {kind} Stride {{ X: {stride}, Y: {stride} }} "
        f"Dimensions {{ {dims} }} Dataflow {{ {dataflow} }} }} }}"
    )


def _workload(text: str) -> Workload:
    layers = parse_directives(text).layers
    return layers_workload("n", {one.name: one.layer.shape() for one in layers})


@settings(max_examples=3 * DRAWS, deadline=None)
@given(st.sampled_from(sorted(TABLE_3)), st.data())
def test_the_machine_moves_what_the_analysis_counts(name: str, data: st.DataObject) -> None:
    reach = data.draw(st.integers(1, 3), label="filter")
    stride = data.draw(st.integers(1, min(2, reach)), label="stride")
    sizes = {
        **{dim: data.draw(st.integers(1, 70), label=dim) for dim in "KC"},
        "R": reach,
        "S": reach,
        **{dim: reach + data.draw(st.integers(0, 30), label=dim) for dim in "YX"},
    }
    text = _text(sizes, stride, TABLE_3[name])
    layers = parse_directives(text).layers
    workload = _workload(text)
    mapping = directed_mapping(layers, workload, HARDWARE)
    assert not faults(workload, mapping, HARDWARE)
    moved = simulate(workload, HARDWARE, mapping).run.moved
    figures = analyse(layers, [hardware_of(HARDWARE)])[0].figures()
    assert moved["noc_distribution", "l.I"] == 2 * (figures["input_l2_read"] or 0)
    assert moved["noc_distribution", "l.W"] == 2 * (figures["filter_l2_read"] or 0)
    assert moved["noc_collection", "l.O"] == 2 * (figures["output_l2_write"] or 0)
    outputs = layers[0].layer.outputs
    back = (figures["output_l2_read"] or 0) - sizes["K"] * outputs[0] * outputs[1]
    assert moved.get(("noc_distribution", "l.O"), 0) == 2 * back


@pytest.mark.parametrize("name", TABLE_3)
def test_it_computes_the_layer(name: str) -> None:
    text = _text({"K": 5, "C": 70, "R": 3, "S": 3, "Y": 12, "X": 15}, 1, TABLE_3[name])
    workload = _workload(text)
    mapping = directed_mapping(parse_directives(text).layers, workload, HARDWARE)
    result = simulate(workload, HARDWARE, mapping)
    assert all(one.deviation < 1e-9 for one in check(workload, mapping, result.program))


def test_a_tree_that_can_be_read() -> None:
    text = _text({"K": 64, "C": 64, "R": 3, "S": 3, "Y": 224, "X": 224}, 1, TABLE_3["KC-P"])
    workload = _workload(text)
    mapping = directed_mapping(parse_directives(text).layers, workload, HARDWARE)
    assert [line.strip() for line in tree_text(mapping).splitlines()[1:]] == [
        "group l",
        "keep l.I buffer",
        "loop m 4",
        "loop p 1",
        "loop q 1",
        "keep l.W buffer x2, l.O buffer x2",
        "spread m 1 cols",
        "spread c 1 cols",
        "keep l.I pe x2, l.W pe x2, l.O pe x2",
        "loop r 1",
        "loop s 1",
        "do l mac",
    ]


def test_a_pe_keeps_all_that_its_own_loops_go_through() -> None:
    dataflow = "SpatialMap(4,4) K; Cluster(4,P); TemporalMap(1,1) K; SpatialMap(1,1) C;"
    text = _text({"K": 64, "C": 4, "R": 1, "S": 1, "Y": 8, "X": 8}, 1, dataflow)
    workload = _workload(text)
    mapping = directed_mapping(parse_directives(text).layers, workload, HARDWARE)
    tree = [line.strip() for line in tree_text(mapping).splitlines()]
    keeps = "keep l.I pe x2, l.W pe x2, l.O pe x2"
    assert tree[-7:-3] == ["spread m 4 cols", "spread c 1 cols", keeps, "loop m 1"]
    result = simulate(workload, HARDWARE, mapping)
    assert all(one.deviation < 1e-9 for one in check(workload, mapping, result.program))
    assert result.run.moved["noc_distribution", "l.W"] == 2 * 64 * 4


def test_rows_and_columns_take_a_level_each() -> None:
    nvdla = load_accelerator("nvdla_like", ["buffer.capacity_bytes=unlimited"])
    text = _text({"K": 32, "C": 64, "R": 1, "S": 1, "Y": 9, "X": 9}, 1, TABLE_3["KC-P"])
    mapping = directed_mapping(parse_directives(text).layers, _workload(text), nvdla)
    assert "spread m 1 rows\n    spread c 1 cols" in tree_text(mapping)


def test_a_depthwise_layer_and_a_product() -> None:
    depthwise = _text({"C": 40, "R": 3, "S": 3, "Y": 9, "X": 9}, 1, "SpatialMap(1,1) C; ", "DSCONV")
    product = "Network n { Layer l { Type: GEMM Dimensions { M: 9, N: 7, K: 300 } Dataflow {"
    product += " TemporalMap(1,1) N; SpatialMap(1,1) M; TemporalMap(8,8) K; } } }"
    for text in (depthwise, product):
        workload = _workload(text)
        layers = parse_directives(text).layers
        mapping = directed_mapping(layers, workload, HARDWARE)
        assert simulate(workload, HARDWARE, mapping).run.macs == layers[0].layer.macs


@pytest.mark.parametrize(("dataflow", "hardware", "told"), DATA["refused"])
def test_what_no_tree_says_is_refused_by_name(dataflow: str, hardware: str, told: str) -> None:
    text = _text({"K": 64, "C": 64, "R": 1, "S": 1, "Y": 8, "X": 8}, 1, dataflow)
    accelerator: Accelerator = load_accelerator(hardware)
    with pytest.raises(Exception, match=told) as caught:
        directed_mapping(parse_directives(text).layers, _workload(text), accelerator)
    assert isinstance(caught.value, NotDirectedError) or "spatial" in str(caught.value)
