"""`compare` with lists of objectives and phases, and what it runs where no dataflow is named."""

import json

import pytest

from tests.cli.conftest import Call

GEMM = "--workload gemm --shape M=16,K=16,N=16"
SMALL = "--hw edge --workload gpt2 --batch 1 --dataflow naive"


def test_objectives_are_a_list(cli: Call) -> None:
    found = cli.json(f"compare --hw toy {GEMM} --dataflow flex --set objective=cycles,energy")
    assert [one["objective"] for one in found] == ["cycles", "energy"]
    for one in found:
        run = f"run --hw toy {GEMM} --dataflow flex --set objective={one['objective']} --json"
        alone = json.loads(cli(run).stdout)
        assert (alone["cycles"], alone["energy_pj"]) == (one["cycles"], one["energy_pj"])
    wrong = cli(f"run --hw toy {GEMM} --set objective=cycles,energy")
    assert "is several; `simaccel compare` takes a list." in wrong.stderr
    beside = cli(f"compare --hw toy {GEMM} --exhibit roofline --set objective=cycles,energy")
    assert "--set objective: got 'a list'; allowed: one value beside --exhibit" in beside.stderr


@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        ("--prompt 4 --kv-len 64", "prefill of 4 tokens after 64, decode after 64, scope"),
        ("--prompt 4", "prefill of 4 tokens, decode after 4, scope"),
        ("--prompt 4 --kv-len 8,16", "prefill of 4 tokens, decode, scope"),
        ("--prompt 4,8", "prefill, decode, scope"),
    ],
)
def test_a_title_says_what_each_phase_takes_in(cli: Call, sizes: str, told: str) -> None:
    """Of sizes that no column has."""
    found = cli(f"compare {SMALL} --phase prefill,decode {sizes} --dry-run").stdout
    assert f"gpt2 on edge, {told}" in found.splitlines()[0]


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        (GEMM, ["naive", "flex"]),
        (f"{GEMM} --sweep buffer=1KiB,2KiB", ["flex", "flex"]),
        (f"{GEMM} --set objective=cycles,edp", ["flex", "flex"]),
        (f"{GEMM} --set stationarity=ws,os", ["flex ws", "flex os"]),
        ("--workload bert --scope la --seq-len 4", ["naive", "flex", "flat", "flash"]),
        ("--workload bert --scope la --seq-len 4,8", ["flat", "flat"]),
        ("--workload bert --scope la --seq-len 4 --batch 1,2", ["flat", "flat"]),
    ],
)
def test_dataflows_are_compared_where_nothing_else_is(
    cli: Call, asked: str, names: list[str]
) -> None:
    """Where no attention is there to be fused, ``flat`` and ``flash`` are ``flex``."""
    found = cli.json(f"compare --hw toy {asked} --dry-run")
    assert [one["name"].split(", ")[-1] for one in found["searches"]] == names
