"""A tile that two operators see in different dimensions: whole, it serves both; a part does not."""

import pytest

from simaccel.mapping.checks import faults
from simaccel.mapping.text import parse_text
from simaccel.mapping.tree import Mapping
from simaccel.workload import Workload
from tests.trees import einsum, workload


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
    ("loops", "keeps"),
    [
        ("loop m 2", ("W buffer, S buffer", "X buffer", "Y buffer")),
        ("loop m 2; loop n 2", ("S buffer", "X buffer, W buffer", "Y buffer, W buffer")),
    ],
)
def test_all_of_a_tensor_or_a_tile_each(loops: str, keeps: tuple[str, str, str]) -> None:
    """All of W serves both operators; tiles of its columns and of its rows are kept by each."""
    assert faults(_tied(), _mapping(loops, keeps)) == []


def test_a_part_that_another_operator_reads_is_refused() -> None:
    """Two columns of W are there where the second operator reads two rows."""
    keeps = "W buffer, S buffer", "X buffer", "Y buffer"
    found = faults(_tied(), _mapping("loop m 2; loop n 2", keeps))
    assert [fault.field for fault in found] == ["groups[0].tree[4].fork[1][1]"]
    assert found[0].allowed == "a keep of W in a branch of its own: first reads other parts"
