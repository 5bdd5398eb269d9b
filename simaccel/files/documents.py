"""YAML documents of limited size, with the numbers of YAML 1.2.

Only notations that YAML 1.1 and 1.2 share are numbers, booleans or null: ``1:30:00`` is text and
not 5400, ``no`` is text and not false, ``010`` is text and not 8, a date is text. Text of YAML 1.1
stays text, so documents that PyYAML writes are read back unchanged.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

import yaml

from simaccel.errors import ABSENT, Fault, InputError
from simaccel.files.limits import MAX_BYTES, MAX_DEPTH, MAX_NODES

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_MERGE: Final = "tag:yaml.org,2002:merge"


class DocumentError(ValueError):
    """A document is refused; the message has the reason."""


def document_text(document: object, *, wide: bool = False) -> str:
    """Return plain values as YAML, keys in their order.

    ``wide``: without line breaks in values, and with unescaped letters of any language.

    >>> print(document_text({"b": [1, None], "a": "no"}), end="")
    b:
    - 1
    - null
    a: 'no'
    """
    layout: dict[str, Any] = {"width": 10_000, "allow_unicode": True} if wide else {}
    return str(yaml.dump(document, Dumper=_Dumper, sort_keys=False, **layout))


class _YamlLoader(_Base):  # type: ignore[misc]
    """A loader of plain values with the numbers of YAML 1.2."""

    yaml_implicit_resolvers: Final[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge the keys of `<<` into a mapping; its own keys have priority."""
        own = [pair for pair in node.value if pair[0].tag != _MERGE]
        merges = len(own) < len(node.value)
        super().flatten_mapping(node)
        if merges:
            own_keys = {str(key.value) for key, _ in own}
            pairs = node.value[: len(node.value) - len(own)]
            merged = {str(key.value): (key, value) for key, value in pairs}
            node.value = [*(pair for name, pair in merged.items() if name not in own_keys), *own]


def _tag_mapping(loader: Any, node: yaml.Node) -> dict[str, Any]:  # noqa: ANN401 - a C type
    """Return a tagged mapping of Timeloop's, such as `!Parallel {...}`, with its `tag`."""
    if node.tag == _NOTHING:
        return {"tag": node.tag.removeprefix("!")}
    if not isinstance(node, yaml.MappingNode):
        raise yaml.constructor.ConstructorError(None, None, f"{node.tag} of no mapping")
    return {**loader.construct_mapping(node, deep=True), "tag": node.tag.removeprefix("!")}


_NOTHING: Final = "!Nothing"
"""The tag of an empty branch, whatever it has."""
TAGS: Final = (
    *("Component", "Element", "Container", "Parallel", "Hierarchical", "Pipelined", "Array"),
    *("Fanout", "Memory", "Compute", "Toll", "Hierarchy", "Storage", "Temporal", "Spatial"),
)
"""Kinds of nodes that files of Timeloop and AccelForge have."""
for _name in (_NOTHING, *(f"!{name}" for name in TAGS)):
    _YamlLoader.add_constructor(_name, _tag_mapping)
_NUMBERS = "-+0123456789."
for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?[0-9]+\.[0-9]*(?:[eE][-+][0-9]+)?|\.[0-9]+(?:[eE][-+][0-9]+)?", _NUMBERS),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", _NUMBERS),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("merge", r"<<", "<"),
):
    _YamlLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), [*_first]
    )


def read_text(path: Path, kind: str, encoding: str = "utf-8") -> str:
    """Read a text file of at most ``MAX_BYTES``; ``kind``: its expected format, such as YAML.

    Raises:
        InputError: as ``read_bytes``, or it is no text.
    """
    try:
        return read_bytes(path, kind, MAX_BYTES).decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError([Fault(str(path), "file", error.reason, "UTF-8 text")]) from None


def read_bytes(path: Path, kind: str, most: int) -> bytes:
    """Read a file of at most ``most`` bytes.

    Raises:
        InputError: there is no such file, it is no regular file (reading a FIFO or a device may
            never end), or it is too large.
    """
    file = str(path)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            is_folder = stat.S_ISDIR(status.st_mode)
            problem = os.strerror(errno.EISDIR) if is_folder else "a FIFO, socket or device"
            raise InputError([Fault(file, "file", problem, f"a readable {kind} file")])
        if status.st_size <= most:
            with path.open("rb") as stream:
                data = stream.read(most + 1)
        if status.st_size > most or len(data) > most:
            problem, allowed = f"{max(status.st_size, most + 1)} bytes", f"at most {most} bytes"
            raise InputError([Fault(file, "file", problem, allowed)])
    except FileNotFoundError:
        raise InputError([Fault(file, "file", ABSENT, f"an existing {kind} file")]) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError([Fault(file, "file", reason, f"a readable {kind} file")]) from None
    return data


def compose(text: str) -> tuple[yaml.Node | None, Any]:
    """Parse a document; return its tree of nodes and its value.

    Raises:
        yaml.YAMLError: it is no YAML.
        DocumentError: it has too many values, directly or by aliases, or is nested too deeply.
        ValueError: a value that Python can't hold.
    """
    if len(text) > MAX_BYTES:
        raise DocumentError(f"a document of {len(text)} characters, more than {MAX_BYTES}")
    depth = nodes = 0
    for event in yaml.parse(text, Loader=_YamlLoader):
        nodes += isinstance(event, yaml.NodeEvent)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise DocumentError(f"lists and mappings nested deeper than {MAX_DEPTH}")
        if nodes > MAX_NODES:
            raise DocumentError(f"more than {MAX_NODES} values")
    loader = _YamlLoader(text)
    try:
        root = cast("yaml.Node | None", loader.get_single_node())
        if root is None:
            return None, None
        _require_bounded(root)
        return root, loader.construct_document(root)
    finally:
        loader.dispose()


def parse_document(text: str) -> Any:  # noqa: ANN401 - plain data of any form
    """Return the value of a document.

    >>> parse_document("{a: 1:30, b: no, c: 1.5, d: [2, ~]}")
    {'a': '1:30', 'b': 'no', 'c': 1.5, 'd': [2, None]}

    Raises:
        ValueError: it is no YAML, or refused by ``compose``.
    """
    try:
        return compose(text)[1]
    except yaml.YAMLError as error:
        raise ValueError(str(error).splitlines()[0]) from None


def _require_bounded(root: yaml.Node) -> None:
    """Refuse a document whose aliases make too many values, or contain themselves."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()
    todo = [(root, False)]
    while todo:
        node, is_done = todo.pop()
        key = id(node)
        if is_done:
            open_nodes.discard(key)
            sizes[key] = 1 + sum(sizes[id(child)] for child in _children(node))
            if sizes[key] > MAX_NODES:
                raise DocumentError(f"more than {MAX_NODES} values, by its aliases")
        elif key in open_nodes:
            raise DocumentError("a value that contains itself")
        elif key not in sizes:
            open_nodes.add(key)
            todo.append((node, True))
            todo += [(child, False) for child in _children(node)]


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for pair in node.value:
            yield from pair
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


_KINDS: Final = {
    "architecture": "a Timeloop architecture, which is given with --hw",
    "array": "an accelerator, which is given with --hw",
    "groups": "a mapping, which is given with --mapping",
    "kind": "a workload of simaccel, which is a --workload",
    "problem": "a Timeloop problem, which is a --workload",
    **dict.fromkeys(
        ("mapper", "mapping", "mapspace_constraints", "architecture_constraints"),
        "a mapper, mapping or constraints of Timeloop, which simaccel does not read",
    ),
}
"""Kinds of documents, by a field that one of another kind doesn't have."""


def refuse_others(document: Mapping[Any, Any], own: str, file: str, expected: str) -> None:
    """Refuse a document without the field ``own`` that has the field of another kind.

    Raises:
        InputError: ``expected``, the kind that it looks like, and the option for that.
    """
    for field, kind in _KINDS.items():
        if field in document and own not in document:
            allowed = f"{expected}; this looks like {kind}"
            raise InputError([Fault(file, "document", field, allowed)])
