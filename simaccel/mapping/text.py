"""The text form of a mapping: it prints, a reviewer reads it, and it parses back to the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from simaccel.errors import Fault, InputError
from simaccel.mapping.node_text import (
    MERGING,
    PADDED,
    LineError,
    LineReader,
    keep_text,
    name_text,
    node_text,
    parse_keeps,
    parse_node,
)
from simaccel.mapping.tree import (
    Fork,
    Group,
    Keep,
    Mapping,
    Node,
    Part,
    ResidentScope,
    Tree,
    WorkloadReference,
)

_FILE = "mapping"
_BAR = "| "
ANY = ""
"""The fingerprint of a mapping that is for every workload it fits."""
BEGINNING = "mapping "
"""What the text form of a mapping begins with."""
_HEADER = "mapping DATAFLOW of WORKLOAD [FINGERPRINT]"
_GROUP = "group OPERATOR+OPERATOR merging RANK=RANK,RANK padded RANK=SIZE"
Made = TypeVar("Made")


def tree_text(mapping: Mapping) -> str:
    r"""Print a mapping, one node a line (keeps side by side on one), two spaces a level.

    >>> one = Group(operators=("A",), tree=parse_tree("loop q 64\nkeep Z buffer\ndo A array ws"))
    >>> of = WorkloadReference("bert", "0123")
    >>> print(tree_text(Mapping(workload=of, dataflow="flex", body=(one,))), end="")
    mapping flex of bert 0123
      group A
        loop q 64
        keep Z buffer
        do A array ws
    """
    of = mapping.workload
    names = [mapping.dataflow, "of", of.name, of.fingerprint]
    lines = [" ".join(["mapping", *map(name_text, names)])]
    for part in mapping.body:
        if isinstance(part, Group):
            lines += _indent_lines(_group_lines(part))
            continue
        inside = [_keeps_line(part.keeps)] if part.keeps else []
        for group in part.groups:
            inside += _group_lines(group)
        lines += _indent_lines(["around", *_indent_lines(inside)])
    return "\n".join([*lines, ""])


def _indent_lines(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _keeps_line(keeps: Sequence[Keep]) -> str:
    return f"keep {', '.join(map(keep_text, keeps))}"


def _group_lines(group: Group) -> list[str]:
    words = ["group", "+".join(map(name_text, group.operators))]
    if group.merged:
        words.append(MERGING)
        for rank, ranks in group.merged.items():
            words.append(f"{name_text(rank)}={','.join(map(name_text, ranks))}")
    if group.padded:
        words.append(PADDED)
        words += [f"{name_text(rank)}={size}" for rank, size in group.padded.items()]
    return [" ".join(word for word in words if word), *_indent_lines(tree_lines(group.tree))]


def tree_lines(tree: Tree) -> list[str]:
    """Print a tree; a branch begins with a bar before its first node."""
    lines: list[str] = []
    keeps: list[Keep] = []
    for at, node in enumerate(tree):
        if isinstance(node, Keep):
            keeps.append(node)
            if at + 1 < len(tree) and isinstance(tree[at + 1], Keep):
                continue
            lines.append(_keeps_line(keeps))
            keeps.clear()
            continue
        lines.append(node_text(node))
        if isinstance(node, Fork | Part):
            for branch in node.branches:
                first, *others = tree_lines(branch) or [""]
                lines += _indent_lines([f"{_BAR}{first}".rstrip(), *_indent_lines(others)])
    return lines


@dataclass(frozen=True)
class _Line:
    number: int
    indent: int
    text: str


def parse_text(text: str, file: str = _FILE) -> Mapping:
    """Return the mapping that a text says.

    Raises:
        InputError: names the line that can't be read.

    """
    lines = _lines(text)
    return _Parser(lines, file).mapping()


def parse_tree(text: str, file: str = _FILE) -> Tree:
    """Return the tree that a text says, without a mapping around it.

    Raises:
        InputError: names the line that can't be read.

    """
    parser = _Parser(_lines(text), file)
    tree = parser.tree(parser.left[0].indent if parser.left else 0)
    parser.end("a node at the indentation of a tree around it")
    return tree


def _lines(text: str) -> list[_Line]:
    """Take a text apart; a bar is a line of its own, and so is what stands behind it."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        rest = line.lstrip(" ")
        while rest == "|" or rest.startswith(_BAR):
            found.append(_Line(number, len(line) - len(rest), "|"))
            rest = rest[1:].lstrip(" ")
        if rest:
            found.append(_Line(number, len(line) - len(rest), rest.rstrip()))
    return found


class _Parser:
    """The lines that are left."""

    def __init__(self, lines: list[_Line], file: str) -> None:
        self.left, self.file = lines, file

    def _read(self, read: Callable[[str], Made], allowed: str) -> Made:
        """Take a line and read it."""
        if not self.left:
            raise InputError([Fault(self.file, "end", "nothing", allowed)])
        line = self.left.pop(0)
        try:
            return read(line.text)
        except LineError as error:
            where = f"line {line.number}"
            raise InputError([Fault(self.file, where, error.value, error.allowed)]) from None

    def _inside(self, indent: int) -> bool:
        return bool(self.left) and self.left[0].indent >= indent

    def end(self, allowed: str) -> None:
        """Make sure that no line is left."""
        if self.left:
            line = self.left[0]
            raise InputError([Fault(self.file, f"line {line.number}", line.text, allowed)])

    def mapping(self) -> Mapping:
        """Read a mapping."""
        dataflow, reference = self._read(_header, _HEADER)
        body: list[Group | ResidentScope] = []
        while self._inside(1):
            if self.left[0].text == "around":
                body.append(self._around())
            else:
                body.append(self._group())
        self.end("group or around, indented by two spaces")
        return Mapping(workload=reference, dataflow=dataflow, body=tuple(body))

    def _around(self) -> ResidentScope:
        indent = self.left.pop(0).indent + 1
        keeps: tuple[Keep, ...] = ()
        if self._inside(indent) and self.left[0].text.startswith("keep"):
            keeps = self._read(parse_keeps, "keep")
        groups = []
        while self._inside(indent):
            groups.append(self._group())
        return ResidentScope(keeps=keeps, groups=tuple(groups))

    def _group(self) -> Group:
        indent = self.left[0].indent
        group = self._read(_group_of, _GROUP)
        inner = self.left[0].indent if self.left else 0
        return replace(group, tree=self.tree(inner)) if inner > indent else group

    def tree(self, indent: int) -> Tree:
        """Read the nodes that have an indentation, with what is further in below them."""
        found: list[Node] = []
        while self.left and self.left[0].indent == indent and self.left[0].text != "|":
            for node in self._read(parse_node, "a node"):
                if isinstance(node, Fork | Part):
                    found.append(replace(node, branches=tuple(self._branches(indent + 1))))
                else:
                    found.append(node)
        return tuple(found)

    def _branches(self, least: int) -> list[Tree]:
        found: list[Tree] = []
        while self._inside(least) and self.left[0].text == "|":
            indent = self.left.pop(0).indent
            inner = self.left[0].indent if self.left else 0
            found.append(self.tree(inner) if inner > indent else ())
        return found


def _header(text: str) -> tuple[str, WorkloadReference]:
    words = LineReader(text, _HEADER)
    words.need("mapping")
    dataflow = words.name()
    words.need("of")
    name = words.name()
    reference = WorkloadReference(name, words.name() if words.left else ANY)
    words.end()
    return dataflow, reference


def _group_of(text: str) -> Group:
    words = LineReader(text, _GROUP)
    words.need("group")
    operators: list[str] = []
    if words.left and not words.is_next(MERGING, PADDED):
        operators.append(words.name())
    while words.taken("+"):
        operators.append(words.name())
    merged: dict[str, tuple[str, ...]] = {}
    padded: dict[str, int] = {}
    if words.taken(MERGING):
        while words.left and not words.is_next(PADDED):
            rank, ranks = _parse_merging(words)
            merged[rank] = ranks
    if words.taken(PADDED):
        while words.left:
            rank = words.name()
            words.need("=")
            padded[rank] = words.number()
    words.end()
    return Group(operators=tuple(operators), tree=(), merged=merged, padded=padded)


def _parse_merging(words: LineReader) -> tuple[str, tuple[str, ...]]:
    name = words.name()
    words.need("=")
    ranks = [words.name()]
    while words.taken(","):
        ranks.append(words.name())
    return name, tuple(ranks)
