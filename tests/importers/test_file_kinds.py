"""Files of other tools are recognised by what is in them; none is read wrong."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from simaccel import load_accelerator, load_workload
from simaccel.errors import InputError
from simaccel.hardware import Accelerator
from simaccel.importers.file_kinds import sniff_kind
from simaccel.workload import Workload
from tests.data_files import data_beside
from tests.importers.test_config import LLAMA3
from tests.importers.test_scalesim import SHIPPED
from tests.importers.test_timeloop import NESTED
from tests.importers.test_timeloop_problem import MATMUL
from tests.refusals import refusal_of
from validation.files.run import HERE, rows

DATA = data_beside(__file__)

_SIZES = "IFMAP Height,IFMAP Width,Filter Height,Filter Width,Channels,Num Filter,Strides"
TOPOLOGY = f"Layer name,{_SIZES},\nc,8,8,3,3,4,8,1,\n"
PRODUCTS = "Layer,M,N,K,\nqkv,12,15,5,\n"
LAYERS = """// a network
Network n {
 Layer CONV1 {
  Type: CONV
  Dimensions { K: 8, C: 4, R: 3, S: 3, Y: 10, X: 10 }
 }
}
"""


def _onnx(path: Path) -> None:
    info = helper.make_tensor_value_info
    node = helper.make_node("MatMul", ["x", "x"], ["y"])
    ends = [info(name, TensorProto.FLOAT, [3, 3]) for name in "xy"]
    onnx.save(helper.make_model(helper.make_graph([node], "g", ends[:1], ends[1:])), str(path))


@pytest.mark.parametrize(
    ("text", "look"),
    [
        (TOPOLOGY, "topology"),
        (PRODUCTS, "topology"),
        ("\ufeff" + PRODUCTS, "topology"),
        (SHIPPED, "configuration"),
        (LAYERS, "description"),
        ("Constant clusters 4;\n" + LAYERS, "description"),
        ("Network: vgg16\n", None),
        ("num_pes: 256\nl1_size_cstr: 100\n", "MAESTRO's hardware"),
        ("NumPEs: 1024\nL1Size: 256\n", "MAESTRO's hardware"),
        ("# a search\nmapper:\n  algorithm: random\n", "Timeloop's others"),
        ("mapping:\n  nodes:\n  - !Compute {einsum: M, component: MAC}\n", "AccelForge"),
        ("sparse_optimizations:\n  targets:\n  - name: DRAM\n", "Timeloop's others"),
        ('{"num_cores": 4, "core_type": "systolic_ws", "core_width": 8}', "ONNXim"),
        ('{"models": [{"name": "opt-125m", "trace_file": "input.csv"}]}', "ONNXim"),
        ("mapper: {}\narchitecture: {nodes: []}\n", None),
        ("name: edge\narray: {rows: 3}\n", None),
        ("kind: layers\nlayers: {m: 3}\n", None),
        ("a,b\n", None),
        ("", None),
    ],
)
def test_looks(tmp_path: Path, text: str, look: str | None) -> None:
    path = tmp_path / "some.txt"
    path.write_text(text, encoding="utf-8")
    assert sniff_kind(path) == look
    assert sniff_kind(tmp_path) is None
    assert sniff_kind(tmp_path / "nothing") is None


def test_any_name_will_do(tmp_path: Path) -> None:
    path = tmp_path / "some.txt"
    for text, macs in (
        (TOPOLOGY, 8 * 4 * 9 * 36),
        (PRODUCTS, 12 * 15 * 5),
        (LAYERS, 8 * 4 * 9 * 64),
    ):
        path.write_text(text)
        assert load_workload(path).macs == macs
    _onnx(path)
    assert load_workload(path).macs == 27
    path.write_text(SHIPPED)
    assert load_accelerator(path).array.pes == 32 * 16


def test_what_stands_in_the_wrong_place_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "some.txt"
    path.write_text(SHIPPED)
    monkeypatch.chdir(tmp_path)
    for name in (path, path.name):  # also without a folder
        with pytest.raises(InputError, match="like a SCALE-Sim configuration, which is given"):
            load_workload(name)
    with pytest.raises(InputError, match=r"got 'other.txt'; allowed: a model, a network"):
        load_workload("other.txt")
    for text, what in ((TOPOLOGY, "a SCALE-Sim topology"), (LAYERS, "a MAESTRO description")):
        path.write_text(text)
        with pytest.raises(InputError, match=f"this looks like {what}, which is a --workload"):
            load_accelerator(path)
    _onnx(path)
    with pytest.raises(InputError, match="this looks like an ONNX model"):
        load_accelerator(path)


@pytest.mark.parametrize(
    "data",
    [
        *(b"GGUF\x03\0\0\0", b"\x1c\0\0\0TFL3\0\0", b"\x89HDF\r\n\x1a\n", b"PK\x03\x04\0"),
        *(b"\x80\x04\x95", b'\x40\0\0\0\0\0\0\0{"a":'),
    ],
)
def test_weights_are_told_to_be_exported(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(data)
    for load in (load_workload, load_accelerator):
        with pytest.raises(InputError, match="this looks like weights of a model"):
            load(str(path))


_MAC = "}}\n        - {name: mac"


def test_the_table_of_files() -> None:
    found = list(rows(HERE / "made"))
    fates = Counter(one["became"] for one in found)
    assert fates == {"read": 17, "refused by name": 14}
    assert all(one["macs"] == one["macs_counted"] > 0 for one in found if "macs" in one)


@pytest.mark.parametrize("key", ["zzz", "Sparse", "depth2"])
@pytest.mark.parametrize(
    ("name", "text", "load"),
    [
        ("hw.cfg", SHIPPED.replace("Bandwidth", "KEY: 7\nBandwidth", 1), load_accelerator),
        (
            "arch.yaml",
            NESTED.replace(f"meshX: 14{_MAC}", f"KEY: 7, meshX: 14{_MAC}"),
            load_accelerator,
        ),
        ("arch2.yaml", f"{NESTED}KEY: 7\n", load_accelerator),
        ("problem.yaml", MATMUL.replace("  version", "  KEY: 7\n  version"), load_workload),
        ("net.csv", "Layer,M,N,K,KEY\nfc,64,32,16,7\n", load_workload),
        ("config.json", json.dumps(LLAMA3 | {"KEY": 7}), load_workload),
    ],
)
def test_what_no_importer_knows_shows_up(
    tmp_path: Path, name: str, text: str, load: Callable[[Path], Accelerator | Workload], key: str
) -> None:
    path = tmp_path / name
    path.write_text(text.replace("KEY", key))
    assert key in path.read_text()
    assert any(key in one.name for one in load(path).account.entries_of("not taken"))


@pytest.mark.parametrize(("tool", "text"), DATA["other tools"])
@pytest.mark.parametrize("name", ["file.yaml", "file.json", "file"])
def test_files_of_six_tools_are_named(tmp_path: Path, tool: str, text: str, name: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    for load in (load_workload, load_accelerator):
        said = refusal_of(load, path)
        assert f"of {tool}, which simaccel does not read" in said
        assert "simaccel hw new NAME" in said
