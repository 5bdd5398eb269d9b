"""Kinds of other tools' files, recognised by the beginning of their content.

A kind that simaccel reads is the name of its reader; the others get advice in the error message.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

Tool = Literal["ZigZag", "Stream", "AccelForge", "LLMCompass", "ONNXim", "ASTRA-sim"]
"""Tools whose files are recognised, but not read."""
_ReadKind = Literal["onnx", "configuration", "topology", "layout", "description", "config"]
_UnreadKind = Literal["weights", "MAESTRO's hardware", "Timeloop's others"]
FileKind = _ReadKind | _UnreadKind | Tool

_UNREAD: Final = (
    "which simaccel does not read: write an accelerator (`simaccel hw new NAME -o FILE`); "
)
KIND_ADVICE: Final[dict[FileKind, str]] = {
    "onnx": "an ONNX model, which is a --workload",
    "configuration": "a SCALE-Sim configuration, which is given with --hw",
    "topology": "a SCALE-Sim topology, which is a --workload",
    "layout": "a SCALE-Sim layout of memory banks, which simaccel does not model: leave it out",
    "config": "a Hugging Face config.json, which is a --workload",
    "description": "a MAESTRO description, which is a --workload, with its directives by "
    "--dataflow directives",
    "weights": "weights of a model (PyTorch, Keras, TFLite, GGUF, safetensors): export it to ONNX, "
    "with or without its weights, or give the config.json of a transformer",
    "MAESTRO's hardware": "a hardware file of MAESTRO, which is given with `directives --hw`",
    "Timeloop's others": "a mapper, mapping, constraints or components of Timeloop, which simaccel "
    "does not read: its problem is a --workload, its architecture is given with --hw",
    "ZigZag": f"a file of ZigZag, {_UNREAD}its ONNX model is a --workload, loops are written as "
    "a --mapping (simaccel map)",
    "Stream": f"a file of Stream, {_UNREAD}one core of it is an accelerator, its ONNX model is a "
    "--workload",
    "AccelForge": f"a file of AccelForge, {_UNREAD}its einsums are a workload of the kind einsums; "
    "Timeloop's own files are read as they are",
    "LLMCompass": f"a device of LLMCompass, {_UNREAD}one core of it is an accelerator, its model a "
    "transformer (simaccel workload list, or a config.json)",
    "ONNXim": f"a file of ONNXim, {_UNREAD}one core of it is an accelerator, its ONNX models are "
    "--workloads",
    "ASTRA-sim": f"a file of ASTRA-sim, {_UNREAD}its topology is the section links and --chips "
    "(2^30 B/s for each of its GB/s), its collectives follow from how a workload is cut over chips",
}
"""Kind of file -> its description in an error, with the option that takes it or the alternative."""
_SNIFFED_BYTES: Final = 2**16
"""Bytes at the beginning of a file that are searched for a pattern."""
_CONFIGURATION: Final = re.compile(r"^\s*\[architecture_presets\]\s*$", re.MULTILINE)
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_DESCRIPTION: Final = re.compile(r"\A\s*(?:Constant\s+[^\s:{]+\s*:?\s*[0-9]|Network\b[^{}:]*\{)")
"""The beginning of a MAESTRO description, once comments are removed."""
_TOPOLOGY: Final = re.compile(
    r"\A\s*layer[^,\n]*,[^\n]*(ifmap|filter|\bm\s*,\s*n\s*,\s*k\b)", re.IGNORECASE
)
_STREAM: Final = "offchip_core|offchip_core_id|core_connectivity|core_allocation|intra_core_tiling"
_ACCELFORGE: Final = "tensor_accesses|iteration_space_shape|rank_sizes|bits_per_value"
_ZIGZAG: Final = "operational_array|memory_operand_links|loop_dims"
_ASTRA_TOPOLOGY: Final = "npus_count|npus-count"
_ASTRA_SYSTEM: Final = "all-(?:reduce|gather|to-all)-implementation|scheduling-policy"
_MAESTRO_HARDWARE: Final = "num_pes|l1_size_cstr|l2_size_cstr|noc_bw_cstr|NumPEs|NoC_BW|NoC_NumHops"
_TIMELOOP_SECTIONS: Final = (
    "mapper|mapping|constraints|architecture_constraints|mapspace_constraints"
)
_TIMELOOP_PARTS: Final = "components|compound_components|mapspace|sparse_optimizations"
_TEXTS: Final[dict[FileKind, re.Pattern[str]]] = {
    "configuration": _CONFIGURATION,
    "config": re.compile(r'\A\s*\{.*"(model_type|architectures)"\s*:', re.DOTALL),
    "MAESTRO's hardware": re.compile(rf"^\s*({_MAESTRO_HARDWARE})\s*:", re.MULTILINE),
    "layout": re.compile(r"\A[^\n]*intraline", re.IGNORECASE),
    "topology": _TOPOLOGY,
    "Stream": re.compile(rf"^\s*({_STREAM}):|^type: aie2?p?\.", re.MULTILINE),
    "ZigZag": re.compile(rf"^\s*({_ZIGZAG}):", re.MULTILINE),
    "AccelForge": re.compile(
        rf"^\s*-?\s*(!(Memory|Toll|Compute|Fanout|Network)\b|({_ACCELFORGE}):)|^-\s+binding:$|"
        r'^  einsums:\s*\n(\s*#[^\n]*\n)*\s*- "?\w+\[',
        re.MULTILINE,
    ),
    "LLMCompass": re.compile(r'\A\s*\{.*"compute_chiplet(_count)?"\s*:', re.DOTALL),
    "ONNXim": re.compile(
        r'\A\s*\{(.*"(core_config|core_type|dram_config_path|icnt_config_path)"|'
        r'\s*"models"\s*:\s*\[\s*\{.*"(request_time|batch_size|trace_file)")\s*:',
        re.DOTALL,
    ),
    "ASTRA-sim": re.compile(
        rf"^\s*({_ASTRA_TOPOLOGY}):\s*(\[|$)|^\s*\"({_ASTRA_SYSTEM})\"\s*:", re.MULTILINE
    ),
    "Timeloop's others": re.compile(
        rf"\A(?!.*^(arch|architecture|problem|kind)\s*:).*?^({_TIMELOOP_SECTIONS}|{_TIMELOOP_PARTS})\s*:",
        re.MULTILINE | re.DOTALL,
    ),
}
"""Kind of text file -> a pattern that only such files match, tried in this order."""
_ONNX: Final = re.compile(rb"\A\x08[\x01-\x20][\x12\x3a\x42]")
"""An ONNX ModelProto: field 1, a version of at most 32, then a name (2), graph (7) or opset (8)."""
_WEIGHTS: Final = re.compile(
    rb"\A(GGUF|....TFL3|\x89HDF|PK\x03\x04|\x80[\x02-\x05]|.{7}\0\{)", re.DOTALL
)
"""GGUF, TFLite, HDF5, archives as of PyTorch, pickles, safetensors (a length, then JSON)."""


def accelerator_name(path: Path) -> str:
    """Return a file's name without its ending as the name of an accelerator."""
    return "".join(one if one.isalnum() or one in "_.-" else "_" for one in path.stem)


def sniff_kind(path: Path) -> FileKind | None:
    """Return the kind of a file by its content; None if it is unreadable or of no known kind."""
    data = b""
    with suppress(OSError, ValueError):
        if path.is_file():
            with path.open("rb") as stream:
                data = stream.read(_SNIFFED_BYTES)
    if _ONNX.match(data):
        return "onnx"
    if _WEIGHTS.match(data):
        return "weights"
    text = data.decode("utf-8", errors="replace").removeprefix("\ufeff")
    if _DESCRIPTION.match(_COMMENT.sub(" ", text)):
        return "description"
    return next((kind for kind, pattern in _TEXTS.items() if pattern.search(text)), None)
