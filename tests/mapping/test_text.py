"""The text form of mappings."""

import pytest
from hypothesis import given, settings

from simaccel.errors import InputError
from simaccel.mapping.text import parse_text, parse_tree, tree_text
from simaccel.mapping.tree import Do, Keep, Loop, Mapping, nodes, paths
from tests.data_files import data_beside
from tests.draws import DRAWS
from tests.mapping.trees_drawn import MAPPINGS

DATA = data_beside(__file__)

TEXT = """\
mapping flat of "my bert" 0123456789abcdef
  group Q merging bn=b,n hd=h,d padded e=64
    loop bn 64
    keep X buffer x2, Wq buffer x2, Q buffer
    spread e 8 rows
    do Q array ws
  around
    keep S[0..3,0..500,0..500] buffer, S[3..4,0..20,0..500] buffer
    group L+softmax+A on core 2 joined
      part q 20 rest
        | fork ahead 1
            | do L array os
            | do softmax sfu
            | loop c 128
              keep V buffer x2
              do A array os
        | do L mac
"""


def test_a_mapping_prints_as_it_was_written() -> None:
    assert tree_text(parse_text(TEXT)) == TEXT


@given(MAPPINGS)
@settings(max_examples=17 * DRAWS)
def test_any_mapping_parses_back(one: Mapping) -> None:
    assert parse_text(tree_text(one)) == one


@pytest.mark.parametrize(("old", "new", "message"), DATA["errors"])
def test_an_error_names_the_line(old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(InputError, match=message):
        parse_text(TEXT.replace(old, new))


def test_what_ends_too_early() -> None:
    with pytest.raises(InputError, match="mapping: end: got 'nothing'; allowed: mapping DATAFLOW"):
        parse_text("")
    with pytest.raises(InputError, match="line 2: got 'loop n 2'; allowed: a node"):
        parse_tree("loop m 2\n   loop n 2")


TREE = parse_tree("""
loop q 64
keep Q buffer x2
fork
  | do L array ws diagonal
  | part c 5 rest
      | loop c 2
        do softmax sfu
      | do softmax sfu
""")


def test_nodes_come_from_the_outside_in_with_those_of_branches() -> None:
    names = [type(node).__name__ for node in nodes(TREE)]
    assert names == ["Loop", "Keep", "Fork", "Do", "Part", "Loop", "Do", "Do"]


def test_paths_leave_forks_and_parts_out() -> None:
    assert list(paths(TREE)) == [
        ((Loop("q", 64), Keep("Q", "buffer", 2)), Do("L", "array", "ws", diagonal=True)),
        ((Loop("q", 64), Keep("Q", "buffer", 2), Loop("c", 2)), Do("softmax", "sfu")),
        ((Loop("q", 64), Keep("Q", "buffer", 2)), Do("softmax", "sfu")),
    ]


def test_groups_come_with_what_is_kept_around_them() -> None:
    one = parse_text("""mapping a of b 0
  group L
    do L mac
  around
    keep S buffer
    group M
      do M mac
    group N+O
      do N mac
""")
    assert [(group.name, keeps) for group, keeps in one.groups_with_keeps()] == [
        ("L", ()),
        ("M", (Keep("S"),)),
        ("N+O", (Keep("S"),)),
    ]
    assert [group.name for group in one.groups] == ["L", "M", "N+O"]
