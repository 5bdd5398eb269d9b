"""Collectives against tables by hand, a ring that hands pieces on, and formulas of others."""

import math
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.errors import InputError
from simaccel.hardware.chips import COLLECTIVES, ChipAxis, ChipPod, Collective
from simaccel.hardware.links import LinksSpec
from simaccel.hardware.load import with_values
from simaccel.importers.accelerators import load_accelerator

RING_OF_BYTES = {  # 21 bytes on rings of 2 to 8, by hand: pieces of 11, 7, 6, 5, 4, 3, 3 bytes
    2: (11,),
    3: (7, 7),
    4: (6, 6, 6),
    5: (5, 5, 5, 5),
    6: (4, 4, 4, 4, 4),
    7: (3, 3, 3, 3, 3, 3),
    8: (3, 3, 3, 3, 3, 3, 3),
}
BOTH_WAYS = {  # the last piece of an even ring comes in halves from both sides
    2: (11,),
    3: (7,),
    4: (6, 3),
    5: (5, 5),
    6: (4, 4, 2),
    7: (3, 3, 3),
    8: (3, 3, 3, 2),
}


def _spec(*shape: int, **fields: object) -> ChipPod:
    links = {"bytes_per_second": "2 GB/s", "hop_cycles": 5, "dimensions": len(shape), **fields}
    return ChipPod(LinksSpec.model_validate(links), shape)


@pytest.mark.parametrize("size", range(2, 9))
def test_rings_by_hand(size: int) -> None:
    ring = _spec(size, algorithm="ring")
    both = _spec(size)
    assert ring.messages("all_gather", 21, (size,)) == RING_OF_BYTES[size]
    assert ring.messages("reduce_scatter", 21, (size,)) == RING_OF_BYTES[size]
    assert ring.messages("all_reduce", 21, (size,)) == 2 * RING_OF_BYTES[size]
    assert both.messages("all_gather", 21, (size,)) == BOTH_WAYS[size]
    assert both.messages("reduce_scatter", 21, (size,)) == BOTH_WAYS[size][::-1]


@pytest.mark.parametrize(
    ("kind", "cycles"),
    [
        ("reduce_scatter", 3 * (3 + 5)),  # 6 bytes at 2 a cycle, and 5 of latency, three times
        ("all_gather", 3 * (3 + 5)),
        ("all_reduce", 6 * (3 + 5)),
        ("all_to_all", (9 + 5) + (6 + 5) + (3 + 5)),  # 18, 12 and 6 bytes
        ("point_to_point", 11 + 5),
    ],
)
def test_cycles_of_a_ring_of_four_by_hand(kind: Collective, cycles: int) -> None:
    assert _spec(4, algorithm="ring").cycles(kind, 21, (4,), 10**9) == cycles


def test_dimensions_one_after_the_other_by_hand() -> None:
    torus = _spec(2, 4, topology="torus", algorithm="ring")
    # 4 first: pieces of 6 of 21 bytes; then 2: pieces of 3 of these 6
    assert torus.messages("reduce_scatter", 21, (4, 2)) == (6, 6, 6, 3)
    assert torus.messages("all_gather", 21, (4, 2)) == (3, 6, 6, 6)
    assert torus.sent_bytes("all_reduce", 21, (4, 2)) == 2 * 21
    # all of 16 bytes goes round 4, then over 2: 12 + 8 + 4 of pieces of 4, and 8
    assert torus.messages("all_to_all", 16, (4, 2)) == (12, 8, 4, 8)


def test_links_of_other_topologies_by_hand() -> None:
    mesh = _spec(4, topology="all_to_all")
    assert mesh.messages("all_reduce", 21, (4,)) == (6, 6)
    assert mesh.sent_bytes("all_gather", 21, (4,)) == 18
    switch = _spec(8, topology="switch", algorithm="halving_doubling")
    assert switch.messages("all_gather", 80, (8,)) == (10, 20, 40)
    assert switch.messages("reduce_scatter", 80, (8,)) == (40, 20, 10)
    assert _spec(3, topology="switch").messages("all_to_all", 9, (3,)) == (3, 3)


def test_several_links_a_direction_share_a_message() -> None:
    assert _spec(4, algorithm="ring", per_direction=2).cycles(
        "all_gather", 24, (4,), 10**9
    ) == 3 * (2 + 5)


def _handed_on(size: int, ways: dict[int, int], cells: int) -> tuple[list[int], int]:
    """Let chips of a ring send pieces for others on, step by step, over links one way.

    ``ways``: how many cells of a piece for the chip so far ahead go that way. Return the cells
    over the busiest link by step, and all cells sent by a chip.
    """
    travelling = Counter({(0, ahead): n for ahead, n in ways.items() if n})
    steps, total = [], 0
    while travelling:
        steps.append(sum(travelling.values()))
        total += steps[-1]
        assert steps[-1] <= size * cells
        travelling = Counter({(at + 1, to): n for (at, to), n in travelling.items() if at + 1 < to})
    return steps, total


@given(st.integers(2, 12), st.integers(1, 40))
def test_all_to_all_on_a_ring_is_pieces_handed_on(size: int, piece: int) -> None:
    ring = _spec(size, algorithm="ring")
    steps, total = _handed_on(size, dict.fromkeys(range(1, size), piece), piece)
    assert list(ring.messages("all_to_all", size * piece, (size,))) == steps
    assert ring.sent_bytes("all_to_all", size * piece, (size,)) == total


@given(st.integers(3, 12), st.integers(1, 40))
def test_all_to_all_both_ways_is_pieces_handed_on(size: int, piece: int) -> None:
    near = dict.fromkeys(range(1, (size + 1) // 2), piece)
    opposite = size // 2 if size % 2 == 0 else None
    one = near | ({opposite: -(-piece // 2)} if opposite else {})
    other = near | ({opposite: piece // 2} if opposite else {})
    steps, total = _handed_on(size, one, piece)
    both = _spec(size)
    assert list(both.messages("all_to_all", size * piece, (size,))) == steps
    back = _handed_on(size, other, piece)[1]
    assert both.sent_bytes("all_to_all", size * piece, (size,)) == total + back


@given(st.sampled_from(COLLECTIVES[:3]), st.integers(2, 64), st.integers(1, 2**40))
def test_a_ring_sends_what_patarasu_and_yuan_say(kind: Collective, size: int, n: int) -> None:
    """Bandwidth optimal: (n - 1) / n of the tensor, twice where it is reduced and gathered."""
    times = 2 if kind == "all_reduce" else 1
    sent = _spec(size, algorithm="ring").sent_bytes(kind, n, (size,))
    assert 0 <= sent - times * Fraction(n * (size - 1), size) < times * size


@given(st.integers(2, 64), st.integers(1, 2**20), st.integers(0, 500))
def test_a_ring_takes_what_astra_sim_says(size: int, piece: int, latency: int) -> None:
    """ASTRA-sim, analytic backend: n - 1 messages of 1/n each, latency + bytes / bandwidth."""
    spec = _spec(size, algorithm="ring", hop_cycles=latency)
    expected = (size - 1) * (latency + math.ceil(Fraction(piece, 2)))
    assert spec.cycles("all_gather", size * piece, (size,), 10**9) == expected
    assert spec.cycles("all_reduce", size * piece, (size,), 10**9) == 2 * expected


@pytest.mark.parametrize(
    ("values", "field"),
    [
        (["chips=0"], "chips"),
        (["chips=5000"], "chips"),
        (["chips=4x"], "chips"),
        (["chips=4"], "chips"),
        (["chips=4", "links.bytes_per_second=0"], "links.bytes_per_second"),
        (["chips=4", "links.bytes_per_second=1 B/s"], "links.bytes_per_second"),
        (["chips=2x3", "links.bytes_per_second=1 GB/s"], "chips"),
        (["links.dimensions=2"], "links.dimensions"),
        (["links.algorithm=direct"], "links.algorithm"),
    ],
)
def test_what_no_pod_can_be_is_named(values: list[str], field: str) -> None:
    with pytest.raises(InputError) as caught:
        load_accelerator("toy", values)
    assert [fault.field for fault in caught.value.faults] == [field]


def test_which_dimensions_chips_are_in() -> None:
    pod = _spec(8, 8, topology="torus")
    assert pod.rings([ChipAxis(1, 64)]) == (8, 8)
    assert pod.rings([ChipAxis(1, 8)]) == pod.rings([ChipAxis(8, 8)]) == (8,)
    assert pod.rings([ChipAxis(1, 4)]) is None  # half of a row is no ring
    assert _spec(8).rings([ChipAxis(1, 8)]) == (8,)
    assert _spec(8).rings([ChipAxis(2, 4)]) is None
    assert _spec(8, topology="switch").rings([ChipAxis(2, 4)]) == (4,)


def test_energy_of_links_is_unknown_unless_it_is_given() -> None:
    sent = {("link_write", "Y"): 10, ("dram_read", "Y"): 5}
    assert _spec(2, pj_per_bit=1.5).links.energy_pj(sent) == {"link": 120.0}
    assert math.isnan(_spec(2).links.energy_pj(sent)["link"])
    assert _spec(2).links.energy_pj({("dram_read", "Y"): 5}) == {}


def test_another_topology_leaves_what_the_file_says_of_its_own() -> None:
    """Shape and algorithm of a torus; what is given with the topology is taken, or named."""
    ring = load_accelerator("tpu_v5e_4x4", ["links.topology=ring"]).pod
    assert (ring.shape, ring.links.runs) == ((16,), "bidirectional_ring")
    switch = load_accelerator("tpu_v5e_4x4", ["links.topology=switch"]).pod
    assert (switch.shape, switch.links.runs) == ((16,), "ring")
    pod = load_accelerator("tpu_v5e_4x4")
    assert with_values(pod, {"links.topology": "ring"}, "test").pod == ring
    for more, at in (("chips=4x4", "--chips"), ("links.algorithm=direct", "--set links.algor")):
        with pytest.raises(InputError, match=at):
            load_accelerator("tpu_v5e_4x4", ["links.topology=ring", more])
