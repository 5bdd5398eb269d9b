"""What `simaccel explore` prints, writes and refuses."""

import csv
import io
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from simaccel.schedulers import Options
from simaccel.study.space import options_with
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
    assert page.count("<svg") == 3
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
    assert (first["stored"], first["timed"]) == (0, 3)
    assert first["cpu_seconds"] > 0
    assert f"{first['runs']} runs to make, 0 in the store" in cli.printed(f"{line} --dry-run")
    assert cli(line).exit_code == 0
    again = cli.json(f"{line} --dry-run")
    assert (again["runs"], again["stored"], again["cpu_seconds"]) == (0, first["runs"], 0)


def test_what_an_exploration_costs_is_what_its_runs_do(cli: Call) -> None:
    line = "--hw edge --workload vgg16 --dry-run --json"
    cost = json.loads(cli(f"explore {line} --axis array=16x16,32x32 --dataflow flex").stdout)
    alone = json.loads(cli(f"run {line} --dataflow flex").stdout)
    assert (cost["runs"], cost["timed"]) == (2, 2)
    seconds = alone["search_seconds"] + alone["run_seconds"]
    assert cost["cpu_seconds"] == pytest.approx(2 * seconds)


def test_patience_is_that_of_dataflows_too(cli: Call) -> None:
    """With one run without a gain as patience, flex ends with another mapping, as of `run`."""
    line, shape = "--hw toy --dataflow flex", "shape=M=13,K=6,N=9"
    explored = f"explore {line} --workload gemm~{shape} --jobs 1 --objective cycles"
    whole, short = (
        cli.json(f"{explored}{patience}")["designs"][0]["cycles"]
        for patience in ("", " --set patience=1")
    )
    assert cli.json(f"run {line} --workload gemm --{shape} --set patience=1")["cycles"] == short
    assert whole != short
    given = options_with(Options(), {"patience": 7})
    assert given.patience == given.effort.patience == 7


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
    axes = "--axis dram.channels=1,2 --axis stationarity=ws,os --axis workload.m=4,8"
    line = f"explore --hw toy {GEMM} --dataflow flex --jobs 1 {axes} --csv -"
    result = cli(line.replace("--axis workload.m=4,8", ""))
    assert result.exit_code == 0, result.stderr
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [(row["dram_channels"], row["stationarity"]) for row in rows] == [
        *(("1", "ws"), ("1", "os"), ("2", "ws"), ("2", "os"))
    ]
    assert "runs: 4 made" in result.stderr


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
    axes = "--axis array=2x2,4x4 --axis dram-latency=0:9:+1"
    every = cli(f"explore {SMALL} {axes} --csv -").stdout.splitlines()
    for how in ("latin", "random"):
        line = f"explore {SMALL} {axes} --sample 6 --set draw={how} --csv -"
        some = cli(line).stdout.splitlines()
        assert len(some) == 7
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
    done = cli.refused(f"explore {SMALL.replace('naive', 'directives')} {AXES}")
    assert "--workload: got 'gemm'; allowed: a MAESTRO description" in done
    wrong = tmp_path / "net.m"
    wrong.write_text(NET.replace("SpatialMap(1,1) C", "SpatialMap(1,1) W"))
    done = cli.refused(f"explore --hw maestro_256 --workload {wrong} --dataflow directives {AXES}")
    assert f"{wrong}: line 6, column" in done


def test_one_design_is_one_design(cli: Call) -> None:
    shown = cli.printed(f"explore {SMALL}")
    first, *lines = shown.splitlines()
    assert first.endswith(": 1 design")
    assert any(line.startswith("1 design: 0 do not run") for line in lines)
