"""`map`, `run`, `compare`, `estimate` and traces on spatial arrays."""

import csv
import io
import json
from pathlib import Path

import pytest
import yaml

from simaccel.dataflows import DATAFLOWS
from simaccel.mapping.files import load_mapping
from simaccel.mapping.text import tree_text
from simaccel.workload import conv2d, gemm, network
from tests.cli.conftest import Call
from tests.data_files import data_beside

DATA = data_beside(__file__)

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
    document = cli.json(f"{CONV2} --plot {file}")
    (found,), (search,) = document["operators"], document["searches"]
    steps = search["convergence"]
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
    assert found["space"] >= sum(found["pruned"].values()) + found["ran"] - found["outside"]
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


def test_a_run_is_drawn_whatever_its_mapping_is(cli: Call, tmp_path: Path) -> None:
    line = "run --hw toy --workload gemm --shape M=9,K=7,N=5 --dataflow naive"
    plot = tmp_path / "run.png"
    assert cli.printed(f"{line} --plot {plot}").endswith(f"figure: {plot}\n")
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert cli(f"{line} --plot {plot}").exit_code == 2  # it is there


@pytest.mark.parametrize(
    ("size", "search"), [(9, "--dataflow flex"), (16, "--mapspace pfm --patience 100")]
)
def test_what_a_search_gave_up_is_told_by_all_commands(cli: Call, size: int, search: str) -> None:
    shape = f"M={size},K={size},N={size + 4}"
    line = f"--hw toy --workload gemm --shape {shape} {search} --objective cycles"
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


@pytest.mark.parametrize(
    "search",
    [
        *(f"{command} --dataflow flex" for command in ("run", "map", "compare", "estimate")),
        "compare --dataflow naive,flex",
    ],
)
def test_a_search_has_patience(cli: Call, search: str) -> None:
    """Where nothing is searched it is refused: `refusals`."""
    cli.printed(f"{search} --patience 5 --hw toy --workload gemm --shape M=9,K=7,N=5")


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


BARE = "--workload conv --shape M=7,C=5,P=9,Q=11,R=3,S=3,stride=2"
SMALL = f"{BARE} --set patience=30"
HUNDRED = "--workload gemm --shape M=100,K=1,N=1"
TREE = [
    "loop c 1", "keep I buffer x2", "keep O buffer x2", "loop m 4", "loop p 1",
    "spread m 1 rows", "spread s 1 rows", "spread q 1 cols",
    "keep I pe x2", "keep W pe x2", "keep O pe x2", "loop r 1", "do conv mac",
]  # fmt: skip
"""A mapping of the convolution that eyeriss_like can have: 4 x 3 of its rows, 11 of its columns."""


def _saved(tree: list[str], folder: Path, change: dict[str, str]) -> Path:
    """Save a mapping of the convolution whose tree has some lines changed."""
    assert change.keys() <= set(tree)
    workload = conv2d(m=7, c=5, p=9, q=11, r=3, s=3, stride=2)
    file = folder / "m.yaml"
    document = {
        "workload": {"name": workload.name, "fingerprint": workload.fingerprint},
        "dataflow": "mine",
        "groups": [{"operators": ["conv"], "tree": [change.get(line, line) for line in tree]}],
    }
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    return file


@pytest.mark.parametrize("mapspace", ["pfm", "padded", "ruby-s", "ruby-t", "ruby"])
def test_each_mapspace_runs_and_is_checked(cli: Call, mapspace: str) -> None:
    found = cli.json(f"run --hw eyeriss_like {SMALL} --set mapspace={mapspace} --check")
    assert found["dataflow"] == mapspace
    assert found["check"][0]["compared"] == found["check"][0]["elements"] == 7 * 9 * 11
    assert 0 < found["bound"]["cycles"] <= found["cycles"]
    macs = 7 * 5 * 9 * 11 * 3 * 3
    assert found["macs"] >= macs
    assert mapspace == "padded" or found["macs"] == macs
    assert found["utilisation"] == macs / 168 / found["cycles"]
    assert found["bytes"]["pe.weight"]["read"]["W"] > 0


def test_compare_has_all_mapspaces_where_none_is_given(cli: Call) -> None:
    rows = cli.json(f"compare --hw toy_linear {HUNDRED}")
    assert [row["dataflow"] for row in rows] == ["pfm", "ruby", "ruby-s", "ruby-t", "padded"]


def test_a_table_of_mapspaces(cli: Call, tmp_path: Path) -> None:
    """100 elements on 6 PEs: 20 cycles with perfect factors, 17 with remainders (Figs. 4 and 5)."""
    file = tmp_path / "rows.csv"
    line = f"compare --hw toy_linear {HUNDRED} --set mapspace=pfm,ruby-s --sweep array=1x6,1x7"
    assert cli(f"{line} --csv {file}").exit_code == 0
    rows = list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8"))))
    assert [int(row["cycles"]) for row in rows] == [20, 17, 20, 15]


def test_a_saved_mapping_runs_as_it_was_searched(cli: Call, tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    assert cli(f"map --hw eyeriss_like {SMALL} --mapspace ruby -o {file}").exit_code == 0
    kept = cli.json(f"run --hw eyeriss_like {BARE} --mapping {file}")
    made = cli.json(f"run --hw eyeriss_like {SMALL} --set mapspace=ruby")
    assert kept["cycles"] == made["cycles"]
    assert kept["bytes"] == made["bytes"]
    assert kept["dataflow"] == "ruby"


@pytest.mark.parametrize(("change", "message"), DATA["refused"])
def test_a_mapping_that_the_array_cannot_have(
    cli: Call, tmp_path: Path, change: dict[str, str], message: str
) -> None:
    file = _saved(TREE, tmp_path, change)
    said = cli.refused(f"run --hw eyeriss_like {BARE} --mapping {file}")
    assert f"error: {file}: groups[0].{message}" in said


def test_what_does_not_fit_the_memories_of_a_pe(cli: Call, tmp_path: Path) -> None:
    """3 rows and 1 column of I are 6 B; the 21 columns that 11 outputs reach over are 126 B."""
    file = _saved(TREE, tmp_path, {"spread q 1 cols": "spread p 1 cols"})
    said = cli.refused(f"run --hw eyeriss_like {BARE} --mapping {file}")
    assert "the memory of a PE (pe.input) has 24 B, 228 B too many: pe.I 2 x 126 B" in said


def test_a_mapping_for_another_array(cli: Call, tmp_path: Path) -> None:
    file = _saved(TREE, tmp_path, {})
    assert cli(f"run --hw eyeriss_like {BARE} --mapping {file}").exit_code == 0
    refused = {
        "toy_linear": (
            "tree[5]: got 'spread m 1 rows'; allowed: at most 1 rows; this makes 4",
            "tree[1]: got 'keep I buffer x2'; allowed: no buffer: input passes it by",
        ),
        "edge": (
            "tree[12]: got 'do conv mac'; allowed: array and a stationarity: the array is systolic",
        ),
    }
    for name, messages in refused.items():
        said = cli.refused(f"run --hw {name} {BARE} --mapping {file}")
        for message in messages:
            assert f"error: {file}: groups[0].{message}\n" in said


def test_a_convolution_on_a_systolic_array(cli: Call) -> None:
    line = "--hw toy --workload conv --shape M=4,C=3,P=5,Q=1,R=3,S=1,stride=2 --set patience=5"
    found = cli.json(f"run {line} --set mapspace=ruby-s --check")
    assert found["macs"] == 4 * 3 * 5 * 3
    assert found["check"][0]["compared"] == found["check"][0]["elements"]
    rows = cli.json(f"compare {line} --set jobs=1 --set mapspace=pfm,ruby")
    assert [row["dataflow"] for row in rows] == ["pfm", "ruby"]


def test_attention_on_a_spatial_array(cli: Call) -> None:
    line = "run --hw simba_like --workload bert --scope la --seq-len 16 --set patience=200 --check "
    line += "--json"
    found = json.loads(cli(line).stdout)
    assert [one["name"] for one in found["operators"]] == ["L", "softmax", "A"]
    assert all(one["compared"] == one["elements"] for one in found["check"])


def test_a_slow_noc_is_what_the_trace_blames(cli: Call, tmp_path: Path) -> None:
    trace = tmp_path / "slow.h5"
    slow = "--set noc.distribution.topology=bus --set noc.collection.topology=bus"
    assert cli(f"run --hw eyeriss_like {SMALL} {slow} --trace {trace}").exit_code == 0
    said = cli(f"trace stalls {trace}").stdout
    assert "the NoC's distribution pipe runs at" in said
    assert "pipes of unlimited width, without latency" in said
    info = cli(f"trace info {trace}").stdout
    assert "noc_in0, noc_in1, noc_in2, array, sfu, noc_out, dma_out" in info


def test_the_prediction_alone(cli: Call) -> None:
    found = cli.json(f"estimate --hw toy_linear {HUNDRED}")
    assert found["bound"]["cycles"] == 7
