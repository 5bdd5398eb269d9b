from dataclasses import MISSING, fields
from pathlib import Path

import pytest
import yaml

from simaccel.errors import InputError
from simaccel.importers.workloads import load_workload
from simaccel.numbers import plain
from simaccel.workload import (
    Einsum,
    Vector,
    build,
    conv2d,
    describe,
    gemm,
    network,
    parse_workload,
    transformer,
)
from simaccel.workload.forms import OwnTransformerForm, TransformerForm
from simaccel.workload.language.model import Transformer
from tests.data_files import data_beside
from tests.refusals import refusal_of

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "workloads.md"
EXAMPLES = (
    GUIDE.read_text(encoding="utf-8").split("<!-- forms.yaml -->\n```yaml\n")[1].split("```")[0]
)
ATTENTION, GEMM, CONV, NETWORK, LAYERS, EINSUMS, TRANSFORMER = EXAMPLES.split("---\n")
DATA = data_beside(__file__)


def _faults(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "w.yaml"
    path.write_text(text)
    lines = refusal_of(load_workload, path).splitlines()
    assert all(line.startswith(f"{path}: ") for line in lines)
    return [line.removeprefix(f"{path}: ") for line in lines]


def _load(tmp_path: Path, text: str) -> object:
    path = tmp_path / "w.yaml"
    path.write_text(text)
    return load_workload(path)


def test_examples_of_the_guide_load(tmp_path: Path) -> None:
    assert _load(tmp_path, ATTENTION) == build("bert", batch=64, seq_len=512)
    assert _load(tmp_path, GEMM) == gemm(m=512, k=64, n=512, batch=4)
    assert _load(tmp_path, CONV) == conv2d(g=2, m=128, c=48, p=27, q=27, r=5, s=5)
    assert _load(tmp_path, NETWORK) == network("alexnet", batch=4, layer="conv2")
    decode = transformer("llama3-8b", phase="decode", kv_len=2048, scope="model")
    assert _load(tmp_path, TRANSFORMER) == decode


def test_layers_load(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(LAYERS)
    conv5, fc6 = load_workload(path).operators
    assert str(conv5) == (
        "conv5: conv5.O[n,g,m,p,q] = conv5.I[n,g,c,2*p+r,2*q+s] conv5.W[g,m,c,r,s]"
    )
    assert str(fc6) == "fc6: fc6.O[b,m,n] = fc6.I[b,m,k] fc6.W[b,k,n]"
    assert (conv5.macs, fc6.macs) == (256 * 512 * 49 * 9, 125440)


@pytest.mark.parametrize("text", [GEMM, CONV, NETWORK, LAYERS])
def test_workloads_come_back_from_what_a_trace_carries(tmp_path: Path, text: str) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(f"{text}\nbytes_per_element: 1\n")
    workload = load_workload(path)
    path.write_text(yaml.safe_dump(plain(workload.parameters)))
    again = load_workload(path)
    assert (again, again.parameters) == (workload, workload.parameters)
    assert {tensor.bytes_per_element for tensor in again.tensors.values()} == {1}


def test_einsums_load_and_come_back_from_their_parameters(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(EINSUMS)
    workload = load_workload(path)
    product, normalise = workload.operators
    assert isinstance(product, Einsum)
    assert isinstance(normalise, Vector)
    assert str(product) == "product: S[m,n] = A[m,k] B[k,n]"
    how = "softmax over n, scale 0.125, visible m+0"
    assert str(normalise) == f"normalise: P[m,n] = S[m,n] ({how})"
    assert (workload.name, workload.macs, workload.tensor_bytes("B")) == ("scores", 64, 16)
    path.write_text(yaml.safe_dump(dict(workload.parameters)))
    assert load_workload(path) == workload


def test_vector_operators_load_and_come_back(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text("""
kind: einsums
name: gated
tensors:
  {X: {kind: input}, G: {kind: weight}, N: {kind: intermediate}, U: {kind: input},
   A: {kind: intermediate}, H: {kind: intermediate}, P: {kind: output}}
operators:
  norm:
    kind: rms_norm
    ranks: {q: 4, c: 9}
    inputs: [{tensor: X, projection: [q, c]}, {tensor: G, projection: [c]}]
    output: {tensor: N, projection: [q, c]}
    axis: c
  act:
    kind: silu
    ranks: {q: 4, c: 9}
    inputs: [{tensor: N, projection: [q, c]}]
    output: {tensor: A, projection: [q, c]}
  gate:
    kind: product
    ranks: {q: 4, c: 9}
    inputs: [{tensor: A, projection: [q, c]}, {tensor: U, projection: [q, c]}]
    output: {tensor: H, projection: [q, c]}
  pool:
    kind: pooling
    ranks: {q: 4, p: 4, r: 3}
    inputs: [{tensor: H, projection: [q, {p: 2, r: 1}]}]
    output: {tensor: P, projection: [q, p]}
""")
    workload = load_workload(path)
    assert [str(operator) for operator in workload.operators] == [
        "norm: N[q,c] = X[q,c] G[c] (rms_norm over c)",
        "act: A[q,c] = N[q,c] (silu)",
        "gate: H[q,c] = A[q,c] U[q,c] (product)",
        "pool: P[q,p] = H[q,2*p+r] (pooling)",
    ]
    assert [row.kind for row in describe(workload)] == ["rms_norm", "silu", "product", "pooling"]
    path.write_text(yaml.safe_dump(plain(workload.parameters)))
    assert load_workload(path) == workload


def test_a_projection_takes_coefficients(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text("""
kind: einsums
name: conv
repeat: 2
tensors: {I: {kind: input}, W: {kind: weight}, O: {kind: output}}
operators:
  conv:
    ranks: {p: 4, r: 3}
    inputs: [{tensor: I, projection: [{p: 2, r: 1}]}, {tensor: W, projection: [r]}]
    output: {tensor: O, projection: [p]}
""")
    workload = load_workload(path)
    assert (workload.shapes["I"], workload.macs) == ((9,), 2 * 12)


def _is(fault: str, said: str) -> bool:
    return fault == said or (said.endswith("...") and fault.startswith(said[:-3]))


@pytest.mark.parametrize(("text", "faults"), DATA["documents"])
def test_all_faults_of_a_document_are_reported(
    tmp_path: Path, text: str, faults: list[str]
) -> None:
    found = _faults(tmp_path, text)
    assert len(found) == len(faults)
    assert all(map(_is, found, faults)), found


@pytest.mark.parametrize(("old", "new", "said"), DATA["changes of einsums"])
def test_each_fault_of_einsums_names_its_field(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    assert old in EINSUMS
    assert any(_is(fault, said) for fault in _faults(tmp_path, EINSUMS.replace(old, new)))


@pytest.mark.parametrize(
    "text", ["a: [", "a: b: c", "kind: !!python/object:os.system {}", "\t", "a: \x00", "9" * 5000,
             "{? [1] : 2}", "[" * 5000],
)  # fmt: skip
def test_what_is_not_yaml_is_refused(tmp_path: Path, text: str) -> None:
    (fault,) = _faults(tmp_path, text)
    assert fault.startswith(("file: got ", "line 1: got ", "line 2: got "))
    assert fault.endswith("; allowed: YAML")


@pytest.mark.parametrize(
    ("name", "got", "allowed"),
    [
        ("missing.yaml", "nothing", "an existing YAML file"),
        ("binary", "'invalid start byte'", "UTF-8 text"),
        (".", "'Is a directory'", "a readable YAML file"),
    ],
)
def test_missing_and_binary_files_and_folders_are_refused(
    tmp_path: Path, name: str, got: str, allowed: str
) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    said = refusal_of(load_workload, tmp_path / name)
    assert said == f"{tmp_path / name}: file: got {got}; allowed: {allowed}"


def test_a_file_says_all_of_a_transformer_with_the_same_defaults() -> None:
    """But the number of experts and of chosen ones, which have other names there."""
    renamed = {"experts": "expert_count", "chosen": "experts_per_token"}
    own = {renamed.get(field.name, field.name): field.default for field in fields(Transformer)}
    form = {
        name: field.get_default(call_default_factory=True)
        for name, field in OwnTransformerForm.model_fields.items()
        if name not in TransformerForm.model_fields
    }
    assert form.keys() == own.keys()
    for name, default in own.items():
        said = tuple(form[name]) if isinstance(form[name], list) else form[name]
        assert default in (said, MISSING), name


def test_documents_are_named_workload_unless_they_come_from_a_file() -> None:
    with pytest.raises(InputError, match=r"^workload: document: got 5; allowed: a mapping$"):
        parse_workload(5)
