"""Exchanges: collectives and messages that bring a tensor from its maker's layout to a reader's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from simaccel.hardware import Accelerator
from simaccel.hardware.chips import ChipAxis, ChipPod, Numbering, runs
from simaccel.hardware.collectives import Collective, LinkAxis
from simaccel.mapping.chips.layout import ChipLayout
from simaccel.mapping.tile_streams import TileStream
from simaccel.numbers import BYTE, blocks, in_bytes

SLOTS: Final = 4
"""Buffer slots of a tile that is sent over links or received."""
_SIDES: Final = 2
_MOST_CHUNKS: Final = 16
_LEAST_CHUNK: Final = 4096
"""Bytes below which chunks aren't made smaller."""


@dataclass(frozen=True)
class HandedTiles:
    """Tiles of a tensor that an exchange moves one by one, as they are made or read.

    ``tiles``: (number, elements of each), counted on the side of the exchange on which a chip has
    more. ``stream``: its maker is empty if all are made before the first moves, its reader if that
    waits for all of them.
    """

    stream: TileStream
    tiles: tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A collective or a message that moves one tensor between chips.

    ``source`` and ``target``: the tensor's names on a chip before and after it; ``elements``: its
    elements on a chip before and after, of ``bits`` each; ``source_layout`` and ``target_layout``:
    its layouts over the chips. ``digits``: those digits of chips' numbers over which a collective
    goes; ``axes``: the pod's dimensions that its chips span, or for a message the links of each
    dimension on its route. ``after``: the operator after which it runs, or, if ``is_ahead``, the
    one before which. ``cores``: those that execute it, if groups are on several chips.
    ``streamed``: the tiles that it moves one by one. ``is_stored``: the tensor is weights of which
    each chip stores a part. ``number``: among exchanges of one kind of the same ``source``, from 1.

    A message between stages of a pipeline (``send_receive``) is beside all operators (``after`` is
    empty): of what a chip made of the micro-batch before, and what it needs for the next one. The
    first stage has 0 elements to receive, the last one to send; ``axes`` have 0 links where a chip
    only receives.
    """

    kind: Collective
    tensor: str
    source: str
    target: str
    elements: tuple[int, int]
    bits: int
    digits: tuple[ChipAxis, ...]
    axes: tuple[LinkAxis, ...]
    after: str
    source_layout: ChipLayout
    target_layout: ChipLayout
    cores: range | None = None
    streamed: HandedTiles | None = None
    is_ahead: bool = False
    is_stored: bool = False
    number: int = 1

    @property
    def name(self) -> str:
        """Name in tables and traces, such as ``Y.all_reduce``."""
        which = str(self.number) if self.number > 1 else ""
        act: str = "send" if self.is_message else self.kind
        if not self.after:
            act = "_".join(side for side, n in zip(act.split("_"), self.elements, strict=True) if n)
        return f"{self.source if self.elements[0] else self.target}.{act}{which}"

    @property
    def receipt(self) -> str:
        """Name in tables and traces of a message's part on the chip that receives it."""
        return f"{self.target}.receive"

    @property
    def is_message(self) -> bool:
        """Whether it is point to point: each chip of a place sends to one chip of another place."""
        return self.kind == "point_to_point"

    @property
    def is_halo(self) -> bool:
        """Whether each chip sends only the edges of its part, to its neighbours."""
        return self.kind in ("halo", "shift", "swap")

    @property
    def kept_bytes(self) -> int:
        """Bytes in memory beside the run's tensors: stored weights, other micro-batches."""
        kept = self.elements[:1] if self.is_stored else () if self.after else self.elements
        return sum(map(self.n_bytes, kept))

    @property
    def operators(self) -> tuple[str, ...]:
        """Names of its operators in a program: one, or two of a message (sender and receiver)."""
        return (self.name, self.receipt) if self.is_message else (self.name,)

    @property
    def tiles(self) -> tuple[tuple[int, int], ...]:
        """(number, elements) of the tiles that move one by one; else the whole as one tile."""
        return ((1, self.most),) if self.streamed is None else self.streamed.tiles

    @property
    def most(self) -> int:
        """A chip's elements before or after the exchange, whichever are more."""
        return max(self.elements)

    def chunks(self, accelerator: Accelerator) -> Iterator[tuple[int, int, int]]:
        """Yield the chunks as (number, elements of each at the source, at the target)."""
        for tiles, size in self.tiles:
            for trips, *sides in self.tile_chunks(accelerator, size):
                yield tiles * trips, sides[0], sides[1]

    def tile_chunks(self, accelerator: Accelerator, most: int) -> Iterator[tuple[int, int, int]]:
        """Yield the chunks of one tile with ``most`` elements: full ones, then the rest."""
        smaller = min(filter(None, self.elements))
        times = self.most // smaller
        least = most // times
        n_bytes = self._chunk_bytes(accelerator, self.n_bytes(most))
        size = max(1, min(least, n_bytes * BYTE // self.bits // times))
        if self.streamed is not None and not self.is_message:
            size = -(-least // -(-least // size))  # no small rest in each of many tiles
        source, target = (side // smaller for side in self.elements)
        for _, trips, elements in blocks(least, size):
            yield trips, elements * source, elements * target

    def slots(self, accelerator: Accelerator) -> int:
        """Return the buffer slots of the exchange's tile on each side.

        A collective that moves tiles one by one has as many slots as chunks are in flight, if the
        buffer has room; others have `SLOTS`, by which their chunks are sized.
        """
        if self.streamed is None or self.is_message:
            return SLOTS
        pod, room = accelerator.pod, accelerator.buffer.capacity_bytes
        chunks = list(self.chunks(accelerator))
        count, most = sum(times for times, _, _ in chunks), max(max(c[1:]) for c in chunks)
        n_bytes = self.n_bytes(most)
        cycles = (n for _, n in pod.link_cycles(self.kind, n_bytes, self.axes))
        on_way = SLOTS - (-pod.lag_cycles(self.kind, self.axes) // max(1, *cycles))
        held = count if room is None else room // (2 * _SIDES * n_bytes)
        return max(SLOTS, min(on_way, held, count))

    def _chunk_bytes(self, accelerator: Accelerator, n_bytes: int) -> int:
        """Return the bytes of a chunk: large enough that links stay busy during the latency.

        `SLOTS` chunks are in flight at once. Smaller chunks shorten the first load and the last
        store; there are at most `_MOST_CHUNKS`.
        """
        pod, room = accelerator.pod, accelerator.buffer.capacity_bytes
        if pod.links.chunk_bytes is not None:
            return pod.links.chunk_bytes
        act = "send" if self.is_message else self.kind
        busy = max((n for _, n in pod.link_cycles(act, n_bytes, self.axes)), default=0)
        lag = pod.lag_cycles(act, self.axes)
        in_time = _MOST_CHUNKS if lag == 0 else (SLOTS - 1) * busy // lag
        chunks = max(SLOTS, min(_MOST_CHUNKS, in_time))
        size = max(_LEAST_CHUNK, -(-n_bytes // chunks))
        return size if room is None else max(1, min(size, room // (2 * _SIDES * SLOTS)))

    def through(self, pod: ChipPod, numbering: Numbering) -> Exchange:
        """Return a collective through the dimensions of a pod, of which none may be missing.

        ``numbering``: one of `ChipPod.numberings`. A message has its way already.
        """
        return (
            self
            if self.is_message
            else replace(self, axes=pod.axes(runs(self.digits), numbering) or ())
        )

    def n_bytes(self, elements: int) -> int:
        """Return the bytes of elements of the tensor."""
        return in_bytes(elements, self.bits)


def choose_numbering(
    exchanges: Sequence[Exchange], pod: ChipPod, times: Callable[[str], int]
) -> tuple[Numbering, list[tuple[Exchange, tuple[str, str]]]]:
    """Return the numbering with the fewest cycles of collectives, and those that have none.

    The latter, (exchange, (digits, allowed)), span parts of no dimension in any numbering; then it
    is the pod's first. ``times``: runs of an operator. Where edges go to neighbours, these are next
    to one another along whole dimensions, and there are no blocks.
    """
    collectives = [each for each in exchanges if not each.is_message]
    runs_of = Counter[tuple[Collective, int, tuple[ChipAxis, ...]]]()
    for each in collectives:
        runs_of[each.kind, each.n_bytes(each.most), runs(each.digits)] += times(each.after)
    has_edges = any(each.is_halo for each in collectives)
    ends = {
        axis.stride * size for *_, digits in runs_of for axis in digits for size in (1, axis.size)
    }
    blocks = [] if has_edges else sorted(ends - {1, pod.count})
    best: tuple[int, Numbering] | None = None
    for numbering in pod.numberings(blocks):
        cycles = 0
        for (kind, n_bytes, digits), number in runs_of.items():
            axes = pod.axes(digits, numbering)
            if axes is None:
                break
            cycles += number * pod.cycles(kind, n_bytes, axes)
            if best is not None and cycles >= best[0]:
                break
        else:
            best = cycles, numbering
    if best is not None:
        return best[1], []
    first, *_ = pod.numberings()
    lost = [each for each in collectives if pod.axes(runs(each.digits), first) is None]
    return first, [(each, _no_dimension(each, pod)) for each in lost]


def _no_dimension(exchange: Exchange, pod: ChipPod) -> tuple[str, str]:
    """Return the chips of a collective that are in parts of no dimension, and what is allowed."""
    axes = " and ".join(f"{one.size} chips, {one.stride} apart" for one in runs(exchange.digits))
    shape = " x ".join(map(str, pod.shape))
    return f"{exchange.tensor}: {axes}", (
        f"neighbours in a dimension, or all of it, of the {pod.topology} of {shape}"
    )
