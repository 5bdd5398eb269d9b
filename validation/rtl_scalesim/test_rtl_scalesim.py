"""The array of SCALE-Sim: the plays on its registers, the published cycles, and the files if given.

``SIMACCEL_SCALESIM_RTL=FOLDER pytest validation/rtl_scalesim`` runs it in Verilog.
"""

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from validation.rtl.simulate import Gemm, installed
from validation.rtl_scalesim.plays import Play, play, product
from validation.rtl_scalesim.run import (
    COLUMNS,
    HERE,
    SHAPES,
    WAYS,
    FilesError,
    charge,
    compare,
    compiled,
    longer,
)

FOLDER = os.environ.get("SIMACCEL_SCALESIM_RTL", "")
MASK = 2**32 - 1


def registers(made: Play) -> list[str]:
    """Step the registers of the PEs, as the text of the array describes them, through a play."""
    rows, cols = made.rows, made.cols
    left, down, held, sums = (np.zeros((rows, cols), dtype=np.int64) for _ in range(4))
    seen = []
    for line in made.text():
        rst, stat, op2, out, *buses = line.split()
        words = [[int(bus[i : i + 8], 16) for i in range(0, len(bus), 8)][::-1] for bus in buses]
        if rst == "1":
            left, down, held, sums = (np.zeros((rows, cols), dtype=np.int64) for _ in range(4))
            seen.append("0" * 8 * cols)
            continue
        below = sums if out == "1" else down
        seen.append("".join(f"{int(word):08x}" for word in below[-1][::-1]))
        above = np.vstack([words[1], below[:-1]])
        before = np.column_stack([words[0], left[:, :-1]])
        factor, term = (held, down) if stat == "1" else (down, sums)
        sums = (left * factor + term) & MASK
        held = above if op2 == "1" else held
        left, down = before, above
    return seen


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sides", [(1, 1), (1, 3), (3, 1), (3, 2), (2, 4)])
def test_plays_give_the_product_and_a_cycle_less_does_not(
    way: tuple[str, str, str], sides: tuple[int, int]
) -> None:
    """On the registers alone, with remainders on all sides and two batches."""
    for shape in ((2, 4, 5, 3), (1, 1, 7, 1), (1, 3, 1, 4)):
        gemm = Gemm.of(shape, *way)
        made = play(gemm, *sides)
        np.testing.assert_array_equal(made.result(registers(made)), product(gemm))
        if gemm.edge_folds == "used":
            early = play(gemm, *sides, early=1)
            assert not np.array_equal(early.result(registers(early)), product(gemm))


def test_two_folds_by_hand() -> None:
    """Of two PEs below one another, with one step and with two.

    os, k = 2: words on the buses in 0 and 1, multiplied in 1 and 2, one row lower in 2 and 3:
    4 cycles after 0. Here k + R + C - 2 = 3.
    ws, m = 1: weights on the bus in 0 and 1, an empty cycle 2, the first product in 3, its sum in
    the register of the row below in 5 and added up there: 6 cycles. Here m + 2R + C - 2 = 4.
    """
    stays, holds = Gemm(1, 2, 2, 1, "os", "none", "full"), Gemm(1, 1, 2, 1, "ws", "none", "full")
    for gemm, cycles, ours in ((stays, 4, 3), (holds, 6, 4)):
        assert play(gemm, 2, 1).last_mac == cycles
        assert charge(2, 1, gemm) == ours
        assert longer(2, 1, gemm) == cycles - ours


def test_published_cycles_are_those_of_the_charge_and_the_reason() -> None:
    with (HERE / "cycles.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == SHAPES * len(WAYS)
    assert tuple(rows[0]) == COLUMNS
    for row in rows:
        sides = int(row["rows"]), int(row["cols"])
        g, m, k, n = (int(row[name]) for name in "gmkn")
        gemm = Gemm.of((g, m, k, n), row["stationarity"], row["overlap"], row["edge_folds"])
        assert int(row["ours"]) == charge(*sides, gemm), row
        assert int(row["rtl"]) == int(row["ours"]) + longer(*sides, gemm), row


def test_a_folder_without_the_files_is_named(tmp_path: Path) -> None:
    with pytest.raises(FilesError, match=r"no traditional_mac\.v, traditional_systolic\.v; wanted"):
        compiled(tmp_path, tmp_path)
    for name in ("traditional_mac.v", "traditional_systolic.v"):
        (tmp_path / name).write_text("module other; endmodule\n", encoding="ascii")
    with pytest.raises(FilesError, match="it is another PE"):
        compiled(tmp_path, tmp_path)


@pytest.mark.skipif(not FOLDER, reason="needs SIMACCEL_SCALESIM_RTL, the folder of its files")
@pytest.mark.skipif(not installed(), reason="needs Icarus Verilog (apt-get install iverilog)")
def test_the_array_takes_the_cycles_that_the_reason_says() -> None:
    gemms = [Gemm.of(shape, *way) for shape in ((2, 4, 5, 3), (1, 1, 7, 1)) for way in WAYS]
    compared = list(compare(Path(FOLDER), 3, 2, gemms))
    assert len(compared) == len(gemms)
    assert [one for one in compared if not one.explained] == []
