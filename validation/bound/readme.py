"""The figures in the README, between markers."""

from __future__ import annotations

from pathlib import Path


def write_figures(name: str, text: str, path: Path) -> None:
    """Put the figures between the markers of this name."""
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    old = path.read_text(encoding="utf-8")
    head, rest = old.split(start)
    tail = rest.split(end)[1]
    path.write_text(f"{head}{start}{text}\n{end}{tail}", encoding="utf-8")
