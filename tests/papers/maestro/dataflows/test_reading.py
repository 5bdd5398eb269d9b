"""Layers and dataflows of descriptions: what they mean, and each fault with its place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.errors import InputError
from simaccel.papers.maestro.dataflows.dataflow import Cluster, DimMap, complete
from simaccel.papers.maestro.dataflows.described import DescribedLayer
from simaccel.papers.maestro.dataflows.reading import parse_directives, require_pes
from tests.data_files import data_beside
from tests.refusals import faults_of, refusal_of

DATA = data_beside(__file__)

KC_P = """\
Constant Tile 64;
Network net {
  Layer CONV1 {
    Type: CONV
    Stride { X: 2, Y: 2 }
    Dimensions { K: 64, C: 3, R: 3, S: 3, Y: 224, X: 224 }
    Dataflow {
      SpatialMap(1,1) K;
      TemporalMap(Tile,Tile) C;
      TemporalMap(Sz(R),Sz(R)) R;
      TemporalMap(Sz(S),Sz(S)) S;
      TemporalMap(Sz(R),1) Y;
      TemporalMap(Sz(S),1) X;
      Cluster(Tile,P);
      SpatialMap(1,1) C;
    }
  }
}
"""


def test_a_layer_with_its_dataflow() -> None:
    directives = parse_directives(KC_P)
    (one,) = directives.layers
    assert (one.layer.kind, one.layer.stride, one.layer.sizes["Y"]) == ("CONV", (2, 2), 224)
    assert one.dataflow[1:3] == (DimMap("C", 64, 64), DimMap("R", 3, 3))
    assert one.dataflow[-2:] == (Cluster(64), DimMap("C", 1, 1, spatial=True))
    # 3 of 64 channels in a tile: allowed, but said.
    (note,) = directives.notes
    assert str(note).startswith("description: line 9, column 19: got 64; allowed: at most 3")


def test_a_map_without_a_whole_filter_is_noted() -> None:
    notes = parse_directives(KC_P.replace("Sz(R),1) Y", "1,1) Y")).notes
    assert any("line 12, column 7: got '1 positions of Y'" in str(note) for note in notes)


def test_outputs_may_be_given_instead_of_inputs() -> None:
    text = KC_P.replace("Y: 224, X: 224", "Y': 222, X': 222").replace("Sz(R),1) Y", "1,1) Y'")
    (one,) = parse_directives(text).layers
    assert (one.layer.sizes["Y"], one.layer.sizes["X"]) == (224, 224)
    rows = next(m for m in complete(one.layer, one.dataflow, 256)[0].maps if m.dim == "Y")
    assert (rows.size, rows.offset) == (3, 2)  # with its stride


def test_a_layer_without_dataflow_takes_the_one_before() -> None:
    layer = "Layer CONV2 { Type: CONV Dimensions { K: 9, C: 64, R: 3, S: 3, Y: 9, X: 9 } }\n}\n"
    first, second = parse_directives(KC_P[: KC_P.rindex("}")] + layer).layers
    assert second.dataflow == first.dataflow


def test_completion() -> None:
    """What a level lacks comes from above, last first, or is unrolled in alphabetical order."""
    (one,) = parse_directives(KC_P).layers
    top, inner = complete(one.layer, one.dataflow, 256)
    assert (top.units, inner.units) == (4, 64)
    assert [m.dim for m in inner.maps] == ["X", "Y", "S", "R", "K", "C"]
    assert str(inner.maps[4]) == "TemporalMap(1,1) K"
    assert inner.sizes == {"C": 3, "K": 1, "R": 3, "S": 3, "X": 3, "Y": 3}


def test_a_gemm() -> None:
    text = """Network n { Layer g { Type: GEMM Stride { X: 1 } Dimensions { M: 3, N: 4, K: 5 }
      Dataflow { TemporalMap(1,1) N; SpatialMap(1,1) M; } } }"""
    (one,) = parse_directives(text).layers
    assert one.layer.macs == 60
    (level,) = complete(one.layer, one.dataflow, 8)
    assert [str(m) for m in level.maps][-1] == "TemporalMap(5,5) K"


@pytest.mark.parametrize(
    ("text", "macs"),
    [
        ("Type: DSCONV Dimensions { K: 1, C: 8, R: 3, S: 3, Y: 10, X: 10 }", 8 * 9 * 64),
        ("Type: NGCONV Dimensions { G: 2, K: 4, C: 8, R: 1, S: 1, Y: 5, X: 5 }", 2 * 4 * 8 * 25),
        ("Type: TRCONV Dimensions { N: 2, K: 4, C: 8, R: 1, S: 1, Y: 5, X: 5 }", 2 * 4 * 8 * 25),
        ("Type: BMM Dimensions { B: 2, M: 3, N: 4, K: 5 }", 120),
    ],
)
def test_macs_of_each_kind(text: str, macs: int) -> None:
    last = "SpatialMap(1,1) C;" if "BMM" not in text else "SpatialMap(1,1) M;"
    (one,) = parse_directives(f"Network n {{ Layer l {{ {text} Dataflow {{ {last} }} }} }}").layers
    assert one.layer.macs == macs


@pytest.mark.parametrize(("wrong", "right", "place", "allowed"), DATA["faults"])
def test_each_fault_has_its_place(wrong: str, right: str, place: str, allowed: str) -> None:
    assert wrong in KC_P
    text = KC_P.replace(wrong, right)
    if right == "Type: DSCONV":
        text = text.replace("K: 64", "K: 1")
    if right.startswith("K: 1000000000"):
        text = text.replace("C: 3", "C: 1000000000")
    told = refusal_of(parse_directives, text, "net.m").splitlines()
    assert any(line.startswith(f"net.m: {place}") and allowed in line for line in told), told


def test_all_faults_are_told_at_once() -> None:
    text = KC_P.replace("C: 3", "C: 0").replace("K: 64", "K: many").replace("X: 2,", "X: 0,")
    assert len(faults_of(parse_directives, text)) == 3


def test_faults_of_syntax_and_of_meaning_are_told_together() -> None:
    layer = KC_P[KC_P.index("  Layer") : KC_P.rindex("}")]
    damaged = layer.replace("Stride {", "Padding {").replace("C: 3", "C: none")
    inheriting = "  Layer CONV3 { Type: CONV Dimensions { K: 0 } }\n"
    fine = layer.replace("SpatialMap(1,1) C;", "SpatialMap(1,1 Q").replace("C: 3", "C: 0")
    text = f"Constant Tile 64;\nConstant Tile 64;\nNetwork n {{\n{damaged}{inheriting}{fine}}}\n"
    said = refusal_of(parse_directives, text, "net.m")
    told = [line.partition("; allowed")[0] for line in said.splitlines()]
    assert told == [
        "net.m: line 6, column 5: got 'Padding'",  # what it would have changed is not judged
        "net.m: line 32, column 22: got 'Q'",
        "net.m: line 2, column 10: got 'Tile'",
        "net.m: line 23, column 28: got '0'",
    ]


def test_a_type_that_is_none_hides_nothing() -> None:
    text = KC_P.replace("CONV\n", "CNV\n").replace("C: 3", "C: 0").replace("(1,1) K", "(1,1x) Z")
    found = faults_of(parse_directives, text)
    assert [str(fault.value) for fault in found] == ["CNV", "0", "1x", "Z"]


@given(st.integers(0, len(KC_P)), st.integers(0, 30), st.text("{}();,:/*'+- aZ9\n", max_size=5))
def test_no_damage_ends_in_anything_but_faults(at: int, cut: int, new: str) -> None:
    try:
        parse_directives(KC_P[:at] + new + KC_P[at + cut :])
    except InputError as error:
        told = error.faults
        assert told
        assert len(set(told)) == len(told)


def test_a_fifth_cluster_level_and_too_few_pes() -> None:
    more = "Cluster(2,P); SpatialMap(1,1) K; " * 3
    with pytest.raises(InputError, match="got 'Cluster 4'; allowed: at most 3 clusters"):
        parse_directives(KC_P.replace("      SpatialMap(1,1) C;\n", f"SpatialMap(1,1) C; {more}"))
    directives = parse_directives(KC_P, "net.m")
    require_pes(directives, 64)
    with pytest.raises(InputError, match=r"net\.m: line 14, column 7 \(layer CONV1\): got '64 PEs"):
        require_pes(directives, 63)


def test_nothing_to_read() -> None:
    for text in ("", "Network n { }", "Constant A 3;"):
        with pytest.raises(InputError, match="at least one layer"):
            parse_directives(text)


def test_layers_are_operators() -> None:
    layer = DescribedLayer(
        name="l",
        kind="CONV",
        sizes={"K": 8, "C": 3, "R": 3, "S": 3, "Y": 9, "X": 10},
        stride=(2, 3),
    )
    assert layer.shape().ranks == {"n": 1, "g": 1, "m": 8, "c": 3, "p": 4, "q": 3, "r": 3, "s": 3}
