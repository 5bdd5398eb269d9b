"""`--dry-run`: what there is to search is counted by hand; nothing is searched or written."""

import json
from pathlib import Path
from typing import Any

import pytest

from simaccel.schedulers import DATAFLOWS
from simaccel.search.candidate_set import CandidateSet
from simaccel.search.effort import Effort
from simaccel.workload.networks import network
from tests.cli.conftest import Call

NETWORK = "--hw edge --workload resnet50"
SMALL = "--hw toy --workload gemm --shape M=9,K=7,N=5"


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMACCEL_CACHE", str(tmp_path / "cache"))


def _json(cli: Call, line: str) -> dict[str, Any]:
    shown = cli.printed(f"{line} --dry-run --json")
    found: dict[str, Any] = json.loads(shown)
    return found


@pytest.fixture
def unsearched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no dataflow search."""

    def search(*_: object) -> None:
        raise AssertionError("a search")

    for name in ("flat", "flex"):
        monkeypatch.setitem(DATAFLOWS.own, name, search)
    monkeypatch.setattr(CandidateSet, "__post_init__", search)


@pytest.mark.usefixtures("unsearched")
@pytest.mark.parametrize("command", ["run", "map", "compare --dataflow flat"])
def test_a_network_is_counted_before_it_is_searched(cli: Call, command: str) -> None:
    found = _json(cli, f"{command} {NETWORK} --scope layers")
    (one,) = found["searches"]
    # 54 layers; of the 21 shapes the first of three stages differ once more by their stride
    assert (one["operators"], one["distinct"]) == (54, 24)
    assert not one["remembered"]
    assert one["seconds"] == pytest.approx(24 * 0.3)
    assert found["search_seconds"] == one["seconds"]
    assert (found["run_seconds"] > 0) == (command != "map")


def test_what_was_found_is_remembered_and_goes_on_to_the_run(cli: Call, tmp_path: Path) -> None:
    assert not _json(cli, f"map {SMALL}")["searches"][0]["remembered"]
    assert not (tmp_path / "cache").exists()
    assert cli(f"map {SMALL}").exit_code == 0
    for command in ("map", "run"):
        found = _json(cli, f"{command} {SMALL}")
        assert found["searches"][0]["remembered"]
        assert found["search_seconds"] == 0
    shown = cli(f"map {SMALL} --dry-run").stdout
    assert "1 operator, 0 distinct to search: about 0 s of CPU time; 1 of 1 mapping rem" in shown


def test_what_will_be_searched_again_is_not_remembered(cli: Call, tmp_path: Path) -> None:
    """Where half is deleted of what was kept; and of a mapspace, where more is asked for."""
    spatial = "--hw toy_linear --workload gemm --shape M=4,K=2,N=3 --set mapspace=pfm"
    for line in (f"map {SMALL}", f"map {spatial}"):
        assert cli(line).exit_code == 0
        assert "1 of 1 mapping remembered" in cli(f"{line} --dry-run").stdout
    for more in ("-o", "--plot"):
        line = f"map {spatial} {more} {tmp_path / 'search.svg'} --dry-run"
        assert "0 of 1 mapping remembered" in cli(line).stdout
    for beside in (tmp_path / "cache").rglob("*.json"):
        beside.unlink()
    assert "0 of 1 mapping remembered" in cli(f"map {SMALL} --dry-run").stdout


def test_runs_that_are_compared_are_named(cli: Call) -> None:
    line = "compare --hw edge --workload bert --scope la --seq-len 64,128 --dataflow flat,naive"
    found = _json(cli, line)
    names = [one["name"] for one in found["searches"]]
    assert names == [f"{n} tokens, {flow}" for n in (64, 128) for flow in ("flat", "naive")]
    seconds = [one["seconds"] for one in found["searches"]]
    assert seconds == pytest.approx([0.3 + 0.15 + 0.3, 0.075] * 2)
    shown = cli(f"{line} --dry-run").stdout
    # two products and a softmax, of two lengths, by two dataflows
    assert "12 operators, 12 distinct to search: about 1.65 s of CPU time, 600 ms to run" in shown


@pytest.mark.usefixtures("unsearched")
def test_a_dry_run_counts_no_candidates(cli: Call) -> None:
    """Of 466 kernels some have the same sizes; compilers' kernels are made without a search."""
    kernels = {
        (tuple(operator.ranks.items()), *(str(given.projection) for given in operator.inputs))
        for operator in network("deepbench").operators
    }
    found = _json(cli, "run --hw edge --workload deepbench --dataflow flex")["searches"][0]
    assert (found["operators"], found["distinct"]) == (466, len(kernels))
    made = _json(cli, "run --hw tpu_v5e --workload deepbench")["searches"][0]
    assert made["seconds"] < found["seconds"] / 50


def test_a_run_that_cannot_be_has_its_reason(cli: Call) -> None:
    chips = "compare --hw tpu_v4 --chips 4 --workload gemm --shape M=64,K=64,N=64"
    line = f"{chips} --set tensor-parallel=3 --dataflow flat"
    (one,) = _json(cli, line)["searches"]
    assert "got 'tensor 3 x data 1'; allowed: a product of 4 chips" in one["problem"]
    assert "flat: --tensor-parallel, --data-parallel: degrees" in cli(f"{line} --dry-run").stdout


def test_a_mapspace_takes_as_long_as_its_patience_or_budget(cli: Call, tmp_path: Path) -> None:
    line = "map --hw eyeriss_like --workload gemm --shape M=8,K=4,N=4"
    (one,) = _json(cli, f"{line} --set mapspace=pfm")["searches"]
    assert (one["name"], one["operators"], one["distinct"]) == ("pfm", 1, 1)
    (more,) = _json(cli, f"{line} --set patience={4 * Effort.patience}")["searches"]
    assert more["seconds"] == pytest.approx(2 * one["seconds"])
    (timed,) = _json(cli, f"{line} --set budget-seconds=7")["searches"]
    assert timed["seconds"] == 7
    assert not list(tmp_path.iterdir())


def test_files_are_named_and_not_written(cli: Call, tmp_path: Path) -> None:
    file = tmp_path / "mapping.yaml"
    assert f"would write {file} (-o)" in cli(f"map {SMALL} --dry-run -o {file}").stdout
    assert _json(cli, f"compare {SMALL} --csv {file}")["writes"] == [str(file)]
    figure = tmp_path / "search.svg"
    for command in ("run", "map"):
        line = f"{command} {SMALL} --plot {figure}"
        assert _json(cli, line)["writes"] == [str(figure)]
        assert f"would write {figure} (--plot)" in cli(f"{line} --dry-run").stdout
    assert not file.exists()
    assert not figure.exists()


def test_a_given_mapping_leaves_nothing_to_search(cli: Call, tmp_path: Path) -> None:
    file = tmp_path / "mapping.yaml"
    assert cli(f"map {SMALL} -o {file}").exit_code == 0
    (one,) = _json(cli, f"run {SMALL} --mapping {file}")["searches"]
    assert (one["distinct"], one["seconds"]) == (0, 0)


@pytest.mark.usefixtures("unsearched")
def test_the_phases_of_a_generation_are_searched_one_by_one(cli: Call) -> None:
    """33 tokens after 16: a prefill, and steps after 16 to 47, of which three are simulated."""
    line = "generate --hw edge --workload gpt2 --prompt 16 --tokens 33 --lengths 3 --batch 2"
    found = _json(cli, line)
    names = [one["name"] for one in found["searches"]]
    assert names == ["prefill", "decode after 16", "decode after 32", "decode after 47"]
    alone = _json(cli, "run --hw edge --workload gpt2 --phase decode --kv-len 32 --batch 2")
    block, whole = alone["searches"][0]["operators"], found["searches"][2]["operators"]
    assert whole > block  # the model has the logits, too
    assert "33 tokens: not run" in cli(f"{line} --dry-run").stdout.splitlines()[0]
