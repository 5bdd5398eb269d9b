"""Markdown files as tests read them: fenced blocks, run and compared with what stands there."""

import fcntl
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^(?:<!-- ([\w. -]+) -->\n)?```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_UNSTABLE = (
    (re.compile(r"^[\d,]+ events in .*$", re.MULTILINE), "EVENTS"),
    (re.compile(r"^(version +).*$", re.MULTILINE), r"\1VERSION"),
    (re.compile(r"^((?:rows|segments|file size) +).*$", re.MULTILINE), r"\1ROWS"),
    (re.compile(r"\d\.\de-\d+"), "DEVIATION"),
)


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, and where the text stands in the file.

    A comment on the line before is a ``note``: ``heavy 9``, or the name of the file that it is.
    """

    language: str
    text: str
    start: int
    end: int
    note: str = ""


def blocks(text: str) -> list[Block]:
    """Find the fenced blocks of a Markdown text."""
    return [
        Block(found[2], found[3], found.start(3), found.end(3), found[1] or "")
        for found in _FENCE.finditer(text)
    ]


def blocks_of(path: Path, language: str) -> list[Block]:
    """Find the blocks of one language in a file."""
    return [one for one in blocks(path.read_text(encoding="utf-8")) if one.language == language]


def rewrite(path: Path, texts: Mapping[int, str]) -> None:
    """Give blocks of a file, by their numbers, new texts; several processes may do so at once.

    The file is read when its turn has come, and replaced whole: who reads it meanwhile never
    finds a part of it.
    """
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        text = path.read_text(encoding="utf-8")
        found = blocks(text)
        for number in sorted(texts, reverse=True):
            block = found[number]
            text = text[: block.start] + texts[number] + text[block.end :]
        beside = path.with_name(f"{path.name}.{os.getpid()}.partial")
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    finally:
        os.close(folder)


def session(block: Block) -> list[tuple[str, str]]:
    """Cut a console block into commands and what they print."""
    found: list[tuple[str, str]] = []
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        found.append((command, output))
    return found


def trimmed(text: str) -> str:
    """Drop blanks at the ends of lines and empty lines at the end of the text."""
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n") + "\n"


def timeless(text: str) -> str:
    """Blot out what differs whenever it runs."""
    pattern, replacement = _UNSTABLE[0]
    return trimmed(pattern.sub(replacement, text))


def stable(text: str) -> str:
    """Blot out what may differ between two runs."""
    for pattern, replacement in _UNSTABLE:
        text = pattern.sub(replacement, text)
    return trimmed(text)
