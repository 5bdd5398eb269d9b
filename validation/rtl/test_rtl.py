"""The systolic array in SystemVerilog, small: the rest runs in validation/rtl."""

import csv
from collections import Counter

import pytest

from simaccel.hardware import ArraySpec
from validation.rtl import sequences
from validation.rtl.run import HERE, SHAPES, compare
from validation.rtl.simulate import (
    EDGE_FOLDS,
    KINDS,
    OVERLAPS,
    Gemm,
    RtlError,
    installed,
    simulate,
    ways,
)

needs_icarus = pytest.mark.skipif(
    not installed(), reason="needs Icarus Verilog (apt-get install iverilog)"
)


@needs_icarus
def test_the_machine_takes_the_cycles_of_the_hardware_in_every_way() -> None:
    """Remainders on all sides, streams shorter than the array, two batches."""
    compared = list(compare(3, 2, [*ways(2, 2, 4, 5), *ways(1, 5, 7, 1)]))
    assert len(compared) == 2 * len(KINDS) * len(OVERLAPS) * len(EDGE_FOLDS)
    assert [one for one in compared if not one.same] == []


@needs_icarus
def test_gemms_behind_one_another_take_the_cycles_of_the_hardware() -> None:
    """In all ways, where no stream is shorter than the rows; else the machine is never earlier."""
    long = ((1, 3, 4, 5), (2, 5, 3, 3), (1, 4, 7, 4))
    short = ((1, 6, 5, 4), (1, 4, 1, 6), (1, 1, 4, 1))
    compared = list(sequences.compare(3, 2, [long, short]))
    assert len(compared) == 2 * len(sequences.WAYS) * len(OVERLAPS) * len(EDGE_FOLDS)
    assert [one for one in compared if not one.explained] == []
    assert not any(one.short or one.later for one in compared if one.shapes == long)
    assert any(one.later for one in compared)


@needs_icarus
@pytest.mark.parametrize(
    ("kind", "shape", "complaint"),
    [
        ("ws", (1, 1, 6, 6), "its weight is not there"),
        ("is", (1, 6, 6, 1), "its weight is not there"),
        ("os", (1, 9, 1, 4), "a sum that still leaves is overwritten"),
    ],
)
def test_no_fold_could_begin_a_cycle_earlier(
    kind: str, shape: tuple[int, int, int, int], complaint: str
) -> None:
    """A controller that doesn't wait that long destroys a weight or a sum, and the PEs see it."""
    gemm = Gemm.of(shape, kind, "stream", "full")
    simulate(3, 2, [[gemm]])
    with pytest.raises(RtlError, match=complaint):
        simulate(3, 2, [[gemm]], eager=True)


def test_the_specification_gives_what_the_hardware_took() -> None:
    """All GEMMs of the table with one batch, without a simulator."""
    with (HERE / "cycles.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert 200 * len(KINDS) <= len(rows) <= SHAPES * len(KINDS)  # few shapes were drawn twice
    checked = 0
    for row in rows:
        if row["g"] != "1":
            continue
        for overlap in OVERLAPS:
            for edge_folds in EDGE_FOLDS:
                array = ArraySpec.model_validate(
                    {
                        "rows": int(row["rows"]),
                        "cols": int(row["cols"]),
                        "overlap": overlap,
                        "edge_folds": edge_folds,
                    }
                )
                cycles = array.gemm_cycles(
                    m=int(row["m"]),
                    k=int(row["k"]),
                    n=int(row["n"]),
                    stationarity=row["stationarity"],  # type: ignore[arg-type]
                )
                assert cycles == int(row[f"{overlap}_{edge_folds}"]), (row, overlap, edge_folds)
                checked += 1
    assert checked > 1000


def test_the_rule_gives_what_sequences_took_on_the_hardware() -> None:
    """All sequences of the table, without a simulator; the machine on a few of them."""
    with (HERE / "sequences.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sequences.SEQUENCES * len(sequences.WAYS)
    differ = Counter[int]()
    for number, row in enumerate(rows):
        sides = int(row["rows"]), int(row["cols"])
        shapes = tuple(tuple(map(int, gemm.split())) for gemm in row["g m k n"].split("; "))
        for way, run in sequences.ways(shapes):  # type: ignore[arg-type]
            if way != row["stationarity"]:
                continue
            name = f"{run[0].overlap}_{run[0].edge_folds}"
            assert sequences.rule_cycles(*sides, run) == int(row[name]), row
            if number % 60 == 0:
                found = sequences.machine_cycles(*sides, run)
                assert found == int(row[f"{name}_machine"]), row
                differ[found - int(row[name])] += 1
    assert min(differ) == 0
    assert sum(differ.values()) == len(OVERLAPS) * len(EDGE_FOLDS) * -(-len(rows) // 60)


def test_sums_wait_for_those_before_them() -> None:
    """By hand, 8 x 8, k = 9 and then k = 2: the second stream begins at 9 and would end at 11.

    The sums before began to leave at 9 and have left 8 rows at 17. Those of the second begin then:
    14 cycles until the last PE of the wave, and 7 rows from there down to the foot.
    """
    run = [Gemm.of((1, 8, k, 8), "os", "stream", "full") for k in (9, 2)]
    assert sequences.rule_cycles(8, 8, run) == 17 + 14 + 7
    assert sequences.machine_cycles(8, 8, run) == 17 + 14 + 7
