"""What `simaccel explore` prints, writes and refuses, also of a description's own space."""

import csv
import io
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from simaccel.importers.accelerators import load_accelerator
from simaccel.papers.maestro.analysis.prices import PAPER_ERA, PRESENT
from simaccel.study.parameters import parameter_of
from simaccel.study.points import base_point
from simaccel.study.space import with_mapping
from simaccel.workload import gemm
from tests.cli.conftest import Call

GEMM = "--workload gemm~shape=M=9,K=7,N=5"
SMALL = f"--hw toy {GEMM} --dataflow naive --jobs 1"
AXES = "--axis array=2x2,4x4 --axis buffer=1KiB:4KiB:x2"


def test_a_table_a_line_of_counts_and_files_of_all(cli: Call, tmp_path: Path) -> None:
    names = {"--csv": "a.csv", "--parquet": "a.parquet", "-o": "a.html"}
    names |= {f"--plot-{what}": f"{what}.svg" for what in ("frontier", "pairs", "sensitivity")}
    files = " ".join(f"{option} {tmp_path / name}" for option, name in names.items())
    shown = cli.printed(f"explore {SMALL} {AXES} --where area_mm2<=16 power_mw<=4e3 {files}")
    assert shown.startswith("gemm on toy: 6 designs\n")
    assert "6 designs: 0 do not run, 0 outside the limits," in shown
    rows = list(csv.DictReader(io.StringIO((tmp_path / "a.csv").read_text())))
    given = [(row["array"], row["buffer_bytes"]) for row in rows]
    assert given == [(a, b) for a in ("2x2", "4x4") for b in ("1024", "2048", "4096")]
    assert all(int(row["footprint_bytes"]) <= int(row["buffer_bytes"]) for row in rows)
    assert len(rows) == 6
    assert sum(row["best"] == "true" for row in rows) == 1
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.column_names == [*rows[0]]
    for name in ("cycles", "energy_pj", "area_mm2", "within"):
        written = [str(value).lower() for value in table[name].to_pylist()]
        assert written == [row[name] for row in rows]
    page = (tmp_path / "a.html").read_text()
    assert page.count("<svg") == 2
    assert "http" not in page.replace("http://www.w3.org", "").replace(
        "http://purl.org", ""
    ).replace("http://creativecommons.org", "")
    assert page.count("<tr") == 2 + 6 + sum(row["frontier"] == "true" for row in rows)


def test_a_dry_run_counts_and_keeps_nothing(cli: Call, tmp_path: Path) -> None:
    """Six designs, some of them too large; what is in the store is no run."""
    kept = tmp_path / "store"
    line = f"explore {SMALL} {AXES} --where area_mm2<=0.12 --store {kept}"
    first = cli.json(f"{line} --dry-run")
    assert not list(kept.glob("*"))
    assert first["designs"] == 6
    assert first["runs"] == 6 - first["outside"] > 0
    assert first["stored"] == 0
    assert first["cpu_seconds"] > 0
    assert f"{first['runs']} runs to make, 0 in the store" in cli.printed(f"{line} --dry-run")
    assert cli(line).exit_code == 0
    again = cli.json(f"{line} --dry-run")
    assert (again["runs"], again["stored"], again["cpu_seconds"]) == (0, first["runs"], 0)


def test_what_an_exploration_costs_is_what_its_runs_do(cli: Call) -> None:
    line = "--hw edge --workload alexnet --dry-run --json"
    cost = json.loads(cli(f"explore {line} --axis array=16x16,32x32 --dataflow flex").stdout)
    alone = json.loads(cli(f"run {line} --dataflow flex").stdout)
    assert cost["runs"] == 2
    seconds = alone["search_seconds"] + alone["run_seconds"]
    assert cost["cpu_seconds"] == pytest.approx(2 * seconds)


def test_patience_is_that_of_dataflows_too(cli: Call) -> None:
    """With one run without a gain as patience, flex ends with another mapping, as of `run`."""
    line, shape = "--hw toy --dataflow flex", "shape=M=9,K=6,N=5"
    explored = f"explore {line} --workload gemm~{shape} --jobs 1 --objective cycles"
    whole, short = (
        cli.json(f"{explored}{patience}")["designs"][0]["cycles"]
        for patience in ("", " --set patience=1")
    )
    assert cli.json(f"run {line} --workload gemm --{shape} --set patience=1")["cycles"] == short
    assert whole != short
    patience = parameter_of("patience")
    assert patience is not None
    point = base_point(gemm(m=1, k=1, n=1), load_accelerator("toy"), patience.setting((7,)))
    options = with_mapping(point).options
    assert options.patience == options.effort.patience == 7


def test_several_accelerators_and_weighted_workloads(cli: Call) -> None:
    line = f"explore --hw toy --hw toy_linear {GEMM}~weight=3 --workload gemm~shape=M=4,K=4,N=4"
    found = cli.json(f"{line} --set mapspace=ruby-s --set patience=3 --jobs 1")
    assert [row["accelerator"] for row in found["designs"]] == ["toy", "toy_linear"]
    single = [
        cli.json(f"run --hw toy --workload gemm --shape {shape} --set mapspace=ruby-s "
                       "--set patience=3 --objective edp")
        for shape in ("M=9,K=7,N=5", "M=4,K=4,N=4")
    ]  # fmt: skip
    toy = found["designs"][0]
    assert toy["bound_cycles"] <= toy["cycles"]
    assert toy["cycles"] == 3 * single[0]["cycles"] + single[1]["cycles"]


def test_any_field_can_be_an_axis(cli: Call) -> None:
    axes = "--axis dram.channels=1,2 --axis stationarity=ws,os"
    result = cli(f"explore --hw toy {GEMM} --dataflow flex --jobs 1 {axes} --csv -")
    assert result.exit_code == 0, result.stderr
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [(row["dram_channels"], row["stationarity"]) for row in rows] == [
        *(("1", "ws"), ("1", "os"), ("2", "ws"), ("2", "os"))
    ]
    assert "runs: 4 made" in result.stderr


def test_the_best_by_power_has_the_least(cli: Call) -> None:
    """Fewer PEs take longer: least power is not least cycles."""
    line = "--hw edge --workload gemm --shape M=64,K=64,N=64 --axis array=8x8,16x16"
    found = cli.json(f"explore {line} --dataflow naive --objective power")["designs"]
    best = next(one for one in found if one["best"])
    assert best["power_mw"] == min(one["power_mw"] for one in found)
    assert best["cycles"] == max(one["cycles"] for one in found)


@pytest.mark.parametrize("how", ["", "--objective energy", "--objective cycles"])
def test_kernels_of_a_compiler_are_explored_by_any_objective(cli: Call, how: str) -> None:
    """The default is EDP, which was refused: these kernels are searched by none."""
    kernels = "--workload gemm --shape M=256,K=256,N=256 --dataflow deployed"
    line = kernels.replace(" --shape ", "~shape=")
    found = cli.json(f"explore --hw tpu_v4 {line} {how} --axis array.count=2,4 --jobs 1")
    runs = [cli.json(f"run --hw tpu_v4 --set array.count={n} {kernels}") for n in (2, 4)]
    assert [one["cycles"] for one in found["designs"]] == [one["cycles"] for one in runs]
    free = cli.json(f"explore --hw tpu_v4 {line.partition(' --d')[0]} {how} --axis array.count=2")
    assert free["designs"][0]["cycles"] == runs[0]["cycles"]
    row, _ = cli.json(f"compare --hw tpu_v4 {kernels},naive {how} --set array.count=2")
    assert row["cycles"] == runs[0]["cycles"]


def test_the_store_is_used_and_the_output_is_the_same(cli: Call, tmp_path: Path) -> None:
    line = f"explore {SMALL} {AXES} --store {tmp_path / 's'} --json"
    first, again = cli(line), cli(line)
    assert first.exit_code == again.exit_code == 0
    assert first.stdout == again.stdout
    assert ", 0 taken from the store" in first.stderr
    assert "runs: 0 made, " in again.stderr
    entry = min((tmp_path / "s").glob("runs/*/*.json"))
    entry.write_text("{")
    third = cli(line)
    assert third.stdout == first.stdout
    assert f"damaged, run again: runs/{entry.parent.name}/{entry.name}\n" in third.stderr
    manifest = tmp_path / "s" / "manifest.json"
    manifest.write_text('{"explorations": {}}')
    fourth = cli(line)
    assert "\ndamaged, begun anew: manifest.json\n" in fourth.stderr
    assert len(json.loads(manifest.read_text())["explorations"]) == 1


def test_a_draw_is_a_part_of_the_product(cli: Call) -> None:
    axes = "--axis array=2x2,4x4 --axis dram-latency=0:4:+1"
    every = cli(f"explore {SMALL} {axes} --csv -").stdout.splitlines()
    for how in ("latin", "random"):
        line = f"explore {SMALL} {axes} --sample 4 --set draw={how} --csv -"
        some = cli(line).stdout.splitlines()
        assert len(some) == 5
        keys = {tuple(row.split(",")[:2]) for row in every}
        assert {tuple(row.split(",")[:2]) for row in some} <= keys
        assert cli(line).stdout.splitlines() == some


def test_nothing_that_runs_is_an_error(cli: Call) -> None:
    result = cli(f"explore --hw toy_linear {GEMM} --dataflow naive --jobs 1")
    assert result.exit_code == 2
    assert "dataflow naive takes systolic arrays; toy_linear has a spatial one" in result.stdout


NET = """
Network net { Layer ONE { Type: CONV
  Dimensions { K: 8, C: 8, R: 3, S: 3, Y: 8, X: 8 }
  Dataflow { SpatialMap(1,1) K; TemporalMap(8,8) C; TemporalMap(Sz(R),Sz(R)) R;
    TemporalMap(Sz(S),Sz(S)) S; TemporalMap(Sz(R),1) Y; TemporalMap(Sz(S),1) X;
    Cluster(8,P); SpatialMap(1,1) C; } } }
"""


def test_a_description_is_explored_with_its_own_dataflow(cli: Call, tmp_path: Path) -> None:
    """Each design does what `run` does."""
    net = tmp_path / "net.m"
    net.write_text(NET)
    axis = "noc.distribution.link_bytes_per_cycle=4,64"
    line = f"explore --hw maestro_256 --workload {net} --dataflow directives --jobs 1"
    done = cli.printed(f"{line} --axis {axis} --axis buffer=64KiB,256KiB --json")
    designs = json.loads(done)["designs"]
    assert len(designs) == 4
    for row, rate in ((designs[0], 4), (designs[-1], 64)):
        sets = f"--set noc.distribution.link_bytes_per_cycle={rate}"
        run = cli(f"run --hw maestro_256 --workload {net} --dataflow directives {sets} --json")
        assert row["cycles"] == json.loads(run.stdout)["cycles"]
    assert designs[0]["cycles"] > designs[-1]["cycles"]


def test_directives_need_a_description(cli: Call, tmp_path: Path) -> None:
    """Each design says why it doesn't run."""
    done = cli(f"explore {SMALL.replace('naive', 'directives')} {AXES}")
    told = "does not run (6): command line: --workload: got 'gemm'; allowed: a MAESTRO description"
    assert (done.exit_code, told in done.stdout) == (2, True)
    wrong = tmp_path / "net.m"
    wrong.write_text(NET.replace("SpatialMap(1,1) C", "SpatialMap(1,1) W"))
    done = cli(f"explore --hw maestro_256 --workload {wrong} --dataflow directives")
    assert (done.exit_code, f"does not run (1): {wrong}: line 6, column" in done.stdout) == (
        2,
        True,
    )


def test_one_design_is_one_design(cli: Call) -> None:
    shown = cli.printed(f"explore {SMALL}")
    first, *lines = shown.splitlines()
    assert first.endswith(": 1 design")
    assert any(line.startswith("1 design: 0 do not run") for line in lines)


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
    again = cli(f"{line} {space} --csv -").stdout
    assert again == cli(f"{line} {space} --csv -").stdout


def test_one_layer_of_a_spatial_dataflow(cli: Call, line: str, tmp_path: Path) -> None:
    (tmp_path / "n.m").write_text(
        LAYER.format(name="a", more=LAYER.format(name="b", more="")[11:-1])
    )
    assert cli(f"{line} --axis pes=8 --set layer=b").exit_code == 0


def test_numbers_of_as_many_bits_are_told_apart(cli: Call, line: str) -> None:
    """Multipliers of 8 bits and a NoC without a limit: bf16, and fp8 as it, take four passes."""
    noc = "--axis noc-bandwidth=100000 --axis pes=4 --set array.native_bits=8"
    fields = f"{noc} --set array.multiplied_as.fp8=bf16"

    def cycles(number: str) -> int:
        asked = f"{line} {fields} --precision weights={number},activations={number} --csv -"
        (row,) = csv.DictReader(io.StringIO(cli(asked).stdout))
        return int(row["cycles"])

    assert cycles("fp8") == cycles("bf16") > 2 * cycles("int8")
