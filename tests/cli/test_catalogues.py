"""What `simaccel hw` and `simaccel workload` print."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import simaccel
from simaccel.cli import main
from simaccel.hardware.dram.parts import PARTS
from simaccel.hardware.presets import list_accelerators
from simaccel.importers.accelerators import load_accelerator
from simaccel.workload import MODELS, NETWORKS, TRANSFORMERS, Model, Network, Transformer
from tests.cli.conftest import Call


def test_all_accelerators_are_listed(cli: Call) -> None:
    shown = cli("hw list").stdout
    for name in list_accelerators():
        assert name in shown
    listed = cli.json("hw list")
    assert sorted(one["name"] for one in listed) == list_accelerators()
    kinds = [one["stands_for"] for one in listed]
    assert kinds == sorted(kinds, key=["chip", "design", "example"].index)
    tops = {one["name"]: round(2e-12 * one["peak_macs_per_second"]) for one in listed}
    published = {"tpu_v1": 92, "tpu_v4": 275, "tpu_v5e": 197, "tpu_v6e": 918, "edge_tpu": 4}
    assert tops.items() >= published.items()


def test_an_accelerator_is_shown_with_overrides(cli: Call) -> None:
    shown = cli.printed("hw show toy --set array.rows=8")
    assert ["array.rows", "8"] in [line.split() for line in shown.splitlines()]


def test_the_json_of_an_accelerator_is_its_file(cli: Call, tmp_path: Path) -> None:
    for name in list_accelerators():
        text = cli(f"hw show {name} --json --set buffer.capacity_bytes=unlimited").stdout
        file = tmp_path / f"{name}.yaml"
        file.write_text(text)
        again = load_accelerator(file)
        assert again == load_accelerator(name, ["buffer.capacity_bytes=unlimited"])


def test_all_models_are_listed_with_their_sources(cli: Call) -> None:
    shown = cli("workload list").stdout
    listed = cli.json("workload list")
    known: list[Model | Transformer | Network] = [
        *MODELS.values(),
        *TRANSFORMERS.values(),
        *NETWORKS.values(),
    ]
    for model, one in zip(known, listed, strict=True):
        assert model.name in shown
        assert one["source"] == model.source
    assert "arXiv:1810.04805" in shown


def test_a_workload_is_shown_with_its_operators(cli: Call, tmp_path: Path) -> None:
    assert "315 MACs" in cli.printed("workload show gemm --shape M=9,K=7,N=5")
    file = tmp_path / "mine.yaml"
    file.write_text("kind: gemm\nshape: {M: 9, K: 7, N: 5}\n")
    found = cli.json(f"workload show {file}")
    assert found["macs"] == 315
    assert found["operators"][0]["ranks"] == "b=1 m=9 k=7 n=5"


def test_networks_are_listed_with_their_figures(cli: Call) -> None:
    listed = {one["name"]: one for one in cli.json("workload list")}
    vgg16 = {key: listed["vgg16"][key] for key in ("layers", "distinct", "macs", "weights")}
    # conv3_2 = conv3_3, conv4_2 = conv4_3, and conv5_1 to conv5_3 are the same
    assert vgg16 == {"layers": 16, "distinct": 12, "macs": 15_470_264_320, "weights": 138_344_128}
    assert "15,470,264,320" in cli("workload list").stdout


def test_a_network_is_shown_layer_by_layer(cli: Call) -> None:
    found = cli.json("workload show alexnet --scope layers --batch 2 --set bytes-per-element=W=1")
    assert [row["operator"] for row in found["operators"]][:2] == ["conv1", "conv2"]
    conv2 = found["operators"][1]
    # 27 x 27 outputs of 5 x 5 filters reach over 31 x 31 inputs
    image, filters, result = 2 * 96 * 31 * 31 * 2, 256 * 48 * 25, 2 * 256 * 27 * 27 * 2
    assert conv2["bytes"] == image + filters + result
    assert conv2["macs"] == 2 * 256 * 27 * 27 * 48 * 25
    (alone,) = cli.json("workload show alexnet --set layer=conv2 --batch 2")["operators"]
    assert alone["macs"] == conv2["macs"]
    listed, repeated = (
        "bytes-per-element=W=1,I=4",
        "bytes-per-element=W=1 --set bytes-per-element=I=4",
    )
    named = [cli.json(f"workload show alexnet --set {each}") for each in (listed, repeated)]
    assert named[0] == named[1]
    assert named[0] != cli.json("workload show alexnet --set bytes-per-element=W=1")


def test_a_convolution_is_shown(cli: Call) -> None:
    shape = "M=64,C=3,P=112,Q=112,R=7,S=7,stride=2,N=2"
    found = cli.json(f"workload show conv --shape {shape}")
    assert found["macs"] == 2 * 64 * 3 * 112 * 112 * 49
    (row,) = found["operators"]
    assert row["tensors"] == "I[n,g,c,2*p+r,2*q+s] W[g,m,c,r,s] O[n,g,m,p,q]"


def test_a_topology_is_shown(cli: Call, tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("Layer,M,N,K\nfirst,4,5,6\nsecond,1,2,3\n")
    found = cli.json(f"workload show {file} --set layer=first --batch 3")
    assert (found["name"], found["macs"]) == ("mine", 3 * 4 * 5 * 6)


def test_the_version_is_told(cli: Call) -> None:
    assert cli("--version").stdout == f"simaccel, version {simaccel.__version__}\n"


def _run_dram(command: str) -> Result:
    return CliRunner().invoke(main, ["dram", *command.split()])


def test_parts_are_listed_with_their_figures() -> None:
    listed = json.loads(_run_dram("parts --json").output)
    assert [one["name"] for one in listed] == list(PARTS)
    assert all(name in _run_dram("parts").output for name in PARTS)
    shown = json.loads(_run_dram("show HBM2 --json").output)
    assert shown["faw"] == {"value": 30, "origin": PARTS["HBM2"].origin("faw")}
    assert "DRAMsim3" in _run_dram("show HBM2").output


@pytest.mark.parametrize("part", PARTS)
def test_what_patterns_get_from_a_part(part: str) -> None:
    """A stream gets what an accelerator with the part is given; a conflict waits for a row."""
    found = json.loads(_run_dram(f"measured --part {part} --json").output)["patterns"]
    (stream,) = (one for one in found if (one["pattern"], one["settings"]) == ("sequential", ""))
    assert stream["efficiency"] == pytest.approx(PARTS[part].stream_permille / 1000, abs=0.0006)
    for one in found:
        assert one["pattern"] == "idle" or 0 < one["useful_efficiency"] <= one["efficiency"] < 1
    idle = {one["settings"]: one["latency_ns"] for one in found if one["pattern"] == "idle"}
    assert idle["hit"] < idle["conflict"]


def test_a_pattern_is_shown_alone() -> None:
    found = _run_dram("measured --part HBM2 --pattern idle").output
    assert "conflict" in found
    assert "sequential" not in found
