"""Places of groups, spreads over cores and shared tiles that can't be, refused with their place."""

import pytest

from simaccel.errors import InputError
from simaccel.mapping.checks import faults
from simaccel.mapping.documents import mapping_document, parse_mapping
from simaccel.mapping.text import parse_text, tree_text
from simaccel.mapping.tree import Mapping
from simaccel.workload import Workload
from tests.machine.accelerators import accelerator
from tests.trees import assert_computes, einsum, mapping, vector, workload

PAIR = workload(
    einsum("one", "T m n", "A m k", "B k n", m=8, k=4, n=4),
    einsum("two", "U m n", "C m k", "D k n", m=8, k=4, n=4),
)
TREES = {
    "one": "keep A buffer, B buffer, T buffer\n          do one array ws",
    "two": "keep C buffer, D buffer, U buffer\n          do two array ws",
}


def _pair(first: str, second: str, spread: str = "") -> Mapping:
    spread = f"{spread}\n          " if spread else ""
    return mapping(
        PAIR,
        f"""
        group one {first}
          {spread}{TREES["one"]}
        group two {second}
          {TREES["two"]}
        """,
    )


def _faults(one: Mapping, count: int = 4) -> list[str]:
    return [str(fault) for fault in faults(PAIR, one, accelerator(cores={"count": count}))]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("on core 0", "on core 3"),
        ("on cores 0-1", "on cores 0-1"),
        ("on cores 0-3", "on cores 1-2"),
        ("", "on core 2"),
    ],
)
def test_places_that_are_equal_apart_or_inside(first: str, second: str) -> None:
    one = _pair(first, second)
    assert _faults(one) == []
    assert parse_text(tree_text(one)) == one
    assert parse_mapping(mapping_document(one), "file") == one


def test_a_place_that_overlaps_another_is_refused_with_both() -> None:
    (fault,) = _faults(_pair("on cores 0-1", "on cores 1-2"))
    assert fault == (
        "mapping: groups[1].place: got 'cores 1-2'; allowed: the cores of groups[0] (one) "
        "(cores 0-1), a part of them, cores that contain them, or other cores"
    )


def test_cores_that_there_are_not() -> None:
    assert _faults(_pair("on core 0", "on cores 1-2"), 2) == [
        "mapping: groups[1].place: got 'cores 1-2'; allowed: cores 0 to 1, as cores.count is 2"
    ]


def test_more_pieces_than_its_cores() -> None:
    (fault,) = _faults(_pair("on cores 1-2", "", "spread m 2 cores"))
    assert fault == (
        "mapping: groups[0].tree[0]: got 'spread m 2 cores: 4 pieces'; allowed: at most its cores "
        "(cores 1-2), 2, pieces of m"
    )


def test_no_place_inside_of_what_is_kept() -> None:
    one = mapping(
        PAIR,
        """
        around
          keep A buffer
          group one on core 1
            keep B buffer, T buffer
            do one array ws
        """,
    )
    (fault,) = [fault for fault in _faults(one) if "place" in fault]
    assert fault == (
        "mapping: groups[0].groups[0].place: got 'core 1'; allowed: no place where A stays in the "
        "buffer of core 0"
    )


@pytest.mark.parametrize("place", ["on cores 2-1", "on core x", "on", "on cores 1", "on core -1"])
def test_a_line_that_is_no_place(place: str) -> None:
    with pytest.raises(InputError, match=r"line 2: got 'group one on.*allowed: group OPERATOR"):
        _pair(place, "")


@pytest.mark.parametrize("place", ["core", "cores 3-2", 2, ["0"]])
def test_a_field_that_is_no_place(place: object) -> None:
    document = mapping_document(_pair("", ""))
    document["groups"][1]["place"] = place
    with pytest.raises(InputError, match=r"groups\[1\].place: got .*allowed: (core 2|text)"):
        parse_mapping(document, "file")


def _tied() -> Workload:
    """S = X W, then Y = S W: the columns of W for the first are its rows for the second."""
    return workload(
        einsum("first", "S m n", "X m k", "W k n", m=6, k=4, n=4),
        einsum("second", "Y m n", "S m k", "W k n", m=6, k=4, n=4),
        weights=["W"],
    )


def _mapping(loops: str, keeps: tuple[str, str, str]) -> Mapping:
    of = _tied()
    both, first, second = keeps
    lines = [
        f"mapping hand of {of.name} {of.fingerprint}",
        "  group first+second",
        *(f"    {loop}" for loop in loops.split("; ")),
        f"    keep {both}",
        "    fork",
        f"      | keep {first}",
        "        do first array ws",
        f"      | keep {second}",
        "        do second array ws",
        "",
    ]
    return parse_text("\n".join(lines))


@pytest.mark.parametrize(
    "keeps",
    [
        ("W buffer, S buffer", "X buffer", "Y buffer"),
        ("S buffer", "X buffer, W buffer", "Y buffer, W buffer"),
    ],
)
def test_all_of_a_tensor_serves_both(keeps: tuple[str, str, str]) -> None:
    assert faults(_tied(), _mapping("loop m 2", keeps)) == []
    assert_computes(_tied(), _mapping("loop m 2", keeps))


@pytest.mark.parametrize(
    ("keeps", "leaf"),
    [
        (("W buffer, S buffer", "X buffer", "Y buffer"), 1),
        (("S buffer", "X buffer, W buffer", "Y buffer, W buffer"), 2),
    ],
)
def test_a_part_that_another_operator_reads_is_refused(
    keeps: tuple[str, str, str], leaf: int
) -> None:
    """Two columns of W are there where the second operator reads two rows."""
    (fault,) = faults(_tied(), _mapping("loop m 2; loop n 2", keeps))
    assert fault.field == f"groups[0].tree[{5 - leaf}].fork[1][{leaf}]"
    assert fault.allowed == "no loop n around both: first reads other parts of W"


def test_a_block_of_which_another_operator_reads_more_is_refused() -> None:
    """The product reads all columns of X, the sum those of the block."""
    of = workload(
        einsum("first", "T m n", "X m k", "A k n", m=8, k=8, n=8),
        vector("add", "residual", "Y m n", "X m n", "T m n", m=8, n=8),
    )
    tree = """
    group first+add
      loop m 2
      {}
      fork
        | keep A buffer{}
          do first array ws
        | keep Y buffer{}
          do add sfu
    """
    apart = mapping(of, tree.format("keep T buffer", ", X buffer", ", X buffer"))
    assert faults(of, apart) == []
    assert_computes(of, apart)
    (fault,) = faults(of, mapping(of, tree.format("keep X buffer, T buffer", "", "")))
    assert fault.allowed == "a keep of X in a branch of its own: first reads other parts"
