"""`run`, `compare`, `estimate` and traces on spatial arrays."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
import yaml

from simaccel.workload import conv2d
from tests.cli.conftest import Call

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


def test_figure_5_of_ruby_on_the_machine(cli: Call) -> None:
    """100 elements on 6 PEs: 20 cycles with perfect factors, 17 with remainders (Figs. 4 and 5)."""
    line = f"compare --hw toy_linear --set array.cols=6 {HUNDRED} --set mapspace=pfm,ruby-s --json"
    rows = json.loads(cli(line).stdout)
    assert [(row["dataflow"], row["cycles"]) for row in rows] == [("pfm", 20), ("ruby-s", 17)]


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loop m 4": "loop m 7"}, "tree[6]: got 'spread s 1 rows'; allowed: at most 12 rows; t"),
        ({"spread q 1 cols": "spread q 1 rows"}, "tree[7]: got 'spread q 1 rows'; allowed: at mo"),
        ({"spread m 1 rows": "spread x 1 rows"}, "tree[5]: got 'spread x 1 rows'; allowed: a rank"),
        (
            {"spread q 1 cols": "spread q 1 sides"},
            "tree[7]: got 'spread q 1 sides'; allowed: spr",
        ),
        ({"keep W pe x2": "keep W rows x2"}, "tree[9]: got 'keep W rows x2'; allowed: level buffe"),
        ({"keep O pe x2": "keep O buffer x2"}, "tree[10]: got 'keep O buffer x2'; allowed: pe, as"),
        ({"do conv mac": "do conv array ws"}, "tree[8]: got 'keep I pe x2'; allowed: buffer; do "),
        ({"loop c 1": "loop c 0"}, "tree[0]: got 'loop c 0'; allowed: pieces of 1 to 5, the size"),
    ],
)
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
    line = f"run --hw toy {SMALL} --set mapspace=ruby-s --check --json"
    found = json.loads(cli(line).stdout)
    assert found["macs"] == 7 * 5 * 9 * 11 * 3 * 3
    assert found["check"][0]["compared"] == found["check"][0]["elements"]
    smaller = (
        "--workload conv --shape M=4,C=3,P=5,Q=1,R=3,S=1,stride=2 --set patience=5 --set jobs=1"
    )
    rows = cli.json(f"compare --hw toy {smaller} --set mapspace=pfm,ruby")
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
