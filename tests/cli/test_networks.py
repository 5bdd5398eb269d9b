"""Transformers, generations, imports and pictures on the command line."""

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from tests.cli.conftest import Call


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
    refused = cli(f"workload show {said} --batch 3")
    assert f"--batch: got 3; allowed: nothing with {said}; the file sets it" in refused.stderr
    run = f"generate --hw toy --workload {path} --dataflow naive-m --tokens 2 --prompt 4 --quiet"
    said.write_text(_OWN + "batch: 2\n")
    assert cli(run.replace(str(path), str(said))).stdout == cli.printed(f"{run} --batch 2")


def test_an_onnx_model_is_shown_with_what_became_of_it(cli: Call, tmp_path: Path) -> None:
    path = _model(tmp_path)
    shown = cli(f"workload show {path} --set dim=n=5").stdout
    left = "not taken: Det_1 (Det): no such kind of node, work that can't be counted"
    assert left in shown
    found = cli.json(f"workload show {path} --set dim=n=5")
    assert [one["how"] for one in found["nodes"]] == ["taken", "not taken"]
    line = f"run --hw edge --workload {path} --set dim=n=5 --dataflow naive"
    refused = cli.refused(line)
    assert "Det_1 (Det): got 'no such kind of node'; allowed: --set allow-unmodelled" in refused
    ran = cli(f"{line} --set allow-unmodelled --detail").stdout
    assert ran.index(left) < ran.index("operator")
    assert "ONNX nodes: 1 taken, 0 harmless, 1 not taken (100.0% of elements" in ran
    found = cli.json(f"{line} --set allow-unmodelled")
    assert [(one["name"], one["macs"]) for one in found["not_taken"]] == [("Det_1", None)]
    assert "; 0 of 1 tensors go from operator to operator" in ran
    for options, said in (
        ("", "--set dim n: got nothing; allowed: n=SIZE, the size of dimension"),
        ("--set dim=n", "--set dim: got 'n'; allowed: NAME=SIZE, as in n=1"),
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
    failed = cli("workload show gpt2 --mapping x.yaml")
    assert "--mapping: got 'x.yaml'; allowed: nothing without --plot" in failed.stderr


def test_a_whole_network_says_what_it_leaves_out(cli: Call) -> None:
    line = "run --hw mxu_128 --workload alexnet --scope model --dataflow naive --detail"
    assert "left out: 10,568 biases" in cli(line).stdout
    assert "left out" not in cli(line.replace("model", "layers")).stdout
