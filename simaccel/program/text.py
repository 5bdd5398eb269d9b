"""The text form of a program: an indented loop tree that prints and parses back.

A tile around operators has other ranks in each of them: ``X_kept[m=4,pq=9]``. Names have no blanks
or brackets (``workload.names``). A tile without dimensions has the shape ``-``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from simaccel.errors import suggest
from simaccel.hardware import STATIONARITIES, Stationarity
from simaccel.mapping.view import TensorView
from simaccel.program.loop_text import loop_line, operator_line, parse_block
from simaccel.program.program import (
    BUFFER,
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


def program_text(program: Program) -> str:
    """Return a program as text: one node per line, two blanks per level."""
    return "\n".join([f"program {program.name}", *_body_lines(program.body, 1, {}), ""])


def _view_text(view: TensorView) -> str:
    ranks = _sizes_text(view.ranks, view.shape, ",")
    kind = f" {view.kind}" if view.kind else ""
    width = "4b" if view.packed else f"{view.bytes_per_element}B"
    number = f":{view.number}" if view.number else ""
    return f"{view.name}[{ranks}] {width}{number}{kind}"


def _tile_line(tile: Tile) -> str:
    shape = "x".join(map(str, tile.shape)) or "-"
    origin = f" at {','.join(map(str, tile.origin))}" if tile.origin else ""
    part = "" if tile.part_bytes is None else f" {tile.part_bytes}B each"
    place = "" if tile.place == BUFFER else f" in {tile.place}{part}"
    return f"tile {tile.name} {shape} x{tile.slots}{origin}{place} of {_view_text(tile.view)}"


_Scope = Mapping[str, Tile]
"""The tiles around an operator, by name."""


def _operand_text(tile: Tile, around: _Scope) -> str:
    known = around.get(tile.name)
    if known is None or tile.view == known.view:
        return tile.name
    return f"{tile.name}[{_sizes_text(tile.view.ranks, tile.view.shape, ',')}]"


def _sizes_text(ranks: Sequence[str], shape: Sequence[int], separator: str = " ") -> str:
    return separator.join(f"{r}={s}" for r, s in zip(ranks, shape, strict=True))


def _command_line(command: Command, around: _Scope) -> str:
    if isinstance(command, Reserve):
        return f"reserve {command.tile.name} queue {command.queue}{' noc' * command.noc}"
    if isinstance(command, Load):
        return _load_line(command)
    if isinstance(command, Store):
        tensor = f" into {_view_text(command.view)}" if command.view else ""
        tile = f" into tile {command.target.name}" if command.target else ""
        return f"store {command.tile.name}{tensor}{tile}{_moves_text(command.moved)}"
    if isinstance(command, Compute):
        sizes = _sizes_text(command.ranks, command.shape)
        sign = "+=" if command.accumulate else "="
        inputs = " ".join(_operand_text(tile, around) for tile in command.inputs)
        on = _folds_text(command.on) if isinstance(command.on, Folds) else _steps_text(command.on)
        return f"compute {_operand_text(command.out, around)} {sign} {inputs} over {sizes} {on}"
    return command.text if isinstance(command, UnitCommand) else _sfu_line(command, around)


def _load_line(load: Load) -> str:
    tensor = f" from {_view_text(load.view)}" if load.view else ""
    tile = f" from tile {load.source.name}" if load.source else ""
    how = " back" * load.back + " slides" * load.slides
    return f"load {load.tile.name} queue {load.queue}{tensor}{tile}{how}{_moves_text(load.moved)}"


def _folds_text(folds: Folds) -> str:
    if folds.rows is None and folds.cols is None:
        return f"folds {folds.stationarity}"
    return f"folds {folds.stationarity} {_side_text(folds.rows)}x{_side_text(folds.cols)}"


def _side_text(side: int | None) -> str:
    return "-" if side is None else str(side)


def _steps_text(one: Steps) -> str:
    reads = " ".join(map(_moved_text, one.reads))
    pes = f"{one.pes[0]}x{one.pes[1]}"
    return f"steps {one.steps} on {pes} reads {reads} writes {_moved_text(one.writes)}"


def _sfu_line(command: Sfu, around: _Scope) -> str:
    sizes = _sizes_text(command.ranks, command.shape)
    inputs = " ".join(_operand_text(tile, around) for tile in command.inputs)
    names = f"{_operand_text(command.out, around)} = {inputs}"
    axis = f" axis {command.axis}" if command.axis else ""
    scale = "" if command.scale == 1.0 else f" scale {command.scale!r}"
    seen = "" if command.visible is None else f" visible {_visible_text(command.visible)}"
    work = f"{command.work} {command.step}"
    return f"sfu {work} {names} over {sizes}{axis}{scale}{seen} of {command.operator}"


def _visible_text(visible: VisibleSpan) -> str:
    window = "" if visible.window is None else f"/{visible.window}"
    return f"{visible.row}+{visible.before}{window}"


def _moved_text(moved: TransferTraffic) -> str:
    return f"{moved.outer}/{moved.inner}"


def _moves_text(moved: TransferTraffic | None) -> str:
    return f" moves {_moved_text(moved)}" if moved else ""


def _body_lines(body: Sequence[Node], depth: int, around: _Scope) -> list[str]:
    pad = "  " * depth
    lines: list[str] = []
    for node in body:
        inside = around
        if isinstance(node, Operator):
            lines.append(pad + operator_line(node))
        elif isinstance(node, ProgramLoop):
            lines.append(pad + loop_line(node))
            if any(isinstance(child, Operator) for child in node.body):
                inside = {**around, **{tile.name: tile for tile in node.tiles}}
        else:
            lines.append(pad + _command_line(node, around))
            continue
        lines += [f"{pad}  {_tile_line(tile)}" for tile in node.tiles]
        lines += _body_lines(node.body, depth + 1, inside)
    return lines


_VIEW = re.compile(r"(\S+)\[(\S*)\] (4b|\d+B)(?::(\w+))?(?: (weight|cache|shared))?")
_OPERAND = re.compile(r"([^\s\[]+)(?:\[(\S*)\])?")
_SIZES = r"((?:\S+=\d+(?: \S+=\d+)*)?)"
_TENSOR = r"(?!tile )(\S+ (?:4b|\d+B)(?::\w+)?(?: weight| cache| shared)?)"
_MOVES = r"(?: moves (\d+/\d+))?"
_TILE = re.compile(r"tile (\S+) (\S+) x(\d+)(?: at (\S+))?(?: in (\S+)(?: (\d+)B each)?)? of (.+)")
_LOAD = re.compile(
    rf"load (\S+) queue (\d+)(?: from {_TENSOR})?(?: from tile (\S+))?( back)?( slides)?" + _MOVES
)
_RESERVE = re.compile(r"reserve (\S+) queue (\d+)( noc)?")
_STORE = re.compile(rf"store (\S+)(?: into {_TENSOR})?(?: into tile (\S+))?" + _MOVES)
_COMPUTE = re.compile(rf"compute (\S+) (\+?=) (.+) over {_SIZES} (?:folds (.+)|steps (.+))")
_FOLDS = re.compile(r"(\S+)(?: (\d+|-)x(\d+|-))?")
_STEPS = re.compile(r"(\d+) on (\d+)x(\d+) reads ([\d/ ]+) writes (\d+/\d+)")
_SFU = re.compile(
    rf"sfu (\S+) (\S+) (\S+) = (.+) over {_SIZES}(?: axis (\S+))?(?: scale (\S+))?"
    r"(?: visible (\S+))? of (.+)"
)
_VISIBLE = re.compile(r"(\S+)\+(\d{1,20})(?:/(\d{1,20}))?")


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
        try:
            if line.startswith("tile "):
                tiles.append(_parse_tile(line))
                scope = scope | {tiles[-1].name: tiles[-1]}
                at += 1
            elif line.startswith(("loop ", "operator ")):
                body, inner, at = _parse_body(lines, at + 1, depth + 1, scope)
                nodes.append(parse_block(line, inner, body))
            else:
                nodes.append(_parse_command(line, scope))
                at += 1
        except (KeyError, ValueError) as error:
            raise ProgramError(f"line {number}: can't read {line!r}: {error}") from None
    return tuple(nodes), tuple(tiles), at


def _match(pattern: re.Pattern[str], line: str) -> re.Match[str]:
    found = pattern.fullmatch(line)
    if found is None:
        raise ValueError(f"expected {pattern.pattern}")
    return found


def _sizes(text: str, separator: str) -> tuple[int, ...]:
    return () if text == "-" else tuple(int(s) for s in text.split(separator))


def _pairs(text: str, separator: str) -> list[tuple[str, int]]:
    """Return ranks and their sizes."""
    parts = (one.split("=") for one in text.split(separator) if one)
    return [(rank, int(size)) for rank, size in parts]


def _parse_view(text: str) -> TensorView:
    tensor, ranks, width, number, kind = _match(_VIEW, text).groups()
    pairs = _pairs(ranks, ",")
    return TensorView(
        name=tensor,
        ranks=tuple(r for r, _ in pairs),
        shape=tuple(s for _, s in pairs),
        bytes_per_element=1 if width == "4b" else int(width[:-1]),
        kind=kind or "",
        packed=width == "4b",
        number=number or "",
    )


def _parse_tile(line: str) -> Tile:
    name, shape, slots, origin, place, part, view = _match(_TILE, line).groups()
    return Tile(
        name=name,
        view=_parse_view(view),
        shape=_sizes(shape, "x"),
        slots=int(slots),
        origin=_sizes(origin, ",") if origin else (),
        place=place or BUFFER,
        part_bytes=None if part is None else int(part),
    )


def _parse_command(line: str, scope: dict[str, Tile]) -> Command:
    word = line.split(" ", maxsplit=1)[0]
    if word in UNIT_COMMANDS:
        command = UNIT_COMMANDS[word]
        return command.parse(_match(command.form, line).groups(), scope)
    return _PARSERS.get(word, _parse_sfu)(line, scope)


def _parse_load(line: str, scope: dict[str, Tile]) -> Load:
    name, queue, view, source, back, slides, moved = _match(_LOAD, line).groups()
    return Load(
        tile=scope[name],
        queue=int(queue),
        view=_parse_view(view) if view else None,
        source=scope[source] if source else None,
        moved=_parse_moved(moved) if moved else None,
        slides=slides is not None,
        back=back is not None,
    )


def _parse_reserve(line: str, scope: dict[str, Tile]) -> Reserve:
    name, queue, noc = _match(_RESERVE, line).groups()
    return Reserve(tile=scope[name], queue=int(queue), noc=noc is not None)


def _parse_store(line: str, scope: dict[str, Tile]) -> Store:
    name, view, target, moved = _match(_STORE, line).groups()
    return Store(
        tile=scope[name],
        view=_parse_view(view) if view else None,
        target=scope[target] if target else None,
        moved=_parse_moved(moved) if moved else None,
    )


def _parse_operand(text: str, scope: dict[str, Tile]) -> Tile:
    name, sizes = _match(_OPERAND, text).groups()
    tile = scope[name]
    if sizes is None:
        return tile
    pairs = _pairs(sizes, ",")
    shape = tuple(size for _, size in pairs)
    view = replace(tile.view, ranks=tuple(rank for rank, _ in pairs), shape=shape)
    return replace(tile, view=view, shape=tile.shape if tile.origin else shape)


def _parse_compute(line: str, scope: dict[str, Tile]) -> Compute:
    out, sign, inputs, sizes, folds, steps = _match(_COMPUTE, line).groups()
    pairs = _pairs(sizes, " ")
    return Compute(
        out=_parse_operand(out, scope),
        inputs=tuple(_parse_operand(name, scope) for name in inputs.split(" ")),
        ranks=tuple(rank for rank, _ in pairs),
        shape=tuple(size for _, size in pairs),
        on=_parse_folds(folds) if folds else _parse_steps(steps),
        accumulate=sign == "+=",
    )


def _parse_folds(text: str) -> Folds:
    stationarity, rows, cols = _match(_FOLDS, text).groups()
    if stationarity not in STATIONARITIES:
        raise ValueError(f"{stationarity}: one of {', '.join(STATIONARITIES)}")
    sides = (None if side in (None, "-") else int(side) for side in (rows, cols))
    return Folds(cast("Stationarity", stationarity), *sides)


def _parse_steps(text: str) -> Steps:
    steps, rows, cols, reads, writes = _match(_STEPS, text).groups()
    return Steps(
        steps=int(steps),
        pes=(int(rows), int(cols)),
        reads=tuple(_parse_moved(one) for one in reads.split(" ")),
        writes=_parse_moved(writes),
    )


def _parse_moved(text: str) -> TransferTraffic:
    outer, inner = text.split("/")
    return TransferTraffic(int(outer), int(inner))


def _parse_sfu(line: str, scope: dict[str, Tile]) -> Sfu:
    work, step, out, inputs, sizes, axis, scale, visible, operator = _match(_SFU, line).groups()
    if work not in VECTORS:
        raise ValueError(f"{work}: {suggest(work, VECTORS)}")
    if step not in VECTORS[work].steps:
        raise ValueError(f"{step}: {suggest(step, VECTORS[work].steps)}")
    pairs = _pairs(sizes, " ")
    return Sfu(
        operator=operator,
        work=work,
        step=step,
        out=_parse_operand(out, scope),
        inputs=tuple(_parse_operand(name, scope) for name in inputs.split(" ")),
        ranks=tuple(rank for rank, _ in pairs),
        shape=tuple(size for _, size in pairs),
        axis=axis or "",
        scale=1.0 if scale is None else float(scale),
        visible=_parse_visible(visible) if visible else None,
    )


def _parse_visible(text: str) -> VisibleSpan:
    row, before, window = _match(_VISIBLE, text).groups()
    return VisibleSpan(row, int(before), int(window) if window else None)


_PARSERS: dict[str, Callable[[str, dict[str, Tile]], Command]] = {
    "load": _parse_load,
    "reserve": _parse_reserve,
    "store": _parse_store,
    "compute": _parse_compute,
}
