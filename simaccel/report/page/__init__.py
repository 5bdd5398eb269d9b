"""A trace as one self-contained HTML page: no network, no library, no server."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from simaccel.files.targets import require_target, writing_text
from simaccel.report.page.data import document, timeline
from simaccel.trace import TraceReader

__all__ = ["document", "page_text", "timeline", "write_page"]

_SCRIPTS = ("model.js", "lanes.js", "loops.js", "tip.js", "viewer.js")


def page_text(data: dict[str, Any]) -> str:
    """Return the page around a document."""
    # A "<" in the data, in a tile's name say, could end the script element that holds them.
    embedded = json.dumps(data, separators=(",", ":"), sort_keys=True).replace("<", "\\u003c")
    parts = {
        "title": html.escape(f"{data['title']} - simaccel"),
        "style": _part("viewer.css"),
        "script": "\n".join(map(_part, _SCRIPTS)),
        "data": embedded,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _part("page.html"))


def write_page(
    trace: TraceReader, path: str | Path, *, force: bool = False, said: Sequence[str] = ()
) -> int:
    """Write the page of a trace to ``path``, and return its size in bytes.

    ``said``: sentences at the top, such as those of `simaccel trace stalls`.

    Raises:
        InputError: the page can't be written (see ``require_target``), or would replace the trace.
        TraceError: the trace is damaged or too long for a page.

    """
    inputs = (trace.path,)
    require_target(path, force=force, inputs=inputs, text=True)
    text = page_text({**document(trace), "said": list(said)})
    with writing_text(path, force=force, inputs=inputs) as stream:
        stream.write(text)
    return len(text.encode())


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
