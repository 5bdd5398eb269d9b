"""What a file of another tool looks like, by its content and not by its name."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from simaccel.files.directives.grammar import is_description

Look = Literal["onnx", "configuration", "topology", "description"]

WORDS: Final[dict[Look, str]] = {
    "onnx": "an ONNX model, which is a --workload",
    "configuration": "a SCALE-Sim configuration, which is given with --hw",
    "topology": "a SCALE-Sim topology, which is a --workload",
    "description": "a MAESTRO description, which is a --workload, or with directives a --mapping",
}
"""What each is, and where it is taken."""
_MOST_READ: Final = 2**16
_CONFIGURATION: Final = re.compile(r"^\s*\[architecture_presets\]\s*$", re.MULTILINE)
_TOPOLOGY: Final = re.compile(
    r"\A\s*layer[^,\n]*,[^\n]*(ifmap|filter|\bm\s*,\s*n\s*,\s*k\b)", re.IGNORECASE
)
_ONNX: Final = re.compile(rb"\A\x08[\x01-\x20][\x12\x3a\x42]")
"""A protobuf whose first field is a small number, the version, and then a name, graph or opset."""


def look_of(path: Path) -> Look | None:
    """Return what a file looks like; None if it can't be read, or looks like nothing of these."""
    data = b""
    with suppress(OSError, ValueError):
        if path.is_file():
            with path.open("rb") as stream:
                data = stream.read(_MOST_READ)
    if _ONNX.match(data):
        return "onnx"
    text = data.decode("utf-8", errors="replace").removeprefix("\ufeff")
    if _CONFIGURATION.search(text):
        return "configuration"
    if _TOPOLOGY.match(text):
        return "topology"
    return "description" if is_description(text) else None
