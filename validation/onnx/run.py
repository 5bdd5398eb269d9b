"""ONNX models that nobody here wrote: MACs against a count at run time, and what stays on chip.

The models are in packages of others: `pip install onnx`, `pip install --no-deps
rapidocr-onnxruntime==1.4.4 silero-vad==6.2.3 magika==1.0.3`, and `python -m validation.onnx.run`.

The count runs each model in onnx's reference evaluator on zeros and adds up what its products see:
it shares nothing with the import, neither shapes nor what is folded or inlined.
"""

from __future__ import annotations

import csv
import math
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
from simaccel.analytic.bounds.distinct import distinct_bytes
from simaccel.workload.onnx_files import load_onnx

HERE = Path(__file__).parent
OCR, VAD = "rapidocr_onnxruntime/models", "silero_vad/data"
LIGHT = "onnx/backend/test/data/light"
_MOST_HELD = 10**8
"""MACs of a model that is run with and without what is held: minutes of search for larger ones."""
P = "p2o.DynamicDimension"
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
    **{f"{LIGHT}/light_{name}.onnx": {} for name in NETWORKS},
}
FIELDS = ("model", "read", "macs", "macs_counted", "constants", "taken", "harmless", "not_taken")
FIGURES = ("operators", "tensors", "shared", "compulsory_bytes")
HELD = ("model", "resident", "dram_bytes", "weight_bytes", "cycles", "bound")
COUNTED = [0]


def _counting(base: type, kind: str, macs: Any) -> type:  # noqa: ANN401 - a function of arrays
    """Return an operator of the reference that adds up its MACs."""

    def run(self: Any, *given: Any, **how: Any) -> Any:  # noqa: ANN401 - of the evaluator
        made = base._run(self, *given, **how)  # type: ignore[attr-defined]
        COUNTED[0] += macs(made[0], *given, how=how)
        return made

    return type(kind, (base,), {"op_domain": "", "_run": run})


def _conv(made: Any, _x: Any, weights: Any, *_: Any, how: Any) -> int:  # noqa: ANN401, ARG001
    return int(made.size * math.prod(weights.shape[1:]))


def _transposed(_made: Any, x: Any, weights: Any, *_: Any, how: Any) -> int:  # noqa: ANN401, ARG001
    return int(x.size * math.prod(weights.shape[1:]))


def _product(made: Any, x: Any, *_: Any, how: Any) -> int:  # noqa: ANN401
    return int(made.size * x.shape[0 if how.get("transA") else -1])


def _lstm(_made: Any, x: Any, w: Any, r: Any, *_: Any, how: Any) -> int:  # noqa: ANN401, ARG001
    return int(x.shape[0] * x.shape[1] * (w.size + r.size))


def counted(path: Path, dims: Mapping[str, int]) -> int:
    """Run a model on zeros in onnx's reference evaluator and return the MACs of its products."""
    model = onnx.load(str(path))
    kinds: list[tuple[type, str, Any]] = [
        (Conv, "Conv", _conv),
        (ConvTranspose, "ConvTranspose", _transposed),
    ]
    kinds += [(Gemm_7, "Gemm", _product), (MatMul, "MatMul", _product), (LSTM, "LSTM", _lstm)]
    evaluator = ReferenceEvaluator(model, new_ops=[_counting(*one) for one in kinds])
    constants = {one.name for one in model.graph.initializer}
    inputs = {}
    for given in model.graph.input:
        if given.name not in constants:
            kind = given.type.tensor_type
            shape = [
                dims.get(f"{given.name}.{at}", dims.get(dim.dim_param, dim.dim_value))
                for at, dim in enumerate(kind.shape.dim)
            ]
            numbers = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
            value = 16_000 if given.name == "sr" else 0
            inputs[given.name] = np.full(shape, value, dtype=numbers)
    COUNTED[0] = 0
    try:
        evaluator.run(None, inputs)
    except np.exceptions.AxisError:  # of a Squeeze, which the evaluator reads otherwise
        return by_shapes(model, {name: value.shape for name, value in inputs.items()})
    return COUNTED[0]


def by_shapes(model: onnx.ModelProto, inputs: Mapping[str, Sequence[int]]) -> int:
    """Return the MACs of convolutions and products by the shapes that onnx infers alone."""
    del model.graph.value_info[:]
    for given in model.graph.input:
        dims = given.type.tensor_type.shape.dim
        for dim, size in zip(dims, inputs.get(given.name, ()), strict=False):
            dim.dim_value = size
    graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    shapes = {one.name: list(one.dims) for one in graph.initializer}
    for one in (*graph.value_info, *graph.input, *graph.output):
        shapes[one.name] = [dim.dim_value for dim in one.type.tensor_type.shape.dim]
    found = 0
    for node in graph.node:
        made = math.prod(shapes[node.output[0]])
        if node.op_type == "Conv":
            found += made * math.prod(shapes[node.input[1]][1:])
        elif node.op_type in {"MatMul", "Gemm", "Einsum"}:
            assert node.op_type != "Einsum"
            found += made * shapes[node.input[0]][-1]
    return found


def row(path: Path, dims: Mapping[str, int]) -> dict[str, Any]:
    """Import a model, and count its MACs as it runs."""
    imported = load_onnx(path, dims)
    workload = imported.workload
    kinds = [one.kind for one in workload.tensors.values()]
    totals = workload.account.totals()
    return {
        "model": path.name,
        "read": workload.account.share_left_out() is not None,
        "macs": workload.macs,
        "macs_counted": counted(path, dims),
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
        result = simulate(workload, load_accelerator("edge_tpu", [f"groups.resident={resident}"]))
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


def main() -> None:
    """Write `models.csv` and `held.csv`; models whose package isn't installed are left out."""
    rows, kept = [], []
    for name, dims in MODELS.items():
        package, _, inside = name.partition("/")
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            print(f"{name}: package {package} is not installed")
            continue
        path = Path(spec.origin).parent / inside
        rows.append(row(path, dims))
        print(rows[-1], flush=True)
        if name.startswith((OCR, VAD)) and rows[-1]["macs"] < _MOST_HELD:
            kept += list(held(path, dims))
            print(*kept[-2:], sep="\n")
    if len(rows) == len(MODELS):
        write("models.csv", (*FIELDS, *FIGURES), rows)
        write("held.csv", HELD, kept)
    wrong = [one["model"] for one in rows if one["macs"] != one["macs_counted"] and one["read"]]
    assert not wrong, wrong


if __name__ == "__main__":
    main()
