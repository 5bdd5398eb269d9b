"""Programs: finite trees of loops whose leaves are commands to engines.

Iterations of a loop are identical, a tile lives in the body that declares it, and each engine walks
the tree on its own. Loops have coordinates, so that a program can be executed on tensors
(``interpreter``) as well as timed (``simaccel.machine``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import ClassVar, Final, Self

from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator, Stationarity
from simaccel.mapping.view import TensorView
from simaccel.numbers import in_bytes
from simaccel.program.awaited_tiles import AwaitedTiles
from simaccel.workload import VisibleSpan
from simaccel.workload.vectors import VECTORS, VectorStep
from simaccel.workload.vectors.kind import Array

BUFFER: Final = "buffer"
"""The default place of tiles."""
STREAM: Final = "stream"
"""The place of a tile that no memory keeps: it streams between DRAM and MACs."""


class ProgramError(SimaccelError):
    """A program violates a rule; the message names the node and the rule."""


class DoesNotFitError(ProgramError):
    """The tiles of a program exceed a memory; the message lists tiles and bytes."""


@dataclass(frozen=True, kw_only=True)
class Tile:
    """A block of a tensor in a memory, alive in the body that declares it.

    ``shape``: in the order of the view's ranks; the block starts at the coordinates of the
    enclosing loops plus ``origin``. Tiles of one name in one operator share ``slots`` slots of the
    size of the largest. ``place``: the buffer, or a memory of each PE, such as ``pe.input``, where
    a PE keeps at most ``part_bytes`` of the block.
    """

    name: str
    view: TensorView
    shape: tuple[int, ...]
    slots: int = 1
    origin: tuple[int, ...] = ()
    place: str = BUFFER
    part_bytes: int | None = None

    @property
    def n_bytes(self) -> int:
        """Bytes of the tile in a slot (in each PE, if PEs keep it)."""
        if self.part_bytes is not None:
            return self.part_bytes
        return in_bytes(math.prod(self.shape), self.view.bits)


@dataclass(frozen=True)
class TransferTraffic:
    """Bytes of one transfer: at the outer memory, and at all PEs together (``inner``).

    They differ if one read serves several PEs (multicast), or if PEs add to one sum.
    """

    outer: int
    inner: int


@dataclass(frozen=True, kw_only=True)
class Load:
    """A command that loads a tile from DRAM (by DMA) or from another tile, ``source`` (by NoC).

    ``queue``: of the DMA. ``view``: the tensor in DRAM, if it is not the tile's own (in-place
    softmax). ``moved``: bytes, if not those of the whole tile once. A tile that ``slides`` keeps
    the elements that it shares with its predecessor. Sums that come ``back`` need no token of
    ``source``: the slot that they take was freed when they were stored.
    """

    tile: Tile
    queue: int = 0
    view: TensorView | None = None
    source: Tile | None = None
    moved: TransferTraffic | None = None
    slides: bool = False
    back: bool = False


@dataclass(frozen=True, kw_only=True)
class Store:
    """A command that stores a tile to DRAM (its tensor or ``view``) or to a tile, ``target``."""

    tile: Tile
    view: TensorView | None = None
    target: Tile | None = None
    moved: TransferTraffic | None = None


@dataclass(frozen=True)
class Folds:
    """The execution of a block on a systolic array, which folds it over its PEs.

    A full fold has ``rows`` x ``cols`` PEs; None: all of the array. ``diagonal``: products at once
    share it, each with rows and columns of its own.
    """

    stationarity: Stationarity
    rows: int | None = None
    cols: int | None = None
    diagonal: bool = False


@dataclass(frozen=True)
class Steps:
    """The execution of a block in ``steps`` steps on ``pes`` (rows, columns) with memories.

    ``reads`` (of each input, then of the sums) and ``writes`` (of the sums): accesses of the MACs,
    in the PEs or, for tiles in the buffer, there.
    """

    steps: int
    pes: tuple[int, int]
    reads: tuple[TransferTraffic, ...]
    writes: TransferTraffic


@dataclass(frozen=True, kw_only=True)
class Compute:
    """A command of the PE array: out (+)= product of the inputs, summed over ranks it lacks.

    The block has ``shape`` in ``ranks`` and starts at the coordinates of the enclosing loops.
    ``accumulate``: adds to the values of ``out``. ``on``: the execution on the array.
    """

    out: Tile
    inputs: tuple[Tile, ...]
    ranks: tuple[str, ...]
    shape: tuple[int, ...]
    on: Folds | Steps
    accumulate: bool = False

    @property
    def macs(self) -> int:
        """Multiply-accumulates of this command."""
        return math.prod(self.shape)


@dataclass(frozen=True, kw_only=True)
class Sfu:
    """A command of the special function unit: a step of a vector operator on a block.

    ``work``: its kind. ``operator``: the key of row statistics. The block is as in `Compute`;
    ``out`` may be an input (in place). ``axis``: the rank of rows, if the block has it.
    """

    operator: str
    work: str
    step: str
    out: Tile
    inputs: tuple[Tile, ...]
    ranks: tuple[str, ...]
    shape: tuple[int, ...]
    axis: str = ""
    scale: float = 1.0
    visible: VisibleSpan | None = None

    @property
    def does(self) -> VectorStep:
        """The step's passes and meaning."""
        return VECTORS[self.work].steps[self.step]

    @property
    def elements(self) -> int:
        """Elements of each pass."""
        return math.prod(self.shape)

    @property
    def rows(self) -> int:
        """Rows of the block along its axis."""
        pairs = zip(self.ranks, self.shape, strict=True)
        return math.prod(size for rank, size in pairs if rank != self.axis)


@dataclass(frozen=True, kw_only=True)
class Reserve:
    """A command of a loader that takes a slot without loading, in its place in the queue.

    The first partial sums of an output load nothing; their slot still passes the queue that loads
    later ones, so that slots are given out in program order. ``noc``: the queue is the one that
    reads the tile for the PEs.
    """

    tile: Tile
    queue: int = 0
    noc: bool = False


@dataclass(frozen=True)
class UnitWork:
    """The work of one command of a unit: its cycles, and bytes through the buffer's ports.

    ``moved``: other bytes by (level and direction, tensor). ``channels``: cycles by channel of the
    chip. ``lag_cycles``: from its end to the arrival of its result.
    """

    cycles: int
    read_bytes: int
    written_bytes: int
    moved: tuple[tuple[tuple[str, str], int], ...] = ()
    channels: tuple[tuple[str, int], ...] = ()
    lag_cycles: int = 0


@dataclass(frozen=True, kw_only=True)
class UnitCommand:
    """A command of the unit named ``unit``: ``out`` from ``tile``, both in the buffer.

    ``form``: pattern of its text. `simaccel.program.unit_commands` has a class for each unit.
    """

    unit: ClassVar[str]
    form: ClassVar[re.Pattern[str]] = re.compile(r"\S+ (\S+) = (\S+)")

    out: Tile
    tile: Tile

    @property
    def text(self) -> str:
        """The command as text; it begins with the name of the unit."""
        return f"{self.unit} {self.out.name} = {self.tile.name}"

    @classmethod
    def parse(cls, groups: tuple[str, ...], scope: Mapping[str, Tile]) -> Self:
        """Return the command from the groups of ``form``; ``scope``: tiles by name.

        Raises:
            ValueError: a group has a value that the unit does not know.
            KeyError: a tile's name is unknown.
        """
        return cls(out=scope[groups[0]], tile=scope[groups[1]])

    def meaning(self, block: Array) -> Array:
        """Return the values of ``out`` from those of ``tile``.

        Raises:
            ProgramError: they depend on other chips.
        """
        raise ProgramError(f"{self.text}: no meaning on one chip; got a block of {block.shape}")

    def work(self, accelerator: Accelerator) -> UnitWork:
        """Return the work of the command on an accelerator with unlimited memory."""
        raise NotImplementedError


Command = Load | Reserve | Store | Compute | Sfu | UnitCommand


class _Nest:
    """A node with a body; its contents are cached, as equal sub-trees are one object."""

    tiles: tuple[Tile, ...]
    body: tuple[Node, ...]

    @cached_property
    def commands(self) -> tuple[Command, ...]:
        """Every command inside."""
        return tuple(commands(self.body))

    @cached_property
    def tiles_inside(self) -> tuple[Tile, ...]:
        """The tiles of all bodies inside, its own first."""
        inner = (node.tiles_inside for node in self.body if isinstance(node, _Nest))
        return tuple(chain(self.tiles, *inner))


@dataclass(frozen=True, kw_only=True)
class ProgramLoop(_Nest):
    """A loop of ``trips`` identical iterations; iteration i has ``rank`` at ``start + i * step``.

    The coordinate adds to that of an enclosing loop of the same rank. The first ``ahead`` nodes of
    the body run one iteration ahead of the others (software pipelining).

    With a ``core`` the iterations run in parallel: the first on that core, each further one
    ``cores_apart`` cores later, relative to the core of an enclosing loop of this kind.

    ``hands_on``: tensors of which each iteration completes a tile that operators on other cores
    wait for; ``awaits``: tensors of which each iteration reads such a tile.
    """

    rank: str
    trips: int
    step: int = 1
    start: int = 0
    tiles: tuple[Tile, ...] = ()
    body: tuple[Node, ...] = ()
    ahead: int = 0
    core: int | None = None
    cores_apart: int = 1
    hands_on: tuple[str, ...] = ()
    awaits: tuple[AwaitedTiles, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Operator(_Nest):
    """The commands of one operator or one fused group.

    ``derived``: ranks whose coordinates are sums of others, as (rank, terms). ``cores``: the cores
    that run it, None for all; loops inside count their cores from the first of these. ``joined``:
    it is in one kernel with the operator before.
    """

    name: str
    body: tuple[Node, ...]
    tiles: tuple[Tile, ...] = ()
    derived: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()
    cores: range | None = None
    joined: bool = False


Node = Command | ProgramLoop | Operator


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program: operators, possibly inside loops (layers, resident tiles)."""

    name: str
    body: tuple[Node, ...]


def tiles_of(command: Command) -> tuple[Tile, ...]:
    """Return the tiles of a command, written ones first, without sums that it reads back."""
    if isinstance(command, Compute | Sfu):
        return tuple({tile.name: tile for tile in (command.out, *command.inputs)}.values())
    if isinstance(command, UnitCommand):
        return tuple({tile.name: tile for tile in (command.out, command.tile)}.values())
    if isinstance(command, Load) and command.source is not None and not command.back:
        return command.tile, command.source
    if isinstance(command, Store) and command.target is not None:
        return command.target, command.tile
    return (command.tile,)


def transfer_of(command: Load | Store) -> tuple[TensorView, TransferTraffic]:
    """Return a transfer's outer tensor (of DRAM, or of the named tile) and its bytes."""
    view = command.view or command.tile.view
    n_bytes = in_bytes(math.prod(command.tile.shape), view.bits)
    return view, command.moved or TransferTraffic(n_bytes, n_bytes)


def commands(body: Sequence[Node]) -> Iterator[Command]:
    """Yield every command below ``body``, once per place in the tree (not per trip)."""
    for node in body:
        if isinstance(node, _Nest):
            yield from node.commands
        else:
            yield node


def between_tiles(command: Command) -> bool:
    """Return whether a command moves data between buffer and PEs, or has a place in that queue."""
    if isinstance(command, Load):
        return command.source is not None
    if isinstance(command, Store):
        return command.target is not None
    return isinstance(command, Reserve) and command.noc


def size(program: Program) -> int:
    """Return the number of nodes of a program's tree, with which the cost of a run grows."""

    def count(body: Sequence[Node]) -> int:
        return len(body) + sum(count(node.body) for node in body if isinstance(node, _Nest))

    return count(program.body)
