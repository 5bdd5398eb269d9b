"""The systolic array in SystemVerilog, small: the rest runs in validation/rtl."""

import csv

import pytest

from simaccel.hardware import ArraySpec
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
    not installed(), reason="Icarus Verilog (iverilog, vvp) is not installed"
)


@needs_icarus
def test_the_machine_takes_the_cycles_of_the_hardware_in_every_way() -> None:
    """Remainders on all sides, streams shorter than the array, two batches."""
    compared = list(compare(3, 2, [*ways(2, 2, 4, 5), *ways(1, 5, 7, 1)]))
    assert len(compared) == 2 * len(KINDS) * len(OVERLAPS) * len(EDGE_FOLDS)
    assert [one for one in compared if not one.same] == []


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
