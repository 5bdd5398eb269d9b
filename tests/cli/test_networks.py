"""Transformers, generations, imports, precision and pipelines on the command line."""

import csv
import io
import json
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from simaccel.mapping.files import mapping_text
from simaccel.workload import gemm
from tests.cli.conftest import Call
from tests.small_pods import LINKS
from tests.trees import mapping


def _model(tmp_path: Path) -> Path:
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "x"], ["m"]), helper.make_node("Det", ["m"], ["y"])],
        "g",
        [info("x", TensorProto.FLOAT, ["n", "n"])],
        [info("y", TensorProto.FLOAT, [])],
    )
    path = tmp_path / "small.onnx"
    onnx.save(helper.make_model(graph), str(path))
    return path


def test_a_decode_step_says_what_classes_of_tensors_move(cli: Call) -> None:
    shown = cli(
        "run --hw edge --workload gpt2 --phase decode --kv-len 9 --scope la --dataflow naive-m "
        "--detail"
    ).stdout
    assert (
        "gpt2 on edge, phase decode, kv-len 9, scope la, batch 1, bf16, dataflow naive-m" in shown
    )
    # K and V of ten tokens of 768 elements
    assert "cache 30.0 KiB (compulsory 30.0 KiB); roofline" in shown


def test_a_generation_has_times_rates_and_classes(cli: Call) -> None:
    line = "generate --hw edge --workload gpt2 --prompt 6 --tokens 4 --scope la --dataflow naive-m"
    shown = cli(line).stdout
    assert "gpt2 on edge, prompt 6, scope la, batch 1, bf16, dataflow naive-m, 4 tokens" in shown
    assert "all 3 decode steps simulated" in shown
    found = cli.json(line)
    assert [one["kv_len"] for one in found["steps"]] == [6, 7, 8]
    assert found["decode"]["cycles"] == sum(one["cycles"] for one in found["steps"])
    assert found["token_seconds"] == pytest.approx(found["decode"]["cycles"] / 720e6 / 3)
    quiet = cli(f"{line} --quiet").stdout
    assert quiet.startswith("time to first token")


_OWN = "kind: transformer\nname: mine\nhidden: 8\nheads: 2\nff_size: 16\n"


def test_a_transformer_file_has_the_phases_of_the_catalogue(cli: Call, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(_OWN)
    asked = f"workload show {path} --json --phase decode --kv-len 8 --batch 2"
    said = tmp_path / "said.yaml"
    said.write_text(_OWN + "phase: decode\nkv_len: 8\nbatch: 2\n")
    assert cli(asked).stdout == cli(f"workload show {said} --json").stdout
    run = f"generate --hw toy --workload {path} --dataflow naive-m --tokens 2 --prompt 4 --quiet"
    said.write_text(_OWN + "batch: 2\n")
    assert cli(run.replace(str(path), str(said))).stdout == cli.printed(f"{run} --batch 2")


def test_how_tokens_of_a_file_with_experts_are_spread(cli: Call, tmp_path: Path) -> None:
    """``experts: 4`` says how many there are: 3 tokens with 2 choices each are 1 + 2 + 3 here.

    Spread over 4 chips, each has one expert; a file that says the spread itself keeps it.
    """
    path = tmp_path / "experts.yaml"
    path.write_text(f"{_OWN}experts: 4\nexperts_per_token: 2\nphase: decode\nkv_len: 8\n")
    shown = cli.json(f"workload show {path} --batch 3 --set experts=1,2,3,0")
    ups = [one for one in shown["operators"] if one["operator"].endswith(".up")]
    assert sum(one["macs"] for one in ups) == (1 + 2 + 3) * 8 * 16
    pod = "--hw tpu_v5e --chips 4 --set expert-parallel=4"
    assert "x in 4" in cli.printed(f"run {pod} --workload {path} --batch 3")
    named = path.read_text().replace("experts: 4", "experts: grouped:4\nexpert_count: 4", 1)
    path.write_text(named)
    assert "x in 4" in cli.printed(f"run {pod} --workload {path} --batch 3")


def test_an_onnx_model_is_shown_with_what_became_of_it(cli: Call, tmp_path: Path) -> None:
    path = _model(tmp_path)
    shown = cli(f"workload show {path} --set dim=n=5").stdout
    assert "0 of 1 tensors go from operator to operator" in shown
    left = "not taken: Det_1 (Det): no such kind of node, work that can't be counted"
    assert left in shown
    found = cli.json(f"workload show {path} --set dim=n=5")
    assert [one["how"] for one in found["nodes"]] == ["taken", "not taken"]
    line = f"run --hw edge --workload {path} --set dim=n=5 --dataflow naive"
    refused = cli.refused(line)
    assert "Det_1 (Det): got 'no such kind of node'; allowed: --set allow-unmodelled" in refused
    ran = cli(f"{line} --set allow-unmodelled --detail").stdout
    assert ran.index(left) < ran.index("operator")
    found = cli.json(f"{line} --set allow-unmodelled")
    assert [(one["name"], one["macs"]) for one in found["not_taken"]] == [("Det_1", None)]
    for options, said in (
        ("", "--set dim n: got nothing; allowed: dim=n=SIZE, the size of dimension"),
        ("--set dim=n", "--set dim: got 'n'; allowed: NAME=SIZE, as in n=1"),
        ("--set dim=n=5 --layer a", "; only networks, topologies and descriptions have layers"),
        ("--set dim=N=5", "--set dim N: got 5; did you mean 'n'?"),
        ("--set dim=n=5,other=2", "--set dim other: got 2; allowed: a dynamic dimension"),
        ("--set dim=n=5 --batch 3", "--batch: got 3; allowed: nothing with"),
    ):
        failed = cli(f"run --hw edge --workload {path} {options}")
        assert said in failed.stderr


def test_a_workload_is_drawn(cli: Call, tmp_path: Path) -> None:
    picture = tmp_path / "graph.svg"
    shown = cli(f"workload show gpt2 --phase decode --kv-len 5 --plot {picture}")
    assert f"figure: {picture}" in shown.stdout
    assert b"softmax" in picture.read_bytes() or picture.stat().st_size > 1000
    failed = cli(f"workload show gpt2 --plot {picture}")
    assert "a new file, or --force" in failed.stderr


def test_a_whole_network_says_what_it_leaves_out(cli: Call) -> None:
    line = "run --hw mxu_128 --workload alexnet --scope model --dataflow naive --detail"
    assert "left out: 10,568 biases" in cli(line).stdout
    assert "left out" not in cli(line.replace("model", "layers")).stdout


GEMM = "--workload gemm --shape M=9,K=7,N=5"
ALL = "--precision weights=int4,activations=int8"
B_BYTES = 18
"""35 elements of 4 bits."""


def test_run_moves_packed_weights(cli: Call) -> None:
    found = cli.json(f"run --hw toy {GEMM} {ALL} --dataflow naive")
    assert found["bytes"]["dram"]["read"] == {"A": 2 * 63, "B": B_BYTES}
    assert found["bytes"]["dram"]["write"] == {"C": 45}
    title = cli(f"run --hw toy {GEMM} {ALL}").stdout.splitlines()[0]
    assert "weights int4, activations int8" in title


def test_sums_are_those_of_the_accumulator(cli: Call, tmp_path: Path) -> None:
    """K of 20 in five folds on 4 x 4: all but the last leave sums of 9 x 5 beside the array."""
    file, of = tmp_path / "mapping.yaml", gemm(m=9, k=20, n=5)
    body = "group gemm\n  keep A buffer, B buffer, C buffer\n  do gemm array ws"
    file.write_text(mapping_text(mapping(of, body)), encoding="utf-8")
    line = "run --hw toy --set array.accumulator.capacity_bytes=unlimited --workload gemm"
    for number, width in (("int32", 4), ("int16", 2)):
        asked = f"--shape M=9,K=20,N=5 --mapping {file} --precision sums={number} --json"
        found = json.loads(cli(f"{line} {asked}").stdout)
        assert found["bytes"]["accumulator"]["write"]["C"] == 4 * 9 * 5 * width


def test_compare_estimate_and_bound_take_it(cli: Call) -> None:
    (row,) = cli.json(f"compare --hw toy {GEMM} {ALL} --dataflow naive")
    assert row["bytes"]["dram"]["read"]["B"] == B_BYTES
    bound = cli.json(f"bound --workload gemm --shape M=9,K=7,N=5 {ALL}")
    assert bound["compulsory_bytes"] == 63 + B_BYTES + 45


def test_a_mapping_is_for_the_precision_that_it_was_made_for(cli: Call, tmp_path: Path) -> None:
    file = tmp_path / "mapping.yaml"
    assert cli(f"map --hw toy {GEMM} {ALL} --dataflow naive -o {file}").exit_code == 0
    same = cli.json(f"run --hw toy {GEMM} {ALL} --mapping {file}")
    assert same["bytes"]["dram"]["read"]["B"] == B_BYTES
    assert cli(f"run --hw toy {GEMM} --mapping {file}").exit_code == 2
    of_hw = "--set precision.weights=int4 --set precision.activations=int8"
    assert cli(f"run --hw toy {GEMM} {of_hw} --mapping {file}").exit_code == 0


def test_explore_takes_it_as_an_axis(cli: Call) -> None:
    line = "explore --hw toy --workload gemm~shape=M=9,K=7,N=5 --axis precision.weights=int4,int8"
    found = cli.json(f"{line} --dataflow naive --set jobs=1")
    moved = {one["precision_weights"]: one["dram_bytes"] for one in found["designs"]}
    assert moved["int8"] - moved["int4"] == 35 - B_BYTES


CHIPS = " ".join(
    f"--set {one.replace(' ', '~')}"
    for one in ("chips=4", "links.topology=switch", *(f"links.{link}" for link in LINKS))
)
SIZES = "--prompt 8 --batch 4 --scope model --dataflow strips"


@pytest.fixture
def small(small_model: Path) -> str:
    """Return what runs the small transformer on four chips."""
    return f"--hw mxu_128 {CHIPS} --workload {small_model}"


def test_an_exploration_of_splits_has_the_figures_of_a_comparison(
    cli: Call, small: str, tmp_path: Path
) -> None:
    of = f"{small} {SIZES} --phase decode"
    axes = "--axis tensor-parallel=2:4:x2 --axis pipeline-parallel=1:2:x2 --axis data-parallel=1,2"
    names = ("tensor_parallel", "pipeline_parallel", "data_parallel")
    table = tmp_path / "designs.csv"
    explored = cli.printed(f"explore {of} {axes} --jobs 1 --objective cycles --json --csv {table}")
    designs = json.loads(explored)["designs"]
    ran = {tuple(row[name] for name in names): row for row in designs if row["cycles"]}
    assert [*ran] == [(2, 1, 2), (2, 2, 1), (4, 1, 1)]
    lists = "--set tensor-parallel=2,4 --set pipeline-parallel=1,2"
    compared = cli.json(f"compare {of} {lists} --jobs 1")
    same = {
        (int(row["tensor_parallel"]), int(row["pipeline_parallel"])): row
        for row in compared
        if "cycles" in row
    }
    for (tensor, pipeline, _), row in ran.items():
        other = same[tensor, pipeline]
        assert row["cycles"] == other["cycles"]
        assert row["utilisation"] == pytest.approx(other["utilisation"])
        assert row["energy_pj"] == pytest.approx(4 * sum(other["energy_pj"].values()))
        assert row["tokens_per_second"] == pytest.approx(4 / other["seconds"])
    rows = list(csv.DictReader(io.StringIO(table.read_text(encoding="utf-8"))))
    assert [row["problem"] == "" for row in rows].count(True) == 3
    least = min(row["cycles"] for row in ran.values())
    assert [row["cycles"] for row in designs if row["best"]] == [least]


def test_options_hold_for_all_designs(cli: Call, small: str) -> None:
    of = f"explore {small} {SIZES} --phase decode --set pipeline-parallel=2 --jobs 1"
    axis = "--axis micro-batches=2,4 --objective cycles"
    rows = cli.json(f"{of} {axis}")["designs"]
    run = (
        f"run {small} {SIZES} --phase decode --set pipeline-parallel=2 --set micro-batches=4 --json"
    )
    assert rows[1]["cycles"] == json.loads(cli(run).stdout)["cycles"]
    assert len({row["cycles"] for row in rows}) == 2
    dry = cli.json(f"{of} --axis data-parallel=1,2,3 --dry-run")
    assert (dry["designs"], dry["outside"], dry["runs"]) == (3, 1, 2)


def test_a_generation_prints_stages_and_bubbles(cli: Call, small: str) -> None:
    line = f"generate {small} {SIZES} --set pipeline-parallel=2 --tokens"
    shown = cli.printed(f"{line} 2")
    assert "2 stages of 2 chips (tensor 1 x data 2); micro-batches: 2 of" in shown
    assert "bubbles" in shown
    found = cli.json(f"{line} 4 --lengths 2")
    assert [one["kv_len"] for one in found["steps"]] == [8, 10]
    of = f"run {small} {SIZES} --set pipeline-parallel=2 --phase decode"
    last = cli.json(f"{of} --kv-len 10")
    assert found["steps"][1]["cycles"] == last["cycles"]
    assert found["steps"][1]["energy_pj"] == last["energy_pj"]
    assert (found["stages"], found["micro_batches"]) == (2, 2)


def test_a_dry_run_names_the_stages(cli: Call, small: str) -> None:
    """Four stages: the first, two alike, the last; a generation has them in each phase."""
    line = f"run {small} {SIZES} --set pipeline-parallel=4"
    shown = cli.printed(f"{line} --phase decode --dry-run")
    assert "4 stages of 1 chip; micro-batches: 4 of 1 sequence; 64 B from each" in shown
    names = ["first stage", "2 stages between", "last stage"]
    found = cli.json(f"{line} --phase decode --dry-run")
    assert [one["name"] for one in found["searches"]] == names
    layer = 14  # 6 products, 2 of attention, 2 norms, 2 sums; one embedding, norm and logits
    assert [one["operators"] for one in found["searches"]] == [1 + layer, layer, layer + 2]
    assert found["run_seconds"] == pytest.approx(0.05 * (3 * layer + 3))
    both = cli.json(f"{line} --generate 3 --dry-run")["searches"]
    phases = ("prefill", "decode after 8", "decode after 9")
    assert [one["name"] for one in both] == [f"{p}, {name}" for p in phases for name in names]
    listed = cli.json(f"compare {small} {SIZES} --set pipeline-parallel=1,4 --dry-run")
    assert len(listed["searches"]) == 1 + 3
    assert all("problem" not in one for one in listed["searches"])
