"""Programs: a finite tree of loops whose leaves are commands to engines.

The four rules of the design hold here: iterations of a loop are identical, a tile lives in
the body that declares it, engines walk the tree on their own, resources are channels. Loops
carry coordinates, so that a program can be executed on tensors (``interpreter``) as well as
timed (``simaccel.machine``).
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
"""Where tiles live unless they say otherwise."""
STREAM: Final = "stream"
"""Where a tile lives that is kept nowhere: it passes on its way between DRAM and MACs."""


class ProgramError(SimaccelError):
    """A program breaks one of its rules; the message names the node and the rule."""


class DoesNotFitError(ProgramError):
    """The tiles of a program need more than a memory; the message lists tiles and bytes."""


@dataclass(frozen=True, kw_only=True)
class Tile:
    """A block of a tensor in a memory, alive in the body that declares it.

    ``shape`` follows the ranks of ``view``; the block starts at the coordinates of the
    enclosing loops plus ``origin``. Tiles of one name in one operator share ``slots`` slots
    as large as the largest of them. ``place`` is the memory: the buffer, or one that every PE
    has, such as ``pe.input``, where a PE keeps at most ``part_bytes`` of the block.
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
        """Size of one slot's worth of this tile in bytes (in each PE, if PEs keep it)."""
        return self.block_bytes if self.part_bytes is None else self.part_bytes

    @property
    def block_bytes(self) -> int:
        """Size of the block in bytes, wherever its parts are."""
        return in_bytes(math.prod(self.shape), self.view.bits)


@dataclass(frozen=True)
class TransferTraffic:
    """Bytes of one transfer: at the memory it comes from or goes to, and at all PEs together.

    They differ where one read serves several PEs (multicast), or PEs add to one sum.
    """

    outer: int
    inner: int


@dataclass(frozen=True, kw_only=True)
class Load:
    """Read a tile from DRAM (by DMA) or from another tile, ``source`` (over the NoC).

    ``queue`` is the tile's queue. ``view`` is the tensor in DRAM where it is not the tile's own
    (in-place softmax). ``moved`` is given where it isn't the whole tile once. A tile that
    ``slides`` keeps what it shares with the one before it of its name. Sums that come ``back``
    need no token of ``source``: the slot that they take was freed when they were stored.
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
    """Write a tile to DRAM (its own tensor or ``view``), or to another tile, ``target``."""

    tile: Tile
    view: TensorView | None = None
    target: Tile | None = None
    moved: TransferTraffic | None = None


@dataclass(frozen=True)
class Folds:
    """A systolic array takes the whole block and folds it over its PEs.

    A full fold has ``rows`` x ``cols`` PEs; None is as many as the array has.
    """

    stationarity: Stationarity
    rows: int | None = None
    cols: int | None = None


@dataclass(frozen=True)
class Steps:
    """PEs with memories of their own go through a block in ``steps`` steps, on rows x columns.

    ``reads`` (of each input, then of the sums) and ``writes`` (of the sums) are what the MACs
    access, in the PEs or, where the tile is there, in the buffer.
    """

    steps: int
    pes: tuple[int, int]
    reads: tuple[TransferTraffic, ...]
    writes: TransferTraffic


@dataclass(frozen=True, kw_only=True)
class Compute:
    """PE array: out (+)= product of the inputs, summed over the ranks that ``out`` lacks.

    The block has ``shape`` in ``ranks`` and starts at the coordinates of the enclosing loops.
    ``accumulate`` adds to what ``out`` holds. ``on`` is how the array goes through the block.
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
    """Special function unit: a step of a vector operator on blocks of tiles.

    ``work`` is its kind; statistics of rows are kept by ``operator``. The block is as in `Pass`;
    ``out`` may be an input (in place), ``axis`` is what rows go along, if the block has it.
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
        """Elements that each pass touches."""
        return math.prod(self.shape)

    @property
    def rows(self) -> int:
        """Rows of the block along its axis."""
        pairs = zip(self.ranks, self.shape, strict=True)
        return math.prod(size for rank, size in pairs if rank != self.axis)


@dataclass(frozen=True, kw_only=True)
class Reserve:
    """Hand a slot on, in the turn of the queue that loads the tile elsewhere.

    The first partial sums of an output have nothing to load; their slot still goes through
    the queue that will load the later ones, so that slots are given out in program order.
    ``noc``: in the turn of the queue that reads the tile for the PEs.
    """

    tile: Tile
    queue: int = 0
    noc: bool = False


@dataclass(frozen=True)
class UnitWork:
    """The work of one command of a unit: its cycles, and bytes through the ports of the buffer.

    ``moved``: bytes besides by (level and direction, tensor). ``channels``: those of a chip that it
    uses, each for so many cycles; ``lag_cycles``: until its outcome is there.
    """

    cycles: int
    read_bytes: int
    written_bytes: int
    moved: tuple[tuple[tuple[str, str], int], ...] = ()
    channels: tuple[tuple[str, int], ...] = ()
    lag_cycles: int = 0


@dataclass(frozen=True, kw_only=True)
class UnitCommand:
    """A command to the unit named ``unit``: it makes ``out`` of ``tile``, both in the buffer.

    ``form``: its text after `text`. `simaccel.program.unit_commands` has a class for each unit.
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
        """Read the groups of ``form``; tiles are found by name.

        Raises:
            ValueError: a group is none that the unit knows.
            KeyError: there is no tile of a name.

        """
        return cls(out=scope[groups[0]], tile=scope[groups[1]])

    def meaning(self, block: Array) -> Array:
        """Return the values of ``out`` for those of ``tile``.

        Raises:
            ProgramError: they depend on other chips.

        """
        raise ProgramError(f"{self.text}: no meaning on one chip; got a block of {block.shape}")

    def work(self, accelerator: Accelerator) -> UnitWork:
        """Return the work of the command on an accelerator; memory unlimited."""
        raise NotImplementedError


Command = Load | Reserve | Store | Compute | Sfu | UnitCommand


class _Nest:
    """A node with a body: as equal sub-trees are one object, what is inside is looked up once."""

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
    """``trips`` identical iterations; iteration i has ``rank`` at ``start + i * step``.

    The coordinate adds to that of an enclosing loop of the same rank. The first ``ahead``
    nodes of the body run one iteration ahead of the others (software pipelining).

    With a ``core`` the iterations run at once, on cores of their own: the first one on that core,
    the others each ``cores_apart`` further. Cores are counted from that of an enclosing such loop.

    ``hands_on``: tensors of which each iteration makes a tile that operators on other cores wait
    for; ``awaits``: those of which it reads one that others make.
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
    """The commands of one operator or one fused group; engines meet at its end.

    ``derived``: ranks whose coordinates are sums of those of others: (rank, terms). ``cores``: all
    that do it, if some don't. Cores of loops inside are counted from the first of them.
    """

    name: str
    body: tuple[Node, ...]
    tiles: tuple[Tile, ...] = ()
    derived: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()
    cores: range | None = None


Node = Command | ProgramLoop | Operator


@dataclass(frozen=True, kw_only=True)
class Program:
    """Operators for the machine to execute, possibly inside loops (layers, resident tiles)."""

    name: str
    body: tuple[Node, ...]


def tiles_of(command: Command) -> tuple[Tile, ...]:
    """Tiles that a command touches, those it writes first; not sums that it reads back."""
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
    """Return the tensor outside (in DRAM unless a tile is named) and bytes of a transfer."""
    view = command.view or command.tile.view
    n_bytes = in_bytes(math.prod(command.tile.shape), view.bits)
    return view, command.moved or TransferTraffic(n_bytes, n_bytes)


def commands(body: Sequence[Node]) -> Iterator[Command]:
    """Every command below ``body``, once for each place in the tree (not for each trip)."""
    for node in body:
        if isinstance(node, _Nest):
            yield from node.commands
        else:
            yield node


def between_tiles(command: Command) -> bool:
    """Return whether a command moves data between buffer and PEs, or takes its turn among those."""
    if isinstance(command, Load):
        return command.source is not None
    if isinstance(command, Store):
        return command.target is not None
    return isinstance(command, Reserve) and command.noc


def size(program: Program) -> int:
    """Return the number of nodes of a program's tree: what the cost of a run grows with."""

    def count(body: Sequence[Node]) -> int:
        return len(body) + sum(count(node.body) for node in body if isinstance(node, _Nest))

    return count(program.body)
