"""What `simaccel compare` and `simaccel estimate` print."""

import json
from collections.abc import Callable

from click.testing import Result

Call = Callable[[str], Result]

SMALL = "--hw toy --workload bert --scope la --set buffer.capacity_bytes=16~KiB"


def test_rows_are_lengths_by_dataflows(cli: Call) -> None:
    result = cli(f"compare {SMALL} --seq-len 4,8 --dataflow naive,flat --jobs 1")
    assert result.exit_code == 0, result.stderr
    rows = [line.split()[:2] for line in result.stdout.splitlines() if line.strip()[:1].isdigit()]
    assert rows == [["4", "naive"], ["4", "flat"], ["8", "naive"], ["8", "flat"]]
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_json_is_a_list_with_speedups(cli: Call) -> None:
    found = json.loads(cli(f"compare {SMALL} --seq-len 4,8 --dataflow naive,flat --json").stdout)
    assert [(one["seq_len"], one["dataflow"]) for one in found] == [
        *((4, "naive"), (4, "flat"), (8, "naive"), (8, "flat"))
    ]
    assert [one["speedup"] for one in found] == [
        *(1, found[0]["cycles"] / found[1]["cycles"]),
        *(1, found[2]["cycles"] / found[3]["cycles"]),
    ]


def test_the_default_is_four_dataflows(cli: Call) -> None:
    found = json.loads(cli(f"compare {SMALL} --seq-len 4 --jobs 1 --json").stdout)
    assert [one["dataflow"] for one in found] == ["naive", "flex", "flat", "flash"]


def test_a_dataflow_that_does_not_fit_is_a_row_with_the_reason(cli: Call) -> None:
    line = f"compare {SMALL} --seq-len 64 --dataflow flat-m,flash --jobs 1"
    result = cli(line)
    assert result.exit_code == 0, result.stderr
    assert "does not run" in result.stdout
    assert "flat-m at 64: L+softmax+A: the smallest FLAT-tile" in result.stdout
    failed, ran = json.loads(cli(f"{line} --json").stdout)
    assert failed["error"].startswith("L+softmax+A: the smallest FLAT-tile")
    assert failed["exit_code"] == 2
    assert ran["speedup"] is None


def test_nothing_that_runs_is_an_error(cli: Call) -> None:
    result = cli(f"compare {SMALL} --seq-len 64 --dataflow flat-m --jobs 1")
    assert result.exit_code == 2
    assert "flat-m at 64: " in result.stdout


def test_a_gemm_has_no_lengths(cli: Call) -> None:
    result = cli(
        "compare --hw toy --workload gemm --shape M=9,K=7,N=5 --dataflow naive,flex --jobs 1"
    )
    assert result.exit_code == 0, result.stderr
    assert "seq-len" not in result.stdout


def test_all_faults_are_reported_before_anything_runs(cli: Call) -> None:
    result = cli(f"compare {SMALL} --seq-len 4,x --dataflow naive,flet")
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        "error: command line: --dataflow: got 'flet'; allowed: did you mean 'flex'?",
        "error: command line: --seq-len: got 'x'; allowed: a whole number from 1 to 1099511627776",
    ]


def test_the_estimate_is_that_of_the_run(cli: Call) -> None:
    options = f"{SMALL} --seq-len 8 --dataflow flat --json"
    alone = json.loads(cli(f"estimate {options}").stdout)
    run = json.loads(cli(f"run {options}").stdout)
    for name in ("cycles", "resource_bound_cycles"):
        assert alone[name] == run["estimate"][name]
    assert alone["macs"] == run["macs"]
    assert alone["bytes"] == run["bytes"]
    table = cli(f"estimate {SMALL} --seq-len 8 --dataflow flat").stdout
    assert "closed form" in table
    assert "L+softmax+A" in table
