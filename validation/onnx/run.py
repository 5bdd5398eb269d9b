"""ONNX models that nobody here wrote: what is mapped, MACs against a count, and what stays on chip.

The models are in packages of others: `pip install --no-deps rapidocr-onnxruntime==1.4.4
silero-vad==6.2.3`, and `python -m validation.onnx.run`.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from simaccel import load_accelerator, simulate
from simaccel.workload.onnx_files import load_onnx
from simaccel.workload.onnx_files.reading import Network, read_network

HERE = Path(__file__).parent
OCR, VAD = "rapidocr_onnxruntime/models", "silero_vad/data"
_MOST_HELD = 10**8
"""MACs of a model that is run with and without what is held: minutes of search for larger ones."""
_P = "p2o.DynamicDimension"
MODELS: dict[str, dict[str, int]] = {
    f"{OCR}/ch_PP-OCRv4_det_infer.onnx": {f"{_P}.0": 1, f"{_P}.1": 320, f"{_P}.2": 320},
    f"{OCR}/ch_PP-OCRv4_rec_infer.onnx": {f"{_P}.0": 1, "?": 48, f"{_P}.1": 320},
    f"{OCR}/ch_ppocr_mobile_v2.0_cls_infer.onnx": {"x.0": 1, "x.2": 48, "x.3": 192},
    f"{VAD}/silero_vad_16k_op15.onnx": {"batch": 1, "sequence": 576},
    f"{VAD}/silero_vad_16k_sequence.onnx": {"sequence_length": 4},
    f"{VAD}/silero_vad_openvino_16k.onnx": {},
}
FIELDS = ("model", "constants", "taken", "harmless", "not_taken", "operators")
FIGURES = ("tensors", "shared", "macs", "macs_counted", "edge_cycles", "edge_ms")
HELD = ("model", "resident", "dram_bytes", "weight_bytes", "cycles", "bound")


def counted(network: Network) -> int:
    """Count MACs by outputs: each element of one is a sum over its part of the weights."""
    found = 0
    for node in network.nodes:
        shapes = [network.shapes.get(name, ()) for name in node.input]
        made = math.prod(network.shapes[node.output[0]])
        if node.op_type == "Conv":
            found += made * math.prod(shapes[1][1:])
        elif node.op_type == "ConvTranspose":
            found += math.prod(shapes[0]) * math.prod(shapes[1][1:])
        elif node.op_type in {"MatMul", "Gemm"}:
            found += made * shapes[0][-1]
        elif node.op_type == "LSTM":
            steps, batch, _ = shapes[0]
            found += steps * batch * (math.prod(shapes[1]) + math.prod(shapes[2]))
    return found


def row(path: Path, dims: Mapping[str, int]) -> dict[str, Any]:
    """Import a model, run it on `edge`, and count its MACs again."""
    imported = load_onnx(path, dims)
    kinds = [one.kind for one in imported.workload.tensors.values()]
    made = kinds.count("intermediate") + kinds.count("output")
    totals = imported.workload.account.totals()
    found = {how.replace(" ", "_"): n for how, (n, _, _) in totals.items()}
    accelerator = load_accelerator("edge")
    result = simulate(imported.workload, accelerator)
    return {
        "model": path.name,
        "constants": imported.constants,
        **found,
        "operators": len(imported.workload.operators),
        "tensors": made,
        "shared": kinds.count("intermediate"),
        "macs": imported.workload.macs,
        "macs_counted": counted(read_network(path, dims)),
        "edge_cycles": result.run.cycles,
        "edge_ms": round(1e3 * accelerator.seconds(result.run.cycles), 4),
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


def _write(name: str, fields: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
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
        rows.append(row(Path(spec.origin).parent / inside, dims))
        print(rows[-1], flush=True)
        assert rows[-1]["macs"] == rows[-1]["macs_counted"]
        if rows[-1]["macs"] < _MOST_HELD:
            kept += list(held(Path(spec.origin).parent / inside, dims))
            print(*kept[-2:], sep="\n")
    if len(rows) == len(MODELS):
        _write("models.csv", (*FIELDS, *FIGURES), rows)
        _write("held.csv", HELD, kept)


if __name__ == "__main__":
    main()
