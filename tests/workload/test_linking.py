"""Networks of one's own whose layers read what others make."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from simaccel import load_accelerator, simulate
from simaccel.diagnosis.check import check
from simaccel.workload import Workload, load_document, parse_workload
from tests.data_files import data_beside
from tests.refusals import refusal_of

DATA = data_beside(__file__)

SMALL = """
kind: layers
name: small
linked: true
scope: {scope}
layers:
  first: {{kind: conv, shape: {{M: 4, C: 3, P: 8, Q: 8, R: 3, S: 3}}, padding: 1}}
  pool: {{kind: pooling, shape: {{P: 4, Q: 4, R: 2, S: 2}}, stride: 2}}
  left: {{kind: conv, shape: {{M: 4, C: 4, P: 4, Q: 4, R: 3, S: 3}}, padding: 1}}
  right: {{kind: conv, shape: {{M: 4, C: 4, P: 4, Q: 4, R: 1, S: 1}}, reads: pool}}
  sum: {{kind: residual, reads: [left, right]}}
  rectifier: {{kind: relu}}
  dense: {{kind: gemm, shape: {{M: 1, K: 64, N: 10}}}}
"""
# MACs by hand: 4 3 9 64, then 4 4 9 16 and 4 4 16, then 64 10
MACS = 6912 + 2304 + 256 + 640


def _load(tmp_path: Path, text: str) -> object:
    file = tmp_path / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    return load_document(file)


def _faults(tmp_path: Path, *changes: Sequence[str]) -> list[str]:
    text = SMALL.format(scope="model")
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    said = refusal_of(_load, tmp_path, text)
    return [line.partition("mine.yaml: ")[2] for line in said.splitlines()]


def test_a_linked_network_is_one_graph_or_its_layers(tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(SMALL.format(scope="model"), encoding="utf-8")
    whole = load_document(file)
    file.write_text(SMALL.format(scope="layers"), encoding="utf-8")
    layers = load_document(file)
    assert whole.macs == layers.macs == MACS
    assert [one.name for one in layers.operators] == ["first", "left", "right", "dense"]
    reads = {one.name: [given.tensor for given in one.inputs] for one in whole.operators}
    assert reads == {
        "first": ["image", "first.W"],
        "pool": ["first.O"],
        "left": ["pool.O", "left.W"],
        "right": ["pool.O", "right.W"],
        "sum": ["left.O", "right.O"],
        "rectifier": ["sum.O"],
        "dense": ["rectifier.O", "dense.W"],
    }
    # 8 rows behind a border of one row and column; 3 x 3 windows reach one more at the end
    assert whole.shapes["image"] == (1, 3, 10, 10)
    for workload in (whole, layers):
        again = parse_workload(dict(workload.parameters))
        assert (again, again.parameters) == (workload, workload.parameters)


def test_matrices_of_one_layer_read_the_same(tmp_path: Path) -> None:
    text = """
kind: layers
name: gates
linked: true
scope: model
layers:
  gates: {kind: gemm, shape: {M: 2, K: 6, N: 5, B: 2}}
  last: {kind: gemm, shape: {M: 2, K: 5, N: 3}}
"""
    file = tmp_path / "gates.yaml"
    file.write_text(text, encoding="utf-8")
    workload = load_document(file)
    assert [one.name for one in workload.operators] == ["gates.0", "gates.1", "last"]
    reads = [one.inputs[0].tensor for one in workload.operators]
    assert reads == ["image", "image", "gates.1.O"]
    assert workload.macs == 2 * 2 * 6 * 5 + 2 * 5 * 3


def test_a_block_alone_adds_the_image_to_its_convolution(tmp_path: Path) -> None:
    """The image lies in memory with the zeros around it that the convolution reads."""
    text = """
        kind: layers
        name: block
        linked: true
        layers:
          conv: {kind: conv, shape: {M: 4, C: 4, P: 5, Q: 5, R: 3, S: 3}, padding: 1}
          sum: {kind: residual, reads: [conv, image]}
    """
    block = _load(tmp_path, text)
    assert isinstance(block, Workload)
    assert block.tensor_bytes("image") == 4 * 7 * 7 * 2
    convolved, image = block.operator("sum").inputs
    assert (convolved.tensor, image.tensor) == ("conv.O", "image")
    assert image.start == (0, 0, 1, 1)
    result = simulate(block, load_accelerator("edge"), "naive")
    check(result.workload, result.mapping, result.program)
    # once for each window of the convolution's tile, and the 5 x 5 of the sum without the border
    assert result.run.moved["dram_read", "image"] == (4 * 7 * 7 + 4 * 5 * 5) * 2


def test_images_need_not_be_square(tmp_path: Path) -> None:
    text = """
kind: layers
name: wide
linked: true
scope: model
layers:
  first: {kind: conv, shape: {M: 2, C: 1, P: 3, Q: 5, R: 1, S: 1}}
  rectifier: {kind: relu}
  sum: {kind: residual, reads: [rectifier, first]}
  dense: {kind: gemm, shape: {M: 1, K: 30, N: 4}}
"""
    file = tmp_path / "wide.yaml"
    file.write_text(text, encoding="utf-8")
    workload = load_document(file)
    assert workload.macs == 2 * 15 + 30 * 4
    assert workload.shapes["sum.O"] == workload.shapes["rectifier.O"] == (1, 2, 3, 5)
    assert workload.shapes["dense.W"] == (4, 2, 3, 5)


@pytest.mark.parametrize(("change", "fault"), DATA["refused"])
def test_a_layer_fits_what_it_reads(tmp_path: Path, change: list[str], fault: str) -> None:
    (found, *_) = _faults(tmp_path, change)
    assert found.startswith(f"layers.{fault}")


def test_sizes_of_a_loosely_linked_network_need_not_fit(tmp_path: Path) -> None:
    text = SMALL.format(scope="model").replace("linked: true", "linked: loosely")
    workload = _load(tmp_path, text.replace("K: 64", "K: 60"))
    assert workload.macs == MACS - 40  # type: ignore[attr-defined]


def test_layers_that_stand_alone_read_nothing(tmp_path: Path) -> None:
    alone = "nothing without `linked: true`, as each layer has tensors of its own"
    changes = (("linked: true\nscope: model\n", ""), ("  dense", "  more: {kind: relu}\n  dense"))
    assert _faults(tmp_path, *changes) == [
        f"layers.first.padding: got 1; allowed: {alone}",
        f"layers.pool.kind: got 'pooling'; allowed: {alone}",
        f"layers.left.padding: got 1; allowed: {alone}",
        f"layers.right.reads: got ['pool']; allowed: {alone}",
        f"layers.sum.kind: got 'residual'; allowed: {alone}",
        f"layers.sum.reads: got ['left', 'right']; allowed: {alone}",
        f"layers.rectifier.kind: got 'relu'; allowed: {alone}",
        f"layers.more.kind: got 'relu'; allowed: {alone}",
    ]
