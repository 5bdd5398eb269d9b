"""Reading MAESTRO descriptions: a syntax tree, or all faults with line and column."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TypeVar

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.parsers.lalr_interactive_parser import InteractiveParser

from simaccel.errors import ABSENT, Fault, InputError
from simaccel.files.documents import read_text
from simaccel.files.limits import MAX_LAYERS
from simaccel.papers.maestro.language.building import (
    COMMENT,
    GRAMMAR,
    INSERTED,
    KEYWORDS,
    WORDS,
    build,
)
from simaccel.papers.maestro.language.syntax import DataflowBlock, Description, NetworkBlock

_MOST_FAULTS = 100
_ResultT = TypeVar("_ResultT")
_DIM = re.compile(r"[A-Za-z_][A-Za-z0-9_]*'?")
_BLOCK = re.compile(r"\s*\{")
_LAYER = re.compile(r"\bLayer\b")


def load_description(path: str | Path) -> Description:
    """Return the syntax tree of a file.

    Raises:
        InputError: it can't be read, or all faults of its syntax.
    """
    return parse_description(description_text(path), str(path))


def parse_description(text: str, source: str = "description") -> Description:
    """Return the syntax tree of a text.

    Raises:
        InputError: all faults of its syntax, each with line and column.
    """
    return interpret(text, source, lambda description, _: description)


def interpret(text: str, source: str, reader: Callable[[Description, str], _ResultT]) -> _ResultT:
    """Return what ``reader`` makes of a text's syntax tree and source name.

    Raises:
        InputError: all faults of its syntax, and after them those that ``reader`` raises of layers
            without such faults, each with line and column.
    """
    layers_found = list(_LAYER.finditer(_without_comments(text)))
    if len(layers_found) > MAX_LAYERS:  # before a tree is made
        at = layers_found[MAX_LAYERS].start()
        line = text.count("\n", 0, at) + 1
        where = f"line {line}, column {at - text.rfind(chr(10), 0, at)}"
        allowed = f"at most {MAX_LAYERS} layers in a file"
        raise InputError([Fault(source, where, f"{len(layers_found)} layers", allowed)])
    read = _read(text, source)
    if not read.faults and read.description is not None:
        return reader(read.description, source)
    faults = list(read.faults)
    layers = read.undamaged_layers()
    if layers is not None:
        known = {fault.field for fault in faults}
        try:
            reader(layers, source)
        except InputError as error:
            faults += [fault for fault in error.faults if fault.field not in known]
    raise InputError(faults)


@dataclass(frozen=True)
class _Parsed:
    """The result of parsing a text: its tree, if any, with missing tokens added, and its faults.

    ``skipped``: (line, column) of each part that was left out.
    """

    description: Description | None
    faults: tuple[Fault, ...]
    skipped: tuple[tuple[int, int], ...]

    def undamaged_layers(self) -> Description | None:
        """Return the layers of which nothing was skipped; None without any.

        A layer without a dataflow has that of the one before, and counts as damaged with it.
        """
        if self.description is None:
            return None
        starts = [(each.place.line, each.place.column) for each in self.description.layers]
        damaged = {sum(start <= at for start in starts) - 1 for at in self.skipped}
        if -1 in damaged:
            return None
        whole: set[int] = set()
        is_known = True
        for number, layer in enumerate(self.description.layers):
            if any(isinstance(member, DataflowBlock) for member in layer.members):
                is_known = number not in damaged
            elif number in damaged:
                is_known = False
            if is_known:
                whole.add(id(layer))
        items = tuple(
            replace(item, layers=tuple(layer for layer in item.layers if id(layer) in whole))
            if isinstance(item, NetworkBlock)
            else item
            for item in self.description.items
        )
        return replace(self.description, items=items) if whole else None


def _read(text: str, source: str) -> _Parsed:
    recovery = _Recovery(text, source)
    try:
        tree = _parser().parse(text, on_error=recovery)
    except UnexpectedInput:
        tree = None  # what can't be recovered from was reported
    description = None if tree is None else build(tree, text)
    return _Parsed(description, tuple(recovery.faults), tuple(recovery.skipped))


def description_text(path: str | Path) -> str:
    """Return the text of a description, without a byte-order mark."""
    return read_text(Path(path), "MAESTRO", "utf-8-sig")


@cache
def _parser() -> Lark:
    return Lark(
        GRAMMAR,
        parser="lalr",
        lexer="contextual",
        propagate_positions=True,
        maybe_placeholders=False,
    )


def _without_comments(text: str) -> str:
    """Blank out comments; everything else stays where it is."""
    return COMMENT.sub(lambda found: re.sub(r"\S", " ", found[0]), text)


class _Recovery:
    """The recovery of the parser from faults, which it collects.

    Parsing goes on with a missing token added, or an unexpected one skipped.
    """

    def __init__(self, text: str, source: str) -> None:
        self.text, self.source = text, source
        self.blank = _without_comments(text)
        self.faults: list[Fault] = []
        self.skipped: list[tuple[int, int]] = []
        self._skipped_to = -1
        self._ended = False

    def __call__(self, error: UnexpectedInput) -> bool:
        if isinstance(error, UnexpectedToken):
            return self._token(error)
        if isinstance(error, UnexpectedCharacters):
            at = error.pos_in_stream or 0
            self.skipped.append((error.line, error.column))
            if self.blank.startswith("/*", at):
                self._note(error.line, error.column, "/*", "a comment that ends with */")
                return False
            self._note(error.line, error.column, self.text[at], "a word, a number or a bracket")
            return len(self.faults) < _MOST_FAULTS
        return False

    def _token(self, error: UnexpectedToken) -> bool:
        token, parser = error.token, error.interactive_parser
        assert parser is not None  # noqa: S101 - LALR has one
        at_end = token.type == "$END"
        if at_end and self._ended:
            return False
        self._ended = at_end
        if not self._follows_skipped(token):
            text = ABSENT if at_end else str(token)
            line, column = self._end() if at_end else (token.line, token.column)
            self._note(line, column, text, self._allowed_text(parser, token))
        if len(self.faults) >= _MOST_FAULTS:
            return False
        if self._insert_missing(parser, token):
            return True
        self.skipped.append((token.line or 1, token.column or 1))
        self._skipped_to = -1 if at_end else self._skip_block(parser, token)
        return not at_end

    def _skip_block(self, parser: InteractiveParser, token: Token) -> int:
        """Skip the text in braces after an unknown word; give where reading goes on."""
        end = token.end_pos or 0
        rest = _BLOCK.match(self.blank, end)
        if rest is None:
            return end
        depth, at = 1, rest.end()
        while depth and at < len(self.blank):
            depth += {"{": 1, "}": -1}.get(self.blank[at], 0)
            at += 1
        state = parser.lexer_thread.state
        assert state is not None  # noqa: S101 - it reads a text
        state.line_ctr.feed(self.text[end:at])
        return at

    def _follows_skipped(self, token: Token) -> bool:
        """Return whether nothing but blanks lies between this token and one that was left out."""
        if self._skipped_to < 0 or token.type == "$END":
            return False
        return not self.blank[self._skipped_to : token.start_pos].strip()

    def _insert_missing(self, parser: InteractiveParser, token: Token) -> bool:
        """Go on with what was meant: a keyword misspelt, or a bracket or comma forgotten."""
        meant = _misspelt(parser, token)
        if meant:
            parser.feed_token(Token.new_borrow_pos(meant, WORDS[meant], token))
            return True
        forgotten = _missing_bracket(parser, token)
        if forgotten:
            parser.feed_token(Token.new_borrow_pos(forgotten, "", token))
            parser.feed_token(_read_dimension(parser, token))
        return forgotten is not None

    def _allowed_text(self, parser: InteractiveParser, token: Token) -> str:
        meant, forgotten = _misspelt(parser, token), _missing_bracket(parser, token)
        accepted = _accepted_terminals(parser)
        if meant:
            return f"did you mean {WORDS[meant]!r}?"
        if token.type == "$END" and "RBRACE" in accepted:
            return f"'}}' for each open '{{', the last of them in line {self._open_brace_line()}"
        if forgotten:
            return f"{WORDS[forgotten]} before it"
        choices = sorted({WORDS[kind] for kind in accepted if kind in WORDS} - {"';'"})
        return f"one of {', '.join(choices)}" if len(choices) > 1 else "".join(choices)

    def _open_brace_line(self) -> int:
        """Return the line of the last brace that nothing closes."""
        lines: list[int] = []
        for number, line in enumerate(self.blank.splitlines(), 1):
            for one in re.findall(r"[{}]", line):
                if one == "{":
                    lines.append(number)
                elif lines:
                    lines.pop()
        return lines[-1] if lines else 1

    def _end(self) -> tuple[int, int]:
        text = self.text.rstrip()
        return text.count("\n") + 1, len(text) - text.rfind("\n")

    def _note(self, line: int | None, column: int | None, value: object, allowed: str) -> None:
        where = f"line {line}, column {column}"
        self.faults.append(Fault(self.source, where, value, allowed))


def _accepted_terminals(parser: InteractiveParser) -> set[str]:
    """Return the terminals that can come next."""
    found: set[str] = parser.accepts()  # type: ignore[no-untyped-call]
    return found


def _misspelt(parser: InteractiveParser, token: Token) -> str | None:
    """Return the keyword that a word nearly is, if one can stand here."""
    accepted = _accepted_terminals(parser)
    words = {WORDS[kind]: kind for kind in KEYWORDS if kind in accepted}
    close = get_close_matches(str(token), words, n=1, cutoff=0.7)
    return words[close[0]] if close and token.type not in words.values() else None


def _missing_bracket(parser: InteractiveParser, token: Token) -> str | None:
    """Return the bracket or comma that would let this token follow."""
    accepted = _accepted_terminals(parser)
    for kind in INSERTED:
        if kind in accepted:
            trial = parser.copy()  # type: ignore[no-untyped-call]
            trial.feed_token(Token(kind, ""))
            if _read_dimension(trial, token).type in _accepted_terminals(trial):
                return kind
    return None


def _read_dimension(parser: InteractiveParser, token: Token) -> Token:
    """Return a word as the name of a dimension, where only such a name is allowed."""
    is_name = (
        token.type == "LABEL" and "DIM" in _accepted_terminals(parser) and _DIM.fullmatch(token)
    )
    return Token.new_borrow_pos("DIM", str(token), token) if is_name else token
