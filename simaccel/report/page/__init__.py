"""A trace as one HTML page that needs nothing else: no network, no library, no server."""

from __future__ import annotations

import html
import json
import re
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from secrets import token_hex
from typing import Any

from simaccel.report.page.data import document, timeline
from simaccel.trace import Trace, TraceError, require_target

__all__ = ["document", "page_text", "timeline", "write_page"]

_SCRIPTS = ("model.js", "lanes.js", "loops.js", "tip.js", "viewer.js")


def page_text(data: dict[str, Any]) -> str:
    """Put the page together around a document."""
    title = " ".join(str(data[name]) for name in ("workload", "accelerator", "dataflow"))
    # A "<" in the data, in a tile's name say, could end the script element that holds them.
    embedded = json.dumps(data, separators=(",", ":"), sort_keys=True).replace("<", "\\u003c")
    parts = {
        "title": html.escape(f"{title} - simaccel"),
        "style": _part("viewer.css"),
        "script": "\n".join(map(_part, _SCRIPTS)),
        "data": embedded,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _part("page.html"))


def write_page(trace: Trace, path: str | Path, *, force: bool = False) -> int:
    """Write a trace's page to ``path`` and give its size in bytes.

    Raises:
        TraceError: the file exists and ``force`` is not given, it can't be written, or the
            trace is damaged or too long for a page.

    """
    path = require_target(path, force=force)
    if path.exists() and path.samefile(trace.path):
        raise TraceError(path, "is the trace itself", "another file for the page")
    content = page_text(document(trace)).encode()
    partial = path.with_name(f".{path.name}.{token_hex(4)}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        raise TraceError(path, f"can't be written: {error}", "a file that can be written") from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
    return len(content)


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
