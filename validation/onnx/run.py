"""ONNX models that nobody here wrote: MACs against a count at run time, and what stays on chip.

The models are in packages of others, which README.md names: install them, or unpack their wheels
into FOLDER, and `python -m validation.onnx.run [FOLDER...]`.

The count runs each model in onnx's reference evaluator on zeros and adds up what its products see,
MACs and the bytes of their weights: it shares nothing with the import, neither shapes nor what is
folded or inlined. Models without values are counted by the shapes that onnx infers.
"""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.ops.op_conv import Conv
from onnx.reference.ops.op_conv_transpose import ConvTranspose
from onnx.reference.ops.op_gemm import Gemm_7
from onnx.reference.ops.op_lstm import LSTM
from onnx.reference.ops.op_matmul import MatMul

from simaccel import load_accelerator, simulate
from simaccel.analytic.floor.compulsory import distinct_bytes
from simaccel.errors import InputError
from simaccel.importers.onnx_files import load_onnx
from simaccel.workload import Einsum, Workload

HERE = Path(__file__).parent
OCR, VAD = "rapidocr_onnxruntime/models", "silero_vad/data"
OCR6, DSE = "rapidocr/models", "zigzag/inputs/workload"
TESTS = "onnx/backend/test/data"
LIGHT = f"{TESTS}/light"
_MOST_HELD = 10**8
"""MACs of a model that is run with and without what is held: minutes of search for larger ones."""
P = "p2o.DynamicDimension"
_Q = "DynamicDimension"
NETWORKS = (
    *("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50"),
    *("shufflenet", "squeezenet", "vgg19", "zfnet512"),
)
MODELS: dict[str, dict[str, int]] = {
    f"{OCR}/ch_PP-OCRv4_det_infer.onnx": {f"{P}.0": 1, f"{P}.1": 320, f"{P}.2": 320},
    f"{OCR}/ch_PP-OCRv4_rec_infer.onnx": {f"{P}.0": 1, "?": 48, f"{P}.1": 320},
    f"{OCR}/ch_ppocr_mobile_v2.0_cls_infer.onnx": {"x.0": 1, "x.2": 48, "x.3": 192},
    f"{VAD}/silero_vad_16k_op15.onnx": {"batch": 1, "sequence": 576},
    f"{VAD}/silero_vad_16k_sequence.onnx": {"sequence_length": 4},
    f"{VAD}/silero_vad_openvino_16k.onnx": {},
    f"{VAD}/silero_vad.onnx": {"input.0": 1, "input.1": 576, "state.1": 1},
    f"{VAD}/silero_vad_half.onnx": {"batch": 1, "sequence": 576},
    f"{VAD}/silero_vad_op18_ifless.onnx": {"batch": 1, "sequence": 576},
    "magika/models/standard_v3_3/model.onnx": {"unk__214": 1},
    f"{OCR6}/PP-OCRv6_det_small.onnx": {f"{_Q}.0": 1, f"{_Q}.1": 320, f"{_Q}.2": 320},
    f"{OCR6}/PP-OCRv6_rec_small.onnx": {f"{_Q}.0": 1, f"{_Q}.1": 320},
    "livekit/plugins/silero/resources/silero_vad.onnx": {
        "input.0": 1,
        "input.1": 576,
        "state.1": 1,
    },
    **{f"{DSE}/{name}.onnx": {} for name in ("alexnet", "mobilenetv2", "resnet18")},
    **{f"{LIGHT}/light_{name}.onnx": {} for name in NETWORKS},
}
FIELDS = ("model", "read", "macs", "macs_counted", "weight_bytes", "weight_bytes_counted")
FIGURES = (
    *("constants", "taken", "harmless", "not_taken"),
    *("operators", "tensors", "shared", "compulsory_bytes"),
)
SMALL = ("model", "became", "macs", "macs_counted")
HELD = ("model", "resident", "dram_bytes", "weight_bytes", "cycles", "bound")
COUNTED = [0]
WEIGHTS: dict[str, int] = {}
"""Bytes of what products are given, by name."""


def _counting(base: type, kind: str, macs: Any) -> type:  # noqa: ANN401 - a function of arrays
    """Return an operator of the reference that adds up its MACs."""

    def run(self: Any, *given: Any, **how: Any) -> Any:  # noqa: ANN401 - of the evaluator
        made = base._run(self, *given, **how)  # type: ignore[attr-defined]
        COUNTED[0] += macs(made[0], *given, how=how)
        names = self.onnx_node.input[: 3 if kind == "LSTM" else 2]
        WEIGHTS.update((name, value.nbytes) for name, value in zip(names, given, strict=False))
        return made

    return type(kind, (base,), {"op_domain": "", "_run": run})


def _conv(made: Any, _x: Any, weights: Any, *_: Any, how: Any) -> int:  # noqa: ANN401, ARG001
    return int(made.size * math.prod(weights.shape[1:]))


def _transposed(made: Any, x: Any, weights: Any, *_: Any, how: Any) -> int:  # noqa: ANN401
    """Count the taps of each output, with those on zeros; there are none around a single input."""
    dims = made.ndim - 2
    strides, pads = how.get("strides") or [1] * dims, how.get("pads") or [0] * 2 * dims
    spread = how.get("dilations") or [1] * dims
    found = x.shape[0] * weights.shape[0] * weights.shape[1]
    for at, size in enumerate(made.shape[2:]):
        taps = np.arange(weights.shape[2 + at]) * spread[at] - pads[at]
        step = strides[at] if x.shape[2 + at] > 1 else size + abs(taps).max()
        found *= int(((np.arange(size)[:, None] - taps) % step == 0).sum())
    return int(found)


def _product(made: Any, x: Any, *_: Any, how: Any) -> int:  # noqa: ANN401
    return int(made.size * x.shape[0 if how.get("transA") else -1])


def _lstm(_made: Any, x: Any, w: Any, r: Any, *_: Any, how: Any) -> int:  # noqa: ANN401, ARG001
    return int(x.shape[0] * x.shape[1] * (w.size + r.size))


def counted(path: Path, dims: Mapping[str, int]) -> tuple[int, int]:
    """Run a model on zeros in onnx's reference evaluator; return what its products do.

    That is their MACs, and the bytes of their weights.
    """
    model = onnx.load(str(path), load_external_data=False)
    if any(
        constant.data_location == onnx.TensorProto.EXTERNAL for constant in model.graph.initializer
    ):
        return by_shapes(model, {})
    kinds: list[tuple[type, str, Any]] = [
        (Conv, "Conv", _conv),
        (ConvTranspose, "ConvTranspose", _transposed),
    ]
    kinds += [(Gemm_7, "Gemm", _product), (MatMul, "MatMul", _product), (LSTM, "LSTM", _lstm)]
    evaluator = ReferenceEvaluator(model, new_ops=[_counting(*kind) for kind in kinds])
    constants = {constant.name for constant in model.graph.initializer}
    inputs = {}
    for model_input in model.graph.input:
        if model_input.name not in constants:
            kind = model_input.type.tensor_type
            shape = [
                dims.get(f"{model_input.name}.{at}", dims.get(dim.dim_param, dim.dim_value))
                for at, dim in enumerate(kind.shape.dim)
            ]
            numbers = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
            value = 16_000 if model_input.name == "sr" else 0
            inputs[model_input.name] = np.full(shape, value, dtype=numbers)
    COUNTED[0] = 0
    WEIGHTS.clear()
    try:
        evaluator.run(None, inputs)
    except (np.exceptions.AxisError, TypeError):  # Squeeze and old Gemm, which it reads otherwise
        return by_shapes(model, {name: value.shape for name, value in inputs.items()})
    known = _constants(model.graph, set())
    return COUNTED[0], sum(size for name, size in WEIGHTS.items() if name in known)


def _constants(graph: onnx.GraphProto, known: set[str]) -> set[str]:
    """Return the names of what doesn't depend on an input, of a graph and those inside it."""
    given = {one.name for one in graph.input} - {one.name for one in graph.initializer}
    known = known | {one.name for one in graph.initializer}
    inside: set[str] = set()
    for node in graph.node:
        graphs = [one.g for one in node.attribute if one.type == onnx.AttributeProto.GRAPH]
        if not graphs and all(name in known for name in node.input if name):
            known |= set(node.output) - given
        for one in graphs:
            inside |= _constants(one, known)
    return known | inside


def by_shapes(model: onnx.ModelProto, inputs: Mapping[str, Sequence[int]]) -> tuple[int, int]:
    """Return what ``counted`` does by the shapes that onnx infers alone."""
    del model.graph.value_info[:]
    for model_input in model.graph.input:
        dims = model_input.type.tensor_type.shape.dim
        for dim, size in zip(dims, inputs.get(model_input.name, ()), strict=False):
            dim.dim_value = size
    graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    shapes = {constant.name: list(constant.dims) for constant in graph.initializer}
    for value in (*graph.value_info, *graph.input, *graph.output):
        shapes[value.name] = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    kinds = {constant.name: constant.data_type for constant in graph.initializer}
    kinds |= {value.name: value.type.tensor_type.elem_type for value in graph.value_info}
    known = _constants(graph, set())
    size_of = {
        name: onnx.helper.tensor_dtype_to_np_dtype(kind).itemsize
        for name, kind in kinds.items()
        if name in known
    }
    macs = 0
    weights: dict[str, int] = {}
    for node in graph.node:
        if node.op_type in {"Conv", "MatMul", "Gemm"}:
            weights |= {
                name: math.prod(shapes[name]) * size_of[name]
                for name in node.input[:2]
                if name in size_of
            }
        made = math.prod(shapes[node.output[0]])
        if node.op_type == "Conv":
            macs += made * math.prod(shapes[node.input[1]][1:])
        elif node.op_type in {"MatMul", "Gemm", "Einsum"}:
            assert node.op_type != "Einsum"
            macs += made * shapes[node.input[0]][-1]
    return macs, sum(weights.values())


def weight_bytes(workload: Workload) -> int:
    """Return the bytes of the weights of products, each once, in the types of the file."""
    names = {
        operand.tensor
        for one in workload.operators
        if isinstance(one, Einsum) and len(one.inputs) > 1
        for operand in one.inputs
    }
    kinds = workload.tensors
    return sum(workload.tensor_bytes(name) for name in names if kinds[name].kind == "weight")


def row(path: Path, dims: Mapping[str, int]) -> dict[str, Any]:
    """Import a model, and count its MACs as it runs."""
    imported = load_onnx(path, dims)
    workload = imported.workload
    kinds = [tensor.kind for tensor in workload.tensors.values()]
    totals = workload.account.totals()
    macs, weights = counted(path, dims)
    return {
        "model": ("livekit " if "livekit" in path.parts else "") + path.name,
        "read": workload.account.share_left_out() is not None,
        "macs": workload.macs,
        "macs_counted": macs,
        "weight_bytes": weight_bytes(workload),
        "weight_bytes_counted": weights,
        "constants": imported.constants,
        **{how.replace(" ", "_"): count for how, (count, _, _) in totals.items()},
        "operators": len(workload.operators),
        "tensors": kinds.count("intermediate") + kinds.count("output"),
        "shared": kinds.count("intermediate"),
        "compulsory_bytes": distinct_bytes(workload),
    }


def held(path: Path, dims: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Run a model at int8 on `edge_tpu`, with and without tensors held between layers."""
    workload = load_onnx(path, dims, 1).workload
    for resident in ("false", "true"):
        result = simulate(
            workload,
            load_accelerator(
                "edge_tpu", [f"compiler.resident={resident}", "compiler.epilogues=false"]
            ),
        )
        moved = {key: n for key, n in result.run.moved.items() if key[0].startswith("dram")}
        weights = (n for (_, name), n in moved.items() if workload.tensors[name].kind == "weight")
        yield {
            "model": path.name,
            "resident": resident,
            "dram_bytes": sum(moved.values()),
            "weight_bytes": sum(weights),
            "cycles": result.run.cycles,
            "bound": result.prediction.bound_cycles,
        }


def write(name: str, fields: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    with (HERE / name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def small(path: Path) -> dict[str, Any]:
    """Return what becomes of a model of a few nodes, and its MACs by both counts."""
    fields: dict[str, Any] = {"model": path.parent.name, "became": "read"}
    try:
        workload = load_onnx(path).workload
        workload.account.require_modelled()
    except InputError:
        return {**fields, "became": "refused by name"}
    fields["macs"] = workload.macs
    try:
        fields["macs_counted"], _ = counted(path, {})
    except Exception as error:  # noqa: BLE001 - whatever the evaluator can't do
        return {**fields, "macs_counted": f"the evaluator: {type(error).__name__}"}
    if fields["macs"] != fields["macs_counted"]:
        fields["became"] = "wrong"
    return fields


def file_of(name: str, folders: Sequence[Path]) -> Path | None:
    """Return a file of a package, unpacked in a folder or installed; None if it isn't there."""
    for folder in folders:
        for path in (folder / name, *folder.glob(f"*/{name}")):
            if path.exists():
                return path
    package, _, inside = name.partition("/")
    spec = find_spec(package)
    installed = Path("" if spec is None or spec.origin is None else spec.origin).parent / inside
    return installed if spec is not None and installed.exists() else None


def main(folders: Sequence[Path]) -> None:
    """Write the tables; models that aren't there are left out, and `models.csv` stays."""
    tests = file_of(TESTS, folders)
    paths = sorted(tests.glob("*/*/model.onnx")) if tests is not None else []
    few = [small(path) for path in paths]
    write("small.csv", SMALL, few)
    rows, kept = [], []
    for name, dims in MODELS.items():
        path = file_of(name, folders)
        if path is None:
            print(f"{name}: not there")
            continue
        rows.append(row(path, dims))
        print(rows[-1], flush=True)
        if name.startswith((OCR, VAD)) and rows[-1]["read"] and rows[-1]["macs"] < _MOST_HELD:
            kept += list(held(path, dims))
            print(*kept[-2:], sep="\n")
    if len(rows) == len(MODELS):
        write("models.csv", (*FIELDS, *FIGURES), rows)
        write("held.csv", HELD, kept)
    wrong = [row["model"] for row in few if row["became"] == "wrong"]
    wrong += [row["model"] for row in rows if row["macs"] != row["macs_counted"] and row["read"]]
    assert not wrong, wrong


if __name__ == "__main__":
    main([Path(one) for one in sys.argv[1:]])
