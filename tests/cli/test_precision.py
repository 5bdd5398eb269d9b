"""`--precision`: one option of all commands that take a workload."""

import json
from pathlib import Path

from simaccel.mapping.files import mapping_text
from simaccel.workload import gemm
from tests.cli.conftest import Call
from tests.trees import mapping

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
