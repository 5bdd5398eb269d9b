"""`simaccel explore` of a description's own space: what it sweeps, runs, writes and refuses."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from simaccel.papers.maestro.analysis.prices import PAPER_ERA, PRESENT
from tests.cli.conftest import Call

LAYER = """Network n {{ Layer {name} {{ Type: CONV
  Dimensions {{ K: 20, C: 13, R: 3, S: 3, Y: 14, X: 14 }}
  Dataflow {{ SpatialMap(1,1) K; TemporalMap(4,4) C; TemporalMap(3,3) R; TemporalMap(3,3) S;
    TemporalMap(3,1) Y; TemporalMap(3,1) X; Cluster(4, P); SpatialMap(1,1) C; }} }} {more} }}"""
MACS = 20 * 13 * 9 * 12 * 12


@pytest.fixture
def line(tmp_path: Path) -> str:
    (tmp_path / "n.m").write_text(LAYER.format(name="l", more=""))
    return f"explore --hw maestro_256 --workload {tmp_path / 'n.m'} --dataflow directives"


def test_each_design_is_what_directives_say_of_it(cli: Call, line: str, tmp_path: Path) -> None:
    """Cycles and energy as `simaccel directives` has them, area and power as the prices say."""
    space = "--axis pes=4:12:+4 --axis noc-bandwidth=1,7 --set bytes-per-element=1"
    shown = cli.printed(f"{line} {space} --csv -")
    rows = list(csv.DictReader(io.StringIO(shown)))
    assert [(row["pes"], row["noc_elements_per_cycle"]) for row in rows] == [
        (pes, bandwidth) for pes in ("4", "8", "12") for bandwidth in ("1", "7")
    ]
    for row in rows[:3]:
        pes, bandwidth = row["pes"], row["noc_elements_per_cycle"]
        asked = f"--pes {pes} --noc-bandwidth {bandwidth} --layer l --json"
        (alone,) = json.loads(cli(f"directives {tmp_path / 'n.m'} {asked}").stdout)
        assert int(row["cycles"]) == alone["runtime_cycles"]
        assert float(row["energy_xmac"]) == alone["energy_total_xmac"]
        parts = int(pes), 1, int(bandwidth), int(row["l1_bytes"]), int(row["l2_bytes"])
        assert float(row["area_um2"]) == pytest.approx(float(PRESENT.area_um2(*parts)))
    wide = cli(f"{line} {space.replace('element=1', 'element=2')} --csv -").stdout
    second = list(csv.DictReader(io.StringIO(wide)))
    assert [int(row["l1_bytes"]) for row in second] == [2 * int(row["l1_bytes"]) for row in rows]


def test_limits_prices_and_the_machine(cli: Call, line: str, tmp_path: Path) -> None:
    """The best runs as `simaccel run` runs it, on as many PEs and as wide a NoC."""
    space = "--axis pes=4:32:+4 --axis noc-bandwidth=1:8:+1 --set prices=paper --objective cycles"
    limits = "--where area_mm2<=2 power_mw<=60"
    found = cli.json(f"{line} {space} {limits}")
    assert found["designs"] == 64 > found["valid"] > 0
    assert found["limits"] == {"area_mm2": 2.0, "power_mw": 60.0}
    best, *others = found["best"]
    assert all(best["cycles"] <= one["cycles"] for one in others)
    assert not any(one["machine_cycles"] is None for one in found["best"])
    parts = (best[n] for n in ("pes", "noc_elements_per_cycle", "l1_bytes", "l2_bytes"))
    pes, bandwidth, l1, l2 = parts
    assert best["area_um2"] == pytest.approx(float(PAPER_ERA.area_um2(pes, 1, bandwidth, l1, l2)))
    assert best["area_um2"] <= 2e6
    assert best["macs_per_cycle"] == pytest.approx(MACS / best["cycles"])
    link = f"link_bytes_per_cycle={2 * bandwidth}"
    noc = f"--set noc.distribution.{link} --set noc.collection.{link}"
    run = cli.json(
        f"run --hw maestro_256 --set array.cols={pes} {noc} --workload {tmp_path / 'n.m'} "
        "--dataflow directives"
    )
    assert run["cycles"] == best["machine_cycles"]


def test_buffers_as_axes_and_a_picture(cli: Call, line: str, tmp_path: Path) -> None:
    picture = tmp_path / "space.svg"
    space = "--axis pes=8 --axis l1=16:256:+16 --axis l2=256:4KiB:x2"
    result = cli(f"{line} {space} --set plot-frontier={picture}")
    assert result.exit_code == 0, result.stderr
    assert "l as its directives define: 80 designs\n" in result.stdout
    assert result.stdout.count("best by") == 1
    assert picture.read_text().startswith("<?xml")
    assert "swept in" in result.stderr
    again = cli(f"{line} {space} --csv -").stdout
    assert again == cli(f"{line} {space} --csv -").stdout


REFUSED = {
    "--axis pes=0,x": ["pes: got '0'", "pes: got 'x'"],
    "--axis pes=8 --axis buffer=1KiB": ["got 'buffer'; allowed: pes, noc-bandwidth, l1, l2 alone"],
    "--axis pes=8 --axis pes=9": ["got 'pes'; allowed: once"],
    "--axis pes=1:1000000:+1": ["at most 200,000"],
    "--axis pes=8 --axis l1=1:1MiB:+1 --axis l2=1:1MiB:+1": ["at most 10,000,000"],
    "--axis pes=8 --objective area --where area_mm2<2": [
        "'area_mm2<2'",
        "--objective: got 'area'",
    ],
    "--axis pes=8 --store s --jobs 2": ["--store: got", "--jobs: got"],
    "--axis pes=8 --hw toy": ["--hw: got '2 of them'"],
    "--axis pes=3": ["a cluster has 4 PEs, more than any design"],
    "--axis pes=8 --axis l1=1 --where power_mw<=1": ["no design within the limits"],
    "--axis array=1x8 --set prices=paper": ["--set prices: got 'paper'"],
}


@pytest.mark.parametrize("asked", REFUSED)
def test_what_is_refused_is_named(cli: Call, line: str, asked: str) -> None:
    said = cli.refused(f"{line} {asked}")
    for text in REFUSED[asked]:
        assert text in said


def test_one_layer_of_a_spatial_dataflow(cli: Call, line: str, tmp_path: Path) -> None:
    (tmp_path / "n.m").write_text(
        LAYER.format(name="a", more=LAYER.format(name="b", more="")[11:-1])
    )
    assert "2 layers" in cli(f"{line} --axis pes=8").stderr
    assert cli(f"{line} --axis pes=8 --set layer=b").exit_code == 0
    toy = line.replace("maestro_256", "toy")
    assert "a spatial array" in cli(f"{toy} --axis pes=8").stderr
    naive = line.replace("directives", "naive")
    assert "--dataflow: got 'naive'; allowed: directives" in cli(f"{naive} --axis pes=8").stderr


def test_numbers_of_as_many_bits_are_told_apart(cli: Call, line: str) -> None:
    """Multipliers of 8 bits and a NoC without a limit: bf16, and fp8 as it, take four passes."""
    noc = "--axis noc-bandwidth=100000 --axis pes=4 --set array.native_bits=8"
    fields = f"{noc} --set array.multiplied_as.fp8=bf16"

    def cycles(number: str) -> int:
        asked = f"{line} {fields} --precision weights={number},activations={number} --csv -"
        (row,) = csv.DictReader(io.StringIO(cli(asked).stdout))
        return int(row["cycles"])

    assert cycles("fp8") == cycles("bf16") > 2 * cycles("int8")
    refused = cli.refused(f"{line} {fields} --precision weights=int4,activations=int4")
    assert "bytes of an element: got '0.5'" in refused
