"""The text form of a program: an indented loop tree that prints and parses back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast, get_args

from simaccel.hardware import STATIONARITIES, SfuWork, Stationarity
from simaccel.mapping.program import (
    Command,
    Gemm,
    Load,
    Loop,
    Node,
    Operator,
    Program,
    ProgramError,
    Reserve,
    Sfu,
    Store,
    Tile,
    View,
)


def program_text(program: Program) -> str:
    """Print a program, one node a line, two spaces a level."""
    return "\n".join([f"program {program.name}", *_body_lines(program.body, 1), ""])


def _view_text(view: View) -> str:
    ranks = ",".join(f"{r}={s}" for r, s in zip(view.ranks, view.shape, strict=True))
    return f"{view.name}[{ranks}] {view.bytes_per_element}B"


def _tile_line(tile: Tile) -> str:
    shape = "x".join(map(str, tile.shape))
    origin = f" at {','.join(map(str, tile.origin))}" if tile.origin else ""
    return f"tile {tile.name} {shape} x{tile.slots}{origin} of {_view_text(tile.view)}"


def _command_line(command: Command) -> str:
    if isinstance(command, Reserve):
        return f"reserve {command.tile.name} queue {command.queue}"
    if isinstance(command, Load):
        tensor = f" from {_view_text(command.view)}" if command.view else ""
        return f"load {command.tile.name} queue {command.queue}{tensor}"
    if isinstance(command, Store):
        tensor = f" into {_view_text(command.view)}" if command.view else ""
        return f"store {command.tile.name}{tensor}"
    if isinstance(command, Gemm):
        sizes = " ".join(f"{r}={s}" for r, s in zip(command.ranks, command.shape, strict=True))
        sign = "+=" if command.accumulate else "="
        names = f"{command.out.name} {sign} {command.a.name} {command.b.name}"
        return f"gemm {names} over {sizes} {command.stationarity}"
    shape = "x".join(map(str, command.shape))
    return f"sfu {command.work} {command.tile.name} {shape} scale {command.scale!r}"


def _body_lines(body: Sequence[Node], depth: int) -> list[str]:
    pad = "  " * depth
    lines: list[str] = []
    for node in body:
        if isinstance(node, Operator):
            lines.append(f"{pad}operator {node.name}")
        elif isinstance(node, Loop):
            ahead = f" ahead {node.ahead}" if node.ahead else ""
            lines.append(
                f"{pad}loop {node.rank} {node.trips} from {node.start} step {node.step}{ahead}"
            )
        else:
            lines.append(pad + _command_line(node))
            continue
        lines += [f"{pad}  {_tile_line(tile)}" for tile in node.tiles]
        lines += _body_lines(node.body, depth + 1)
    return lines


_VIEW = re.compile(r"(\S+)\[(\S+)\] (\d+)B")
_TILE = re.compile(r"tile (\S+) (\S+) x(\d+)(?: at (\S+))? of (.+)")
_LOOP = re.compile(r"loop (\S+) (\d+) from (\d+) step (\d+)(?: ahead (\d+))?")
_LOAD = re.compile(r"load (\S+) queue (\d+)(?: from (.+))?")
_RESERVE = re.compile(r"reserve (\S+) queue (\d+)")
_STORE = re.compile(r"store (\S+)(?: into (.+))?")
_GEMM = re.compile(r"gemm (\S+) (\+?=) (\S+) (\S+) over (\S+) (\S+) (\S+) (\S+) (\S+)")
_SFU = re.compile(r"sfu (\S+) (\S+) (\S+) scale (\S+)")


def parse_program(text: str) -> Program:
    """Read a program's text form.

    Raises:
        ProgramError: names the line that can't be read.

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
                nodes.append(_parse_block(line, body, inner))
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
    return tuple(int(s) for s in text.split(separator))


def _parse_view(text: str) -> View:
    tensor, ranks, width = _match(_VIEW, text).groups()
    pairs = [r.split("=") for r in ranks.split(",")]
    return View(
        name=tensor,
        ranks=tuple(r for r, _ in pairs),
        shape=tuple(int(s) for _, s in pairs),
        bytes_per_element=int(width),
    )


def _parse_tile(line: str) -> Tile:
    name, shape, slots, origin, view = _match(_TILE, line).groups()
    return Tile(
        name=name,
        view=_parse_view(view),
        shape=_sizes(shape, "x"),
        slots=int(slots),
        origin=_sizes(origin, ",") if origin else (),
    )


def _parse_block(line: str, body: tuple[Node, ...], tiles: tuple[Tile, ...]) -> Node:
    if line.startswith("operator "):
        return Operator(name=line.removeprefix("operator "), body=body, tiles=tiles)
    rank, trips, start, step, ahead = _match(_LOOP, line).groups()
    return Loop(
        rank=rank,
        trips=int(trips),
        start=int(start),
        step=int(step),
        ahead=int(ahead or 0),
        body=body,
        tiles=tiles,
    )


def _parse_command(line: str, scope: dict[str, Tile]) -> Command:
    if line.startswith("load "):
        name, queue, view = _match(_LOAD, line).groups()
        tensor = _parse_view(view) if view else None
        return Load(tile=scope[name], queue=int(queue), view=tensor)
    if line.startswith("reserve "):
        name, queue = _match(_RESERVE, line).groups()
        return Reserve(tile=scope[name], queue=int(queue))
    if line.startswith("store "):
        name, view = _match(_STORE, line).groups()
        return Store(tile=scope[name], view=_parse_view(view) if view else None)
    if line.startswith("gemm "):
        out, sign, a, b, *sizes, stationarity = _match(_GEMM, line).groups()
        if stationarity not in STATIONARITIES:
            raise ValueError(f"{stationarity}: one of {', '.join(STATIONARITIES)}")
        g, m, k, n = (s.split("=") for s in sizes)
        return Gemm(
            out=scope[out],
            a=scope[a],
            b=scope[b],
            ranks=(g[0], m[0], k[0], n[0]),
            shape=(int(g[1]), int(m[1]), int(k[1]), int(n[1])),
            stationarity=cast("Stationarity", stationarity),
            accumulate=sign == "+=",
        )
    work, name, shape, scale = _match(_SFU, line).groups()
    if work not in get_args(SfuWork):
        raise ValueError(f"{work}: one of {', '.join(get_args(SfuWork))}")
    return Sfu(
        work=cast("SfuWork", work),
        tile=scope[name],
        shape=_sizes(shape, "x"),
        scale=float(scale),
    )
