"""Collectives by hand, drawn, and against what others say of them."""

import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.errors import InputError
from simaccel.hardware.chips import ChipAxis, ChipPod
from simaccel.hardware.collectives import (
    COLLECTIVES,
    AxisForm,
    Collective,
    LinkAxis,
    collective_cost,
)
from simaccel.hardware.links import LinksSpec
from simaccel.hardware.load import with_values
from simaccel.importers.accelerators import load_accelerator
from tests.data_files import data_beside
from tests.refusals import faults_of

DATA = data_beside(__file__)

KINDS = COLLECTIVES[:4]


def _spec(*shape: int, **fields: object) -> ChipPod:
    links = {
        "bytes_per_second": "2 GB/s",
        "start_cycles": 7,
        "hop_cycles": 5,
        "topology": "torus" if len(shape) > 1 else "ring",
        "dimensions": len(shape),
        **fields,
    }
    return ChipPod(LinksSpec.model_validate(links), shape)


def _cycles(pod: ChipPod, kind: Collective, n_bytes: int) -> int:
    axes = pod.axes([ChipAxis(1, pod.count)])
    assert axes is not None
    return pod.cycles(kind, n_bytes, axes)


RING, LINE = {"closes_at": 1}, {"closes_at": 100}
FAST = "links.bytes_per_second=1 GB/s"


@st.composite
def _axes(draw: st.DrawFn) -> tuple[LinkAxis, ...]:
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 4, 5, 7, 8, 16]), min_size=1, max_size=3))
    forms: st.SearchStrategy[AxisForm] = st.sampled_from(["ring", "line"])
    return tuple(LinkAxis(size, draw(forms), at) for at, size in enumerate(sizes))


BYTES = st.one_of(st.sampled_from([0, 1, 2, 17]), st.integers(0, 2**40))


@pytest.mark.parametrize(
    ("kind", "given_links", "cycles"),
    [  # 22 bytes in 4 pieces of 6, at 2 bytes a cycle
        ("all_gather", RING, 5 + 7 + 2 * 5),  # 18 bytes come from two sides, over two hops
        ("reduce_scatter", RING, 5 + 7 + 2 * 5),
        ("all_reduce", RING, 9 + 7 + 4 * 5),
        ("all_to_all", RING, 6 + 7 + 2 * 5),  # over each link a piece for the next, two for others
        ("all_gather", LINE, 9 + 7 + 3 * 5),  # all comes to the last chip from one side
        ("reduce_scatter", LINE, 9 + 7 + 3 * 5),
        ("all_reduce", LINE, 12 + 7 + 6 * 5),  # k pieces to be summed, and 4 - k that are
        ("all_to_all", LINE, 12 + 7 + 3 * 5),  # 2 x 2 pieces cross the middle
    ],
)
def test_four_chips_by_hand(kind: Collective, given_links: dict[str, object], cycles: int) -> None:
    assert _cycles(_spec(4, **given_links), kind, 22) == cycles


def test_dimensions_at_once_by_hand() -> None:
    """15 of 16 pieces of 100 bytes over four links each: 188 cycles, not 300 and 75."""
    torus = _spec(4, 4)
    assert _cycles(torus, "all_gather", 1600) == 188 + 7 + 4 * 5
    assert _cycles(torus, "all_reduce", 1600) == 375 + 7 + 8 * 5
    # 4 pieces of 100 for each of 4 chips of a row, of which 8 bytes in 16 go over a link
    assert _cycles(torus, "all_to_all", 1600) == 400 + 7 + 4 * 5
    mesh = _spec(4, 4, **LINE)
    assert _cycles(mesh, "all_gather", 1600) == 375 + 7 + 6 * 5
    assert _cycles(mesh, "all_reduce", 1600) == 500 + 7 + 12 * 5


def test_links_of_other_topologies_and_speeds_by_hand() -> None:
    assert _cycles(_spec(2), "all_gather", 20) == 5 + 7 + 5  # two chips have one link each way
    assert _cycles(_spec(2, **LINE), "all_reduce", 20) == 10 + 7 + 2 * 5
    mesh = _spec(4, topology="all_to_all")
    assert _cycles(mesh, "all_gather", 24) == 3 + 7 + 5
    assert _cycles(mesh, "all_reduce", 24) == 6 + 7 + 2 * 5
    switch = _spec(4, topology="switch")
    assert _cycles(switch, "all_gather", 24) == 9 + 7 + 5
    assert _cycles(switch, "all_to_all", 24) == 9 + 7 + 5
    assert _cycles(_spec(4, per_direction=2), "all_gather", 22) == 3 + 7 + 2 * 5
    assert _cycles(_spec(4, efficiency=0.5), "all_gather", 22) == 9 + 7 + 2 * 5
    assert _cycles(_spec(4, bytes_per_second="unlimited"), "all_gather", 22) == 7 + 2 * 5


def test_every_second_chip_shares_links_with_those_between() -> None:
    """Of 8 pieces 7 come over a line, half of them over each side of a ring; two on each link."""
    axes = _spec(16, **LINE).axes([ChipAxis(2, 8)])
    assert axes is not None
    assert _spec(16).cost("all_gather", 800, axes).link_bytes == (7 * 100 * 2,)
    assert _spec(16).cost("all_gather", 800, axes).hops == 7 * 2
    ring = [LinkAxis(8, "ring", 0, 2)]
    assert _spec(16).cost("all_gather", 800, ring).link_bytes == (350 * 2,)
    assert _spec(16).cost("all_reduce", 800, ring).sent_bytes == 2 * 7 * 100 * 2


def test_edges_go_to_neighbours_by_hand() -> None:
    """30 bytes to each side at 2 a cycle: 15 cycles, both ways at once."""
    assert _cycles(_spec(4), "halo", 60) == 15 + 7 + 5
    assert _cycles(_spec(4), "shift", 30) == 15 + 7 + 5
    for pair in (_spec(2), _spec(2, topology="switch")):
        assert _cycles(pair, "swap", 30) == 15 + 7 + 5
        axes = pair.axes([ChipAxis(1, 2)])
        assert axes is not None
        assert pair.cost("swap", 30, axes).sent_bytes == 30  # by each of both
    assert _cycles(_spec(4, topology="switch"), "halo", 60) == 30 + 7 + 5
    # from the last chip of a row of 4 three links back, which the others' bytes are on as well
    assert _cycles(_spec(2, 4, **LINE), "halo", 60) == 30 + 7 + 4 * 5
    assert _cycles(_spec(2, 4), "halo", 60) == 15 + 7 + 2 * 5


@given(_axes(), st.sampled_from(["halo", "shift"]), st.integers(1, 50))
def test_edges_over_each_link(axes: tuple[LinkAxis, ...], kind: Collective, side: int) -> None:
    """Every message goes on its own, link by link, through one dimension after the other."""
    axes = tuple(axis for axis in axes if axis.size > 1)
    chips = math.prod(axis.size for axis in axes)
    if chips == 1 or (kind == "halo" and chips == 2):
        return
    over, longest, passed = Counter[tuple[int, ...]](), 0, 0
    for first, second in [(n, n + 1) for n in range(chips - 1)]:
        for way in ((first, second), (second, first))[: 2 if kind == "halo" else 1]:
            links = list(_way(axes, *way))
            over.update(links)
            longest, passed = max(longest, len(links)), passed + len(links)
    cost = collective_cost(kind, side * (2 if kind == "halo" else 1), axes)
    for at, n_bytes in enumerate(cost.link_bytes):
        assert n_bytes == side * max(n for link, n in over.items() if link[0] == at)
    assert (cost.hops, cost.sent_bytes) == (longest, math.ceil(Fraction(side * passed, chips)))


@given(_axes(), st.sampled_from([*KINDS, "halo", "shift"]), BYTES, st.integers(1, 4))
def test_no_link_has_less_than_all_together(
    axes: tuple[LinkAxis, ...], kind: Collective, n_bytes: int, apart: int
) -> None:
    """The busiest link has no less than what all bytes are for each link there is."""
    axes = tuple(axis._replace(stride=apart) for axis in axes)
    cost, links = collective_cost(kind, n_bytes, axes), sum(axis.links for axis in axes)
    assert cost.sent_bytes - 1 <= links * max(cost.link_bytes, default=0)


def _way(axes: tuple[LinkAxis, ...], first: int, second: int) -> Iterator[tuple[int, ...]]:
    """Yield the links of a message: dimension, the place of the chip that sends, direction."""
    places = [[], []]  # type: list[list[int]]
    for axis in axes:
        for at, chip in enumerate((first, second)):
            places[at].append(chip % axis.size)
        first, second = first // axis.size, second // axis.size
    here, there = places
    for at, axis in enumerate(axes):
        while here[at] != there[at]:
            step = 1 if here[at] < there[at] else -1
            if axis.is_ring and abs(here[at] - there[at]) > axis.size - abs(here[at] - there[at]):
                step = -step
            yield at, *here, step
            here[at] = (here[at] + step) % axis.size


@given(st.sampled_from(KINDS), _axes(), BYTES)
def test_no_collective_is_below_its_bytes_over_all_links(
    kind: Collective, axes: tuple[LinkAxis, ...], n_bytes: int
) -> None:
    """By formulas of others: what a chip sends, over all links that there are."""
    chips = math.prod(axis.size for axis in axes)
    cost = collective_cost(kind, n_bytes, axes)
    links = sum(
        Fraction(2 if axis.form == "ring" and axis.size > 2 else 2 * (axis.size - 1), 1)
        / (1 if axis.form == "ring" and axis.size > 2 else axis.size)
        for axis in axes
    )
    times = {"all_reduce": 2}.get(kind, 1)
    if kind != "all_to_all":  # bandwidth-optimal: Patarasu and Yuan (2009)
        assert 0 <= cost.sent_bytes - times * Fraction(n_bytes * (chips - 1), chips) < 2 * chips
    if chips > 1:
        assert max(cost.link_bytes) >= Fraction(cost.sent_bytes - 1) / links
    else:
        assert (cost.link_bytes, cost.sent_bytes) == ((), 0)


@given(st.sampled_from(KINDS), _axes(), BYTES, st.randoms())
def test_the_order_of_a_shape_changes_nothing(
    kind: Collective, axes: tuple[LinkAxis, ...], n_bytes: int, draw: object
) -> None:
    other = sorted(axes, key=lambda _: draw.random())  # type: ignore[attr-defined]
    one, two = collective_cost(kind, n_bytes, axes), collective_cost(kind, n_bytes, tuple(other))
    assert one[1:] == two[1:]
    assert sorted(one.link_bytes) == sorted(two.link_bytes)


@given(st.sampled_from(KINDS[:3]), st.integers(3, 16), st.integers(1, 3), st.integers(0, 2**30))
def test_equal_rings_leave_no_link_idle(
    kind: Collective, size: int, dimensions: int, n_bytes: int
) -> None:
    """How to Scale Your Model, chapter 3: V over both ways of all axes, twice if it is reduced."""
    cost = collective_cost(
        kind, n_bytes, tuple(LinkAxis(size, "ring", at) for at in range(dimensions))
    )
    assert set(cost.link_bytes) == {-(-cost.sent_bytes // (2 * dimensions))}
    whole = Fraction(n_bytes * (2 if kind == "all_reduce" else 1), 2 * dimensions)
    assert max(cost.link_bytes) <= whole + size**dimensions


BLOCK = ((0, 8), (1, 4), (0, 8), (1, 16))
"""Numbers that count blocks of 8 x 16 of 64 x 64 chips."""


@pytest.mark.parametrize(
    ("kind", "long", "short", "hops"),
    [
        # 127 pieces come over a link along each side
        ("all_gather", 127 * 58 // 2, 127 * 58 // 2, 15 + 7),
        ("reduce_scatter", 127 * 58 // 2, 127 * 58 // 2, 15 + 7),
        # each link of a line of n has n pieces or sums where n - 1 are gathered: 15/16 and 7/8
        ("all_reduce", 127 * 16 * 2, 127 * 16 * 2, 2 * (15 + 7)),
        # 64 chips send to the 64 of the other half: over 8 links that cut long sides, over 16
        ("all_to_all", 64 * 64 // 8 * 58, 64 * 64 // 16 * 58, 15 + 7),
    ],
)
def test_a_block_of_open_sides_by_hand(kind: Collective, long: int, short: int, hops: int) -> None:
    """128 of 64 x 64 chips, 8 x 16 that are next to one another, and 128 pieces of 58 bytes."""
    pod = _spec(64, 64, closes_at=64)
    assert BLOCK in pod.numberings([128])
    axes = pod.axes([ChipAxis(1, 128)], BLOCK) or ()
    assert axes == (LinkAxis(16, "line", 1), LinkAxis(8, "line", 0))
    cost = pod.cost(kind, 128 * 58, axes)
    assert (cost.link_bytes, cost.hops) == ((long, short), hops)
    assert cost.sent_bytes <= sum(axis.links for axis in axes) * max(cost.link_bytes)


def test_blocks_together_are_sides() -> None:
    """Chips at one place in each block are rings through every 16th, every 8th chip.

    31 pieces of 3 bytes come over them: 2/16 and 2/8 for each piece that a link sends.
    """
    pod = _spec(64, 64, closes_at=64)
    axes = pod.axes([ChipAxis(128, 32)], BLOCK) or ()
    assert axes == (LinkAxis(4, "ring", 1, 16), LinkAxis(8, "ring", 0, 8))
    assert pod.cost("all_gather", 32 * 3, axes).link_bytes == (31 * 8, 31 * 8)
    whole = pod.axes([ChipAxis(1, 4096)], BLOCK)
    assert whole == (LinkAxis(64, "ring", 1), LinkAxis(64, "ring", 0))
    more = (LinkAxis(8, "line", 0), LinkAxis(4, "ring", 1, 16))  # and blocks beside one another
    assert pod.axes([ChipAxis(16, 8), ChipAxis(128, 4)], BLOCK) == more
    assert pod.axes([ChipAxis(1, 48)], BLOCK) is None


def test_two_parts_of_a_side_share_its_links() -> None:
    """Two neighbours and two opposite ones of a ring of 8: 4 pieces of 10 bytes, 3 of which come.

    The opposite chip's piece comes over links that 4 pairs share, two pieces over the other ones.
    """
    pod = _spec(8)
    axes = pod.axes([ChipAxis(1, 2), ChipAxis(4, 2)]) or ()
    assert axes == (LinkAxis(2, "line"), LinkAxis(2, "ring", stride=4))
    assert pod.cost("all_gather", 40, axes).link_bytes == (20, 40)
    assert pod.link_cycles("all_gather", 40, axes) == (("links0", 10 + 20),)


def test_numberings_of_slices_count_blocks_within_each() -> None:
    """The network stays outside; a part of a torus and other links have no blocks."""
    pod = _slices((2, 4, 4), "2 GB/s")
    blocks = ((0, 2), (1, 2), (2, 2), (1, 2), (2, 2))
    assert pod.numberings([4]) == (((0, 2), (1, 4), (2, 4)), blocks)
    assert pod.group(16).numberings([4]) == (((1, 4), (2, 4)),)
    assert len(_spec(16, topology="switch").numberings([4])) == 1


@pytest.mark.parametrize(("values", "field"), DATA["refused"])
def test_what_no_pod_can_be_is_named(values: list[str], field: str) -> None:
    assert [fault.field for fault in faults_of(load_accelerator, "toy", values)] == [field]


def test_which_dimensions_chips_are_in() -> None:
    pod = _spec(8, 4, closes_at=8)
    rows, columns = LinkAxis(4, "line", 1), LinkAxis(8, "ring", 0)
    assert pod.axes([ChipAxis(1, 32)]) == (rows, columns)
    assert (pod.axes([ChipAxis(1, 4)]), pod.axes([ChipAxis(4, 8)])) == ((rows,), (columns,))
    assert pod.axes([ChipAxis(1, 2)]) == (LinkAxis(2, "line", 1),)  # half of a row
    assert pod.axes([ChipAxis(1, 16)]) == (rows, LinkAxis(4, "line", 0))  # half of all rows
    assert pod.axes([ChipAxis(2, 2)]) == (LinkAxis(2, "line", 1, 2),)  # each second one of a row
    assert pod.axes([ChipAxis(2, 4)]) == (LinkAxis(2, "line", 1, 2), LinkAxis(2, "line", 0))
    assert pod.axes([ChipAxis(1, 3)]) is None
    assert pod.group(4).axes([ChipAxis(1, 4)]) == (rows,)
    assert _spec(8).axes([ChipAxis(2, 4)]) == (LinkAxis(4, "ring", 0, 2),)
    assert _spec(8, topology="switch").axes([ChipAxis(2, 4)]) == (LinkAxis(4, "switch"),)
    closed, line = (pod.route(0, 7) for pod in (_spec(8), _spec(8, **LINE)))
    assert [[axis.size for axis in way] for way in (closed, line)] == [[1], [7]]


def test_energy_of_links_is_unknown_unless_it_is_given_and_over_a_network() -> None:
    """10 B that a chip sends, at 1.5 pJ a bit; what it receives is the other chip's."""
    sent = {("link_write", "Y"): 10, ("link_read", "Y"): 20, ("dram_read", "Y"): 5}
    on = with_values(load_accelerator("toy"), {"links.pj_per_bit": 1.5}, "test")
    assert on.energy_by_level(0, 0, sent)["link"] == 120
    assert on.energy_by_tensor(sent) == {"Y": {"link": 120, "dram": 500}}
    unknown = load_accelerator("toy")
    assert math.isnan(unknown.energy_by_level(0, 0, sent)["link"])
    assert "link" not in unknown.energy_by_level(0, 0, {("dram_read", "Y"): 5})
    on = load_accelerator("tpu_v5e", ["chips=2x2x2", "links.network_bytes_per_second=4 GB/s"])
    assert on.unknown_energies == ("links.pj_per_bit of the network",)


def test_another_topology_leaves_what_the_file_says_of_its_own() -> None:
    """Shape of a torus, and which of its sides close."""
    ring = load_accelerator("tpu_v5e_4x4", ["links.topology=ring"]).pod
    assert ring.shape == (16,)
    switch = load_accelerator("tpu_v5e_4x4", ["links.topology=switch"]).pod
    assert (switch.shape, switch.links.closes_at) == ((16,), 1)
    pod = load_accelerator("tpu_v5e_4x4")
    assert with_values(pod, {"links.topology": "ring"}, "test").pod == ring
    for more, at in (("chips=4x4", "--chips"), ("links.algorithm=direct", "--set links.algor")):
        with pytest.raises(InputError, match=at):
            load_accelerator("tpu_v5e_4x4", ["links.topology=ring", more])


def _slices(shape: tuple[int, ...], network: str, **fields: object) -> ChipPod:
    """Return slices of a ring or torus with links of 20 bytes a cycle, 5 cycles a hop."""
    given = {"bytes_per_second": "20 GB/s", "start_cycles": 7, "hop_cycles": 5, **fields}
    network_fields = {"network_bytes_per_second": network, "network_start_cycles": 100}
    links = {"dimensions": len(shape) - 1, "topology": "torus", **given, **network_fields}
    return ChipPod(LinksSpec.model_validate(links), shape)


def test_an_all_reduce_over_slices_by_hand() -> None:
    """Each of 4 chips of a slice has sums of a quarter, 1,600 B; those of two slices are added.

    Over the network that is what a chip has, 1,600 B there and back in halves. In the ring three
    quarters of 6,400 B, twice, by both ways. All of it at once: the network is busy longest.
    """
    slow = _slices((2, 4), "2 GB/s")
    axes = slow.axes([ChipAxis(1, 8)])
    assert axes == (LinkAxis(4, "ring", 1), LinkAxis(2, "switch", 0))
    busy = dict(slow.link_cycles("all_reduce", 6400, axes))
    assert busy == {"links0": 1600 // 2, "links1": 4800 // 20}
    # start and 2 hops there and back in the ring, the network there and back
    assert slow.lag_cycles("all_reduce", axes) == 7 + 4 * 5 + 2 * 100
    assert slow.cycles("all_reduce", 6400, axes) == 800 + 227
    (network,) = slow.axes([ChipAxis(4, 2)]) or ()
    # of chips in two slices alone all 6,400 B, half of them each time
    assert slow.cycles("all_reduce", 6400, [network]) == 6400 // 2 + 2 * 100


def test_a_fast_network_takes_a_share_of_the_pieces() -> None:
    """As fast as all links of a ring of two ways: no colour waits, as on all links at once."""
    pod = _slices((2, 4), "20 GB/s")
    axes = pod.axes([ChipAxis(1, 8)]) or ()
    cost = pod.cost("all_gather", 8 * 300, axes)
    assert cost.link_bytes == (700, 700)  # 7 x 300 on 3 links


def test_slices_are_groups_and_messages_between_them_go_over_the_network() -> None:
    pod = _slices((2, 4, 4), "2 GB/s")
    assert (pod.count, pod.slices, pod.slice_shape, pod.group_sizes) == (
        32,
        2,
        (4, 4),
        (1, 4, 16, 32),
    )
    assert pod.group(16).slices == 1
    assert [one.form for one in pod.route(0, 21)] == ["switch"]
    assert dict(pod.link_cycles("send", 80, pod.route(0, 16))) == {"links0": 40}
    assert pod.lag_cycles("send", pod.route(0, 16)) == 100


def test_which_shapes_have_slices() -> None:
    """A size more than there are dimensions is that of slices, if there is a network."""
    sliced = LinksSpec.model_validate(
        {"topology": "torus", "dimensions": 2, "bytes_per_second": 1, "network_bytes_per_second": 1}
    )
    plain = sliced.model_copy(update={"network_bytes_per_second": None})
    assert sliced.wrong_shape((2, 4, 4)) == ""
    assert sliced.wrong_shape((2, 2, 4, 4)).endswith("(links.dimensions), and slices before them")
    assert plain.wrong_shape((2, 4, 4)).endswith("(links.dimensions)")
    assert ChipPod.from_links(sliced, 16).slices == 1
    assert ChipPod.from_links(sliced, (2, 4, 4)).slices == 2
    assert ChipPod.from_links(plain, (1, 4, 4)).slices == 1
