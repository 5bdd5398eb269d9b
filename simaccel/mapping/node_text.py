"""The lines of a mapping's text, written and parsed: tree nodes, keeps around groups, places."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from simaccel.errors import SimaccelError, allows, suggest
from simaccel.hardware import STATIONARITIES
from simaccel.mapping.tree import (
    ACROSS,
    FANS,
    Do,
    Fork,
    Keep,
    Loop,
    Node,
    Part,
    Span,
    Spread,
)
from simaccel.units import LEAF_UNITS

T = TypeVar("T", bound=str)
Finding = tuple[str, object, str]
"""What is wrong in a group: the path in it, the value, and what is allowed."""
MERGING: Final = "merging"
PADDED: Final = "padded"
ON: Final = "on"
JOINED: Final = "joined"
DIAGONAL: Final = "diagonal"
PLACE: Final = "core 2, or cores 0-1, or chips 0-3, or chips 0-3 cores 0-1"
"""The forms of a group's place."""
REST: Final = "rest"
_PLAIN = re.compile(r"[\w.#*/-]+")
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\w.#*/-]+|[,+=\[\]]|\S')
_FORMS = {
    "loop": "loop RANK SIZE, such as loop q 64",
    "spread": f"spread RANK SIZE {'|'.join((*FANS, *ACROSS))}, such as spread q 7 cols",
    "keep": "keep TENSOR LEVEL xSLOTS, such as keep K buffer x2, with anew after it if each "
    "iteration loads it again, or several after commas",
    "do": "do OPERATOR array|mac|sfu, after array a stationarity, such as do L array ws, and "
    "diagonal where several products share it",
    "fork": "fork, or fork ahead BRANCHES, such as fork ahead 1",
    "part": "part RANK SIZES rest, such as part row 500 rest",
}


class LineError(SimaccelError):
    """A line that can't be parsed; ``allowed``: what it may be."""

    def __init__(self, value: str, allowed: str) -> None:
        self.value, self.allowed = value, allowed
        super().__init__(f"got {value!r}; {allows(allowed)}")


def name_text(name: str) -> str:
    """Return a name as a line has it, in quotation marks if it has signs other than ``_.#*/-``.

    >>> name_text("conv2_1"), name_text("my op")
    ('conv2_1', '"my op"')
    """
    plain = _PLAIN.fullmatch(name) and name not in (MERGING, PADDED, ON, JOINED, REST)
    return name if plain else json.dumps(name)


def keep_text(keep: Keep) -> str:
    """Return a keep's line without the word ``keep``."""
    spans = ",".join(f"{span.start}..{span.stop}" for span in keep.region)
    region = f"[{spans}]" if keep.region else ""
    slots = "" if keep.slots == 1 else f" x{keep.slots}"
    anew = " anew" if keep.anew else ""
    return f"{name_text(keep.tensor)}{region} {name_text(keep.level)}{slots}{anew}"


def node_text(node: Node) -> str:
    """Return a node's line; of a fork or part the one above its branches.

    >>> node_text(Keep("S", "buffer", 2, (Span(0, 3), Span(0, 500))))
    'keep S[0..3,0..500] buffer x2'
    """
    if isinstance(node, Loop):
        return f"loop {name_text(node.rank)} {node.tile}"
    if isinstance(node, Spread):
        return f"spread {name_text(node.rank)} {node.tile} {node.level}"
    if isinstance(node, Keep):
        return f"keep {keep_text(node)}"
    if isinstance(node, Do):
        how = f" {node.stationarity}" if node.stationarity else ""
        how += f" {DIAGONAL}" * node.diagonal
        return f"do {name_text(node.operator)} {node.unit}{how}"
    if isinstance(node, Fork):
        return f"fork ahead {node.ahead}" if node.ahead else "fork"
    return " ".join(["part", name_text(node.rank), *map(str, node.sizes), REST])


def place_text(cores: range | None, chips: range | None = None) -> str:
    """Return the place of a group as a line has it; empty if it names neither cores nor chips.

    >>> place_text(range(0, 2)), place_text(range(2, 3), chips=range(4, 8))
    ('cores 0-1', 'chips 4-7 core 2')
    """
    words = []
    for what, place in (("chip", chips), ("core", cores)):
        if place is not None:
            several = f"{what}s {place[0]}-{place[-1]}"
            words.append(several if len(place) > 1 else f"{what} {place[0]}")
    return " ".join(words)


@dataclass
class LineReader:
    """A line that is parsed word by word; ``allowed``: its form, for the error message."""

    text: str
    allowed: str

    def __post_init__(self) -> None:
        """Split the line into words."""
        self.left = _TOKEN.findall(self.text)

    def fault(self) -> LineError:
        """Return the error of this line."""
        return LineError(self.text, self.allowed)

    def is_next(self, *words: str) -> bool:
        """Return whether the next word is one of some words."""
        return bool(self.left) and self.left[0] in words

    def take_word(self, word: str) -> bool:
        """Take a word if it comes next, and return whether it did."""
        if self.is_next(word):
            self.left.pop(0)
            return True
        return False

    def need(self, word: str) -> None:
        """Take a word that must come next.

        Raises:
            LineError: another word comes next.
        """
        if not self.take_word(word):
            raise self.fault()

    def word(self) -> str:
        """Take the next word.

        Raises:
            LineError: none is left.
        """
        if not self.left:
            raise self.fault()
        return str(self.left.pop(0))

    def name(self) -> str:
        """Take a name, plain or in quotation marks.

        Raises:
            LineError: the next word is no name.
        """
        word = self.word()
        if word.startswith('"') and len(word) > 1:
            try:
                return str(json.loads(word))
            except ValueError:
                raise self.fault() from None
        if not _PLAIN.fullmatch(word):
            raise self.fault()
        return word

    def number(self, before: str = "") -> int:
        """Take an integer with a prefix, such as the ``x`` of ``x2``.

        Raises:
            LineError: the next word is no such integer.
        """
        word = self.word()
        digits = word.removeprefix(before)
        if not (word.startswith(before) and _INTEGER.fullmatch(digits)):
            raise self.fault()
        return int(digits)

    def end(self) -> None:
        """Require that no word is left.

        Raises:
            LineError: one is.
        """
        if self.left:
            raise self.fault()


def parse_node(text: str) -> tuple[Node, ...]:
    """Return the nodes of a line: one, or several keeps. A fork or part is without its branches.

    Raises:
        LineError: the line is no node.
    """
    words = LineReader(text, "")
    kind = words.word() if words.left else ""
    if kind not in _FORMS:
        raise LineError(text, f"a node; {suggest(kind, _FORMS)}")
    words.allowed = _FORMS[kind]
    if kind == "keep":
        return _keeps(words)
    node: Node
    if kind == "loop":
        node = Loop(words.name(), words.number())
    elif kind == "spread":
        node = Spread(words.name(), words.number(), _read_choice(words, (*FANS, *ACROSS)))
    elif kind == "do":
        operator, unit = words.name(), _read_choice(words, LEAF_UNITS)
        held = _read_choice(words, STATIONARITIES) if words.left else None
        node = Do(operator, unit, held, diagonal=words.take_word(DIAGONAL))
    elif kind == "fork":
        node = Fork((), words.number() if words.take_word("ahead") else 0)
    else:
        node = _part(words)
    words.end()
    return (node,)


def parse_place(words: LineReader) -> dict[str, range]:
    """Take the place of a group: {"chips": range, "place": range of cores}, one of them or both.

    Raises:
        LineError: neither comes next.
    """
    places = {"chips": _parse_range(words, "chip"), "place": _parse_range(words, "core")}
    known = {name: place for name, place in places.items() if place is not None}
    if not known:
        raise words.fault()
    return known


def _parse_range(words: LineReader, what: str) -> range | None:
    if words.take_word(what):
        first = last = words.number()
    elif words.take_word(f"{what}s"):
        ends = re.fullmatch(r"([0-9]{1,9})-([0-9]{1,9})", words.word())
        if ends is None:
            raise words.fault()
        first, last = int(ends[1]), int(ends[2])
    else:
        return None
    if not 0 <= first <= last:
        raise words.fault()
    return range(first, last + 1)


def parse_keeps(text: str) -> tuple[Keep, ...]:
    """Return the keeps of a line ``keep TENSOR LEVEL, TENSOR LEVEL, ...``.

    Raises:
        LineError: the line isn't of this form.
    """
    words = LineReader(text, _FORMS["keep"])
    words.need("keep")
    return _keeps(words)


def _keeps(words: LineReader) -> tuple[Keep, ...]:
    keeps = [_keep(words)]
    while words.take_word(","):
        keeps.append(_keep(words))
    words.end()
    return tuple(keeps)


def _keep(words: LineReader) -> Keep:
    tensor, region = words.name(), []
    if words.take_word("["):
        region.append(_span(words))
        while words.take_word(","):
            region.append(_span(words))
        words.need("]")
    level = words.name()
    slots = 1 if not words.left or words.is_next(",", "anew") else words.number("x")
    return Keep(tensor, level, slots, tuple(region), words.take_word("anew"))


def _span(words: LineReader) -> Span:
    found = re.fullmatch(r"(-?[0-9]{1,18})\.\.(-?[0-9]{1,18})", words.word())
    if found is None:
        raise words.fault()
    return Span(int(found[1]), int(found[2]))


def _part(words: LineReader) -> Part:
    rank, sizes = words.name(), []
    while not words.is_next(REST):
        sizes.append(words.number())
    words.need(REST)
    return Part(rank, tuple(sizes), ())


def _read_choice(words: LineReader, known: Sequence[T]) -> T:
    word = words.word()
    for one in known:
        if one == word:
            return one
    raise words.fault()
