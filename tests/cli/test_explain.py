"""`simaccel explain` and `simaccel bound`: what they print and write; bounds' mappings run."""

from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.papers.orojenesis.curves import curve

TOY = "--hw toy --workload gemm --shape M=100,K=64,N=48 --dataflow naive"


def test_the_figures_are_those_of_run(cli: Call) -> None:
    run = cli.json(f"run {TOY}")
    found = cli.json(f"explain {TOY}")
    assert found["cycles"] == run["cycles"]
    assert found["bound"] == run["bound"]
    assert found["dram_bound"] == run["dram_bound"]
    (group,), (operator,) = found["groups"], run["operators"]
    assert group["machine"]["stalls"] == operator["engines"]["array"]["stalls"]
    ways = run["bytes"]["dram"].values()
    assert found["dram_bytes"] == sum(n for way in ways for n in way.values())
    assert f"{run['cycles']:,}" in cli(f"explain {TOY}").stdout


def test_the_terminal_has_all_analyses(cli: Call) -> None:
    told = cli(f"explain {TOY}").stdout
    for words in ("simulated", "of it", "bound", "multicast", "blocks of at most"):
        assert words in told
    assert "where the analyses disagree (cycles by more than 2%, bytes by any)" in told


def test_a_mapping_and_a_page(cli: Call, tmp_path: Path) -> None:
    tree, page = tmp_path / "m.yaml", tmp_path / "page.html"
    shape = "--hw toy --workload gemm --shape M=100,K=64,N=48"
    assert cli(f"map {TOY} -o {tree}").exit_code == 0
    assert f"page: {page}" in cli.printed(f"explain {shape} --mapping {tree} -o {page}")
    first = page.read_bytes()
    assert first.startswith(b"<!DOCTYPE html>")
    assert cli(f"explain {shape} --mapping {tree} -o {page}").exit_code == 2
    assert cli(f"explain {shape} --mapping {tree} -o {page} --force").exit_code == 0
    assert page.read_bytes() == first
    assert cli(f"explain {shape} --mapping {tree} -o {tree} --force").exit_code == 2
    assert cli(f"explain {shape} --mapping {tree} -o -").stdout == first.decode()


def test_a_spatial_array_is_searched_as_by_run(cli: Call) -> None:
    line = "--hw eyeriss_like --workload gemm --shape M=16,K=8,N=8"
    run, found = (cli.json(f"{command} {line}") for command in ("run", "explain"))
    assert found["cycles"] == run["cycles"]
    assert found["groups"][0]["dram_bytes"] == found["dram_bytes"]


def test_ones_own_number_has_the_terms_of_the_run(cli: Call) -> None:
    """100 x 64 x 48 MACs on 4 x 4 PEs are 19,200 cycles; all three commands say what is more."""
    run = cli.json(f"run {TOY} --estimate 19200")
    explained = cli.json(f"explain {TOY} --estimate 19200")
    (found,) = run["estimates"]
    assert explained["estimates"] == run["estimates"]
    assert found["terms"][0]["name"].startswith("MACs / PEs")
    assert not found["terms"][0]["is_lacking"]
    assert found["unexplained_cycles"] == 0
    assert sum(term["cycles"] for term in found["terms"]) == found["cycles"] == run["cycles"]
    bound = cli.json(f"estimate {TOY} --estimate gemm=19200")
    (alone,) = bound["estimates"]
    assert alone["cycles"] == run["bound"]["cycles"]
    assert alone["terms"] == [term for term in found["terms"] if term["kind"] == "bound"]
    for command in ("run", "explain"):
        assert "estimate of total 19,200 of" in cli(f"{command} {TOY} --estimate 19200").stdout


GEMM = "bound --workload gemm --shape M=512,K=64,N=512 --bytes-per-element 1"


def test_json_has_the_points(cli: Call) -> None:
    found = cli.json(GEMM)
    assert [tuple(point) for point in found["points"]] == curve("gemm_M512_K64_N512")
    assert found["compulsory_bytes"] == 327680
    assert found["gap"] == 1.0
    assert found["all_sizes"] is True
    assert found["operations_per_byte"][-1] == pytest.approx(
        (2 * 512 * 512 * 64 - 512 * 512) / 327680
    )


def test_windows_are_read_exactly_by_default(cli: Call) -> None:
    """The right end of the public tool's curve of that reading."""
    shape = "M=64,C=64,P=16,Q=16,R=3,S=3,dilation=2"
    line = f"bound --workload conv --shape {shape} --bytes-per-element 1"
    assert cli.json(line)["points"][-1] == [16896, 78848]


def test_a_mapping_for_a_buffer_runs_and_moves_the_bound(cli: Call) -> None:
    shape = "--workload gemm --shape M=96,K=40,N=77"
    line = f"bound {shape} --imperfect --uneven --buffer 2KiB"
    wanted = cli.json(line)
    cli.printed(f"{line} -o m.yaml")
    run = cli.json(f"run --hw toy {shape} --mapping m.yaml --set buffer.capacity_bytes=2KiB")
    moved = sum(n for level in run["bytes"]["dram"].values() for n in level.values())
    assert moved == wanted["at"]["dram_bytes"] == wanted["at"]["machine_dram_bytes"]
    assert wanted["at"]["buffer_bytes"] <= 2048


def test_tables_figures_and_csv(cli: Call, tmp_path: Path) -> None:
    table, plot = tmp_path / "p.csv", tmp_path / "p.svg"
    shown = cli.printed(f"{GEMM} --hw edge --buffer 1KiB --csv {table} --plot {plot}")
    assert "16 points over 3,319 mappings" in shown
    assert "bound of any mapping with 1.00 KiB: " in shown
    lines = table.read_text().splitlines()
    assert lines[0] == "buffer_bytes,dram_bytes,operations_per_byte,operations_per_second"
    assert lines[-1].startswith("33344,327680,")
    assert plot.read_text().startswith("<?xml")


def test_of_several_chips_one_does_all(cli: Call) -> None:
    title = cli.printed(f"{GEMM} --hw tpu_v5e_4x4").splitlines()[0]
    assert title.endswith("least DRAM traffic, all of it on one of 16 chips")
    assert "chips" not in cli.printed(f"{GEMM} --hw tpu_v5e")


def test_a_workload_of_several_operators(cli: Call) -> None:
    found = cli.json("bound --workload bert --scope la --seq-len 64 --buffer 64KiB")
    assert found["at"]["segments"] == [["L"], ["softmax"], ["A"]]
    assert found["at"]["dram_bytes"] >= found["compulsory_bytes"]


def test_a_fused_mapping_runs_and_moves_the_bound(cli: Call) -> None:
    """Its groups need not be in the workload's order."""
    shape = "--workload bert --scope la --seq-len 8"
    line = f"bound {shape} --fuse flash --buffer 4KiB"
    wanted = cli.json(line)
    cli.printed(f"{line} -o m.yaml")
    run = cli.json(f"run --hw toy {shape} --mapping m.yaml --set buffer.capacity_bytes=4KiB")
    moved = sum(sum(one.values()) for one in run["bytes"]["dram"].values())
    assert wanted["at"]["segments"] == [["L", "softmax", "A"]]
    assert moved == wanted["at"]["dram_bytes"] >= run["dram_bound"]["bound_bytes"]
