"""`simaccel map` on spatial arrays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simaccel.dataflows import DATAFLOWS
from simaccel.mapping.files import load_mapping
from simaccel.mapping.text import tree_text
from simaccel.workload import gemm, network
from tests.cli.conftest import Call

GEMM = "map --hw toy_linear --workload gemm --shape M=12,K=10,N=9"
CONV2 = "map --hw eyeriss_like --workload alexnet --set layer=conv2 --patience 500"


def test_the_best_mapping_as_json(cli: Call) -> None:
    shown = cli.printed(f"{GEMM} --mapspace pfm --json")
    found = json.loads(shown)
    (operator,) = found["operators"]
    assert (found["mapspace"], found["objective"]) == ("pfm", "edp")
    assert found["cycles"] == operator["cycles"] >= 12 * 10 * 9 / 16
    assert operator["macs"] == 12 * 10 * 9
    assert operator["utilisation"] == pytest.approx(operator["macs"] / operator["cycles"] / 16)
    assert operator["search_ended_by"] == "all seen"
    assert operator["mappings_tried"] == operator["mapspace_size"]
    accesses = sum(one["energy_pj"] for one in operator["accesses"])
    assert accesses + operator["macs"] == pytest.approx(operator["energy_pj"])
    seconds = found["cycles"] * 1e-9  # toy_linear has 1 GHz
    assert found["edp_js"] == pytest.approx(found["energy_pj"] * 1e-12 * seconds)


def test_mapspaces_side_by_side(cli: Call) -> None:
    best = {
        name: cli.json(f"{GEMM} --mapspace {name}")["edp_js"]
        for name in ("pfm", "ruby-s", "ruby-t", "ruby", "padded")
    }
    assert best["ruby"] <= best["ruby-s"] <= best["pfm"]
    assert best["ruby"] <= best["ruby-t"] <= best["pfm"]


def test_objectives(cli: Call) -> None:
    found = {name: cli.json(f"{GEMM} --objective {name}") for name in ("cycles", "energy", "edp")}
    assert found["cycles"]["cycles"] == min(one["cycles"] for one in found.values())
    assert found["energy"]["energy_pj"] == min(one["energy_pj"] for one in found.values())
    assert found["edp"]["edp_js"] == min(one["edp_js"] for one in found.values())


def test_a_mapping_is_saved_and_read_again(cli: Call, tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    assert f"mapping: {file}" in cli.printed(f"{GEMM} -o {file}")
    (group,) = load_mapping(file, gemm(m=12, k=10, n=9)).groups
    assert group.operators == ("gemm",)
    assert cli(GEMM).stdout == tree_text(load_mapping(file, gemm(m=12, k=10, n=9)))
    assert "allowed: a new file, or --force" in cli.refused(f"{GEMM} -o {file}")


def test_explained(cli: Call) -> None:
    shown = cli.printed(f"{CONV2} --explain")
    for part in ("223,948,800 MACs", "bound by compute", "spread ", "fan-out", "of all"):
        assert part in shown


def test_how_the_search_went_on_is_drawn(cli: Call, tmp_path: Path) -> None:
    file = tmp_path / "search.svg"
    found = cli.json(f"{CONV2} --plot {file}")["operators"][0]
    steps = found["convergence"]
    counts, values = ([step[name] for step in steps] for name in ("mappings", "objective"))
    assert counts == sorted(set(counts))
    assert values == sorted(set(values), reverse=True)
    assert values[-1] == pytest.approx(found["edp_js"])
    assert counts[-1] <= found["mappings_valid"]
    assert file.read_bytes().startswith(b"<?xml")
    assert "--force" in cli.refused(f"{CONV2} --plot {file}")


def test_the_dataflow_of_the_accelerator_holds(cli: Call) -> None:
    found = cli.json(f"{CONV2} --constrain rows.S=5")
    lines = [line.split() for line in found["operators"][0]["mapping"]["tree"]]
    spread = {(level, rank) for kind, rank, _, level in (x for x in lines if x[0] == "spread")}
    assert {rank for level, rank in spread if level == "cols"} <= {"q", "m"}
    assert {rank for level, rank in spread if level == "rows"} <= {"s", "c", "m"}
    assert ("rows", "s") in spread


@pytest.mark.usefixtures("anew")
def test_another_seed_finds_another(cli: Call) -> None:
    short = CONV2.replace("500", "50")
    assert cli(f"{short} --json").stdout != cli(f"{short} --json --set seed=1").stdout


@pytest.mark.usefixtures("anew")
def test_layers_of_one_shape_are_searched_once(cli: Call) -> None:
    line = "map --hw toy_linear --workload vgg16 --scope layers --mapspace pfm --patience 1 --json"
    found = json.loads(cli(line).stdout)
    names = [one["operator"] for one in found["operators"]]
    assert names == [one.name for one in network("vgg16", scope="layers").operators]
    assert found["cycles"] == sum(one["cycles"] for one in found["operators"])


@pytest.mark.usefixtures("anew")
def test_sums_have_vector_operators(cli: Call) -> None:
    line = "map --hw toy_linear --workload bert --seq-len 8 --scope la --mapspace pfm --patience 1"
    found = cli.json(line)
    assert [one["operator"] for one in found["operators"]] == ["L", "A"]
    (softmax,) = found["vectors"]
    assert softmax["operator"] == "softmax"
    assert min(softmax["cycles"], softmax["energy_pj"]) > 0
    for key in ("cycles", "energy_pj"):
        ran = sum(one[key] for one in (*found["operators"], softmax))
        assert found[key] == pytest.approx(ran)


def test_dataflows_explain_themselves(cli: Call, tmp_path: Path) -> None:
    """As mapspaces do: what was asked holds, and the search is accounted for and drawn."""
    line = "map --hw toy --workload gemm --shape M=24,K=20,N=28 --dataflow flex --jobs 1"
    asked = f"{line} --constrain dram.m=5 --patience 9 --explain"
    said = cli.printed(f"{asked} --plot {tmp_path / 'search.svg'}")
    for part in ("loop m 5", "too large", "by bound", "runner-up", "at most"):
        assert part in said.replace("\n", " ")
    assert (tmp_path / "search.svg").read_bytes().startswith(b"<?xml")
    (found,) = cli.json(asked)["searches"]
    assert found["space"] >= sum(found["pruned"].values()) + found["ran"] - found["near"]
    assert found["ran"] >= 1


def test_a_run_tells_of_its_searches_as_map_does(cli: Call, tmp_path: Path) -> None:
    line = "--hw toy --workload gemm --shape M=9,K=7,N=5 --dataflow flex --explain"
    mapped = cli.json(f"map {line}")["searches"]
    assert cli.json(f"run {line}")["searches"] == mapped
    said = cli(f"run {line} --plot {tmp_path / 'run.svg'}")
    assert said.exit_code == 0, said.output
    assert "runner-up" in said.stdout
    assert "searched gemm" not in said.stderr
    assert (tmp_path / "run.svg").read_bytes().startswith(b"<?xml")
    for other in ("--dry-run", "--quiet", "--csv -"):
        assert f"allowed: nothing with {other}" in cli.refused(f"run {line} {other}")


def test_a_run_is_drawn_whatever_its_mapping_is(cli: Call, tmp_path: Path) -> None:
    line = "run --hw toy --workload gemm --shape M=9,K=7,N=5 --dataflow naive"
    plot = tmp_path / "run.png"
    assert cli.printed(f"{line} --plot {plot}").endswith(f"figure: {plot}\n")
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert cli(f"{line} --plot {plot}").exit_code == 2  # it is there
    assert cli(f"{line} --plot run.txt").exit_code == 2


@pytest.mark.parametrize("search", ["--dataflow flex", "--mapspace pfm --patience 100"])
def test_what_a_search_gave_up_is_told_by_all_commands(cli: Call, search: str) -> None:
    line = f"--hw toy --workload gemm --shape M=16,K=16,N=16 {search} --objective cycles"
    assert "given_up" not in cli.json(f"run {line} --set within=0")
    line += " --set within=20%"
    losses = cli.json(f"run {line}")["given_up"]
    assert losses["against"] == "the fastest"
    assert losses["cycles"] > 0 > losses["dram_bytes"]
    (row,) = cli.json(f"compare {line}")
    assert row["given_up"] == losses
    said = cli(f"run {line}").stdout.splitlines()
    (told,) = (one for one in said if one.startswith("chosen within 20%: +"))
    assert told in cli(f"compare {line}").stdout.replace("\n", " ")
    assert f"chosen within 20%: +{losses['cycles']:.0f} cycles, -" in cli(f"map {line}").stderr


@pytest.mark.parametrize("command", ["run", "map", "compare", "estimate"])
def test_options_of_a_search_are_refused_where_they_do_nothing(cli: Call, command: str) -> None:
    line = f"{command} --hw toy --workload gemm --shape M=9,K=7,N=5"
    said = "patience: got 5; allowed: nothing with --dataflow naive, which searches nothing; "
    assert said in cli.refused(f"{line} --dataflow naive --patience 5")
    message = cli.refused(f"{line} --dataflow flex --set seed=0")
    assert "--set seed: got 0; allowed: nothing without --" in message
    assert "mapspace: no dataflow searches at random\n" in message
    assert cli(f"{line} --dataflow flex --patience 5").exit_code == 0


def test_a_comparison_has_patience_with_those_that_search(cli: Call) -> None:
    line = "compare --hw toy --workload gemm --shape M=9,K=7,N=5 --dataflow"
    assert cli(f"{line} naive,flex --patience 5").exit_code == 0
    assert cli(f"{line} naive,strips --patience 5").exit_code == 2


def test_a_plug_in_that_searches_nothing_has_no_figure(
    cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is known afterwards only: what a plug-in does, it alone knows."""
    monkeypatch.setattr("simaccel.cli.experiment_options.SEARCHING", (*DATAFLOWS,))
    line = "map --hw toy --workload gemm --shape M=9,K=7,N=5 --dataflow strips"
    said = cli.refused(f"{line} --plot {tmp_path / 'search.png'}")
    assert said.endswith("allowed: nothing if there is no search\n")
    assert not [*tmp_path.iterdir()]


def test_what_a_systolic_array_holds_is_asked_of_a_mapspace(cli: Call) -> None:
    line = "map --hw toy --workload gemm --shape M=8,K=6,N=7 --mapspace pfm --stationarity os"
    assert "do gemm array os" in cli.printed(line)
