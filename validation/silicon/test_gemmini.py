"""Gemmini against its RTL: a few rows of DOSA's test file, and one by hand."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from simaccel import load_accelerator
from simaccel.cli.app import main
from simaccel.errors import InputError
from validation.silicon.gemmini.calibrate import calibration_rows, command_bytes, describe
from validation.silicon.gemmini.model import layer, predict, simulated
from validation.silicon.gemmini.rows import HERE, measured, read

ROW = {"R": "1", "S": "1", "P": "32", "Q": "1", "C": "32", "K": "32", "N": "1"} | {
    "stride_h": "1",
    "stride_w": "1",
    "mapping": "L3[WIO] K2 - L2[WI] N1 K16X - L1[O] C2 P2 C16X - L0[W] P16",
}
"""Two commands of 32 x 32 by 32 x 16."""


def test_a_small_product_by_hand(tmp_path: Path) -> None:
    # with 8 B a cycle and no latency: inputs 1024 B in 128 cycles, weights 512 B in 64. The first
    # command begins when both are there, at 192. Weights shift in for 16 cycles, two folds stream
    # 32 positions each, and the last sum is at the foot 16 + 16 - 2 cycles later: at 302.
    # The second command's tiles have come at 384 by then (one DRAM channel), it ends at 494; the
    # first one's 512 bytes of results go out meanwhile, its own in 64 cycles: 558, and a hop of the
    # NoC each way
    assert simulated(ROW, describe(tmp_path, latency=0, bandwidth=8)).cycles == 558 + 2


def test_each_command_loads_its_tiles_and_nothing_else() -> None:
    run = simulated(ROW)
    assert run.moved["dram_read", "I"] == 2 * 32 * 32
    assert run.moved["dram_read", "W"] == 32 * 32
    assert run.moved["dram_write", "O"] == 32 * 32
    assert run.macs == 32**3
    assert command_bytes(ROW) == 32 * 32 + 32 * 16


def test_a_few_rows_are_near_the_rtl_and_as_they_are_recorded() -> None:
    # the README has all; these are a product, a 3 x 3, a 1 x 1 and a stem, of both sets
    with (HERE / "results.csv").open(newline="", encoding="utf-8") as file:
        recorded = list(csv.DictReader(file))
    numbers = (74, 7, 14, 5, 108, 132)
    rows = [read("test")[at] for at in numbers]
    for at, row, found in zip(numbers, rows, predict(rows), strict=True):
        assert found == pytest.approx(measured(row), rel=0.25)
        # what moves one runs `python -m validation.silicon.gemmini.run`, and is in the changelog
        assert recorded[at]["mapping"] == row["mapping"]
        assert found == int(recorded[at]["ours"])


def test_measured_figures_may_be_absent() -> None:
    row = read("test")[7]
    needed = {name: row[name] for name in ROW}
    assert predict([needed]) == predict([row])


def test_layers_have_the_macs_of_their_ranks() -> None:
    for row in read("test")[::20]:
        macs = 1
        for name in "RSPQCKN":
            macs *= int(row[name])
        assert layer(row).macs == macs


def test_no_row_of_the_test_file_is_calibrated_on() -> None:
    names = (*ROW, "rtl_cycles_of_mapping")
    held = {tuple(row[name] for name in names) for row in read("test")}
    chosen = {tuple(row[name] for name in names) for _, row in calibration_rows()}
    assert len(chosen) == 42
    assert not chosen & held


def test_a_wrong_mapping_has_its_place() -> None:
    with pytest.raises(InputError, match=r"K \(m\): got 16; allowed: factors that make 32"):
        predict([ROW | {"mapping": ROW["mapping"].replace("K2 ", "K1 ")}])


def test_a_run_says_what_the_rows_say() -> None:
    with (HERE / "results.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    errors = [abs(int(row["ours"]) / int(row["rtl"]) - 1) for row in rows]
    (said,) = load_accelerator("gemmini_16").compiler.measured
    assert (said.rows, said.dataflow) == (len(errors), "gemmini")
    assert said.median_percent == round(100 * float(np.median(errors)), 1)
    assert said.within_90_percent == round(100 * float(np.quantile(errors, 0.9)), 1)
    arguments = ["run", "--hw", "gemmini_16", "--workload", str(HERE / "row.yaml"), "--detail"]
    done = CliRunner().invoke(main, [*arguments, "--mapping", str(HERE / "row_mapping.yaml")])
    assert "measured on this chip: 148 convolutions (median 6.9%, 90% within 38.5%" in done.output
    done = CliRunner().invoke(main, [*arguments, "--dataflow", "naive"])
    assert done.exit_code == 0
    assert "measured on this chip" not in done.output
