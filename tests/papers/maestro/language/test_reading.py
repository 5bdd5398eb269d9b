"""MAESTRO descriptions as text: what is read prints back, and each fault has its place."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.errors import InputError
from simaccel.files.limits import MAX_LAYERS
from simaccel.papers.maestro.language.reading import load_description, parse_description
from simaccel.papers.maestro.language.syntax import (
    ClusterDirective,
    ConstantNode,
    DataflowBlock,
    Description,
    DimensionsNode,
    EntryNode,
    Layer,
    MapDirective,
    NameNode,
    NetworkBlock,
    NumberNode,
    SizeNode,
    StrideNode,
    TypeNode,
    ValueNode,
    text_of,
)
from tests.data_files import data_beside
from tests.refusals import refusal_of

DATA = data_beside(__file__)

CANONICAL = """\
// Constants first
Constant Tile 64; // channels of a tile
Network vgg16 {
  Layer CONV1 { // the first
    Type: CONV
    Stride { X: 1, Y: 1 }
    Dimensions { K: 64, C: 3, R: 3, S: 3, Y': 222, X': 222 }
    Dataflow {
      // clusters split K
      SpatialMap(1,1) K;
      TemporalMap(Tile,Tile) C; // often more than there are
      TemporalMap(Sz(R),Sz(R)) R;
      TemporalMap(8+Sz(S)-1,8) X;
      Cluster(Tile,P);
      SpatialMap(1,1) C;
      Cluster(Sz(R));
      // nothing else
    }
  }
  // the end
}
"""


def test_a_printed_description_reads_back_to_the_same_text() -> None:
    description = parse_description(CANONICAL)
    assert text_of(description) == CANONICAL
    assert parse_description(text_of(description)) == description


def test_separators_and_comments_stand_where_they_like() -> None:
    """The released tool takes commas, colons and semicolons as blanks."""
    free = """Network vgg16 { Layer CONV1 { /* a
      comment */ Type : CONV Dimensions { K 64 C: 3; R: 3, S: 3 Y: 9, X: 9, } Dataflow {
      TemporalMap ( 1 1 ) K SpatialMap(1,1) C, TemporalMap(3,3) R; } } };"""
    with pytest.raises(InputError):  # a comma between directives is none of those
        parse_description(free)
    found = parse_description(free.replace("C, Temporal", "C; Temporal"))
    again = parse_description(text_of(found))
    assert again == found
    assert len(found.layers[0].members) == 3


NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True)
WORDS = {"Sz", "Constant", "Network", "Layer", "Type", "Stride", "Dimensions", "Dataflow"}
NAMES = NAMES.filter(lambda name: name not in WORDS | {"Cluster", "TemporalMap", "SpatialMap"})
TERMS = st.one_of(
    st.integers(0, 10**6).map(lambda n: NumberNode(str(n))),
    NAMES.map(NameNode),
    NAMES.map(lambda name: SizeNode(NameNode(name))),
)
VALUES = st.builds(
    ValueNode, TERMS, st.lists(st.tuples(st.sampled_from("+-"), TERMS), max_size=2).map(tuple)
)
DIMS = st.sampled_from([*"NGKCRSYX", "Y'", "X'"]).map(NameNode)
DIRECTIVES = st.one_of(
    st.builds(MapDirective, st.sampled_from(["TemporalMap", "SpatialMap"]), VALUES, VALUES, DIMS),
    st.builds(ClusterDirective, VALUES, st.sampled_from([None, NameNode("P"), NameNode("L")])),
)
ENTRIES = st.lists(st.builds(EntryNode, DIMS, VALUES), max_size=3).map(tuple)
MEMBERS = st.one_of(
    NAMES.map(lambda name: TypeNode(NameNode(name))),
    ENTRIES.map(StrideNode),
    ENTRIES.map(DimensionsNode),
    st.lists(DIRECTIVES, max_size=4).map(lambda found: DataflowBlock(tuple(found))),
)
LAYERS = st.builds(Layer, NAMES.map(NameNode), st.lists(MEMBERS, max_size=4).map(tuple))
NETWORKS = st.builds(NetworkBlock, NAMES.map(NameNode), st.lists(LAYERS, max_size=3).map(tuple))
ITEMS = st.one_of(st.builds(ConstantNode, NAMES.map(NameNode), VALUES), NETWORKS)


@given(st.lists(ITEMS, max_size=3).map(lambda found: Description(tuple(found))))
def test_any_syntax_tree_prints_and_reads_back(description: Description) -> None:
    text = text_of(description)
    again = parse_description(text)
    assert again == description
    assert text_of(again) == text


@pytest.mark.parametrize(("wrong", "right", "faults"), DATA["faults"])
def test_all_faults_have_line_column_and_what_is_allowed(
    wrong: str, right: str, faults: list[str]
) -> None:
    assert wrong in CANONICAL
    lines = refusal_of(parse_description, CANONICAL.replace(wrong, right), "net.m").splitlines()
    assert len(lines) == len(faults), lines
    for line, fault in zip(lines, faults, strict=True):
        assert line.startswith(f"net.m: {fault}"), line


def test_more_layers_than_anyone_describes_are_refused_at_once() -> None:
    text = "Network n {\n" + "Layer a { Type: CONV }\n" * 10_000 + "}"
    started = time.perf_counter()
    with pytest.raises(InputError, match=rf"line {MAX_LAYERS + 2}, column 1: got '10000 layers'"):
        parse_description(text)
    assert time.perf_counter() - started < 5


@given(st.text(max_size=60))
def test_no_text_ends_in_anything_but_a_fault(text: str) -> None:
    try:
        parse_description(text)
    except InputError as error:
        told = error.faults
        assert told


@given(
    st.integers(0, len(CANONICAL)), st.integers(0, 30), st.text("{}();,:/*'+- aZ9\n", max_size=5)
)
def test_no_damage_ends_in_anything_but_a_fault(at: int, cut: int, new: str) -> None:
    try:
        parse_description(CANONICAL[:at] + new + CANONICAL[at + cut :])
    except InputError as error:
        told = error.faults
        assert told


def test_a_file_that_is_not_there(tmp_path: object) -> None:
    with pytest.raises(InputError, match=r"nowhere\.m: file: got nothing"):
        load_description(f"{tmp_path}/nowhere.m")
