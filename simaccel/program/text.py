"""The text form of a program: an indented loop tree that prints and parses back.

A tile around operators has other ranks in each of them: ``X_kept[m=4,pq=9]``. Names have no blanks
or brackets (``workload.names``). A tile without dimensions has the shape ``-``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from simaccel.errors import suggest
from simaccel.hardware import STATIONARITIES, Stationarity
from simaccel.mapping.view import TensorView
from simaccel.program.awaited_tiles import AwaitedTiles
from simaccel.program.line_form import WHOLE, WORD, LineForm, LineValue, TilesByName
from simaccel.program.program import (
    Command,
    Compute,
    Folds,
    Load,
    Node,
    Operator,
    Program,
    ProgramError,
    ProgramLoop,
    Reserve,
    Sfu,
    Steps,
    Store,
    Tile,
    TransferTraffic,
    UnitCommand,
)
from simaccel.program.unit_commands import UNIT_COMMANDS
from simaccel.workload import VisibleSpan
from simaccel.workload.vectors import VECTORS


def _list(separator: str, inner: LineValue, pattern: str = r"\S+") -> LineValue:
    """Return a field of several values, ``-`` if there are none."""
    return LineValue(
        pattern,
        lambda values, scope: separator.join([inner.text(one, scope) for one in values]) or "-",
        lambda text, scope: (
            () if text == "-" else tuple(inner.parse(one, scope) for one in text.split(separator))
        ),
    )


def _sizes(separator: str, pattern: str) -> LineValue:
    """Return a field of ranks and their sizes, such as ``m=4 k=2``, which may be none."""

    def parse(text: str, _: TilesByName) -> tuple[tuple[str, ...], tuple[int, ...]]:
        pairs = [one.split("=") for one in text.split(separator) if one]
        return tuple(rank for rank, _ in pairs), tuple(int(size) for _, size in pairs)

    def write(sizes: tuple[Sequence[str], Sequence[int]], _: TilesByName) -> str:
        return separator.join([f"{r}={s}" for r, s in zip(*sizes, strict=True)])

    return LineValue(pattern, write, parse, ("ranks", "shape"))


def _operand_text(tile: Tile, around: TilesByName) -> str:
    known = around.get(tile.name)
    if known is None or tile.view == known.view:
        return tile.name
    return f"{tile.name}[{_VIEWED.text((tile.view.ranks, tile.view.shape), around)}]"


def _parse_operand(text: str, scope: TilesByName) -> Tile:
    name, bracket, sizes = text.partition("[")
    tile: Tile = scope[name]
    if not bracket:
        return tile
    ranks, shape = _VIEWED.parse(sizes.removesuffix("]"), scope)
    view = replace(tile.view, ranks=ranks, shape=shape)
    return replace(tile, view=view, shape=tile.shape if tile.origin else shape)


def _parse_stationarity(text: str, _: TilesByName) -> Stationarity:
    for stationarity in STATIONARITIES:
        if stationarity == text:
            return stationarity
    raise ValueError(f"{text}: one of {', '.join(STATIONARITIES)}")


def _parse_step(text: str, _: TilesByName) -> tuple[str, str]:
    work, step = text.split(" ")
    for name, known in ((work, VECTORS), (step, VECTORS[work].steps if work in VECTORS else ())):
        if name not in known:
            raise ValueError(f"{name}: {suggest(name, known)}")
    return work, step


def _parse_cores(text: str, _: TilesByName) -> range:
    first, last = text.split("-")
    return range(int(first), int(last) + 1)


_VIEWED: Final = _sizes(",", r"\S*")
_TILE_NAME: Final = LineValue(r"\S+", lambda tile, _: tile.name, lambda text, scope: scope[text])
_OPERAND: Final = LineValue(r"\S+", _operand_text, _parse_operand)
_MOVED: Final = LineForm(TransferTraffic, "{outer}/{inner}", {}).value()
_FIELDS: Final[dict[str, LineValue]] = {
    **dict.fromkeys(("name", "place", "axis", "rank", "row", "tensor"), WORD),
    **dict.fromkeys(("tile", "source", "target"), _TILE_NAME),
    **{  # true where the word stands
        word: LineValue(word, lambda *_, word=word: word, lambda *_: True)
        for word in ("back", "slides", "noc", "diagonal", "joined")
    },
    **dict.fromkeys(("moved", "writes"), _MOVED),
    "viewed": _VIEWED,
    "width": LineValue(
        r"4b|\d+B",
        lambda width, _: "4b" if width[1] else f"{width[0]}B",
        lambda text, _: (1, True) if text == "4b" else (int(text[:-1]), False),
        ("bytes_per_element", "packed"),
    ),
    "number": replace(WORD, pattern=r"\w+"),
    "kind": replace(WORD, pattern="weight|cache|shared"),
    "shape": _list("x", WHOLE),
    "origin": _list(",", WHOLE),
    "stationarity": LineValue(r"\S+", lambda value, _: value, _parse_stationarity),
    "sides": LineValue(
        r"(?:\d+|-)x(?:\d+|-)",
        lambda sides, _: "x".join(["-" if side is None else str(side) for side in sides]),
        lambda text, _: [None if side == "-" else int(side) for side in text.split("x")],
        ("rows", "cols"),
    ),
    "pes": _list("x", WHOLE, r"\d+x\d+"),
    "reads": _list(" ", _MOVED, r"[\d/ ]+"),
    "out": _OPERAND,
    "inputs": _list(" ", _OPERAND, ".+"),
    "accumulate": LineValue(
        r"\+?=", lambda adds, _: "+=" if adds else "=", lambda text, _: text == "+="
    ),
    "block": _sizes(" ", r"(?:\S+=\d+(?: \S+=\d+)*)?"),
    "does": LineValue(r"\S+ \S+", lambda names, _: " ".join(names), _parse_step, ("work", "step")),
    "scale": LineValue(r"\S+", lambda scale, _: repr(scale), lambda text, _: float(text)),
    "visible": LineForm(VisibleSpan, "{row}+{before}[/{window}]", {"row": WORD}).value(),
    "operator": replace(WORD, pattern=".+"),
    "hands_on": _list(",", WORD),
    "awaits": _list(
        ", ",
        LineForm(
            AwaitedTiles, "{tensor} {made} for {read}[ ahead {ahead}]", {"tensor": WORD}
        ).value(),
        ".+",
    ),
    "cores": LineValue(r"\d+-\d+", lambda cores, _: f"{cores[0]}-{cores[-1]}", _parse_cores),
}
"""The fields of all lines that are no whole numbers."""
_VIEW: Final = LineForm(TensorView, r"{name}\[{viewed}\] {width}[:{number}][ {kind}]", _FIELDS)
_FIELDS["view"] = _VIEW.value()
_TILE: Final = LineForm(
    Tile,
    "tile {name} {shape} x{slots}[ at {origin}][ in {place}[ {part_bytes}B each]] of {view}",
    _FIELDS,
)
_FOLDS: Final = LineForm(Folds, "folds {stationarity}[ {sides}][ {diagonal}]", _FIELDS)
_STEPS: Final = LineForm(Steps, "steps {steps} on {pes} reads {reads} writes {writes}", _FIELDS)
_FIELDS["on"] = LineValue(
    "(?:folds|steps) .+",
    lambda on, around: (_FOLDS if isinstance(on, Folds) else _STEPS).text(on, around),
    lambda text, around: (_FOLDS if text[0] == "f" else _STEPS).parse(text, around),
)
_LOAD = "load {tile} queue {queue}[ from {view}][ from tile {source}][ {back}][ {slides}]"
_SFU = "sfu {does} {out} = {inputs} over {block}[ axis {axis}][ scale {scale}][ visible {visible}]"
_COMMANDS: Final[dict[type[Command], LineForm[Any]]] = {
    kind: LineForm(kind, pattern, _FIELDS)
    for kind, pattern in (
        (Load, f"{_LOAD}[ moves {{moved}}]"),
        (Reserve, "reserve {tile} queue {queue}[ {noc}]"),
        (Store, "store {tile}[ into {view}][ into tile {target}][ moves {moved}]"),
        (Compute, "compute {out} {accumulate} {inputs} over {block} {on}"),
        (Sfu, f"{_SFU} of {{operator}}"),
    )
}
"""The forms of commands, by their types."""
_FORMS: Final = {kind.__name__.lower(): form for kind, form in _COMMANDS.items()}
"""The forms of commands, by the first words of their lines."""
_LOOP: Final = LineForm(
    ProgramLoop,
    "loop {rank} {trips} from {start} step {step}[ ahead {ahead}]"
    "[ on core {core} step {cores_apart}][ hands on {hands_on}][ awaits {awaits}]",
    _FIELDS,
)
_OPERATOR: Final = LineForm(
    Operator,
    "operator {name}[ on cores {cores}][ {joined}]",
    {**_FIELDS, "name": replace(WORD, pattern=".+?")},
)


def program_text(program: Program) -> str:
    """Return a program as text: one node per line, two blanks per level."""
    return "\n".join([f"program {program.name}", *_body_lines(program.body, 1, {}), ""])


def _body_lines(body: Sequence[Node], depth: int, around: TilesByName) -> list[str]:
    pad = "  " * depth
    lines: list[str] = []
    for node in body:
        inside = around
        if isinstance(node, Operator):
            lines.append(pad + _OPERATOR.text(node, around))
        elif isinstance(node, ProgramLoop):
            lines.append(pad + _LOOP.text(node, around))
            if any(isinstance(child, Operator) for child in node.body):
                inside = {**around, **{tile.name: tile for tile in node.tiles}}
        else:
            if isinstance(node, UnitCommand):
                lines.append(pad + node.text)
            else:
                lines.append(pad + _COMMANDS[type(node)].text(node, around))
            continue
        lines += [f"{pad}  {_TILE.text(tile, around)}" for tile in node.tiles]
        lines += _body_lines(node.body, depth + 1, inside)
    return lines


def parse_program(text: str) -> Program:
    """Parse a program's text form.

    Raises:
        ProgramError: the message names the line that can't be parsed.
    """
    lines = [
        (number, (len(line) - len(line.lstrip())) // 2, line.strip())
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip()
    ]
    if not lines or not lines[0][2].startswith("program "):
        raise ProgramError("line 1: a program starts with 'program NAME'")
    body, _, end = _parse_body(lines, 1, 1, {})
    if end != len(lines):
        raise ProgramError(f"line {lines[end][0]}: wrong indentation: {lines[end][2]!r}")
    return Program(name=lines[0][2].removeprefix("program "), body=body)


_Lines = list[tuple[int, int, str]]


def _parse_body(
    lines: _Lines, at: int, depth: int, scope: dict[str, Tile]
) -> tuple[tuple[Node, ...], tuple[Tile, ...], int]:
    nodes: list[Node] = []
    tiles: list[Tile] = []
    while at < len(lines) and lines[at][1] == depth:
        number, _, line = lines[at]
        word = line.partition(" ")[0]
        try:
            if word == "tile":
                tiles.append(_TILE.parse(line, scope))
                scope = scope | {tiles[-1].name: tiles[-1]}
                at += 1
            elif word in ("loop", "operator"):
                body, inner, at = _parse_body(lines, at + 1, depth + 1, scope)
                form = _LOOP if word == "loop" else _OPERATOR
                nodes.append(form.parse(line, scope, tiles=inner, body=body))
            else:
                nodes.append(_parse_command(word, line, scope))
                at += 1
        except (KeyError, ValueError) as error:
            raise ProgramError(f"line {number}: can't read {line!r}: {error}") from None
    return tuple(nodes), tuple(tiles), at


def _parse_command(word: str, line: str, scope: dict[str, Tile]) -> Command:
    if word in UNIT_COMMANDS:
        command = UNIT_COMMANDS[word]
        match = command.form.fullmatch(line)
        if match is None:
            raise ValueError(f"expected {command.form.pattern}")
        return command.parse(match.groups(), scope)
    form = _FORMS.get(word, _COMMANDS[Sfu])
    parsed: Command = form.parse(line, scope)
    return parsed
