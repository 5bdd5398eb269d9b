"""Walks over mapping trees."""

from simaccel.mapping.text import parse_text, parse_tree
from simaccel.mapping.tree import Do, Keep, Loop, nodes, paths

TREE = parse_tree("""
loop q 64
keep Q buffer x2
fork
  | do L array ws
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
        ((Loop("q", 64), Keep("Q", "buffer", 2)), Do("L", "array", "ws")),
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
