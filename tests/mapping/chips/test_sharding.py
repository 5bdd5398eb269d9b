"""What one chip does of a mapping with spreads over chips, and what goes between."""

from pathlib import Path
from typing import Any

import pytest

from simaccel.errors import InputError
from simaccel.hardware.chips import ChipPod
from simaccel.hardware.collectives import LinkAxis
from simaccel.hardware.links import LinksSpec
from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.checks import faults
from simaccel.mapping.chips.sharding import shard
from simaccel.mapping.files import load_mapping, mapping_text
from simaccel.mapping.text import parse_text, tree_text
from simaccel.mapping.tree import Mapping
from simaccel.workload import Workload
from tests.mapping.chips.feed_forward import feed_forward, spread
from tests.trees import einsum, mapping, vector, workload

RING = ChipPod(LinksSpec(bytes_per_second=10**9), (4,))
COLUMNS = {"FF1": "f 32", "act": "f 32", "FF2": "f 32"}


def _exchanged(pod_mapping: Mapping, of: Workload, chips: ChipPod = RING) -> list[Any]:
    pod, found = shard(of, pod_mapping, chips)
    assert not found
    assert pod is not None
    return [(one.kind, one.tensor, one.elements) for one in pod.exchanges]


def test_column_then_row_needs_one_all_reduce() -> None:
    ff = feed_forward()
    assert _exchanged(spread(ff, **COLUMNS), ff) == [("all_reduce", "Y", (64 * 32, 64 * 32))]


def test_a_reader_of_rows_needs_a_reduce_scatter() -> None:
    ff = feed_forward()
    cut = spread(ff, **COLUMNS, norm="m 16")
    assert _exchanged(cut, ff) == [("reduce_scatter", "Y", (64 * 32, 16 * 32))]


def test_cuts_that_differ_need_an_all_to_all_and_those_that_agree_nothing() -> None:
    ff = feed_forward()
    rows = dict.fromkeys(("FF1", "act", "FF2", "norm"), "m 16")
    assert _exchanged(spread(ff, **rows), ff) == []
    other = spread(ff, **{**rows, "FF1": "f 32"})
    assert _exchanged(other, ff) == [("all_to_all", "H", (64 * 32, 64 * 32))]
    whole = spread(ff, FF1="f 32")
    assert _exchanged(whole, ff) == [("all_gather", "H", (64 * 32, 64 * 128))]


def test_a_chip_has_its_part_and_whole_tensors_are_read_in_part_for_nothing() -> None:
    ff = feed_forward()
    pod, _ = shard(ff, spread(ff, norm="m 16"), RING)
    assert pod is not None
    assert pod.exchanges == ()
    assert dict(pod.parts) == {"Y.part": "Y"}
    assert pod.workload.shapes["Y.part"] == (16, 32)
    assert pod.workload.shapes["g"] == (32,)


def test_two_spreads_are_digits_of_a_chip_number() -> None:
    ff = feed_forward()
    cut = dict.fromkeys(("FF1", "act", "FF2"), "m 32; f 64") | {"norm": "m 32"}
    pod, found = shard(ff, spread(ff, **cut), ChipPod(LinksSpec(topology="switch"), (4,)))
    assert not found
    assert pod is not None
    (one,) = pod.exchanges
    assert (one.kind, one.digits, one.elements) == ("all_reduce", ((1, 2),), (32 * 32, 32 * 32))
    assert pod.workload.operator("FF1").ranks == {"m": 32, "e": 32, "f": 64}


@pytest.mark.parametrize(
    ("spreads", "field", "allowed"),
    [
        ({"FF1": "f 48"}, "groups[0].tree[0]", "pieces of one size: one that divides 128"),
        ({"FF1": "f 0"}, "groups[0].tree[0]", "a size from 1 to 128, the positions of f"),
        ({"FF1": "f 256"}, "groups[0].tree[0]", "a size from 1 to 128, the positions of f"),
        ({"FF1": "q 2"}, "groups[0].tree[0]", "one of the ranks m, e, f"),
        (
            {"FF1": "m 1"},
            "groups[0].tree[0]",
            "a number of pieces that divides 4 of 4 chips",
        ),
        (
            {"FF1": "f 32; m 32"},
            "groups[0].tree[1]",
            "a number of pieces that divides 1 of 4 chips",
        ),
        ({"norm": "e 8"}, "groups[3].operators[0]", "another rank: rms_norm needs e whole"),
    ],
)
def test_wrong_spreads_are_named(spreads: dict[str, str], field: str, allowed: str) -> None:
    ff = feed_forward()
    pod, found = shard(ff, spread(ff, **spreads), RING)
    assert pod is None
    assert (field, allowed) in [(where, said) for where, _, said in found]


@pytest.mark.parametrize(
    ("spreads", "axes"),
    [
        ("f 64; m 32", [LinkAxis(2, "ring", 0, 2), LinkAxis(2, "line")]),
        ("m 32; f 64", [LinkAxis(2, "line")]),
    ],
)
def test_the_chips_of_a_ring_that_sum(spreads: str, axes: list[LinkAxis]) -> None:
    """Neighbours sum Y over a line of links; every second chip in two pairs over the same links.

    These then gather the rows that the norm reads from their neighbours.
    """
    ff = feed_forward()
    cut = dict.fromkeys(("FF1", "act", "FF2"), spreads) | {"norm": "m 32"}
    pod, found = shard(ff, spread(ff, **cut), RING)
    assert pod is not None
    assert not found
    assert [exchange.axes for exchange in pod.exchanges] == [(axis,) for axis in axes]


def test_chips_in_no_part_of_a_dimension_are_refused() -> None:
    """Rows of the torus have 2 chips: 3 in a row of numbers are one and a half."""
    ff = feed_forward(m=64, e=96, f=96)
    cut = dict.fromkeys(("FF1", "act", "FF2"), "f 32") | {"norm": "m 64"}
    torus = ChipPod(LinksSpec(topology="torus", dimensions=2), (3, 2))
    _, found = shard(ff, spread(ff, **cut), torus)
    allowed = "neighbours in a dimension, or all of it, of the torus of 3 x 2"
    assert found[:1] == [("groups[2]", "Y: 3 chips, 1 apart", allowed)]


def test_partial_sums_that_nobody_adds_are_refused_by_name() -> None:
    scores = workload(
        einsum("L", "S q c", "Q q d", "K c d", q=8, c=8, d=4),
        vector("softmax", "softmax", "P q c", "S q c", axis="c", q=8, c=8),
    )
    tree = "group L+softmax\n  spread d 2 chips\n  keep Q buffer, K buffer, S buffer, P buffer\n"
    tree += "  fork\n    | do L array os\n    | do softmax sfu"
    _, found = shard(scores, mapping(scores, tree), ChipPod(RING.links, (2,)))
    assert found == [
        (
            "groups[0].operators[1]",
            "softmax reads partial sums of S that nobody adds",
            "another group for softmax: L leaves partial sums",
        )
    ]


def test_a_spread_over_chips_inside_is_refused() -> None:
    ff = feed_forward()
    text = tree_text(spread(ff, FF1="f 32")).replace(
        "    spread f 32 chips\n    loop m 16", "    loop m 16\n    spread f 32 chips"
    )
    found = faults(ff, parse_text(text), load_accelerator("toy"))
    assert [(one.field, one.allowed) for one in found] == [
        ("groups[0].tree[1]", "a place before all other nodes")
    ]


def test_an_accelerator_of_one_chip_has_no_place_for_pieces() -> None:
    ff = feed_forward()
    (fault,) = faults(ff, spread(ff, FF1="f 32"), load_accelerator("toy"))
    assert (fault.field, fault.value) == ("groups[0].tree[0]", "spread f 32 chips: 4 pieces")
    assert fault.allowed == "a number of pieces that divides 1 of 1 chips"


def test_faults_of_what_a_chip_does_have_places_in_the_whole_tree() -> None:
    ff = feed_forward()
    text = tree_text(spread(ff, **COLUMNS)).replace("keep U buffer x2", "keep U attic x2")
    found = faults(ff, parse_text(text), load_accelerator("toy", _links(4)))
    assert "groups[2].tree[2]" in [one.field for one in found]


def test_text_and_yaml_say_the_same(tmp_path: Path) -> None:
    ff = feed_forward()
    given = spread(ff, **COLUMNS, norm="m 16")
    assert parse_text(tree_text(given)) == given
    path = tmp_path / "mapping.yaml"
    path.write_text(mapping_text(given))
    assert load_mapping(path, ff) == given
    path.write_text(mapping_text(given).replace("f 32 chips", "f 48 chips"))
    with pytest.raises(InputError, match="pieces of one size"):
        load_mapping(path, ff)


def _links(count: int) -> list[str]:
    return [f"chips={count}", "links.bytes_per_second=1 GB/s"]
