"""`simaccel explain`: the page in the terminal, as JSON and as HTML."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Call

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
    line = "--hw eyeriss_like --workload gemm --shape M=16,K=8,N=8 --json"
    run, found = json.loads(cli(f"run {line}").stdout), json.loads(cli(f"explain {line}").stdout)
    assert found["cycles"] == run["cycles"]
    assert found["groups"][0]["dram_bytes"] == found["dram_bytes"]


def test_mistakes_are_told(cli: Call, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    cli.refused(f"explain --hw nothing --workload gemm -o {page}")
    assert not page.exists()


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
