"""Pipelines on the command line: generated, explored, estimated, refused."""

import csv
import io
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.small_pods import LINKS

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
    layer = 18  # with two rotary embeddings and six products; one embedding, norm and logits
    assert [one["operators"] for one in found["searches"]] == [1 + layer, layer, layer + 2]
    assert found["run_seconds"] == pytest.approx(0.05 * (3 * layer + 3))
    both = cli.json(f"{line} --generate 3 --dry-run")["searches"]
    phases = ("prefill", "decode after 8", "decode after 9")
    assert [one["name"] for one in both] == [f"{p}, {name}" for p in phases for name in names]
    wrong = cli(f"{line} --set tensor-parallel=2 --dry-run")
    assert "got 'tensor 2 x data 1 x pipeline 4'; allowed: a product of 4 chips" in (wrong.stderr)
    listed = cli.json(f"compare {small} {SIZES} --set pipeline-parallel=1,4 --dry-run")
    assert len(listed["searches"]) == 1 + 3
    assert all("problem" not in one for one in listed["searches"])
