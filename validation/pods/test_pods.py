"""Collectives against units of data that chips hand on, measured ones, and another simulator."""

import math
from collections.abc import Sequence
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.hardware.chips import ChipAxis, ChipPod
from simaccel.hardware.collectives import COLLECTIVES, Collective, LinkAxis, collective_cost
from simaccel.hardware.links import LinksSpec
from simaccel.importers.accelerators import load_accelerator
from validation.pods.collective import collective_of, even_load, run_collective
from validation.pods.messages import Transfer, last_arrival, over_links, place_units, units_of
from validation.pods.run import beside_astra_sim, beside_measured, microseconds, table

KINDS = COLLECTIVES[:4]
EQUAL = (
    *[(LinkAxis(n),) for n in range(2, 8)],
    *[(LinkAxis(n, "line"),) for n in range(2, 7)],
    *[(LinkAxis(n), LinkAxis(n, number=1)) for n in (2, 3, 4)],
    *[(LinkAxis(n, "line"), LinkAxis(n, "line", 1)) for n in (2, 3, 4)],
    (LinkAxis(3), LinkAxis(3, number=1), LinkAxis(3, number=2)),
    (LinkAxis(5, "all_to_all"),),
)
UNEQUAL: dict[
    tuple[LinkAxis, ...], int
] = {  # units of a piece, so that there are shares with which the links end together
    (LinkAxis(2), LinkAxis(8, number=1)): 7,
    (LinkAxis(8), LinkAxis(2, number=1)): 7,
    (LinkAxis(2, "line"), LinkAxis(3, "line", 1)): 28,
}


def _moved(
    kind: Collective, axes: Sequence[LinkAxis], colours: Sequence[tuple[int, ...]]
) -> list[Transfer]:
    return list(units_of(kind, axes, colours))


def _busiest(transfers: Sequence[Transfer], axes: Sequence[LinkAxis]) -> list[int]:
    """Return the most units over a link of each dimension."""
    most = [0] * len(axes)
    for (source, target), n in over_links(transfers).items():
        (at,) = (at for at, ends in enumerate(zip(source, target, strict=True)) if len({*ends}) > 1)
        most[at] = max(most[at], n)
    return most


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("shape", "sides", "apart"),
    [
        ((4, 4), 2, 1),
        ((4, 4), 2, 2),
        ((6, 6), 3, 1),
        ((6, 6), 3, 2),
        ((2, 4), 2, 1),
        ((9, 9), 3, 3),
    ],
)
def test_all_blocks_of_a_torus_at_once(
    kind: Collective, shape: tuple[int, int], sides: int, apart: int
) -> None:
    """Every link has what is said to be on the busiest; blocks side by side take what one does.

    Blocks of chips that are every second or third one share links.
    """
    pod = ChipPod(LinksSpec(topology="torus", dimensions=2), shape)
    numbering = (*enumerate(n // sides for n in shape), (0, sides), (1, sides))
    digits = ChipAxis(1, sides**2)
    if apart > 1:
        digits = ChipAxis(apart**2, sides**2)
        numbering = ((0, sides), (1, sides), (0, apart), (1, apart))
    axes = pod.axes([digits], numbering)
    assert axes is not None
    axes = tuple(sorted(axes, key=lambda axis: axis.number))
    assert [(axis.size, axis.number, axis.stride) for axis in axes] == [
        (sides, number, apart) for number in range(2)
    ]
    corners = [range(apart) if apart > 1 else range(0, n, sides) for n in shape]
    colours, hop = 2 * _cyclic(2), 5

    def units(*firsts: tuple[int, ...]) -> list[Transfer]:
        moved = [_moved(kind, axes, colours) for _ in firsts]
        return [
            placed
            for first, own in zip(firsts, moved, strict=True)
            for placed in place_units(own, axes, first, shape)
        ]

    cost = collective_cost(kind, 2 * len(colours) * sides**2, axes)
    transfers = units(*product(*corners))
    assert list(cost.link_bytes) == _busiest(transfers, axes)
    assert even_load(cost, axes) <= max(cost.link_bytes)
    if apart == 1:
        alone = last_arrival(units((0, 0)), 1, hop)
        assert alone == last_arrival(transfers, 1, hop)
        assert alone >= max(cost.link_bytes)


def _cyclic(count: int) -> list[tuple[int, ...]]:
    return [tuple((first + at) % count for at in range(count)) for first in range(count)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axes", EQUAL, ids=str)
def test_bytes_over_links_are_those_of_units_handed_on(
    kind: Collective, axes: tuple[LinkAxis, ...]
) -> None:
    colours, chips = _cyclic(len(axes)), math.prod(axis.size for axis in axes)
    transfers = _moved(kind, axes, colours)
    cost = collective_cost(kind, 2 * len(colours) * chips, axes)
    assert list(cost.link_bytes) == _busiest(transfers, axes)
    assert cost.sent_bytes == math.ceil(len(transfers) / chips)
    assert max(_busiest(transfers, axes)) >= even_load(cost, axes)


@pytest.mark.parametrize("kind", KINDS[:3])
@pytest.mark.parametrize("axes", UNEQUAL, ids=str)
def test_no_shares_of_colours_are_better(kind: Collective, axes: tuple[LinkAxis, ...]) -> None:
    """Of all shares of the colours, the best has what is said to go over the busiest link."""
    units, chips = UNEQUAL[axes], math.prod(axis.size for axis in axes)
    orders = list(permutations(range(2)))
    best = min(
        max(_busiest(_moved(kind, axes, [orders[0]] * n + [orders[1]] * (units - n)), axes))
        for n in range(units + 1)
    )
    assert max(collective_cost(kind, 2 * units * chips, axes).link_bytes) == best


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axes", [EQUAL[5], EQUAL[9], EQUAL[12]], ids=str)
def test_units_come_as_said(kind: Collective, axes: tuple[LinkAxis, ...]) -> None:
    """As fast as links are through with what goes over them, and all hops later at most.

    Where far units happen to go first, some hops are beside the rest. Sums wait for one another and
    for what is gathered if units go in no special order, as here: up to three tenths more.
    """
    grain, hop, chips = 12, 40, math.prod(axis.size for axis in axes)
    colours = grain * _cyclic(len(axes))
    cost = collective_cost(kind, 2 * len(colours) * chips, axes)
    busy, worst = max(cost.link_bytes), 1.3 if kind == "all_reduce" else 1.2
    assert even_load(cost, axes) <= busy
    assert busy <= last_arrival(_moved(kind, axes, colours), 1, 0) <= worst * busy
    late = last_arrival(_moved(kind, axes, colours), 1, hop)
    assert max(busy, cost.hops * hop) < late <= worst * (busy + cost.hops * hop)


def test_measured_collectives_are_within_15_percent() -> None:
    """Chips' own times, of which each chip's constants are set by one or two rows."""
    rows = [beside_measured(row) for row in table("measured.csv")]
    assert len(rows) == 12
    assert [row for row in rows if abs(float(row["off_percent"])) > 15] == []
    assert all(float(row["us"]) > float(row["all_links_us"]) for row in rows)


def test_an_all_reduce_of_67_mb_on_closed_4x4_chips_uses_all_links() -> None:
    """2 x 15/16 of the bytes over four links of 45 GB/s are 699 us; a mesh has three of four."""
    closed = load_accelerator("tpu_v5e", ["chips=4x4", "links.closes_at=4"])
    assert microseconds(closed, "all_reduce", 2**26)[0] == pytest.approx(750, rel=0.05)
    mesh = load_accelerator("tpu_v5e", ["chips=4x4"])
    assert microseconds(mesh, "all_reduce", 2**26)[0] == pytest.approx(699 * 4 / 3 / 0.95, rel=0.05)
    for shape in ("2x8", "8x2"):
        on = load_accelerator("tpu_v5e", [f"chips={shape}"])
        assert microseconds(on, "all_reduce", 2**26) == microseconds(
            load_accelerator("tpu_v5e", ["chips=2x8"]), "all_reduce", 2**26
        )


def test_astra_sim_gathers_in_the_same_time_on_links_alike() -> None:
    """It goes one way round (more latencies), and has a memory's time for each sum."""
    off = {
        (row["collective"], row["npus"], row["topology"]): float(row["off_percent"])
        for row in map(beside_astra_sim, table("astra_sim.csv"))
        if row["comm_size_bytes"] == str(2**24)
    }
    gathers = [n for (kind, _, _), n in off.items() if kind == "all-gather"]
    assert len(gathers) == 11
    assert max(map(abs, gathers)) <= 0.5
    sums = [n for (kind, _, _), n in off.items() if kind in ("all-reduce", "reduce-scatter")]
    assert -11.5 < min(sums) <= max(sums) < -4


@given(
    kind=st.sampled_from(KINDS),
    shape=st.sampled_from(["2", "7", "1x4", "2x3", "4x4", "16x16", "13x1", "2x2x2", "4x4x8"]),
    n_bytes=st.sampled_from([1, 2, 97, 4096, 100_003, 2**20 + 1]),
    closes_at=st.sampled_from([1, 4, 64]),
    chunk=st.sampled_from([None, 5000]),
)
def test_machine_and_counts_agree_and_no_run_is_too_fast(
    kind: Collective, shape: str, n_bytes: int, closes_at: int, chunk: int | None
) -> None:
    sets = [f"chips={shape}", f"links.closes_at={closes_at}"]
    on = load_accelerator("tpu_v4", [*sets, *([f"links.chunk_bytes={chunk}"] if chunk else ())])
    run_collective(collective_of(kind, n_bytes, on), on)  # refuses what is not so


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stride", [1, 4])
def test_blocks_on_the_machine(kind: Collective, stride: int) -> None:
    """Quarters of 4 x 4 chips, and the chips at one place in each: as counted, and not too fast.

    By hand, of 64 MiB on links of 45 GB/s at 95% (a v5e, whose sides of 4 are open): 3/4 of it over
    two links, of which two collectives have one where blocks exchange; twice as much for sums.
    """
    on = load_accelerator("tpu_v5e", ["chips=4x4"])
    (_, numbering) = on.pod.numberings([4])
    exchange = collective_of(kind, 2**26, on, ChipAxis(stride, 4), numbering)
    assert [axis.stride for axis in exchange.axes] == [{1: 1, 4: 2}[stride]] * 2
    share = {"all_gather": 3 / 8, "reduce_scatter": 3 / 8, "all_reduce": 3 / 4, "all_to_all": 1 / 2}
    busy = share[kind] * {1: 1, 4: 2}[stride] * 2**26 / (45e9 * 0.95)
    run = on.seconds(run_collective(exchange, on).cycles)
    assert busy < run < 1.05 * busy
