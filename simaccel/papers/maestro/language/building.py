"""From the parser's tree to the syntax tree; comments find the node that they stand at."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from lark import Token, Tree

from simaccel.papers.maestro.language import syntax

GRAMMAR: Final = r"""
start: item*
?item: constant | network
constant: "Constant" LABEL ":"? value ";"?
network: "Network" LABEL? LBRACE layer* RBRACE ";"?
layer: "Layer" LABEL? LBRACE member* RBRACE ";"?
?member: type | stride | dimensions | dataflow
type: "Type" ":"? LABEL ";"?
stride: "Stride" ":"? LBRACE (entry ("," | ";")?)* RBRACE ";"?
dimensions: "Dimensions" ":"? LBRACE (entry ("," | ";")?)* RBRACE ";"?
dataflow: "Dataflow" ":"? LBRACE (directive ";"?)* RBRACE ";"?
entry: DIM ":"? value
?directive: map | cluster
map: (TEMPORAL | SPATIAL) "(" value ","? value ")" ":"? DIM
cluster: "Cluster" "(" value (","? DIM)? ")"
value: term ((PLUS | MINUS) term)*
?term: NUMBER -> number | "Sz" "(" DIM ")" -> size_of | DIM -> name

TEMPORAL: "TemporalMap"
SPATIAL: "SpatialMap"
LBRACE: "{"
RBRACE: "}"
PLUS: "+"
MINUS: "-"
NUMBER: /[0-9][0-9A-Za-z_.]*/
DIM: /[A-Za-z_][A-Za-z0-9_]*'?/
LABEL: /(?:(?!\/\/|\/\*)[^\s{}();:,])+/
COMMENT: /\/\/[^\n]*/ | /\/\*(.|\n)*?\*\//
%ignore /[ \t\r\n\f]+/
%ignore COMMENT
"""

WORDS: Final = {
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "LPAR": "'('",
    "RPAR": "')'",
    "COMMA": "','",
    "SEMICOLON": "';'",
    "COLON": "':'",
    "PLUS": "'+'",
    "MINUS": "'-'",
    "NUMBER": "a number",
    "DIM": "a name",
    "LABEL": "a name",
    "SZ": "Sz(...)",
    "TEMPORAL": "TemporalMap",
    "SPATIAL": "SpatialMap",
    "CLUSTER": "Cluster",
    "CONSTANT": "Constant",
    "NETWORK": "Network",
    "LAYER": "Layer",
    "TYPE": "Type",
    "STRIDE": "Stride",
    "DIMENSIONS": "Dimensions",
    "DATAFLOW": "Dataflow",
    "$END": "the end of the file",
}
"""How messages call a terminal."""
INSERTED: Final = ("RPAR", "LPAR", "COMMA", "LBRACE", "RBRACE", "NUMBER", "DIM")
"""What may be taken as forgotten, so that reading goes on after it."""
KEYWORDS: Final = (
    *("TEMPORAL", "SPATIAL", "CLUSTER", "CONSTANT", "NETWORK", "LAYER"),
    *("TYPE", "STRIDE", "DIMENSIONS", "DATAFLOW"),
)
"""Words that may have been meant."""
COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


_Tree = Tree[Token]
_Children = Sequence[Any]


def build(tree: _Tree, text: str) -> syntax.Description:
    """Return the syntax tree of what was parsed without a fault."""
    builder = _DescriptionBuilder(text)
    items = cast(
        "tuple[syntax.ConstantNode | syntax.NetworkBlock, ...]",
        builder.nodes(_trees(tree), len(text)),
    )
    return syntax.Description(items, at_end=builder.comments_before(len(text)))


@dataclass(frozen=True)
class _Comment:
    """A comment with its offset in the text and its line number."""

    start: int
    line: int
    text: str


class _DescriptionBuilder:
    """A walk over the parser's tree in the order of the text, and so of the comments."""

    def __init__(self, text: str) -> None:
        self.comments = [
            _Comment(found.start(), text.count("\n", 0, found.start()) + 1, found[0].rstrip())
            for found in COMMENT.finditer(text)
        ]
        self.next = 0

    def nodes(self, trees: Sequence[_Tree], end: int) -> tuple[syntax.Node, ...]:
        """Build nodes that follow each other, each up to where the next one starts."""
        limits = [*(tree.meta.start_pos for tree in trees), end][1:]
        return tuple(
            self._block(one) if one.data in _BLOCKS else self._leaf(one, limit)
            for one, limit in zip(trees, limits, strict=True)
        )

    def _leaf(self, tree: _Tree, limit: int) -> syntax.Node:
        """Return a node of one line with its comments: those before and inside, and one after."""
        above = self.comments_before(tree.meta.end_pos)
        behind = self._comment_behind(tree.meta.end_line, limit)
        node = _LEAVES[tree.data](tree.children)
        return replace(node, place=_place(tree), above=above, behind=behind)

    def _block(self, tree: _Tree) -> syntax.Node:
        """Return a block with its comments: those before it, one after its brace, those at its end.

        All but a dataflow have a name, which may be empty.
        """
        tokens = [child for child in tree.children if isinstance(child, Token)]
        brace, end = (
            next(token for token in tokens if token.type == "LBRACE"),
            tokens[-1].start_pos or 0,
        )
        trees = _trees(tree)
        above = self.comments_before(brace.start_pos or 0)
        limit = trees[0].meta.start_pos if trees else end
        behind = self._comment_behind(brace.line or 0, limit)
        make, inside = _BLOCKS[tree.data]
        parts: dict[str, Any] = {inside: self.nodes(trees, end)}
        if make is not syntax.DataflowBlock:
            labels = [_name(token) for token in tokens if token.type == "LABEL"]
            parts["name"] = labels[0] if labels else syntax.NameNode("", place=_place(tree))
        comments = {"above": above, "behind": behind, "at_end": self.comments_before(end)}
        return make(**parts, **comments, place=_place(tree))

    def comments_before(self, position: int) -> tuple[str, ...]:
        """Take the comments that start before a position."""
        taken = []
        while self.next < len(self.comments) and self.comments[self.next].start < position:
            taken.append(self.comments[self.next].text)
            self.next += 1
        return tuple(taken)

    def _comment_behind(self, line: int, limit: int) -> str:
        """Take the comment that follows in the same line, before what comes next."""
        comment = self.comments[self.next] if self.next < len(self.comments) else None
        if comment is None or comment.line != line or comment.start >= limit:
            return ""
        self.next += 1
        return comment.text


def _trees(tree: _Tree) -> list[_Tree]:
    return [child for child in tree.children if isinstance(child, Tree)]


def _place(tree: _Tree) -> syntax.TextPlace:
    return syntax.TextPlace(tree.meta.line, tree.meta.column)


def _name(token: Token) -> syntax.NameNode:
    return syntax.NameNode(str(token), place=syntax.TextPlace(token.line or 0, token.column or 0))


def _value(tree: _Tree) -> syntax.ValueNode:
    first, *rest = cast("_Children", tree.children)
    pairs = zip(rest[::2], rest[1::2], strict=True)
    others = tuple((str(sign), _term(term)) for sign, term in pairs)
    return syntax.ValueNode(_term(first), others, place=_place(tree))


def _term(tree: _Tree) -> syntax.Term:
    token, place = cast("Token", tree.children[0]), _place(tree)
    if tree.data == "number":
        return syntax.NumberNode(str(token), place=place)
    return syntax.SizeNode(_name(token), place=place) if tree.data == "size_of" else _name(token)


def _entries(children: _Children) -> tuple[syntax.EntryNode, ...]:
    return tuple(
        syntax.EntryNode(_name(own[0]), _value(own[1]), place=_place(one))
        for one in children
        if isinstance(one, Tree)
        for own in [cast("_Children", one.children)]
    )


_LEAVES: Final[Mapping[str, Callable[[_Children], syntax.Node]]] = {
    "constant": lambda own: syntax.ConstantNode(_name(own[0]), _value(own[1])),
    "type": lambda own: syntax.TypeNode(_name(own[0])),
    "stride": lambda own: syntax.StrideNode(_entries(own)),
    "dimensions": lambda own: syntax.DimensionsNode(_entries(own)),
    "map": lambda own: syntax.MapDirective(
        str(own[0]), _value(own[1]), _value(own[2]), _name(own[3])
    ),
    "cluster": lambda own: syntax.ClusterDirective(_value(own[0]), *map(_name, own[1:])),
}
"""Node of one line -> the function that makes it of its children."""
_BLOCKS: Final[Mapping[str, tuple[Callable[..., syntax.Node], str]]] = {
    "network": (syntax.NetworkBlock, "layers"),
    "layer": (syntax.Layer, "members"),
    "dataflow": (syntax.DataflowBlock, "directives"),
}
"""Block -> (its node, the field of what is inside)."""
