"""The syntax tree of a MAESTRO description, and its text.

Each node knows where it stands, for messages; equality leaves that out. Comments stay with what
they stand before or after.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True)
class TextPlace:
    """A place in a text, both from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


NOWHERE = TextPlace(0, 0)


@dataclass(frozen=True, kw_only=True)
class Node:
    """A place, with comments before it and at the end of its line: what all nodes have."""

    place: TextPlace = field(default=NOWHERE, compare=False, repr=False)
    above: tuple[str, ...] = ()
    behind: str = ""


@dataclass(frozen=True)
class NumberNode(Node):
    """A number as written."""

    digits: str

    def __str__(self) -> str:
        return self.digits


@dataclass(frozen=True)
class NameNode(Node):
    """The name of a constant or a dimension."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class SizeNode(Node):
    """``Sz(R)``: the size of a dimension."""

    dim: NameNode

    def __str__(self) -> str:
        return f"Sz({self.dim})"


Term = NumberNode | NameNode | SizeNode


@dataclass(frozen=True)
class ValueNode(Node):
    """A term, or several with signs between them: ``8+Sz(S)-1``, as the paper writes."""

    first: Term
    others: tuple[tuple[str, Term], ...] = ()

    def __str__(self) -> str:
        return str(self.first) + "".join(f"{sign}{term}" for sign, term in self.others)


@dataclass(frozen=True)
class ConstantNode(Node):
    """``Constant NAME number;``."""

    name: NameNode
    value: ValueNode


@dataclass(frozen=True)
class EntryNode(Node):
    """``K: 64`` in braces: a dimension with its size, or its stride."""

    dim: NameNode
    value: ValueNode


@dataclass(frozen=True)
class TypeNode(Node):
    """``Type: CONV``."""

    keyword: ClassVar[str] = "Type"
    kind: NameNode


@dataclass(frozen=True)
class StrideNode(Node):
    """``Stride { X: 2, Y: 2 }``."""

    keyword: ClassVar[str] = "Stride"
    entries: tuple[EntryNode, ...]


@dataclass(frozen=True)
class DimensionsNode(Node):
    """``Dimensions { K: 64, C: 3, ... }``."""

    keyword: ClassVar[str] = "Dimensions"
    entries: tuple[EntryNode, ...]


@dataclass(frozen=True)
class MapDirective(Node):
    """``TemporalMap(size, offset) dim;`` or ``SpatialMap``."""

    keyword: str
    size: ValueNode
    offset: ValueNode
    dim: NameNode


@dataclass(frozen=True)
class ClusterDirective(Node):
    """``Cluster(n, P);``; the letter says nothing and may be left out."""

    units: ValueNode
    letter: NameNode | None = None


@dataclass(frozen=True)
class DataflowBlock(Node):
    """``Dataflow { ... }``."""

    keyword: ClassVar[str] = "Dataflow"
    directives: tuple[MapDirective | ClusterDirective, ...]
    at_end: tuple[str, ...] = ()


Member = TypeNode | StrideNode | DimensionsNode | DataflowBlock


@dataclass(frozen=True)
class Layer(Node):
    """``Layer NAME { Type Stride Dimensions Dataflow }``."""

    name: NameNode
    members: tuple[Member, ...]
    at_end: tuple[str, ...] = ()


@dataclass(frozen=True)
class NetworkBlock(Node):
    """``Network NAME { layers }``."""

    name: NameNode
    layers: tuple[Layer, ...]
    at_end: tuple[str, ...] = ()


@dataclass(frozen=True)
class Description(Node):
    """A whole file: constants and networks in order."""

    items: tuple[ConstantNode | NetworkBlock, ...]
    at_end: tuple[str, ...] = ()

    @property
    def constants(self) -> tuple[ConstantNode, ...]:
        """The constants of the file."""
        return tuple(one for one in self.items if isinstance(one, ConstantNode))

    @property
    def networks(self) -> tuple[NetworkBlock, ...]:
        """The networks of the file."""
        return tuple(one for one in self.items if isinstance(one, NetworkBlock))

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers of all networks in order."""
        return tuple(layer for network in self.networks for layer in network.layers)


def text_of(description: Description) -> str:
    """Print a description; reading it gives an equal one, and printing that the same text."""
    return "".join(f"{line}\n" for line in _lines(description))


def _lines(description: Description) -> Iterator[str]:
    for item in description.items:
        if isinstance(item, NetworkBlock):
            yield from _network(item)
        else:
            yield from _comments_above(item, "")
            yield f"Constant {item.name} {item.value};{_comment_behind(item)}"
    yield from description.at_end


def _network(network: NetworkBlock) -> Iterator[str]:
    yield from _comments_above(network, "")
    yield f"Network {network.name} {{{_comment_behind(network)}"
    for layer in network.layers:
        yield from _comments_above(layer, "  ")
        yield f"  Layer {layer.name} {{{_comment_behind(layer)}"
        for member in layer.members:
            yield from _member(member)
        yield from (f"    {one}" for one in layer.at_end)
        yield "  }"
    yield from (f"  {one}" for one in network.at_end)
    yield "}"


def _member(member: Member) -> Iterator[str]:
    yield from _comments_above(member, "    ")
    if isinstance(member, TypeNode):
        yield f"    Type: {member.kind}{_comment_behind(member)}"
    elif isinstance(member, DataflowBlock):
        yield f"    Dataflow {{{_comment_behind(member)}"
        for directive in member.directives:
            yield from _comments_above(directive, "      ")
            yield f"      {_directive(directive)}{_comment_behind(directive)}"
        yield from (f"      {comment}" for comment in member.at_end)
        yield "    }"
    else:
        entries = ", ".join(f"{entry.dim}: {entry.value}" for entry in member.entries)
        yield f"    {member.keyword} {{ {entries} }}{_comment_behind(member)}"


def _directive(one: MapDirective | ClusterDirective) -> str:
    if isinstance(one, MapDirective):
        return f"{one.keyword}({one.size},{one.offset}) {one.dim};"
    letter = "" if one.letter is None else f",{one.letter}"
    return f"Cluster({one.units}{letter});"


def _comments_above(node: Node, indent: str) -> Iterator[str]:
    yield from (f"{indent}{comment}" for comment in node.above)


def _comment_behind(node: Node) -> str:
    return f" {node.behind}" if node.behind else ""
