from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from simaccel.errors import InputError, allows
from simaccel.importers.workloads import load_workload
from simaccel.study.documents import workload_document
from simaccel.workload import (
    VECTORS,
    Einsum,
    Vector,
    build,
    conv2d,
    describe,
    files,
    gemm,
    network,
    parse_workload,
    transformer,
)
from tests.refusals import refusal_of

EXAMPLES = dedent("    " + (files.__doc__ or "").split("\n\n    ")[1].split("\n\nA dimension")[0])
ATTENTION, GEMM, CONV, NETWORK, LAYERS, EINSUMS, TRANSFORMER = EXAMPLES.split("---\n")
KINDS = "one of attention, gemm, conv, network, transformer, layers, einsums"


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


def test_examples_of_the_docstring_load(tmp_path: Path) -> None:
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
    path.write_text(yaml.safe_dump(workload_document(workload)))
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
    path.write_text(yaml.safe_dump(workload_document(workload)))
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


def test_all_faults_of_a_conv_and_of_layers(tmp_path: Path) -> None:
    text = "{kind: conv, shape: {M: 0, C: 1, P: 1000000000000, Q: 4, R: 3}, stride: [1, 2, 3]}"
    pair = "a number, or a list of two: height and width"
    assert _faults(tmp_path, text) == [
        "shape.M: got 0; allowed: an integer >= 1",
        "shape.P: got 1000000000000; allowed: an integer <= 1073741824",
        "shape.S: got nothing; allowed: an integer",
        f"stride: got [1, 2, 3]; allowed: {pair}",
    ]
    text = """
kind: layers
name: x
layers:
  a: {kind: conv, shape: {M: 1, C: 1, P: 0, Q: 4, R: 3, S: 1}, stried: 2}
  b: {kind: gemm, shape: {M: 1, K: x, N: 4}}
  c: {kind: dense, shape: {M: 1}}
"""
    assert _faults(tmp_path, text) == [
        "layers.a.shape.P: got 0; allowed: an integer >= 1",
        (
            "layers.a.stried: got 2; did you mean 'stride'? "
            "(allowed: reads, kind, shape, stride, dilation, padding, transposed)"
        ),
        "layers.b.shape.K: got 'x'; allowed: an integer",
        (
            "layers.c.kind: got 'dense'; allowed: one of conv, gemm, pooling, average_pooling, "
            "residual, relu"
        ),
    ]
    assert _faults(tmp_path, "{kind: layers, name: x, layers: {}}") == [
        "layers: got 'no layers'; allowed: at least one layer"
    ]


def test_faults_of_a_network(tmp_path: Path) -> None:
    assert _faults(tmp_path, "{kind: network, model: resnet5, batch: 0}") == [
        "model: got 'resnet5'; did you mean 'resnet50'?",
        "batch: got 0; allowed: an integer >= 1",
    ]
    text = "{kind: network, model: alexnet, layer: conv6, bytes_by_tensor: {X: 1}}"
    assert _faults(tmp_path, text) == [
        (
            "layer: got 'conv6'; did you mean 'conv5'? "
            "(allowed: conv1, conv2, conv3, conv4, conv5, fc6, fc7, fc8)"
        ),
        "bytes_by_tensor.X: got 1; allowed: one of I, W, O",
    ]


def test_sized_attention_needs_its_sizes_and_a_model_has_its_own(tmp_path: Path) -> None:
    assert _faults(tmp_path, "{kind: attention, batch: 1, seq_len: 8, hidden: 4}") == [
        f"{field}: got nothing; allowed: an integer" for field in ("heads", "head_size", "ff_size")
    ]
    (fault,) = _faults(tmp_path, "{kind: attention, model: t5, batch: 1, seq_len: 8, hidden: 4}")
    assert fault.startswith("hidden: got 4; allowed: one of kind, batch, seq_len, scope,")


@pytest.mark.parametrize(
    ("patches", "fault"),
    [
        ("[]", "got a list of 0 values; allowed: at least 2 items"),
        ("[4]", "got [4]; allowed: at least 2 items"),
        ("[4, 5, 6]", "got [4, 5, 6]; allowed: at most 2 items"),
    ],
)
def test_patches_are_their_number_and_the_values_of_each(
    tmp_path: Path, patches: str, fault: str
) -> None:
    sizes = "hidden: 16, heads: 2, ff_size: 32, positions: 6, vocabulary: 3, scope: model"
    text = f"{{kind: transformer, {sizes}, patches: {patches}}}"
    assert _faults(tmp_path, text) == [f"patches: {fault}"]


def test_all_faults_of_a_file_are_reported(tmp_path: Path) -> None:
    text = "{kind: attention, model: brt, batch: 0, seqlen: 5, scope: blk, bytes_per_element: x}"
    assert _faults(tmp_path, text) == [
        "batch: got 0; allowed: an integer >= 1",
        "scope: got 'blk'; allowed: one of 'la', 'block', 'model'",
        "bytes_per_element: got 'x'; allowed: an integer",
        "model: got 'brt'; did you mean 'bert'?",
        (
            "seqlen: got 5; did you mean 'seq_len'? "
            "(allowed: kind, batch, seq_len, scope, bytes_per_element, bytes_by_tensor, model)"
        ),
    ]


def test_faults_behind_the_form_name_the_file(tmp_path: Path) -> None:
    text = "{kind: attention, model: t5, batch: 1, seq_len: 8, bytes_by_tensor: {Wqq: 2}}"
    assert _faults(tmp_path, text) == [
        (
            "bytes_by_tensor.Wqq: got 2; did you mean 'Wq'? "
            "(allowed: X, Wq, Wk, Wv, Wo, W1, W2, Q, K, V, S, P, Z, Y, F, U)"
        )
    ]


def test_faults_of_a_gemm(tmp_path: Path) -> None:
    assert _faults(tmp_path, "{kind: gemm, shape: {M: 0, K: 1.5, N: '3', D: 4}}") == [
        "shape.M: got 0; allowed: an integer >= 1",
        "shape.K: got 1.5; allowed: an integer",
        "shape.N: got '3'; allowed: an integer",
        "shape.D: got 4; allowed: one of M, K, N, B",
    ]


@pytest.mark.parametrize(
    ("old", "new", "got", "allowed"),
    [
        (
            "tensor: A,",
            "tensr: A,",
            "operators.product.inputs[0].tensr: got 'A'",
            "did you mean 'tensor'? (allowed: tensor, projection, start)",
        ),
        (
            "[m, k]}",
            "[m, 5]}",
            "operators.product.inputs[0].projection[1]: got 5",
            "a rank, or a mapping from ranks to coefficients",
        ),
        (
            "[m, k]}",
            "[m, {k: 0}]}",
            "operators.product.inputs[0].projection[1].k: got 0",
            "an integer >= 1",
        ),
        (
            "[m, k]}",
            "[m, {}]}",
            "operators.product.inputs[0].projection[1]: got an empty mapping",
            "a rank, or a mapping from ranks to coefficients",
        ),
        ("[m, k]}", "[m, j]}", "operators.product.inputs.0.projection: got 'j'", "one of m, k, n"),
        (
            "{m: 4, n: 2}",
            "{m: 4, n: 3}",
            "operators.normalise.inputs.0: got (4, 3)",
            "shape (4, 2) of S, as at operators.product.output",
        ),
        (
            "kind: softmax",
            "kind: layernorm",
            "operators.normalise.kind: got 'layernorm'",
            "did you mean 'layer_norm'?",
        ),
        (
            "kind: softmax",
            "kind: 5",
            "operators.normalise.kind: got 5",
            f"one of einsum, {', '.join(VECTORS)}",
        ),
        (
            "kind: softmax",
            "kind: relu",
            "operators.normalise.axis: got 'n'",
            "nothing, as relu has none",
        ),
        (
            "kind: softmax",
            "kind: rms_norm",
            "operators.normalise.scale: got 0.125",
            "nothing, as rms_norm has none",
        ),
        (
            "tensor: B,",
            "tensor: Bee,",
            "operators.product.inputs.1.tensor: got 'Bee'",
            "one of A, B, S, P",
        ),
        (
            "kind: softmax",
            "",
            "operators.normalise.axis: got 'n'",
            "nothing, as an einsum has none",
        ),
        ("axis: n", "", "operators.normalise.axis: got nothing", "one of m, n"),
        (
            "inputs: [{tensor: S, projection: [m, n]}]",
            "inputs: []",
            "operators.normalise.inputs: got '0 inputs'",
            "one input",
        ),
        ("name: scores", "name: 5", "name: got 5", "text"),
        ("{m: 4, n: 2}", "{m: 4, 5: 2}", "operators.normalise.ranks[5]: got 5", "text"),
        ("kind: einsums", "", "kind: got nothing", KINDS),
        (
            "kind: einsums",
            "kind: einsum",
            "kind: got 'einsum'",
            (
                "did you mean 'einsums'? "
                "(allowed: attention, gemm, conv, network, transformer, layers, einsums)"
            ),
        ),
        ("kind: einsums", "kind: [1]", "kind: got [1]", KINDS),
        (
            "product:",
            "normalise:",
            "operators.normalise: got again on line 10",
            "each key once",
        ),
    ],
)
def test_each_fault_of_einsums_names_its_field(
    tmp_path: Path, old: str, new: str, got: str, allowed: str
) -> None:
    assert old in EINSUMS
    assert f"{got}; {allows(allowed)}" in _faults(tmp_path, EINSUMS.replace(old, new))


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("[1, 2]", "[1, 2]"),
        ("[a, b]", "a list of 2 values"),
        ("", "nothing"),
        ("text", "'text'"),
        ("5", "5"),
    ],
)
def test_only_a_mapping_is_a_workload(tmp_path: Path, text: str, got: str) -> None:
    allowed = "a mapping that describes a workload"
    assert _faults(tmp_path, text) == [f"file: got {got}; allowed: {allowed}"]


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


def test_documents_are_named_workload_unless_they_come_from_a_file() -> None:
    with pytest.raises(InputError, match=r"^workload: document: got 5; allowed: a mapping$"):
        parse_workload(5)
