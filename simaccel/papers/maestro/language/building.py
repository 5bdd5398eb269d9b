"""From the parser's tree to the syntax tree; comments find the node that they stand at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from lark import Token, Tree

from simaccel.papers.maestro.language.grammar import COMMENT
from simaccel.papers.maestro.language.syntax import (
    ClusterDirective,
    ConstantNode,
    DataflowBlock,
    Description,
    DimensionsNode,
    EntryNode,
    Layer,
    MapDirective,
    Member,
    NameNode,
    NetworkBlock,
    Node,
    NumberNode,
    SizeNode,
    StrideNode,
    Term,
    TextPlace,
    TypeNode,
    ValueNode,
)

_Tree = Tree[Token]
_AnyNode = TypeVar("_AnyNode", bound=Node)


def build(tree: _Tree, text: str) -> Description:
    """Return the syntax tree of what was parsed without a fault."""
    return _DescriptionBuilder(text).description(tree)


@dataclass(frozen=True)
class _Comment:
    """A comment with its offset in the text and its line number."""

    start: int
    line: int
    text: str


class _DescriptionBuilder:
    """A walk over the parser's tree in the order of the text, and so of the comments."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.comments = [
            _Comment(found.start(), text.count("\n", 0, found.start()) + 1, found[0].rstrip())
            for found in COMMENT.finditer(text)
        ]
        self.next = 0

    def description(self, tree: _Tree) -> Description:
        """Return the syntax tree of a whole file."""
        makers = {"constant": self._constant, "network": self._network}
        items = self._build_children(_trees(tree), makers, len(self.text))
        return Description(
            cast("tuple[ConstantNode | NetworkBlock, ...]", items),
            at_end=self._comments_before(len(self.text)),
        )

    def _build_children(
        self,
        trees: Sequence[_Tree],
        makers: Mapping[str, Callable[[_Tree, int], Node]],
        end: int,
    ) -> tuple[Node, ...]:
        """Build the children of a block, each up to where the next one starts."""
        limits = [*(_start(tree) for tree in trees), end][1:]
        return tuple(
            makers[str(one.data)](one, limit) for one, limit in zip(trees, limits, strict=True)
        )

    def _constant(self, tree: _Tree, limit: int) -> ConstantNode:
        node = ConstantNode(_name(tree.children[0]), _value(_tree(tree.children[1])))
        return self._leaf(node, tree, limit)

    def _network(self, tree: _Tree, limit: int) -> NetworkBlock:  # noqa: ARG002 - as all makers
        node = self._header(NetworkBlock(_label(tree), ()), tree)
        end = _brace(tree, "RBRACE")
        layers = self._build_children(_trees(tree), {"layer": self._layer}, end)
        return replace(
            node, layers=cast("tuple[Layer, ...]", layers), at_end=self._comments_before(end)
        )

    def _layer(self, tree: _Tree, limit: int) -> Layer:  # noqa: ARG002 - as all makers
        node = self._header(Layer(_label(tree), ()), tree)
        end = _brace(tree, "RBRACE")
        makers: dict[str, Callable[[_Tree, int], Node]] = {
            "type": self._type,
            "stride": self._entries,
            "dimensions": self._entries,
            "dataflow": self._dataflow,
        }
        members = self._build_children(_trees(tree), makers, end)
        return replace(
            node, members=cast("tuple[Member, ...]", members), at_end=self._comments_before(end)
        )

    def _type(self, tree: _Tree, limit: int) -> TypeNode:
        return self._leaf(TypeNode(_name(tree.children[0])), tree, limit)

    def _entries(self, tree: _Tree, limit: int) -> StrideNode | DimensionsNode:
        entries = tuple(
            EntryNode(_name(one.children[0]), _value(_tree(one.children[1])), place=_place(one))
            for one in _trees(tree)
        )
        node = StrideNode(entries) if tree.data == "stride" else DimensionsNode(entries)
        return self._leaf(node, tree, limit)

    def _dataflow(self, tree: _Tree, limit: int) -> DataflowBlock:  # noqa: ARG002 - as all makers
        node = self._header(DataflowBlock(()), tree)
        end = _brace(tree, "RBRACE")
        makers: dict[str, Callable[[_Tree, int], Node]] = {
            "map": self._map,
            "cluster": self._cluster,
        }
        found = self._build_children(_trees(tree), makers, end)
        directives = cast("tuple[MapDirective | ClusterDirective, ...]", found)
        return replace(node, directives=directives, at_end=self._comments_before(end))

    def _map(self, tree: _Tree, limit: int) -> MapDirective:
        keyword, size, offset, dim = tree.children
        node = MapDirective(str(keyword), _value(_tree(size)), _value(_tree(offset)), _name(dim))
        return self._leaf(node, tree, limit)

    def _cluster(self, tree: _Tree, limit: int) -> ClusterDirective:
        units, *letter = tree.children
        named = _name(letter[0]) if letter else None
        return self._leaf(ClusterDirective(_value(_tree(units)), named), tree, limit)

    def _leaf(self, node: _AnyNode, tree: _Tree, limit: int) -> _AnyNode:
        """Return a node of one line its comments: those before and inside, and one after."""
        above = self._comments_before(tree.meta.end_pos)
        behind = self._comment_behind(tree.meta.end_line, limit)
        return replace(node, place=_place(tree), above=above, behind=behind)

    def _header(self, node: _AnyNode, tree: _Tree) -> _AnyNode:
        """Return a block its comments: those before it, and one after its brace."""
        brace = next(one for one in _tokens(tree) if one.type == "LBRACE")
        inner = _trees(tree)
        limit = _start(inner[0]) if inner else _brace(tree, "RBRACE")
        above = self._comments_before(brace.start_pos or 0)
        behind = self._comment_behind(brace.line or 0, limit)
        return replace(node, place=_place(tree), above=above, behind=behind)

    def _comments_before(self, position: int) -> tuple[str, ...]:
        """Take the comments that start before a position."""
        found = []
        while self.next < len(self.comments) and self.comments[self.next].start < position:
            found.append(self.comments[self.next].text)
            self.next += 1
        return tuple(found)

    def _comment_behind(self, line: int, limit: int) -> str:
        """Take the comment that follows in the same line, before what comes next."""
        if self.next == len(self.comments):
            return ""
        one = self.comments[self.next]
        if one.line != line or one.start >= limit:
            return ""
        self.next += 1
        return one.text


def _trees(tree: _Tree) -> list[_Tree]:
    return [one for one in tree.children if isinstance(one, Tree)]


def _tokens(tree: _Tree) -> list[Token]:
    return [one for one in tree.children if isinstance(one, Token)]


def _tree(child: _Tree | Token) -> _Tree:
    return cast("_Tree", child)


def _start(tree: _Tree) -> int:
    return int(tree.meta.start_pos)


def _brace(tree: _Tree, kind: str) -> int:
    """Return the position of a brace of a block: the last one of its kind."""
    return next(one.start_pos or 0 for one in reversed(_tokens(tree)) if one.type == kind)


def _place(tree: _Tree) -> TextPlace:
    return TextPlace(tree.meta.line, tree.meta.column)


def _label(tree: _Tree) -> NameNode:
    labels = [one for one in _tokens(tree) if one.type == "LABEL"]
    return _name(labels[0]) if labels else NameNode("", place=_place(tree))


def _name(child: _Tree | Token) -> NameNode:
    token = cast("Token", child)
    return NameNode(str(token), place=TextPlace(token.line or 0, token.column or 0))


def _value(tree: _Tree) -> ValueNode:
    first, *rest = tree.children
    signs, terms = rest[::2], rest[1::2]
    others = tuple((str(sign), _term(_tree(term))) for sign, term in zip(signs, terms, strict=True))
    return ValueNode(_term(_tree(first)), others, place=_place(tree))


def _term(tree: _Tree) -> Term:
    token = cast("Token", tree.children[0])
    place = _place(tree)
    if tree.data == "number":
        return NumberNode(str(token), place=place)
    if tree.data == "size_of":
        return SizeNode(_name(token), place=place)
    return NameNode(str(token), place=place)
