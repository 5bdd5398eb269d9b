"""Programs: a finite tree of loops whose leaves are commands to engines.

The four rules of the design hold here: iterations of a loop are identical, a tile lives in
the body that declares it, engines walk the tree on their own, resources are channels. Loops
carry coordinates, so that a program can be executed on tensors (``interpreter``) as well as
timed (``simaccel.machine``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from simaccel.errors import SimaccelError
from simaccel.hardware import SfuWork, Stationarity


class ProgramError(SimaccelError):
    """A program breaks one of its rules; the message names the node and the rule."""


class DoesNotFitError(ProgramError):
    """The tiles of a program need more than the buffer; the message lists tiles and bytes."""


@dataclass(frozen=True, kw_only=True)
class View:
    """A tensor as one operator sees it: named ranks, their sizes, bytes per element."""

    name: str
    ranks: tuple[str, ...]
    shape: tuple[int, ...]
    bytes_per_element: int

    @property
    def n_bytes(self) -> int:
        """Size of the whole tensor in bytes."""
        return math.prod(self.shape) * self.bytes_per_element


@dataclass(frozen=True, kw_only=True)
class Tile:
    """A block of a tensor in the buffer, alive in the body that declares it.

    ``shape`` follows the ranks of ``view``; the block starts at the coordinates of the
    enclosing loops plus ``origin``. Tiles of one name in one operator share ``slots`` slots
    as large as the largest of them.
    """

    name: str
    view: View
    shape: tuple[int, ...]
    slots: int = 1
    origin: tuple[int, ...] = ()

    @property
    def n_bytes(self) -> int:
        """Size of one slot's worth of this tile in bytes."""
        return math.prod(self.shape) * self.view.bytes_per_element


@dataclass(frozen=True, kw_only=True)
class Load:
    """DMA: read a tile from DRAM into the buffer. ``queue`` is the tile's DMA queue.

    ``view`` is the tensor in DRAM where it is not the tile's own (in-place softmax).
    """

    tile: Tile
    queue: int = 0
    view: View | None = None


@dataclass(frozen=True, kw_only=True)
class Store:
    """DMA: write a tile from the buffer to DRAM, to its own tensor or to ``view``."""

    tile: Tile
    view: View | None = None


@dataclass(frozen=True, kw_only=True)
class Gemm:
    """PE array: out[g, m, n] (+)= a[g, m, k] b[g, k, n] on blocks of three tiles.

    ``ranks`` names the ranks that play g, m, k, n; ``shape`` is the block's size in them; it
    starts at the coordinates of the enclosing loops. ``accumulate`` adds to what ``out`` holds.
    """

    out: Tile
    a: Tile
    b: Tile
    ranks: tuple[str, str, str, str]
    shape: tuple[int, int, int, int]
    stationarity: Stationarity
    accumulate: bool = False

    @property
    def macs(self) -> int:
        """Multiply-accumulates of this command."""
        return math.prod(self.shape)


@dataclass(frozen=True, kw_only=True)
class Sfu:
    """Special function unit: one kind of softmax work, in place on a block of a tile.

    ``shape`` is the block's size in the ranks of the tile; the last rank is the softmax axis.
    ``scale`` multiplies the logits on the way in.
    """

    work: SfuWork
    tile: Tile
    shape: tuple[int, ...]
    scale: float = 1.0

    @property
    def elements(self) -> int:
        """Elements that each pass touches."""
        return math.prod(self.shape)


@dataclass(frozen=True, kw_only=True)
class Reserve:
    """DMA: hand an empty slot on, in the turn of the queue that loads the tile elsewhere.

    The first partial sums of an output have nothing to load; their slot still goes through
    the queue that will load the later ones, so that slots are given out in program order.
    """

    tile: Tile
    queue: int = 0


Command = Load | Reserve | Store | Gemm | Sfu


@dataclass(frozen=True, kw_only=True)
class Loop:
    """``trips`` identical iterations; iteration i has ``rank`` at ``start + i * step``.

    The coordinate adds to that of an enclosing loop of the same rank. The first ``ahead``
    nodes of the body run one iteration ahead of the others (software pipelining).
    """

    rank: str
    trips: int
    step: int = 1
    start: int = 0
    tiles: tuple[Tile, ...] = ()
    body: tuple[Node, ...] = ()
    ahead: int = 0


@dataclass(frozen=True, kw_only=True)
class Operator:
    """The commands of one operator or one fused group; engines meet at its end."""

    name: str
    body: tuple[Node, ...]
    tiles: tuple[Tile, ...] = ()


Node = Command | Loop | Operator


@dataclass(frozen=True, kw_only=True)
class Program:
    """What the machine executes: operators, possibly inside loops (layers, resident tiles)."""

    name: str
    body: tuple[Node, ...]


def tiles_of(command: Command) -> tuple[Tile, ...]:
    """Tiles that a command touches, those it writes first."""
    if isinstance(command, Gemm):
        return command.out, command.a, command.b
    return (command.tile,)


def transferred(command: Load | Store) -> tuple[View, int]:
    """Tensor in DRAM and bytes of a transfer."""
    view = command.view or command.tile.view
    return view, math.prod(command.tile.shape) * view.bytes_per_element


def commands(body: Sequence[Node]) -> Iterator[Command]:
    """Every command below ``body``, once for each place in the tree (not for each trip)."""
    for node in body:
        if isinstance(node, Loop | Operator):
            yield from commands(node.body)
        else:
            yield node


def size(program: Program) -> int:
    """Number of nodes of a program's tree: what the cost of a run grows with."""

    def count(body: Sequence[Node]) -> int:
        return sum(1 + (count(n.body) if isinstance(n, Loop | Operator) else 0) for n in body)

    return count(program.body)


def rings(body: Sequence[Node], tiles: Sequence[Tile] = ()) -> dict[str, tuple[int, int]]:
    """Slots that all bodies below share by tile name: name -> (bytes of a slot, slots)."""
    found: dict[str, tuple[int, int]] = {}
    for tile in tiles:
        found[tile.name] = (tile.n_bytes, tile.slots)
    for node in body:
        if isinstance(node, Loop | Operator):
            for name, (n_bytes, slots) in rings(node.body, node.tiles).items():
                known = found.get(name, (0, 0))
                found[name] = (max(n_bytes, known[0]), max(slots, known[1]))
    return found


def reserved(program: Program) -> dict[str, dict[str, tuple[int, int]]]:
    """Buffer use of each operator: operator -> tile name -> (bytes of a slot, slots).

    Tiles of enclosing bodies (a resident intermediate) count for every operator inside.
    """
    found: dict[str, dict[str, tuple[int, int]]] = {}

    def visit(body: Sequence[Node], outer: dict[str, tuple[int, int]]) -> None:
        for node in body:
            if isinstance(node, Operator):
                found[node.name] = outer | rings(node.body, node.tiles)
            elif isinstance(node, Loop):
                visit(node.body, outer | {t.name: (t.n_bytes, t.slots) for t in node.tiles})

    visit(program.body, {})
    return found


def reserved_bytes(program: Program) -> int:
    """Peak of the buffer that a program reserves, in bytes, known before the run."""
    return max(
        (sum(b * s for b, s in use.values()) for use in reserved(program).values()), default=0
    )


def require_fit(program: Program, capacity_bytes: int | None) -> None:
    """Refuse a program that needs more than the buffer.

    Raises:
        DoesNotFitError: names the operator and lists its tiles with their bytes.

    """
    if capacity_bytes is None:
        return
    for operator, use in reserved(program).items():
        total = sum(n_bytes * slots for n_bytes, slots in use.values())
        if total > capacity_bytes:
            tiles = ", ".join(
                f"{name} {slots} x {n_bytes} B" for name, (n_bytes, slots) in use.items()
            )
            raise DoesNotFitError(
                f"{operator}: tiles need {total} B, the buffer has {capacity_bytes} B, "
                f"{total - capacity_bytes} B too many: {tiles}"
            )
