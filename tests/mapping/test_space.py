"""Which ranks of a group's operators are one, and how tensors look in them."""

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from simaccel.mapping.space import (
    IterationSpace,
    NotThisWorkloadError,
    aliases_of,
    holding_tensor,
    mergeable,
    space_of,
)
from simaccel.mapping.text import parse_tree
from simaccel.mapping.tree import Group, Keep
from simaccel.workload import Workload
from tests.program.tree_cases import WORKLOADS
from tests.trees import einsum, vector, workload

ATTENTION = workload(
    einsum("L", "S g q c", "Q g q d", "K g c d", g=3, q=7, c=11, d=5),
    vector("softmax", "softmax", "P g q c", "S g q c", axis="c", g=3, q=7, c=11),
    einsum("A", "Z g n e", "P g n k", "V g k e", g=3, n=7, k=11, e=5),
)
CONVS = WORKLOADS["convs"]


def _space(of: Workload, **choices: object) -> IterationSpace:
    names = tuple(one.name for one in of.operators)
    return space_of(of, Group(operators=names, tree=(), **choices))  # type: ignore[arg-type]


def test_ranks_of_attention_are_one_by_the_tensors_between() -> None:
    space = _space(ATTENTION)
    assert space.sizes == {"g": 3, "q": 7, "c": 11, "d": 5, "e": 5}
    assert space.bound_operator("A").ranks == ("g", "q", "c", "e")
    assert [view.ranks for view in space.bound_operator("A").inputs] == [
        ("g", "q", "c"),
        ("g", "c", "e"),
    ]
    assert space.axes == {"softmax": "c"}
    assert space.bound_operator("A").reduced == {"c"}
    assert space.bound_operator("softmax").reduced == frozenset()
    assert space.made == {"S": "L", "P": "softmax", "Z": "A"}
    assert space.escapes == {"Z"}


def test_query_heads_that_share_keys() -> None:
    of = workload(
        einsum("L", "S g r q c", "Q g r q d", "K g c d", g=2, r=4, q=1, c=11, d=5),
        vector("softmax", "softmax", "P g r q c", "S g r q c", axis="c", g=2, r=4, q=1, c=11),
    )
    space = _space(of)
    assert space.sizes == {"g": 2, "r": 4, "q": 1, "c": 11, "d": 5}
    assert space.bound_operator("L").inputs[1].ranks == ("g", "c", "d")
    assert space.moves(space.bound_operator("L").inputs[1]) == {"g", "c", "d"}
    assert mergeable(of, ["L"]) == {"rq": ("r", "q")}


def test_one_tensor_read_twice_has_two_names() -> None:
    of = workload(einsum("E", "C m n", "A m k", "A n k", m=7, n=7, k=5))
    seen = _space(of).bound_operator("E")
    assert seen.names == ("A", "A#1")
    assert [view.name for view in seen.inputs] == ["A", "A"]
    assert [view.ranks for view in seen.inputs] == [("m", "k"), ("n", "k")]
    alike = workload(einsum("E", "C m", "A m k", "A m k", m=7, k=5))
    assert _space(alike).bound_operator("E").names == ("A", "A")


def test_a_convolution_behind_another_gives_it_its_rows_with_halo() -> None:
    space = _space(CONVS)
    assert space.derived == {"p": (("p2", 1), ("r2", 1)), "q": (("q2", 1), ("s2", 1))}
    assert "p" not in space.sizes
    assert space.sizes["p2"] == 7
    assert space.widen({**space.sizes, "p2": 2})["p"] == 4
    assert space.bound_operator("c1").output.ranks == ("m", "p", "q")
    assert space.bound_operator("c2").inputs[0].ranks == ("m", "p2+r2", "q2+s2")
    assert space.moves(space.bound_operator("c1").output) == {"m", "p2", "r2", "q2", "s2"}
    assert space.plain(space.bound_operator("c1").inputs[0]).ranks == ("c", "p2+r2+r", "q2+s2+s")


def test_merged_and_padded_ranks() -> None:
    of = workload(einsum("L", "S b h q c", "Q b h q d", "K b h c d", b=2, h=3, q=7, c=11, d=5))
    assert mergeable(of, ["L"]) == {"bh": ("b", "h")}
    space = _space(of, merged={"bh": ("b", "h")}, padded={"q": 8})
    assert space.sizes == {"bh": 6, "q": 8, "c": 11, "d": 5}
    assert space.bound_operator("L").output.ranks == ("bh", "q", "c")
    assert space.bound_operator("L").output.shape == (6, 8, 11)


def test_what_is_made_in_place() -> None:
    space = _space(ATTENTION)
    tree = parse_tree("keep S buffer\ndo softmax sfu")
    assert aliases_of(space, tree, ()) == {"P": "S"}
    assert aliases_of(space, parse_tree("keep S buffer, P buffer\ndo softmax sfu"), ()) == {}
    assert holding_tensor(ATTENTION, "P", (Keep("S"),)) == "S"
    assert holding_tensor(ATTENTION, "V", (Keep("S"),)) == "V"


def test_an_operator_that_is_not_there_is_refused() -> None:
    with pytest.raises(NotThisWorkloadError, match="group X: small has no X"):
        space_of(ATTENTION, Group(operators=("X",), tree=()))


def _steps(work: Callable[[], object]) -> int:
    """Count the steps of the interpreter, which no other process changes."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> object:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def test_the_work_of_many_groups_is_that_of_one_as_often() -> None:
    def work(layers: int) -> int:
        names = [f"l{at}" for at in range(layers)]
        of = workload(
            *(einsum(n, f"{n}O m n", f"{n}I m k", f"{n}W k n", m=2, k=3, n=5) for n in names)
        )
        every = Group(operators=tuple(names), tree=())
        alone = [Group(operators=(name,), tree=()) for name in names]
        return _steps(lambda: [space_of(of, group).escapes for group in (every, *alone)])

    first, second, third = (work(layers) for layers in (8, 16, 32))
    assert third - second == pytest.approx(2 * (second - first), rel=0.01)
