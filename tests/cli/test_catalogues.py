"""What `simaccel hw` and `simaccel workload` print."""

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

import simaccel
from simaccel.hardware.load import list_accelerators, load_accelerator
from simaccel.workload import MODELS

Call = Callable[[str], Result]


def test_all_accelerators_are_listed(cli: Call) -> None:
    shown = cli("hw list").stdout
    for name in list_accelerators():
        assert name in shown
    listed = json.loads(cli("hw list --json").stdout)
    assert [one["name"] for one in listed] == list_accelerators()


def test_an_accelerator_is_shown_with_overrides(cli: Call) -> None:
    shown = cli("hw show toy --set array.rows=8")
    assert shown.exit_code == 0, shown.stderr
    assert ["array.rows", "8"] in [line.split() for line in shown.stdout.splitlines()]


def test_the_json_of_an_accelerator_is_its_file(cli: Call, tmp_path: Path) -> None:
    for name in list_accelerators():
        text = cli(f"hw show {name} --json --set buffer.capacity_bytes=unlimited").stdout
        file = tmp_path / f"{name}.yaml"
        file.write_text(text)
        again = load_accelerator(file)
        assert again == load_accelerator(name, ["buffer.capacity_bytes=unlimited"])


def test_all_models_are_listed_with_their_sources(cli: Call) -> None:
    shown = cli("workload list").stdout
    listed = json.loads(cli("workload list --json").stdout)
    for model, one in zip(MODELS, listed, strict=True):
        assert model.name in shown
        assert one["source"] == model.source
    assert "arXiv:1810.04805" in shown


def test_a_workload_is_shown_with_its_operators(cli: Call, tmp_path: Path) -> None:
    shown = cli("workload show gemm --shape M=9,K=7,N=5")
    assert shown.exit_code == 0, shown.stderr
    assert "315 MACs" in shown.stdout
    file = tmp_path / "mine.yaml"
    file.write_text("kind: gemm\nshape: {M: 9, K: 7, N: 5}\n")
    found = json.loads(cli(f"workload show {file} --json").stdout)
    assert found["macs"] == 315
    assert found["operators"][0]["ranks"] == "b=1 m=9 k=7 n=5"


def test_the_version_is_told(cli: Call) -> None:
    assert cli("--version").stdout == f"simaccel, version {simaccel.__version__}\n"
