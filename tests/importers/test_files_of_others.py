"""Files of other tools: none is read wrong, and what no importer knows shows up."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from simaccel.errors import InputError
from simaccel.files.accounting import FileAccount
from simaccel.importers.accelerators import load_accelerator
from simaccel.importers.workloads import load_workload
from tests.importers.test_config import LLAMA3
from tests.importers.test_scalesim import SHIPPED
from tests.importers.test_timeloop import NESTED
from tests.importers.test_timeloop_problem import MATMUL
from validation.files.run import HERE, rows

TOPOLOGY = "Layer,M,N,K,{0}\nfc,64,32,16,{1}\n"


def test_the_table_of_files() -> None:
    found = list(rows(HERE / "made"))
    fates = Counter(one["became"] for one in found)
    assert fates == {"read": 17, "refused by name": 14}
    assert all(one["macs"] == one["macs_counted"] > 0 for one in found if "macs" in one)


@pytest.mark.parametrize("key", ["zzz", "Sparse", "depth2"])
@pytest.mark.parametrize(
    ("name", "write", "load"),
    [
        (
            "hw.cfg",
            lambda key: SHIPPED.replace("Bandwidth", f"{key}: 7\nBandwidth", 1),
            lambda path: load_accelerator(path).account,
        ),
        (
            "arch.yaml",
            lambda key: NESTED.replace(
                "meshX: 14}}\n        - {name: mac",
                f"{key}: 7, meshX: 14}}}}\n        - {{name: mac",
            ),
            lambda path: load_accelerator(path).account,
        ),
        (
            "arch2.yaml",
            lambda key: NESTED + f"{key}: 7\n",
            lambda path: load_accelerator(path).account,
        ),
        (
            "problem.yaml",
            lambda key: MATMUL.replace("  version", f"  {key}: 7\n  version"),
            lambda path: load_workload(path).account,
        ),
        (
            "net.csv",
            lambda key: TOPOLOGY.format(key, "7"),
            lambda path: load_workload(path).account,
        ),
        (
            "config.json",
            lambda key: json.dumps(LLAMA3 | {key: 7}),
            lambda path: load_workload(path).account,
        ),
    ],
)
def test_what_no_importer_knows_shows_up(
    tmp_path: Path,
    name: str,
    write: Callable[[str], str],
    load: Callable[[Path], FileAccount],
    key: str,
) -> None:
    path = tmp_path / name
    path.write_text(write(key))
    assert key in path.read_text()
    assert any(key in one.name for one in load(path).entries_of("not taken"))


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ("ZigZag", "- id: 0\n  operator_type: Conv\n  loop_dims: [B, K]\n"),
        ("ZigZag", "- name: default\n  memory_operand_links: {O: O, W: I2}\n"),
        ("Stream", "- name: default\n  core_allocation: [0, 1]\n"),
        ("Stream", "name: quad\noffchip_core_id: 5\ncores: [a.yaml]\n"),
        ("AccelForge", "workload:\n  einsums:\n  - name: M\n    tensor_accesses: []\n"),
        ("AccelForge", "arch:\n  nodes:\n  - !Toll {name: t}\n"),
        ("AccelForge", "workload:\n  rank_sizes:\n    M: {{M}}\n  einsums: []\n"),
        ("AccelForge", "workload:\n  einsums:\n  - Y[n] = A[m] * B[m, n]\n"),
        ("AccelForge", "-   binding:\n        nodes: []\n"),
        ("Stream", "name: tile\ntype: aie2.compute\nmemory: {capacity: 8}\n"),
        ("LLMCompass", '{\n "name": "TPUv3", "device": {"compute_chiplet": {"core_count": 2}}}'),
        ("ONNXim", '{"num_cores": 4, "dram_config_path": "hbm2.cfg"}'),
        ("ONNXim", '{"models": [{"name": "resnet18", "batch_size": 1}]}'),
        ("ASTRA-sim", "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50.0 ]  # GB/s\n"),
        ("ASTRA-sim", "topology:\n- Switch\nnpus_count:\n- 8\n"),
        ("ASTRA-sim", '{\n  "scheduling-policy": "LIFO",\n  "active-chunks-per-dimension": 1}'),
    ],
)
@pytest.mark.parametrize("name", ["file.yaml", "file.json", "file"])
def test_files_of_six_tools_are_named(tmp_path: Path, tool: str, text: str, name: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    for load in (load_workload, load_accelerator):
        with pytest.raises(InputError) as caught:
            load(path)
        assert f"of {tool}, which simaccel does not read" in str(caught.value)
        assert "simaccel hw new NAME" in str(caught.value)
