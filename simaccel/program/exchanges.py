"""The program of one of several chips: its operators, with exchanges between them.

An exchange loads the chip's part of a tensor in chunks, passes it to the links, and stores the
result; with several slots per tile the loads, links and stores of successive chunks overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from simaccel.hardware import Accelerator
from simaccel.hardware.collectives import LinkAct
from simaccel.mapping.chips.exchanges import Exchange
from simaccel.mapping.chips.places import remote_cores
from simaccel.mapping.chips.sharding import Pod
from simaccel.mapping.tile_streams import TileStream
from simaccel.mapping.view import TensorView
from simaccel.numbers import BYTE, PACKED_BITS
from simaccel.program.awaited_tiles import AwaitedTiles
from simaccel.program.dependences import WEIGHT, mark_streams
from simaccel.program.lowering import lower
from simaccel.program.program import Load, Node, Operator, Program, ProgramLoop, Store, Tile
from simaccel.program.unit_commands import Link

EXCHANGE_QUEUE: Final = 3
"""The DMA queue of exchanges, apart from those of operands, so that weights can load meanwhile."""


def lower_pod(pod: Pod, accelerator: Accelerator) -> Program:
    """Return the program of a chip of a pod.

    Raises:
        NotExecutableError: an operand is kept in no memory that its unit can read.
    """
    program = lower(pod.workload, pod.mapping)
    if not (pod.exchanges or pod.parts):
        return program
    streams = [stream for exchange in pod.exchanges for stream in _streams_of(exchange)]
    ahead: dict[str, list[Operator]] = {}
    behind: dict[str, list[Operator]] = {}
    beside: list[Operator] = []
    for exchange in pod.exchanges:
        operators = _operators(exchange, accelerator)
        if not exchange.after:
            beside += operators
            continue
        group = next(group for group in pod.mapping.groups if exchange.after in group.operators)
        where = ahead if exchange.is_ahead else behind
        where.setdefault(group.name, []).extend(operators)
    weaver = _Weaver(ahead, behind, pod.parts, streams)
    return replace(program, body=(*weaver.body(program.body), *beside))


def lower_exchange(exchange: Exchange, accelerator: Accelerator) -> Program:
    """Return the program of an exchange alone."""
    return Program(name=exchange.name, body=tuple(_operators(exchange, accelerator)))


def _streams_of(exchange: Exchange) -> Iterator[TileStream]:
    """Yield the tile streams of an exchange: from the tensor's writer, and to its reader."""
    if exchange.streamed is not None:
        stream = exchange.streamed.stream
        yield replace(stream, tensor=exchange.source, reader="")
        yield replace(stream, maker="")


def _operators(exchange: Exchange, accelerator: Accelerator) -> Iterator[Operator]:
    """Yield the operators of an exchange: one of a collective, two (both ends) of a message."""
    if not exchange.is_message:
        body = _Chunks(exchange, accelerator, exchange.kind).body()
        yield Operator(name=exchange.name, body=body, cores=exchange.cores)
        return
    send = _Chunks(exchange, accelerator, "send").body()
    receive = _Chunks(exchange, accelerator, "receive").body()
    yield Operator(name=exchange.name, body=send, cores=remote_cores(exchange.source_layout.first))
    yield Operator(
        name=exchange.receipt, body=receive, cores=remote_cores(exchange.target_layout.first)
    )


@dataclass
class _Chunks:
    """Loops over the chunks of an exchange, with the commands of one chip."""

    exchange: Exchange
    accelerator: Accelerator
    act: LinkAct

    def __post_init__(self) -> None:
        """Compute the chunks, and views of the tensor in chunks on both sides of the links."""
        exchange, self.chunks = self.exchange, list(self.exchange.chunks(self.accelerator))
        self.slots = exchange.slots(self.accelerator)
        kind = WEIGHT if exchange.is_stored else ""
        self.views = (
            replace(_view(exchange.source, exchange.bits, self.chunks, 1), kind=kind),
            _view(exchange.target, exchange.bits, self.chunks, 2),
        )

    def body(self) -> tuple[Node, ...]:
        """Return loops over chunks, inside loops over tiles if it goes tile by tile."""
        exchange, start, body = self.exchange, 0, list[Node]()
        if exchange.streamed is None:
            return self._loops(self.chunks)
        for trips, size in exchange.streamed.tiles:
            chunks = list(exchange.tile_chunks(self.accelerator, size))
            step, made = sum(times for times, _, _ in chunks), exchange.streamed.stream.made
            loop = ProgramLoop(
                rank="chunk", trips=trips, step=step, start=start, body=self._loops(chunks)
            )
            if self.act != "receive" and exchange.streamed.stream.maker:
                loop = replace(loop, awaits=(AwaitedTiles(exchange.source, made, made),))
            if self.act != "send" and exchange.streamed.stream.reader:
                loop = replace(loop, hands_on=(exchange.target,))
            body.append(loop)
            start += trips * step
        return tuple(body)

    def _loops(self, chunks: Iterable[tuple[int, int, int]]) -> tuple[Node, ...]:
        start, loops = 0, list[Node]()
        for trips, *sizes in chunks:
            loops.append(replace(self._loop(sizes), trips=trips, start=start))
            start += trips
        return tuple(loops)

    def _loop(self, sizes: Sequence[int]) -> ProgramLoop:
        """Return a loop over chunks; ``sizes``: elements of a chunk before and after the links."""
        tiles = tuple(
            Tile(name=view.name, view=view, shape=(1, size), slots=self.slots)
            for view, size, absent in zip(self.views, sizes, ("receive", "send"), strict=True)
            if size and self.act != absent
        )
        link = Link(
            kind=self.act,
            out=tiles[-1],
            tile=tiles[0],
            axes=self.exchange.axes,
            n_bytes=self.exchange.n_bytes(max(sizes)),
        )
        loads = [Load(tile=tiles[0], queue=EXCHANGE_QUEUE)] * (self.views[0] is tiles[0].view)
        stores = [Store(tile=tiles[-1])] * (self.views[1] is tiles[-1].view)
        loop = ProgramLoop(rank="chunk", trips=1, tiles=tiles, body=(*loads, link, *stores))
        count, sent = sum(times for times, _, _ in self.chunks), self.exchange.name
        if self.act == "send":
            return replace(loop, hands_on=(sent,))
        if self.act == "receive":
            return replace(loop, awaits=(AwaitedTiles(sent, count, count),))
        return loop


def _view(name: str, bits: int, chunks: Sequence[tuple[int, int, int]], side: int) -> TensorView:
    """Return a view of a tensor with the dimensions chunk and element."""
    return TensorView(
        name=name,
        ranks=("chunk", "x"),
        shape=(sum(chunk[0] for chunk in chunks), max(chunk[side] for chunk in chunks)),
        bytes_per_element=max(1, bits // BYTE),
        packed=bits == PACKED_BITS,
    )


@dataclass
class _Weaver:
    """A pass over a program that inserts exchanges and redirects loads of parts of tensors."""

    ahead: Mapping[str, Sequence[Operator]]
    behind: Mapping[str, Sequence[Operator]]
    parts: Mapping[str, str]
    streams: Sequence[TileStream]
    known: dict[int, tuple[Sequence[Node], tuple[Node, ...]]] = field(default_factory=dict)

    def body(self, body: Sequence[Node]) -> tuple[Node, ...]:
        """Return a body with exchanges inserted; equal bodies stay one object."""
        if id(body) not in self.known:
            woven: list[Node] = []
            for node in body:
                if isinstance(node, Operator):
                    woven += self.ahead.get(node.name, ())
                woven.append(self._node(node))
                if isinstance(node, Operator):
                    woven[-1] = mark_streams(woven[-1], self.streams)
                    woven += self.behind.get(node.name, ())
            self.known[id(body)] = body, tuple(woven)
        return self.known[id(body)][1]

    def _node(self, node: Node) -> Node:
        if isinstance(node, ProgramLoop | Operator):
            is_same = isinstance(node, Operator) and not self.parts
            return node if is_same else replace(node, body=self.body(node.body))
        if isinstance(node, Load) and node.source is None:
            view = node.view or node.tile.view
            if view.name in self.parts:
                return replace(node, view=replace(view, name=self.parts[view.name]))
        return node
