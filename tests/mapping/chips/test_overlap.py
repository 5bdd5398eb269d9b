"""Collectives beside what cores do: time lines by hand, values, faults by name."""

import pytest

from simaccel.analytic.memories import resident_bytes
from simaccel.diagnosis.check_chips import check_chips
from simaccel.mapping.checks import faults
from simaccel.mapping.documents import mapping_document, parse_mapping
from simaccel.mapping.text import parse_text, tree_text
from simaccel.mapping.tree import Mapping
from simaccel.study.experiment import ExperimentResult, simulate
from simaccel.workload import Workload
from tests.mapping.chips.feed_forward import chain, free_chips
from tests.trees import einsum, workload


def _mapping(of: Workload, one: str, two: str) -> Mapping:
    """Return a group for each operator; ``one`` and ``two``: its outermost lines, by ``;``."""
    lines = [f"mapping hand of {of.name} {of.fingerprint}"]
    for name, outside, tiles in (("one", one, "W X S"), ("two", two, "V S Y")):
        keeps = ", ".join(f"{tensor} buffer" for tensor in tiles.split())
        nodes = [*outside.split("; "), f"keep {keeps}", f"do {name} array ws"]
        lines += [f"  group {name}", *(f"    {node}" for node in nodes if node)]
    return parse_text("\n".join([*lines, ""]))


def _run(one: str, two: str, *, overlap: bool, repeat: int = 1) -> ExperimentResult:
    """Run a chain, and hold it against its bound, all steps without a skip, and plain numpy."""
    of, on = chain(repeat), free_chips(compiler={"overlap": False}, overlap=overlap)
    mapping = _mapping(of, one, two)
    assert parse_text(tree_text(mapping)) == mapping
    assert parse_mapping(mapping_document(mapping), "here") == mapping
    found = simulate(of, on, mapping)
    assert found.prediction.bound_cycles <= found.run.cycles
    assert simulate(of, on, mapping, fast_forward=False).run.cycles == found.run.cycles
    check_chips(of, found.pod)
    return found


_ROWS = "spread m 4 chips"
"""A chip has 4 of 8 rows: a fold takes 14 cycles, of 2 rows 12."""


@pytest.mark.parametrize("repeat", [1, 4])
def test_weights_come_beside_the_operator_before(repeat: int) -> None:
    """V is 32 B, half of which is brought in 4 cycles and 5 on the way, while S takes 14."""
    kept = _ROWS, f"keep V chips; {_ROWS}"
    beside = _run(*kept, overlap=True, repeat=repeat)
    after = _run(*kept, overlap=False, repeat=repeat)
    assert beside.run.cycles == repeat * (14 + 14)
    assert after.run.cycles == repeat * (14 + 4 + 5 + 14)
    for found in (beside, after):
        assert found.run.moved["link_write", "V"] == repeat * 16
        # all layers of W and half of V lie on a chip, and V whole for one layer
        assert resident_bytes(each.by_part for each in found.memories) == repeat * (32 + 16)
        (memory,) = found.memories
        assert memory.by_part["weights"] == repeat * (32 + 16)


def test_weights_come_before_the_first_operator_all_the_same() -> None:
    """Nobody has anything to do until W has come."""
    assert _run(f"keep W chips; {_ROWS}", _ROWS, overlap=True).run.cycles == 4 + 5 + 14 + 14


def test_a_reduce_scatter_goes_beside_the_product_it_is_of() -> None:
    """Two parts of 4 rows, of 14 cycles each, of which 32 B of sums take 4 cycles and 5.

    The first part's go while the second one is made. Each chip then has 4 rows: 14 cycles.
    """
    parts = "spread k 2 chips; loop m 4", _ROWS
    beside = _run(*parts, overlap=True)
    assert [one.kind for one in beside.pod.exchanges] == ["reduce_scatter"]
    assert beside.run.moved["dram_read", "S"] == 2 * beside.run.moved["dram_write", "S.scattered"]
    assert beside.run.cycles == 14 + 14 + (4 + 5) + 14
    # all 64 B at once: half of them leave, 8 cycles and 5
    assert _run(*parts, overlap=False).run.cycles == 14 + 14 + (8 + 5) + 14


def test_an_all_reduce_goes_tile_by_tile_to_its_reader() -> None:
    """Its sums of 4 rows are read as they come: 32 B there and back take 8 cycles and 10."""
    parts = "spread k 2 chips; loop m 4", "loop m 4"
    assert _run(*parts, overlap=True).run.cycles == max(14 + 8 + 10 + 14, 28 + 18) + 14
    assert _run(*parts, overlap=False).run.cycles == 28 + (16 + 10) + 28


def test_an_all_gather_goes_beside_the_product_that_reads_it() -> None:
    """Two parts of S, 32 B of which half come: the second one while the first is used."""
    parts = _ROWS, "spread n 2 chips; loop m 4"
    beside = _run(*parts, overlap=True)
    assert [one.kind for one in beside.pod.exchanges] == ["all_gather"]
    assert beside.run.moved["dram_write", "S.gathered"] == 2 * beside.run.moved["dram_read", "S"]
    assert beside.run.cycles == 14 + (4 + 5) + 14 + 14
    assert _run(*parts, overlap=False).run.cycles == 14 + (8 + 5) + 14 + 14


def test_tiles_that_are_in_two_pieces_go_together() -> None:
    """Tiles of 3 rows are in two pieces of 4: all go when all are made."""
    parts = "spread k 2 chips; loop m 3", _ROWS
    (exchange,) = _run(*parts, overlap=True).pod.exchanges
    assert exchange.streamed is None


@pytest.mark.parametrize(
    ("two", "field", "allowed"),
    [
        ("keep S chips", "groups[1].tree[0]", "keep WEIGHT chips, of weights"),
        ("keep V chips x2", "groups[1].tree[0]", "keep WEIGHT chips, of weights"),
        ("loop m 4; keep V chips", "groups[1].tree[1]", "a place before all other nodes"),
        ("keep V chips; spread m 3 chips", "groups[1].tree[1]", "one that divides 8"),
        ("keep V chips; loop m 0", "groups[1].tree[1]", "1"),
    ],
)
def test_what_cannot_lie_once_on_all_chips(two: str, field: str, allowed: str) -> None:
    """Only weights lie cut over chips; places count these lines, too."""
    of = chain()
    found = faults(of, _mapping(of, "", two), free_chips(compiler={"overlap": False}, overlap=True))
    assert found
    assert found[0].field == field
    assert allowed in found[0].allowed


def test_weights_that_chips_cannot_share() -> None:
    """Neither 3 nor 5 can be divided by two chips."""
    of = workload(einsum("one", "S m n", "X m k", "W k n", m=4, k=3, n=5), weights=["W"])
    text = f"""mapping hand of {of.name} {of.fingerprint}
  group one
    keep W chips
    keep W buffer, X buffer, S buffer
    do one array ws
"""
    (found,) = faults(of, parse_text(text), free_chips(compiler={"overlap": False}, overlap=True))
    assert (found.value, found.allowed) == ("keep W chips", "a dimension of 3 x 5 that 2 divide")
