"""What one chip does of a mapping with spreads over chips, and what goes between."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.errors import InputError
from simaccel.hardware.chips import ChipPod
from simaccel.hardware.collectives import AxisForm, LinkAxis
from simaccel.hardware.links import LinksSpec
from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.checks import faults
from simaccel.mapping.chips.sharding import Pod, shard
from simaccel.mapping.files import load_mapping, mapping_text
from simaccel.mapping.text import parse_text, tree_text
from simaccel.mapping.tree import Mapping
from simaccel.workload import Workload
from tests.data_files import data_beside
from tests.mapping.chips.feed_forward import feed_forward, spread
from tests.trees import einsum, mapping, vector, workload

DATA = data_beside(__file__)

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


@pytest.mark.parametrize(("spreads", "field", "allowed"), DATA["spreads"])
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
    """Slices have 6 chips: 9 in a row of numbers are no whole slices, nor a part of one."""
    ff = feed_forward(m=64, e=96, f=72)
    cut = dict.fromkeys(("FF1", "act", "FF2"), "f 8") | {"norm": "m 64"}
    links = {"bytes_per_second": 10, "network_bytes_per_second": 1}
    slices = ChipPod(LinksSpec.model_validate(links), (3, 6))
    _, found = shard(ff, spread(ff, **cut), slices)
    allowed = "neighbours in a dimension, or all of it, of the ring of 3 x 6"
    assert found == [("groups[2]", "Y: 9 chips, 1 apart", allowed)]


def _sums(shape: tuple[int, ...], tile: int, closes_at: int, hops: int) -> Pod:
    """Cut the sums of a feed-forward layer, over so many of 96 columns, on a torus."""
    ff = feed_forward(m=64, e=96, f=96)
    cut = dict.fromkeys(("FF1", "act", "FF2"), f"f {tile}") | {"norm": "m 64"}
    rates: Any = {"bytes_per_second": 10**9, "hop_cycles": hops, "closes_at": closes_at}
    links = LinksSpec(topology="torus", dimensions=len(shape), **rates)
    pod, found = shard(ff, spread(ff, **cut), ChipPod(links, shape))
    assert not found
    assert pod is not None
    return pod


@pytest.mark.parametrize(
    ("shape", "closes_at", "tile", "sides"),
    [
        # sides of 6, of which 4 are no part
        ((6, 6), 8, 24, [(2, "line", 1), (2, "line", 0)]),
        # sums of V: a line's links have V each, those of two lines 3/4 V, and 4 hops are for 6
        ((4, 4), 8, 24, [(2, "line", 1), (2, "line", 0)]),
        # rings' links have 3/4 V as well, and 4 hops
        ((4, 4), 4, 24, [(4, "ring", 1)]),
        # lines of 2 and 4 have 7/8 V / (1/2 + 3/4), three lines of 2 have 7/8 V / (3/2)
        ((4, 4, 4), 8, 12, [(2, "line", 2), (2, "line", 1), (2, "line", 0)]),
    ],
)
def test_sums_of_chips_go_over_a_block_where_that_is_faster(
    shape: tuple[int, ...], closes_at: int, tile: int, sides: list[tuple[int, AxisForm, int]]
) -> None:
    pod = _sums(shape, tile, closes_at, 9)
    (summed,) = pod.exchanges
    assert summed.axes == tuple(LinkAxis(*side) for side in sides)


@pytest.mark.parametrize(
    ("shape", "tile", "order", "sides"),
    [
        ((2, 3), 32, (0, 1), [(3, "line", 1)]),
        ((3, 2), 32, (1, 0), [(3, "line", 0)]),  # threes are numbered along the side of 3
        ((2, 3), 48, (1, 0), [(2, "line", 0)]),
        # of V bytes 15/16 V over both links of a ring of 16; over lines of 4 and 4, which have
        # 3/4 of a link's rate each, (15/16 V) / (2 x 3/4)
        ((4, 16), 6, (1, 0), [(4, "line", 0), (4, "line", 1)]),
        ((16, 4), 6, (0, 1), [(4, "line", 1), (4, "line", 0)]),
    ],
)
def test_the_order_in_which_a_shape_is_written_changes_nothing(
    shape: tuple[int, ...],
    tile: int,
    order: tuple[int, ...],
    sides: list[tuple[int, AxisForm, int]],
) -> None:
    pod = _sums(shape, tile, 16, LinksSpec().hop_cycles)
    assert [number for number, _ in pod.numbering] == list(order)
    assert [one.axes for one in pod.exchanges] == [tuple(LinkAxis(*side) for side in sides)]


@given(
    st.permutations([2, 3, 4]).map(tuple),
    st.sampled_from([96, 48, 32, 24, 16, 8, 4]),
    st.sampled_from([96, 48, 32, 24, 16, 8, 4]),
    st.sampled_from([1, 3, 4]),
)
def test_pods_of_the_same_sides_take_the_same_cycles(
    shape: tuple[int, ...], inner: int, rows: int, closes_at: int
) -> None:
    """Links are as busy, and lags as long, whatever side is written first."""
    ff = feed_forward(m=96, e=96, f=96)
    cut = dict.fromkeys(("FF1", "act", "FF2"), f"f {inner}") | {"norm": f"m {rows}"}
    links = LinksSpec(
        topology="torus", dimensions=3, closes_at=closes_at, bytes_per_second=10**9, hop_cycles=99
    )

    def cycles(shape: tuple[int, ...]) -> int | None:
        chips = ChipPod(links, shape)
        pod, _ = shard(ff, spread(ff, **cut), chips)
        if pod is None:
            return None
        return sum(chips.cycles(one.kind, one.n_bytes(one.most), one.axes) for one in pod.exchanges)

    assert cycles(shape) == cycles((2, 3, 4))


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
