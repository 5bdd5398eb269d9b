"""How tile loops keep pace, against time lines by hand.

DRAM serves 1 byte per cycle unless a test says otherwise, elements have 1 byte, buffer ports and
NoC are unlimited. Within a direction the oldest transfer goes first; where both directions have
work they change after batches of 4 bytes. Arrays have no overlap: a fold of an output-stationary
GEMM takes K + R + C - 2 cycles.
"""

from typing import Any

import pytest

from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.text import parse_tree
from simaccel.mapping.tree import Group
from simaccel.workload import gemm
from tests.machine.accelerators import accelerator, gigabytes
from tests.program.programs import (
    Case,
    GemmTiles,
    Rows,
    attention_workload,
    case,
    gemm_case,
    gemm_group,
    softmax_group,
)
from tests.trees import vector
from tests.trees import workload as make_workload

ONE_SLOT = {"a_slots": 1, "b_slots": 1, "out_slots": 1}


def on(
    side: int, bytes_per_cycle: int = 1, *, turnaround: int = 0, latency: int = 0
) -> Accelerator:
    return accelerator(
        array={"rows": side, "cols": side},
        dram={
            "bandwidth_bytes_per_second": gigabytes(bytes_per_cycle),
            "turnaround_cycles": turnaround,
            "latency_cycles": latency,
        },
    )


def one_tile(batch: int, **slots: int) -> Case:
    """Whole GEMMs of 4 x 8 x 4, one after the other: A 32 B, B 32 B, C 16 B.

    On 4 x 4 PEs one takes 8 + 4 + 4 - 2 = 14 cycles.
    """
    workload = gemm(m=4, k=8, n=4, batch=batch, bytes_per_element=1)
    return gemm_case(workload, stationarity="os", **slots)


def two_loops(batch: int, **slots: int) -> Case:
    """M and N in 3 tiles each: A 24 B for three tiles of B (24 B) and of C (4 B).

    On 2 x 2 PEs a tile takes 12 + 2 + 2 - 2 = 14 cycles.
    """
    workload = gemm(m=6, k=12, n=6, batch=batch, bytes_per_element=1)
    return gemm_case(workload, m=2, n=2, stationarity="os", **slots)


def remainder(batch: int, **slots: int) -> Case:
    """10 rows in tiles of 4, 4 and 2 for one B of 32 B: A 32, 32 and 16 B, C 16, 16 and 8 B."""
    workload = gemm(m=10, k=8, n=4, batch=batch, bytes_per_element=1)
    return gemm_case(workload, m=4, stationarity="os", **slots)


def _cycles(made: Case, machine: Accelerator) -> int:
    return Machine(machine, made.program).run().cycles


@pytest.mark.parametrize(
    ("bytes_per_cycle", "cycles"),
    [
        # 16 B/cycle: A0 0-2, B0 2-4, five GEMMs without a gap 4-74, C4 74-75
        (16, 75),
        # 64 B/cycle: A0 0-1, B0 1-2, five GEMMs 2-72, C4 72-73
        (64, 73),
    ],
)
def test_time_line_of_five_gemms(bytes_per_cycle: int, cycles: int) -> None:
    assert _cycles(one_tile(5), on(4, bytes_per_cycle)) == cycles


def test_time_line_of_two_loops_with_a_slow_array() -> None:
    """One PE, a tile takes 4 * 12 = 48 cycles, more than the 28 B that it needs.

    A0 0-24, B0 24-48, nine tiles without a gap 48-480, the last C 480-484.
    """
    assert _cycles(two_loops(1), on(1)) == 484


def test_time_line_of_one_gemm_in_rows() -> None:
    """B stays, A comes in three tiles: one PE, K = 4, 8 cycles a tile, A 8 B, B 4 B, C 2 B.

    A0 0-8, B 8-12, A1 12-20, GEMM 0 12-20, GEMM 1 20-28, C0 20-22 before A2 22-30 (its slot
    became free at 20), GEMM 2 30-38, C2 38-40.
    """
    workload = gemm(m=6, k=4, n=1, bytes_per_element=1)
    assert _cycles(gemm_case(workload, m=2, stationarity="os", order="mkn"), on(1)) == 40


PERIODS: list[tuple[Any, int, int, dict[str, int], int, dict[str, int]]] = [
    # what, PEs on a side, bytes per cycle, slots, cycles of one more group, latency or turnaround
    # memory-bound: all transfers, one after the other
    (one_tile, 4, 1, {}, 32 + 32 + 16, {}),
    (one_tile, 4, 2, {}, 40, {}),
    (two_loops, 2, 1, {}, 3 * 24 + 9 * (24 + 4), {}),
    # compute-bound: all tiles, one after the other
    (one_tile, 4, 16, {}, 14, {}),
    (one_tile, 1, 1, {}, 16 * 8, {}),
    (two_loops, 2, 4, {}, 9 * 14, {}),
    (two_loops, 2, 16, {}, 9 * 14, {}),
    (remainder, 1, 1, {}, 40 * 8, {}),
    # one slot: load, compute and store one after the other
    (one_tile, 4, 1, ONE_SLOT, 32 + 32 + 14 + 16, {}),
    (one_tile, 4, 16, ONE_SLOT, 2 + 2 + 14 + 1, {}),
    (two_loops, 2, 1, ONE_SLOT, 3 * 24 + 9 * (24 + 14 + 4), {}),
    (two_loops, 2, 4, ONE_SLOT, 3 * 6 + 9 * (6 + 14 + 1), {}),
    # memory-bound, a remainder that stores beside loads
    (remainder, 4, 1, {}, 80 + 32 + 40, {}),
    # the 16 B of C go out in 4 batches of 4 B; loads wait meanwhile, so each is over to writing and
    # back to reading, 3 cycles a turnaround
    *((one_tile, 4, n, {}, 80 // n + 4 * 2 * 3, {"turnaround": 3}) for n in (1, 2, 4)),
    # latency hides behind other transfers; with one slot A and B, asked for at once, wait for it
    (one_tile, 4, 1, {}, 80, {"latency": 5}),
    (one_tile, 4, 1, ONE_SLOT, 94 + 5, {"latency": 5}),
]


def _steady(make: Any, machine: Accelerator, slots: dict[str, int]) -> float:  # noqa: ANN401 - a case by its batch
    """Cycles of one more group in the middle of many."""
    few, many = (_cycles(make(groups, **slots), machine) for groups in (20, 60))
    return (many - few) / 40


@pytest.mark.parametrize(("make", "side", "rate", "slots", "cycles", "dram"), PERIODS)
def test_steady_state(
    make: Any,  # noqa: ANN401 - a case by its batch
    side: int,
    rate: int,
    slots: dict[str, int],
    cycles: int,
    dram: dict[str, int],
) -> None:
    assert _steady(make, on(side, rate, **dram), slots) == cycles


@pytest.mark.parametrize("slots", [2, 3, 4])
@pytest.mark.parametrize("latency", [50, 200])
def test_as_many_tiles_are_on_their_way_as_there_are_slots(slots: int, latency: int) -> None:
    """16 B/cycle: a slot is taken for the latency, A and B (2 + 2 cycles), and the GEMM (14)."""
    taken = {"a_slots": slots, "b_slots": slots, "out_slots": slots}
    run = _steady(one_tile, on(4, 16, latency=latency), taken)
    expected = max(14, (latency + 4 + 14) / slots)
    assert run == pytest.approx(expected, rel=0.03)


def test_a_storer_that_goes_on_asks_before_a_loader_that_waits_for_its_slot() -> None:
    """Rows of 6 B in two slots, at 1 B a cycle in batches of 4 B, 3 cycles a turnaround.

    When a row has gone, the next one's store is asked for before the load into the slot that is
    free: 4 B of the store, 4 of the load, 2 and 2, with 3 cycles between. Then the other load, and
    the first store behind it, for which the SFU has its 3 cycles in time.
    """
    cycles = []
    for rows in (21, 61):
        softmax = vector("softmax", "softmax", "P q c", "S q c", axis="c", q=rows, c=3)
        tree = parse_tree("loop q 1\nkeep S buffer x2\ndo softmax sfu")
        made = case(make_workload(softmax), Group(operators=("softmax",), tree=tree))
        sfu = {"lanes": 4, "passes": 3, "latency_cycles": 0}
        dram = {"bandwidth_bytes_per_second": gigabytes(1), "turnaround_cycles": 3}
        cycles.append(_cycles(made, accelerator(sfu=sfu, dram=dram)))
    two_rows = (4 + 3 + 4 + 3 + 2 + 3 + 2) + 6 + (3 + 6)
    assert cycles[1] - cycles[0] == 20 * two_rows


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_softmax_turns_the_dram_around_at_most_twice_a_batch(slots: int) -> None:
    """A block of 8 x 16 elements of 2 B goes out in at most 8 batches of 32 B."""
    workload = attention_workload(20, 1, 16, 2)
    made = case(
        workload,
        gemm_group(workload, "L", GemmTiles(stationarity="os")),
        softmax_group(workload, "softmax", Rows(rows=8, cols=16, slots=slots)),
        gemm_group(workload, "A", GemmTiles(stationarity="os")),
    )
    cycles = {}
    for turnaround in (0, 7):
        toy = load_accelerator(
            "toy", ["buffer.capacity_bytes=unlimited", f"dram.turnaround_cycles={turnaround}"]
        )
        cycles[turnaround] = Machine(toy, made.program).run().operators[1].cycles
    blocks = 20 * 2
    assert cycles[0] <= cycles[7] <= cycles[0] + blocks * 8 * 2 * 7
