"""Mappings as documents: plain dicts, lists and strings, from which both file forms are made.

YAML stores a document as it is; the text form (`text`) is printed from one and parsed to one. Each
node is a line of text (`node_text`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Mapping as Map
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self, TypeVar

from simaccel.errors import ABSENT, Fault, InputError, require_none, suggest, with_digits
from simaccel.mapping.node_text import (
    PLACE,
    LineError,
    LineReader,
    keep_text,
    node_text,
    parse_keeps,
    parse_node,
    parse_place,
    place_text,
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

Made = TypeVar("Made")
ANY: Final = ""
"""The fingerprint of a mapping for any workload that its groups fit."""
A_MAPPING: Final = "a mapping with workload, dataflow and groups"
_OLD_KINDS: Final = ("gemm", "softmax", "staged", "fused", "nest")
_A_GROUP: Final = "a mapping with operators and tree, or with keep and groups"


class TextLine(str):
    """A line of a mapping's text form, with its line number and its indentation in blanks."""

    __slots__ = ("indent", "number")

    number: int
    indent: int

    def __new__(cls, text: str, number: int, indent: int) -> Self:
        """Make a line of a text, its number and its indentation."""
        line = super().__new__(cls, text)
        line.number, line.indent = number, indent
        return line


def mapping_document(mapping: Mapping) -> dict[str, Any]:
    """Return the document of a mapping."""
    return {
        "workload": {"name": mapping.workload.name, "fingerprint": mapping.workload.fingerprint},
        "dataflow": mapping.dataflow,
        "groups": [
            _group_document(part)
            if isinstance(part, Group)
            else {
                "keep": [keep_text(keep) for keep in part.keeps],
                "groups": [_group_document(group) for group in part.groups],
            }
            for part in mapping.body
        ],
    }


def _group_document(group: Group) -> dict[str, object]:
    found: dict[str, object] = {"operators": list(group.operators)}
    if place := place_text(group.place, group.chips):
        found["place"] = place
    if group.joined:
        found["joined"] = True
    if group.merged:
        found["merged"] = {rank: list(ranks) for rank, ranks in group.merged.items()}
    if group.padded:
        found["padded"] = dict(group.padded)
    return found | {"tree": tree_document(group.tree)}


def tree_document(tree: Tree) -> list[Any]:
    """Return the nodes of a tree: a line each; of a fork or part {line: branches}."""
    return [
        {node_text(node): [tree_document(branch) for branch in node.branches]}
        if isinstance(node, Fork | Part)
        else node_text(node)
        for node in tree
    ]


def parse_mapping(raw: Map[str, Any], file: str, faults: Sequence[Fault] = ()) -> Mapping:
    """Return the mapping of a document; ``faults``: those found when its file was read.

    Raises:
        InputError: these and all others: unknown and missing keys, lines that are no nodes.
    """
    reader = MappingReader(file, list(faults))
    mapping = reader.mapping(raw)
    require_none(reader.faults)
    return mapping


def _parse_place(text: str) -> dict[str, range]:
    words = LineReader(text, PLACE)
    place = parse_place(words)
    words.end()
    return place


@dataclass
class MappingReader:
    """A reader of a mapping's document and its faults; a faulty value counts as an empty one."""

    file: str
    faults: list[Fault] = field(default_factory=list)

    def fault(self, where: str, value: object, allowed: str) -> None:
        """Add a fault; a list or a mapping is shown as that, not in full."""
        shown = "a list" if isinstance(value, list) else value
        shown = "a mapping" if isinstance(value, dict) else shown
        self.faults.append(Fault(self.file, where, ABSENT if value is None else shown, allowed))

    def mapping(self, raw: Map[str, Any]) -> Mapping:
        """Read the whole document.

        Raises:
            InputError: groups have a kind, as in files of the first version.
        """
        section = self.section(raw, "", ("workload", "dataflow", "groups"), (), A_MAPPING)
        of = self.section(
            section.get("workload"), "workload", ("name", "fingerprint"), (), "name and fingerprint"
        )
        name, fingerprint = "", ANY
        if of:
            name = self.text(of.get("name"), "workload.name")
            if "fingerprint" in of:
                fingerprint = self.text(of["fingerprint"], "workload.fingerprint")
        groups = self.items(section.get("groups"), "groups", "a list of groups")
        if any(isinstance(group, dict) and group.get("kind") in _OLD_KINDS for group in groups):
            self.faults = [
                Fault(
                    self.file,
                    "groups",
                    "groups with a kind, of the first version",
                    "groups with a tree; make a new file with simaccel map ... -o FILE",
                )
            ]
            raise InputError(self.faults)
        body = [self.part(group, f"groups[{at}]") for at, group in enumerate(groups)]
        dataflow = self.text(section.get("dataflow"), "dataflow")
        reference = WorkloadReference(name, fingerprint)
        return Mapping(workload=reference, dataflow=dataflow, body=tuple(body))

    def section(
        self, raw: object, where: str, needed: Sequence[str], more: Sequence[str], allowed: str
    ) -> Map[str, Any]:
        """Read a dict with known keys; each other key is a fault."""
        if not isinstance(raw, dict):
            self.fault(where, raw, allowed)
            return {}
        dot = where + "." if where else ""
        for key in raw:
            if key not in (*needed, *more):
                self.fault(f"{dot}{key}", raw[key], suggest(str(key), [*needed, *more]))
        return raw

    def value(self, kind: type[Made], raw: object, where: str, allowed: str) -> Made:
        """Read a value of a type."""
        if isinstance(raw, kind):
            return raw
        self.fault(where, raw, allowed)
        return kind()

    def text(self, raw: object, where: str) -> str:
        """Read a string."""
        return self.value(str, raw, where, "text")

    def items(self, raw: object, where: str, allowed: str) -> list[Any]:
        """Read a list."""
        return self.value(list, raw, where, allowed)

    def part(self, raw: object, where: str) -> Group | ResidentScope:
        """Read a group, or groups with the tensors kept around them."""
        if isinstance(raw, dict) and "groups" in raw:
            return self.read_around(raw, where)
        return self.group(raw, where)

    def read_around(self, raw: Map[str, Any], where: str) -> ResidentScope:
        """Read groups and the tensors kept around them."""
        self.section(raw, where, ("keep", "groups"), (), _A_GROUP)
        keeps: list[Keep] = []
        lines = self.items(raw.get("keep"), f"{where}.keep", "a list such as [S buffer]")
        for at, line in enumerate(lines):
            place = f"{where}.keep[{at}]"
            text = self.text(line, place)
            if text:
                keeps += self.line(lambda kept: parse_keeps(f"keep {kept}"), text, place) or ()
        groups = self.items(raw["groups"], f"{where}.groups", "a list of groups")
        inside = [self.group(group, f"{where}.groups[{at}]") for at, group in enumerate(groups)]
        return ResidentScope(keeps=tuple(keeps), groups=tuple(inside))

    def line(self, read: Callable[[str], Made], text: str, where: str) -> Made | None:
        """Parse a line; None, with a fault, if it can't be. A `TextLine` is named by its number."""
        try:
            return read(text)
        except LineError as error:
            place = f"line {text.number}" if isinstance(text, TextLine) else where
            self.fault(place, error.value, error.allowed)
            return None

    def group(self, raw: object, where: str) -> Group:
        """Read a group."""
        known = ("operators", "tree"), ("place", "joined", "merged", "padded")
        section = self.section(raw, where, *known, _A_GROUP)
        if not isinstance(raw, dict):
            return Group(operators=(), tree=())
        operators = self.names(section.get("operators"), f"{where}.operators")
        merged = {
            str(rank): self.names(ranks, f"{where}.merged.{rank}")
            for rank, ranks in self.pairs(section.get("merged", {}), f"{where}.merged").items()
        }
        padded = {
            str(rank): self.size(size, f"{where}.padded.{rank}")
            for rank, size in self.pairs(section.get("padded", {}), f"{where}.padded").items()
        }
        tree, place = self.tree(section.get("tree"), f"{where}.tree"), dict[str, range]()
        if "place" in section:
            text = self.text(section["place"], f"{where}.place")
            place = (self.line(_parse_place, text, f"{where}.place") if text else None) or {}
        joined = section.get("joined", False)
        if not isinstance(joined, bool):
            self.fault(f"{where}.joined", joined, "true or false")
        return Group(
            operators=operators,
            tree=tree,
            merged=merged,
            padded=padded,
            place=place.get("place"),
            chips=place.get("chips"),
            joined=joined is True,
        )

    def names(self, raw: object, where: str) -> tuple[str, ...]:
        """Read a list of names."""
        given = self.items(raw, where, "a list of names")
        return tuple(self.text(one, f"{where}[{at}]") for at, one in enumerate(given))

    def pairs(self, raw: object, where: str) -> Map[Any, Any]:
        """Read a dict with any keys."""
        return self.value(dict, raw, where, "a mapping of ranks")

    def size(self, raw: object, where: str) -> int:
        """Read an integer."""
        if isinstance(raw, int) and not isinstance(raw, bool):
            return raw
        self.fault(where, raw, with_digits(raw, "an integer"))
        return 0

    def tree(self, raw: object, where: str) -> Tree:
        """Read a list of nodes."""
        found: list[Node] = []
        for at, one in enumerate(self.items(raw, where, "a list of nodes")):
            found += self.node(one, f"{where}[{at}]")
        return tuple(found)

    def node(self, raw: object, where: str) -> tuple[Node, ...]:
        """Read a line of one node or several keeps, or {line: branches} of a fork or part."""
        text, below = raw, None
        if isinstance(raw, dict) and len(raw) == 1:
            ((text, below),) = raw.items()
        if not isinstance(text, str):
            self.fault(where, raw, "the text of a node, or one fork or part with its branches")
            return ()
        nodes = self.line(parse_node, text, where)
        if not nodes:
            return ()
        (first, *_) = nodes
        if isinstance(first, Fork | Part):
            kind = "fork" if isinstance(first, Fork) else "part"
            branches = self.items(below, where, f"a list of branches after {kind}")
            inside = [
                self.tree(branch, f"{where}.{kind}[{at}]") for at, branch in enumerate(branches)
            ]
            return (replace(first, branches=tuple(inside)),)
        if isinstance(raw, dict):
            self.fault(where, raw, f"{text} without a colon: only fork and part have branches")
        return nodes
