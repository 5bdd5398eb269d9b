"""The closed form of a GEMM against loops that are executed, textbook formulas and hand counts."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from simaccel import simulate
from simaccel.analytic.array import charge_folds, edges, select
from simaccel.analytic.evaluation import evaluate
from simaccel.analytic.family import Branch, Family, FamilyLoops, family_of, ints
from simaccel.analytic.family_counts import FamilyCounts
from simaccel.hardware import STATIONARITIES, Stationarity
from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import Do, Group, Keep
from simaccel.workload import Workload, build, gemm
from tests.analytic.loops import array_elements, dram_elements
from tests.draws import some
from tests.machine.accelerators import accelerator
from tests.program.programs import ORDERS, GemmTiles, gemm_group

TOY = load_accelerator("toy")
PROBLEMS = [(6, 4, 8), (7, 5, 3), (1, 9, 4), (5, 1, 1), (4, 6, 1)]
WIDTHS = {"A": 1, "B": 2, "C": 4}


def problem(m: int, k: int, n: int, *, g: int = 1) -> Workload:
    """Give a GEMM with another element size for each tensor: 1, 2 and 4 bytes."""
    return gemm(m=m, k=k, n=n, batch=g, bytes_by_tensor=WIDTHS)


def work(
    given: Workload,
    tile: tuple[int, int, int],
    order: str,
    slots: tuple[int, int, int] = (2, 2, 2),
    kept: Sequence[str] = (),
) -> FamilyCounts:
    """Count tiles of m, k and n; ``kept`` tensors are on chip."""
    m, k, n = tile
    a, b, c = slots
    tiles = GemmTiles(
        m=m, k=k, n=n, order=order, stationarity="os", a_slots=a, b_slots=b, out_slots=c
    )
    group = gemm_group(given, "gemm", tiles, keep=("A" not in kept, "C" not in kept))
    around = tuple(Keep(name) for name in kept)
    return evaluate(family_of(space_of(given, group), group, around), TOY).counts


def dram(found: FamilyCounts) -> dict[tuple[str, str], int]:
    return {
        level: int(n) for level, n in found.moved.items() if level[0].startswith("dram") and int(n)
    }


@pytest.mark.parametrize(("groups", "shape", "order"), some(product([1, 3], PROBLEMS, ORDERS)))
def test_dram_bytes_are_those_of_the_executed_loops(
    shape: tuple[int, int, int], order: str, groups: int
) -> None:
    m, k, n = shape
    small = [sorted({1, min(2, extent), min(3, extent), extent}) for extent in shape]
    for tile in product(small[0], small[1], small[2]):
        counted = dram_elements(
            order, {"m": m, "k": k, "n": n}, dict(zip("mkn", tile, strict=True)), groups
        )
        expected = {level: count * WIDTHS[level[1]] for level, count in counted.items()}
        assert dram(work(problem(m, k, n, g=groups), tile, order)) == expected


@pytest.mark.parametrize(
    ("order", "a", "b", "c_read", "c_write"),
    [
        # m, k and n in 3, 2 and 4 tiles: what stands outside the loop over the missing rank
        # is read again in each of its trips
        ("mnk", 4, 3, 0, 1),
        ("nmk", 4, 3, 0, 1),
        ("mkn", 1, 3, 1, 2),
        ("kmn", 1, 3, 1, 2),
        ("knm", 4, 1, 1, 2),
        ("nkm", 4, 1, 1, 2),
    ],
)
def test_textbook_traffic(order: str, a: int, b: int, c_read: int, c_write: int) -> None:
    m, k, n = 9, 8, 8
    assert dram(work(problem(m, k, n), (3, 4, 2), order)) == {
        level: count
        for level, count in {
            ("dram_read", "A"): a * m * k,
            ("dram_read", "B"): b * k * n * 2,
            ("dram_read", "C"): c_read * m * n * 4,
            ("dram_write", "C"): c_write * m * n * 4,
        }.items()
        if count
    }


def test_partial_sums_spill_once_a_step_of_the_reduction() -> None:
    """K in 5 tiles outside M: C goes out 5 times and comes back 4 times."""
    found = work(problem(6, 10, 2), (3, 2, 2), "kmn")
    size = 6 * 2 * 4
    assert dram(found)["dram_write", "C"] == 5 * size
    assert dram(found)["dram_read", "C"] == 4 * size


def test_partial_sums_stay_if_nothing_runs_inside_the_reduction() -> None:
    """One tile of M and of N: the loop over K is the innermost one, whatever the order says."""
    for order in ORDERS:
        found = dram(work(problem(3, 10, 2), (3, 2, 2), order))
        assert found["dram_write", "C"] == 3 * 2 * 4
        assert ("dram_read", "C") not in found


def test_an_operand_on_chip_is_not_read_again() -> None:
    found = work(problem(6, 4, 8), (2, 2, 2), "mnk", kept="A")
    assert ("dram_read", "A") not in dram(found)
    assert ("buffer", "A") not in found.tiles
    found = work(problem(6, 4, 8), (2, 2, 2), "kmn", kept="C")
    assert {level for level, _ in dram(found)} == {"dram_read"}
    assert ("buffer", "C") not in found.tiles


def test_the_buffer_holds_a_tile_a_slot() -> None:
    """Tiles of 2 x 3, 3 x 4 and 2 x 4 with 3, 1 and 2 slots: 3 * 6 + 1 * 24 + 2 * 32 bytes."""
    found = work(problem(4, 6, 8), (2, 3, 4), "mnk", (3, 1, 2))
    assert int(found.room("buffer")) == 18 + 24 + 64


def test_a_tile_that_comes_once_needs_one_slot() -> None:
    """All of B, which serves all rows, comes once; not so with a second group."""
    assert int(work(problem(8, 3, 4), (2, 3, 4), "mnk").tiles["buffer", "B"][1]) == 1
    assert int(work(problem(8, 3, 4, g=2), (2, 3, 4), "mnk").tiles["buffer", "B"][1]) == 2


@pytest.mark.parametrize("stationarity", STATIONARITIES)
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("sides", [(4, 4), (2, 5), (1, 1)])
def test_array_bytes_are_those_of_the_folds(
    stationarity: Stationarity, sides: tuple[int, int], *, accumulate: bool
) -> None:
    on = accelerator(array={"rows": sides[0], "cols": sides[1]})
    for m, k, n in product([1, 3, 4, 8, 9], repeat=3):
        shape = (ints(3), ints(m), ints(k), ints(n))
        one = charge_folds(on, shape, stationarity, (8, 16, 32), accumulate=accumulate).by_name()
        counted = array_elements((m, k, n), sides, stationarity, accumulate=accumulate)
        found = [one[name] for name in ("a_bytes", "b_bytes", "out_bytes", "sums_bytes")]
        expected = [counted["a"], 2 * counted["b"], 4 * counted["out"], 4 * counted["sums"]]
        assert [int(n_bytes) for n_bytes in found] == [3 * n_bytes for n_bytes in expected]


def test_the_second_fold_of_a_strip_adds_to_sums() -> None:
    """8 x 3 weights on 4 x 3 PEs: two folds, the second reads 5 x 3 sums of 4 B too."""
    on = accelerator(array={"rows": 4, "cols": 3})
    shape = (ints(1), ints(5), ints(8), ints(3))
    for accumulate, n_bytes in ((False, 60), (True, 120)):
        whole = charge_folds(on, shape, "ws", (16, 16, 32), accumulate=accumulate)
        assert int(whole.by_name()["sums_bytes"]) == n_bytes


@pytest.mark.parametrize("stationarity", STATIONARITIES)
@pytest.mark.parametrize("overlap", ["none", "preload", "stream"])
@pytest.mark.parametrize("edge_folds", ["full", "used"])
def test_array_cycles_are_the_specs_if_nothing_holds_it_up(
    stationarity: Stationarity, overlap: str, edge_folds: str
) -> None:
    on = accelerator(array={"overlap": overlap, "edge_folds": edge_folds})
    for m, k, n in product([1, 3, 4, 8, 11], repeat=3):
        shape = (ints(1), ints(m), ints(k), ints(n))
        one = charge_folds(on, shape, stationarity, (16, 16, 16), accumulate=False).by_name()
        around = edges(on, shape, stationarity).by_name()
        expected = on.systolic.gemm_cycles(m=m, k=k, n=n, stationarity=stationarity)
        assert int(one["cycles"]) == int(one["compute"])
        assert int(around["lead"] + one["cycles"] + around["tail"]) == expected


def test_a_fold_is_as_slow_as_its_slowest_part() -> None:
    """4 x 4 weights (2 B) and 8 rows of A (2 B) for 8 x 4 sums (2 B): 96 B in, 64 B out.

    The array needs 4 + 8 + 4 + 4 - 2 = 18 cycles (SCALE-Sim, ws), 5 B/cycle of distribution
    20, 3 B/cycle of collection 22, a read port of 4 B/cycle 24, a write port of 2 B/cycle 32.
    """

    def cycles(**sections: dict[str, Any]) -> int:
        shape = (ints(1), ints(8), ints(4), ints(4))
        on = accelerator(**sections)
        folds = charge_folds(on, shape, "ws", (16, 16, 16), accumulate=False)
        return int(folds.by_name()["cycles"])

    def pipe(width: int) -> dict[str, Any]:
        return {"topology": "bus", "link_bytes_per_cycle": width, "hop_cycles": 0}

    unlimited = {"topology": "unlimited"}
    slow_in = {"distribution": pipe(5), "collection": unlimited}
    slow_out = {"distribution": pipe(5), "collection": pipe(3)}
    assert cycles() == 18
    assert cycles(noc=slow_in) == 20
    assert cycles(noc=slow_out) == 22
    assert cycles(noc=slow_out, buffer={"read_bytes_per_second": "4 GB/s"}) == 24
    ports = {"read_bytes_per_second": "4 GB/s", "write_bytes_per_second": "2 GB/s"}
    assert cycles(noc=slow_out, buffer=ports) == 32


def test_one_fold_beside_an_accumulator_reads_and_makes_each_element_once() -> None:
    """3 rows and 2 columns of a 4 x 4 array, 10 rows of A: elements of 1, 2 and 4 bytes."""
    on = accelerator(array={"accumulator": {"bytes_per_element": 4, "capacity_bytes": "1 KiB"}})
    shape = (ints(1), ints(10), ints(3), ints(2))
    found = charge_folds(on, shape, "ws", (8, 16, 32), accumulate=False).by_name()
    figures = {name: int(found[name]) for name in ("a_bytes", "b_bytes", "sums_bytes", "out_bytes")}
    assert figures == {
        "a_bytes": 10 * 3,
        "b_bytes": 3 * 2 * 2,
        "sums_bytes": 0,
        "out_bytes": 10 * 2 * 4,
    }


def test_10_000_candidates_in_one_call() -> None:
    rng = np.random.default_rng(0)
    count, shape = 10_000, (500, 64, 500)
    given = gemm(m=500, k=64, n=500, batch=12)
    m, k, n = (rng.integers(1, extent + 1, count) for extent in shape)
    loops = FamilyLoops(tuple("mnk"), (m, n, k), tuple(map(ints, range(3))))
    keeps = tuple(Keep(name, "buffer", ints(2)) for name in "ABC")
    outer = FamilyLoops(("b",), (ints(1),), (ints(0),))
    branch: Branch = (outer, loops, *keeps, Do("gemm", "array", "os"))
    space = space_of(given, Group(operators=("gemm",), tree=()))
    found = evaluate(Family(space, branch, {}), load_accelerator("edge"))
    assert found.bound().shape == found.buffer_bytes().shape == (count,)
    assert (found.bound() >= found.resource_bound()).all()
    assert (np.broadcast_to(found.counts.macs, count) == 12 * 500 * 64 * 500).all()
    assert (found.buffer_bytes() == 2 * 2 * (m * k + k * n + m * n)).all()
    reads = -(-500 // n) * 12 * 500 * 64 * 2  # A, once for each tile of N; not so if K is whole
    a_read = found.counts.moved["dram_read", "A"]
    assert (a_read[k < 64] == reads[k < 64]).all()
    assert (a_read[k == 64] == 12 * 500 * 64 * 2).all()


def test_what_the_array_holds_chooses_among_plain_numbers() -> None:
    """Of candidates that hold weights, inputs or sums, with figures that all candidates share."""
    chosen = select(np.array([2, 0, 1]), [7, 8, 9])  # type: ignore[list-item]
    assert chosen.tolist() == [9, 7, 8]
    heads = build("bmm", shape="H=4,M=32,K=36,N=15")  # on arrays with an accumulator
    assert simulate(heads, "tpu_v1", "flex").run.macs == 4 * 32 * 36 * 15
