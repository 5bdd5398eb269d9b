"""Exchanges: collectives that bring a tensor from how it is made to how it is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from simaccel.hardware import Accelerator
from simaccel.hardware.chips import ChipAxis
from simaccel.hardware.collectives import Collective, LinkAxis
from simaccel.mapping.chips.layout import ChipLayout
from simaccel.mapping.tile_streams import TileStream
from simaccel.numbers import BYTE, in_bytes

SLOTS: Final = 4
"""Slots of a tile that goes to links, or comes from them."""
_SIDES: Final = 2
_MOST_CHUNKS: Final = 16
_LEAST_CHUNK: Final = 4096
"""Bytes of which it is not worth making less."""


@dataclass(frozen=True)
class HandedTiles:
    """Tiles of a tensor that go to other chips as they are made: (how many, elements of each).

    Elements are those on the side where a chip has more. ``stream``: has no reader where that waits
    for all of them, no maker where they go when all are made.
    """

    stream: TileStream
    tiles: tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A collective of one tensor, after the operator that makes it.

    ``source`` and ``target`` name the tensor on a chip before and after it, of so many elements
    of ``bits``. It goes over ``digits`` of chips' numbers, through dimensions that are ``axes``; a
    message to other chips over so many links of each. ``before`` and ``behind``: how all of it
    lies. ``cores`` of which chip do it, if groups are on several; ``handed``: tiles that go one by
    one. ``is_ahead``: it comes before ``after``, which reads what comes; ``is_stored``: it is of
    weights that lie cut over chips. ``number``: among those of one kind of the same ``source``.
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
    before: ChipLayout
    behind: ChipLayout
    cores: range | None = None
    handed: HandedTiles | None = None
    is_ahead: bool = False
    is_stored: bool = False
    number: int = 1

    @property
    def name(self) -> str:
        """Name in tables and traces, such as ``Y.all_reduce``."""
        which = str(self.number) if self.number > 1 else ""
        return f"{self.source}.{'send' if self.is_message else self.kind}{which}"

    @property
    def receipt(self) -> str:
        """Name in tables and traces of what the chip does to which a message goes."""
        return f"{self.target}.receive"

    @property
    def is_message(self) -> bool:
        """Whether it goes from chips to other chips: each sends to one of them."""
        return self.kind == "point_to_point"

    @property
    def is_halo(self) -> bool:
        """Whether each chip sends its neighbours the edges of what it has, and no more."""
        return self.kind in ("halo", "shift", "swap")

    @property
    def operators(self) -> tuple[str, ...]:
        """Names of what a program does of it."""
        return (self.name, self.receipt) if self.is_message else (self.name,)

    @property
    def tiles(self) -> tuple[tuple[int, int], ...]:
        """Numbers of tiles that go one by one, and elements of each: one where none is handed."""
        return ((1, self.most),) if self.handed is None else self.handed.tiles

    @property
    def most(self) -> int:
        """Elements on the side where a chip has more."""
        return max(self.elements)

    def chunks(self, accelerator: Accelerator) -> Iterator[tuple[int, int, int]]:
        """Yield how often which elements go in and come out at once: full chunks, then the rest."""
        for tiles, size in self.tiles:
            for trips, *sides in self.tile_chunks(accelerator, size):
                yield tiles * trips, sides[0], sides[1]

    def tile_chunks(self, accelerator: Accelerator, most: int) -> Iterator[tuple[int, int, int]]:
        """Yield the same of a tile that has so many elements where it has most."""
        times = self.most // min(self.elements)
        least = most // times
        n_bytes = self._chunk_bytes(accelerator, self.n_bytes(most))
        size = max(1, min(least, n_bytes * BYTE // self.bits // times))
        if self.handed is not None and not self.is_message:
            size = -(-least // -(-least // size))  # no small rest in each of many tiles
        full, rest = divmod(least, size)
        grows = [side // min(self.elements) for side in self.elements]
        for trips, elements in ((full, size), (1 if rest else 0, rest)):
            if trips:
                yield trips, elements * grows[0], elements * grows[1]

    def slots(self, accelerator: Accelerator) -> int:
        """Return the slots of a tile that goes to links, or comes from them.

        Of tiles that a collective takes one by one as many as are on their way at once, if there is
        room; that of others follows from `SLOTS`.
        """
        if self.handed is None or self.is_message:
            return SLOTS
        pod, clock, room = accelerator.pod, accelerator.clock_hz, accelerator.buffer.capacity_bytes
        chunks = list(self.chunks(accelerator))
        count, most = sum(times for times, _, _ in chunks), max(max(c[1:]) for c in chunks)
        n_bytes = self.n_bytes(most)
        cycles = (n for _, n in pod.link_cycles(self.kind, n_bytes, self.axes, clock))
        on_way = SLOTS - (-pod.lag_cycles(self.kind, self.axes) // max(1, *cycles))
        held = count if room is None else room // (2 * _SIDES * n_bytes)
        return max(SLOTS, min(on_way, held, count))

    def _chunk_bytes(self, accelerator: Accelerator, n_bytes: int) -> int:
        """Return what is taken at once: its links are busy until what has left is there.

        As many chunks are on their way as it has slots (`SLOTS`). More of them make the first load
        and the last store shorter, up to `_MOST_CHUNKS`.
        """
        pod, room = accelerator.pod, accelerator.buffer.capacity_bytes
        if pod.links.chunk_bytes is not None:
            return pod.links.chunk_bytes
        act = "send" if self.is_message else self.kind
        busy = max(
            (n for _, n in pod.link_cycles(act, n_bytes, self.axes, accelerator.clock_hz)),
            default=0,
        )
        lag = pod.lag_cycles(act, self.axes)
        in_time = _MOST_CHUNKS if lag == 0 else (SLOTS - 1) * busy // lag
        chunks = max(SLOTS, min(_MOST_CHUNKS, in_time))
        size = max(_LEAST_CHUNK, -(-n_bytes // chunks))
        return size if room is None else max(1, min(size, room // (2 * _SIDES * SLOTS)))

    def n_bytes(self, elements: int) -> int:
        """Return the bytes of so many elements."""
        return in_bytes(elements, self.bits)
