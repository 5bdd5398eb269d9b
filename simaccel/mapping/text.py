"""The text form of a mapping: one node a line; what is printed parses to the same mapping."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Mapping as Map
from typing import Any, TypeVar

from simaccel.errors import Fault, InputError, require_none
from simaccel.mapping.documents import (
    MappingReader,
    TextLine,
    mapping_document,
    parse_mapping,
    tree_document,
)
from simaccel.mapping.node_text import (
    JOINED,
    MERGING,
    ON,
    PADDED,
    LineError,
    LineReader,
    name_text,
    parse_place,
    place_text,
)
from simaccel.mapping.tree import Mapping, Tree

_FILE = "mapping"
_BAR = "| "
_KEEP = "keep "
_WITH_BRANCHES = ("fork", "part")
BEGINNING = "mapping "
"""What the text form of a mapping begins with."""
_HEADER = "mapping DATAFLOW of WORKLOAD [FINGERPRINT]"
_GROUP = (
    "group OPERATOR+OPERATOR on cores FIRST-LAST joined merging RANK=RANK,RANK padded RANK=SIZE"
)
Made = TypeVar("Made")


def tree_text(mapping: Mapping) -> str:
    r"""Return the text of a mapping: a node a line, keeps side by side on one, two spaces a level.

    >>> from simaccel.mapping.tree import Group, WorkloadReference
    >>> one = Group(operators=("A",), tree=parse_tree("loop q 64\nkeep Z buffer\ndo A array ws"))
    >>> of = WorkloadReference("bert", "0123")
    >>> print(tree_text(Mapping(workload=of, dataflow="flex", body=(one,))), end="")
    mapping flex of bert 0123
      group A
        loop q 64
        keep Z buffer
        do A array ws
    """
    document = mapping_document(mapping)
    names = [document["dataflow"], "of", *document["workload"].values()]
    lines = [" ".join(["mapping", *map(name_text, names)])]
    for part in document["groups"]:
        if "groups" not in part:
            lines += _indent_lines(_group_lines(part))
            continue
        inside = [f"{_KEEP}{', '.join(part['keep'])}"] if part["keep"] else []
        for group in part["groups"]:
            inside += _group_lines(group)
        lines += _indent_lines(["around", *_indent_lines(inside)])
    return "\n".join([*lines, ""])


def _indent_lines(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _group_lines(group: Map[str, Any]) -> list[str]:
    words = ["group", "+".join(map(name_text, group["operators"]))]
    if "place" in group:
        words += [ON, group["place"]]
    words += [JOINED] * group.get("joined", False)
    if "merged" in group:
        words.append(MERGING)
        for rank, ranks in group["merged"].items():
            words.append(f"{name_text(rank)}={','.join(map(name_text, ranks))}")
    if "padded" in group:
        words.append(PADDED)
        words += [f"{name_text(rank)}={size}" for rank, size in group["padded"].items()]
    return [" ".join(word for word in words if word), *_indent_lines(_node_lines(group["tree"]))]


def tree_lines(tree: Tree) -> list[str]:
    """Return the lines of a tree; a branch begins with a bar before its first node."""
    return _node_lines(tree_document(tree))


def _node_lines(nodes: Sequence[Any]) -> list[str]:
    """Return the lines of nodes; keeps side by side are on one line."""
    lines: list[str] = []
    before = ""
    for node in nodes:
        ((text, branches),) = node.items() if isinstance(node, dict) else ((node, ()),)
        if text.startswith(_KEEP) and before.startswith(_KEEP):
            lines[-1] += f", {text.removeprefix(_KEEP)}"
        else:
            lines.append(text)
        before = text
        for branch in branches:
            first, *others = _node_lines(branch) or [""]
            lines += _indent_lines([f"{_BAR}{first}".rstrip(), *_indent_lines(others)])
    return lines


def parse_text(text: str, file: str = _FILE) -> Mapping:
    """Return the mapping that a text describes; ``file``: its name in messages.

    Raises:
        InputError: names the line that can't be read.
    """
    return parse_mapping(_Parser(_lines(text), file).mapping(), file)


def parse_tree(text: str, file: str = _FILE) -> Tree:
    """Return the tree that a text of nodes alone describes; ``file``: its name in messages.

    Raises:
        InputError: names the line that can't be read.
    """
    parser = _Parser(_lines(text), file)
    nodes = parser.tree(parser.left[0].indent if parser.left else 0)
    reader = MappingReader(file)
    tree = reader.tree(nodes, "tree")
    require_none(reader.faults)
    parser.end("a node at the indentation of a tree around it")
    return tree


def _lines(text: str) -> list[TextLine]:
    """Split a text into lines; a bar counts as a line, and the node after it as another."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        rest = line.lstrip(" ")
        while rest == "|" or rest.startswith(_BAR):
            found.append(TextLine("|", number, len(line) - len(rest)))
            rest = rest[1:].lstrip(" ")
        if rest:
            found.append(TextLine(rest.rstrip(), number, len(line) - len(rest)))
    return found


class _Parser:
    """A parser of the lines of a text to a document (`documents`)."""

    def __init__(self, lines: list[TextLine], file: str) -> None:
        self.left, self.file = lines, file

    def _read(self, read: Callable[[str], Made], allowed: str) -> Made:
        if not self.left:
            raise InputError([Fault(self.file, "end", "nothing", allowed)])
        line = self.left.pop(0)
        try:
            return read(line)
        except LineError as error:
            where = f"line {line.number}"
            raise InputError([Fault(self.file, where, error.value, error.allowed)]) from None

    def _is_inside(self, indent: int) -> bool:
        return bool(self.left) and self.left[0].indent >= indent

    def end(self, allowed: str) -> None:
        """Require that no line is left.

        Raises:
            InputError: names the first that is, and what is allowed in its place.
        """
        if self.left:
            line = self.left[0]
            raise InputError([Fault(self.file, f"line {line.number}", str(line), allowed)])

    def mapping(self) -> dict[str, Any]:
        """Return the document of a mapping."""
        document = self._read(_header, _HEADER)
        document["groups"] = groups = []
        while self._is_inside(1):
            groups.append(self._read_around() if self.left[0] == "around" else self._group())
        self.end("group or around, indented by two spaces")
        return document

    def _read_around(self) -> dict[str, Any]:
        indent = self.left.pop(0).indent + 1
        keeps, groups = list[str](), []
        if self._is_inside(indent) and self.left[0].startswith(_KEEP):
            line = self.left.pop(0)
            keeps.append(TextLine(line.removeprefix(_KEEP), line.number, line.indent))
        while self._is_inside(indent):
            groups.append(self._group())
        return {"keep": keeps, "groups": groups}

    def _group(self) -> dict[str, Any]:
        indent = self.left[0].indent
        group = self._read(_group_of, _GROUP)
        inner = self.left[0].indent if self.left else 0
        return {**group, "tree": self.tree(inner) if inner > indent else []}

    def tree(self, indent: int) -> list[Any]:
        """Return the document of the nodes at an indentation, with their branches."""
        nodes: list[Any] = []
        while self.left and self.left[0].indent == indent and self.left[0] != "|":
            line = self.left.pop(0)
            has_branches = line.partition(" ")[0] in _WITH_BRANCHES
            nodes.append({line: self._branches(indent + 1)} if has_branches else line)
        return nodes

    def _branches(self, least: int) -> list[list[Any]]:
        branches: list[list[Any]] = []
        while self._is_inside(least) and self.left[0] == "|":
            indent = self.left.pop(0).indent
            inner = self.left[0].indent if self.left else 0
            branches.append(self.tree(inner) if inner > indent else [])
        return branches


def _header(text: str) -> dict[str, Any]:
    words = LineReader(text, _HEADER)
    words.need("mapping")
    dataflow = words.name()
    words.need("of")
    name = words.name()
    fingerprint = {"fingerprint": words.name()} if words.left else {}
    words.end()
    return {"dataflow": dataflow, "workload": {"name": name, **fingerprint}}


def _group_of(text: str) -> dict[str, Any]:
    words = LineReader(text, _GROUP)
    words.need("group")
    operators: list[str] = []
    if words.left and not words.is_next(ON, JOINED, MERGING, PADDED):
        operators.append(words.name())
    while words.take_word("+"):
        operators.append(words.name())
    place = {}
    if words.take_word(ON):
        places = parse_place(words)
        place = {"place": place_text(places.get("place"), places.get("chips"))}
    joined = {JOINED: True} if words.take_word(JOINED) else {}
    merged: dict[str, list[str]] = {}
    padded: dict[str, int] = {}
    if words.take_word(MERGING):
        while words.left and not words.is_next(PADDED):
            rank, ranks = _parse_merging(words)
            merged[rank] = ranks
    if words.take_word(PADDED):
        while words.left:
            rank = words.name()
            words.need("=")
            padded[rank] = words.number()
    words.end()
    return {"operators": operators, **place, **joined, "merged": merged, "padded": padded}


def _parse_merging(words: LineReader) -> tuple[str, list[str]]:
    name = words.name()
    words.need("=")
    ranks = [words.name()]
    while words.take_word(","):
        ranks.append(words.name())
    return name, ranks
