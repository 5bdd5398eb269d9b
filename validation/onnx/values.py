"""Values of the models' convolutions and products: the import and its mappings against onnx.

``python -m validation.onnx.values [--dataflows flat best] [--models PART]`` takes each model with
reduced sizes and random values. The operator that was imported from a Conv, MatMul or Gemm gets the
inputs that onnx's reference evaluator gave that node, in the part of them that it reads, and has to
make what the evaluator made, less the bias. Then the whole workload is mapped on `edge`, run, and
its values are compared. The script writes `values.csv`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import permutations, product
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.ops.op_conv import Conv
from onnx.reference.ops.op_gemm import Gemm_7
from onnx.reference.ops.op_matmul import MatMul

from simaccel import load_accelerator, simulate
from simaccel.diagnosis.check import check
from simaccel.diagnosis.plain_values import einsum_values
from simaccel.importers.onnx_files import load_onnx
from simaccel.schedulers import Options, make_mapping
from simaccel.workload import Einsum, Workload
from validation.onnx.run import OCR, VAD, P, write
from validation.searches import QUICK

SMALL: Final[dict[str, dict[str, int]]] = {
    f"{OCR}/ch_ppocr_mobile_v2.0_cls_infer.onnx": {"x.0": 1, "x.2": 48, "x.3": 64},
    f"{OCR}/ch_PP-OCRv4_det_infer.onnx": {f"{P}.0": 1, f"{P}.1": 32, f"{P}.2": 32},
    f"{OCR}/ch_PP-OCRv4_rec_infer.onnx": {f"{P}.0": 1, "?": 48, f"{P}.1": 16},
    f"{VAD}/silero_vad_16k_op15.onnx": {"batch": 1, "sequence": 576},
    f"{VAD}/silero_vad_openvino_16k.onnx": {},
    f"{VAD}/silero_vad_half.onnx": {"batch": 1, "sequence": 576},
}
"""Models, and the sizes of their inputs."""
FIELDS: Final = (
    "model",
    "macs",
    "nodes",
    "macs_compared",
    "wrong",
    "dataflow",
    "cycles",
    "checked",
)
_CLOSE: Final = 1e-3
"""Of the largest value: the evaluator has 32-bit numbers, one model 16-bit ones."""
Array = np.ndarray[Any, np.dtype[np.float64]]
Seen = dict[str, tuple[list[Array], Array, dict[str, Any]]]
"""Inputs, output and attributes by node."""


def _recording(base: type, kind: str, seen: Seen) -> type:
    """Return an operator of the reference that notes what its nodes get and make."""

    def run(self: Any, *given: Any, **how: Any) -> Any:  # noqa: ANN401 - of the evaluator
        made = base._run(self, *given, **how)  # type: ignore[attr-defined]
        seen[self.onnx_node.name] = [one for one in given if one is not None], made[0], how
        return made

    return type(kind, (base,), {"op_domain": "", "_run": run})


def evaluated(path: Path, dims: Mapping[str, int]) -> Seen:
    """Run a model on random values in onnx's evaluator; return what its products got and made."""
    seen: Seen = {}
    model, numbers, inputs = onnx.load(str(path)), np.random.default_rng(0), {}
    kinds: list[tuple[type, str]] = [(Conv, "Conv"), (Gemm_7, "Gemm"), (MatMul, "MatMul")]
    evaluator = ReferenceEvaluator(model, new_ops=[_recording(*kind, seen) for kind in kinds])
    constants = {constant.name for constant in model.graph.initializer}
    for model_input in model.graph.input:
        if model_input.name in constants:
            continue
        kind = model_input.type.tensor_type
        shape = [
            dims.get(f"{model_input.name}.{at}", dims.get(dim.dim_param, dim.dim_value))
            for at, dim in enumerate(kind.shape.dim)
        ]
        number = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        values = numbers.normal(size=shape)
        inputs[model_input.name] = np.full(
            shape, 16_000 if model_input.name == "sr" else values
        ).astype(number)
    evaluator.run(None, inputs)
    return seen


def _padded(x: Array, how: Mapping[str, Any]) -> Array:
    """Return what a convolution's windows go over."""
    pads, spatial = how.get("pads") or [0, 0] * (x.ndim - 2), x.ndim - 2
    return np.pad(x, [(0, 0), (0, 0), *zip(pads[:spatial], pads[spatial:], strict=True)])


def compared(einsum: Einsum, of: Workload, node: tuple[list[Array], Array, dict[str, Any]]) -> str:
    """Return in what an operator differs from what onnx's evaluator made of a node, if it does.

    A product may read and leave its tensors in another order of axes: a Transpose costs nothing.
    """
    (x, weights, *bias), made, how = node
    is_conv = "kernel_shape" in how
    expected = made.astype(np.float64)
    if bias:
        expected = expected - bias[0].reshape(-1, *[1] * (made.ndim - 2) * is_conv)
    limit = _CLOSE * float(np.abs(expected).max())
    least = float("inf")
    values = [_padded(x, how) if is_conv else x, weights]
    shapes = [operand.shape(einsum.ranks) for operand in einsum.inputs]
    ways = [
        list(_blocks(value, shape, is_conv)) for value, shape in zip(values, shapes, strict=True)
    ]
    for blocks in product(*ways):
        computed = _made(einsum, of, blocks)
        for block in _blocks(expected, computed.shape, is_conv):
            least = min(least, float(np.abs(computed - block).max()))
    return "" if least <= limit else f"{least:.3g} off, at most {limit:.3g}"


def _made(einsum: Einsum, of: Workload, blocks: Sequence[Array]) -> Array:
    tensors = {}
    for given, block in zip(einsum.inputs, blocks, strict=True):
        tensors[given.tensor] = np.zeros(of.shapes[given.tensor])
        tensors[given.tensor][given.box(einsum.ranks)] = block
    return einsum_values(einsum, tensors)


def _blocks(value: Array, shape: Sequence[int], is_conv: bool) -> Iterator[Array]:  # noqa: FBT001
    """Yield a tensor as an operator reads it, in its box: as much as it reads.

    Axes of size 1 may be gone. Of a product in each order of its axes.
    """
    value = value.reshape([n for n in value.shape if n > 1] or [1]).astype(np.float64)
    if math.prod(shape) == value.size:
        yield value.reshape(shape)
        for order in () if is_conv else permutations(range(value.ndim)):
            yield value.transpose(order).reshape(shape)
        for order in () if is_conv else permutations(range(len(shape))):
            yield value.reshape([shape[at] for at in order]).transpose(np.argsort(order))
        return
    most = [n for n in shape if n > 1]
    if is_conv and len(most) == value.ndim:
        yield value[tuple(slice(n) for n in most)].reshape(shape)


def rows(
    path: Path, dims: Mapping[str, int], dataflows: Sequence[str], options: Options
) -> Iterator[dict[str, Any]]:
    """Compare a model by nodes, then run it by each dataflow."""
    of, seen = load_onnx(path, dims).workload, evaluated(path, dims)
    wrong, nodes, macs = [], 0, 0
    for operator in of.operators:
        if not isinstance(operator, Einsum) or operator.name not in seen:
            continue
        nodes, macs = nodes + 1, macs + operator.macs
        if problem := compared(operator, of, seen[operator.name]):
            wrong.append(f"{path.name}: {operator.name}: {problem}")
    if wrong:
        print(*wrong, sep="\n")
    counts = {"model": path.name, "macs": of.macs, "nodes": nodes, "macs_compared": macs}
    counts["wrong"] = len(wrong)
    yield counts
    on = load_accelerator("edge")
    for dataflow in dataflows:
        mapping = make_mapping(of, on, dataflow, options)
        result = simulate(of, on, mapping)
        checks = check(of, mapping, result.program)
        checked = sum(operator.compared for operator in checks)
        cycles = result.run.cycles
        yield {**counts, "dataflow": dataflow, "cycles": cycles, "checked": checked}


def main() -> None:
    """Write `values.csv`; models whose package isn't installed are left out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataflows", nargs="*", default=("flat", "best"))
    parser.add_argument("--models", default="", help="those whose name has this in it")
    parser.add_argument(
        "--quick", action="store_true", help="fewest bytes by counts: a search of seconds"
    )
    asked = parser.parse_args()
    options = QUICK if asked.quick else Options()
    results = []
    for name, dims in SMALL.items():
        package, _, inside = name.partition("/")
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            print(f"{name}: package {package} is not installed")
        elif asked.models in name:
            for row in rows(Path(spec.origin).parent / inside, dims, asked.dataflows, options):
                results.append(row)
                print(row, flush=True)
    if len({result["model"] for result in results}) == len(SMALL):
        write("values.csv", FIELDS, results)
    assert not any(result["wrong"] for result in results)


if __name__ == "__main__":
    main()
