"""Clocks of a tile on a DRAM channel: the busiest of data bus, activates, a bank, a bank group.

A tile is rows of bytes, a pitch apart. Accesses to one page are row hits, as a controller serves
row hits first. Banks overlap between tiles, so a tile costs what its busiest resource needs for it;
refresh is a share of the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from simaccel.hardware.dram.part import DramPart
from simaccel.lazy import np
from simaccel.numbers import BYTE

if TYPE_CHECKING:
    import numpy.typing as npt

Whole: TypeAlias = "int | npt.NDArray[np.int64]"
"""A number, or an array of them, one per candidate mapping."""
INTERLEAVED: Final = "bgil"
"""The address map that interleaves bank groups by burst; the other, ``rbc``, does so by page."""
_WINDOW: Final = 40
"""Bursts that a controller looks ahead: 32 reads, and 8 in a bank's queue."""


@dataclass(frozen=True)
class TileRows:
    """The rows of a tile in DRAM: ``count`` of ``n_bytes`` each, ``pitch`` bytes apart."""

    count: Whole
    n_bytes: Whole
    pitch: Whole

    @property
    def total_bytes(self) -> Whole:
        """Bytes of all rows."""
        return self.count * self.n_bytes


def rows_of(sides: tuple[Whole, ...], shape: tuple[int, ...], bits: int) -> TileRows:
    """Return the rows of a tile of a tensor that lies in DRAM with its last dimension innermost.

    Inner dimensions that the tile has whole join the row. If rows come from several dimensions, all
    are taken to be as far apart as those of the innermost dimension that is not whole.

    ``sides``: of the tile, ``shape``: of the tensor, both in elements; ``bits``: of an element.
    Rows of an odd number of 4-bit elements are rounded up to bytes, as is their pitch.

    >>> rows_of((64, 16), (512, 64), 16)
    TileRows(count=64, n_bytes=32, pitch=128)
    >>> rows_of((3, 4, 64), (8, 512, 64), 16)
    TileRows(count=3, n_bytes=512, pitch=65536)
    >>> rows_of((1, 64, 64), (8, 64, 64), 16)
    TileRows(count=1, n_bytes=8192, pitch=65536)
    """
    length: Whole = 1
    pitch: Whole = 1
    count: Whole = 1
    joined: npt.NDArray[np.bool_] | bool = True
    apart: npt.NDArray[np.bool_] | bool = False
    stride = 1
    for side, size in zip(reversed(sides), reversed(shape), strict=True):
        pitch = np.where(apart, pitch, stride)
        length = np.where(joined, length * side, length)
        count = np.where(joined, count, count * side)
        apart = apart | (~np.asarray(joined) & (np.asarray(side) > 1))
        joined = np.asarray(joined) & (np.asarray(side) == size)
        stride *= size
    pitch = np.where(apart, pitch, stride)
    length, pitch = (_ceil_div(n * bits, BYTE) for n in (length, pitch))
    return TileRows(_whole(count), _whole(length), _whole(pitch))


def requested_rows(sides: tuple[Whole, ...], bits: int) -> TileRows:
    """Return the rows of a tile if the DMA engine requests each row of the innermost dimension.

    >>> requested_rows((3, 4, 16), 8)
    TileRows(count=12, n_bytes=16, pitch=16)
    """
    count: Whole = 1
    for side in sides[:-1]:
        count = count * side
    length = _whole(_ceil_div(sides[-1] * bits, BYTE)) if sides else 1
    return TileRows(_whole(count), length, length)


def rows_of_transfer(n_bytes: Whole, rows: TileRows | None) -> TileRows:
    """Return the rows of a transfer, as many as hold its bytes; one if ``rows`` is None."""
    length = np.maximum(1, n_bytes if rows is None else rows.n_bytes)
    pitch = length if rows is None else rows.pitch
    return TileRows(_whole(_ceil_div(n_bytes, length)), _whole(length), _whole(pitch))


def _whole(value: Whole) -> Whole:
    """Return a number for an array without dimensions, else an array of integers."""
    return int(value) if np.ndim(value) == 0 else np.asarray(value, dtype=np.int64)


def _ceil_div(amount: Whole, of: Whole) -> Whole:
    return -(-amount // of)


def bus_clocks(part: DramPart, rows: TileRows, share_bytes: Whole) -> Whole:
    """Return the clocks of a channel's data bus for its share of a tile."""
    whole, rest = share_bytes // rows.n_bytes, share_bytes % rows.n_bytes
    bursts = whole * _ceil_div(rows.n_bytes, part.burst_bytes) + _ceil_div(rest, part.burst_bytes)
    return _whole(_ceil_div(bursts, part.pseudo_channels) * part.burst)


def bank_clocks(part: DramPart, mapping: str, rows: TileRows, channels: int, write: int) -> Whole:
    """Return the clocks that activates, the busiest bank or bank group need for a tile."""
    visits = _Visits(part, mapping, rows, channels * part.pseudo_channels)
    activates = _ceil_div(visits.activates * max(4 * part.rrd_s, part.faw), 4)
    found = np.maximum(activates, visits.bank(write))
    return _whole(np.maximum(found, visits.group(write)))


def with_refresh(part: DramPart, clocks: Whole) -> Any:  # noqa: ANN401 - as the clocks
    """Return the clocks of some work including its share of refreshes."""
    return _ceil_div(clocks * part.refi, _clocks_between_refreshes(part))


def _clocks_between_refreshes(part: DramPart) -> int:
    """Return the usable clocks between refreshes, less closing banks before and opening after."""
    return part.refi - (part.rfc + part.rtp + part.rp + part.rcd_read)


def stream_rate(part: DramPart) -> tuple[int, int]:
    """Return bytes and clocks of a stream on one channel, refreshes included."""
    return part.pseudo_channels * part.burst_bytes * _clocks_between_refreshes(
        part
    ), part.burst * part.refi


def tile_clocks(part: DramPart, mapping: str, rows: TileRows, channels: int, write: int) -> Whole:
    """Return the clocks of a tile on each of the ``channels`` that it is spread over.

    >>> from simaccel.hardware.dram.parts import PARTS
    >>> part = PARTS["HBM2"]
    >>> tile_clocks(part, "bgil", TileRows(1, 8192, 8192), 1, 0)  # 128 bursts of 2 clocks
    277
    >>> tile_clocks(part, "bgil", TileRows(64, 64, 65536), 1, 0)  # 64 rows of one bank
    3322
    """
    share = _ceil_div(rows.total_bytes, channels)
    bus = bus_clocks(part, rows, share)
    banks = bank_clocks(part, mapping, rows, channels, write)
    return _whole(with_refresh(part, np.maximum(bus, banks)))


class _Visits:
    """The visits of a tile to pages, banks and bank groups of one data bus.

    A *span* is the bytes that lie in one page of each bus and bank group.
    """

    def __init__(self, part: DramPart, mapping: str, rows: TileRows, ways: int) -> None:
        self.part, self.rows, self.ways = part, rows, ways
        self.groups = part.bank_groups if mapping == INTERLEAVED else 1
        self.turn = part.burst_bytes * ways * self.groups
        """Consecutive bytes after which the same bus and bank group follow again."""
        self.span = part.page_bytes * ways * self.groups
        """Bytes of a span."""
        self.banks = part.banks // part.pseudo_channels // self.groups
        self.each = _ceil_div(rows.n_bytes, part.burst_bytes)
        """Bursts of a row of the tile."""
        self.dense = np.asarray(rows.pitch) <= self.span
        """Whether several rows of the tile lie in one page."""
        reach = (rows.count - 1) * rows.pitch + rows.n_bytes
        scattered = rows.count * _ceil_div(rows.n_bytes, self.span)
        self.stops: Whole = np.where(self.dense, _ceil_div(reach, self.span), scattered)
        """Spans that the tile visits."""

    @property
    def per_stop(self) -> Whole:
        """Bursts of the tile per span, on all buses and bank groups."""
        return _ceil_div(self.rows.count * self.each, np.maximum(self.stops, 1))

    @property
    def narrow(self) -> npt.NDArray[np.bool_]:
        """Whether all rows of the tile begin on the same bus and bank group."""
        same = np.asarray(self.rows.pitch) % self.turn == 0
        return np.asarray(same | (np.asarray(self.rows.count) == 1))

    @property
    def spread(self) -> Whole:
        """Pairs of bus and bank group that the bursts of a span are spread over."""
        most = self.ways * self.groups
        reached = np.where(self.narrow, np.minimum(self.each, most), most)
        return np.maximum(1, np.minimum(self.per_stop, reached))

    @property
    def activates(self) -> Whole:
        """Pages that are opened on a bus."""
        return _ceil_div(self.stops * self.spread, self.ways)

    def bank(self, write: int) -> Whole:
        """Return the clocks of the busiest bank; 0 if each is visited once."""
        part = self.part
        bursts = _ceil_div(self.per_stop, self.spread)
        gap = max(part.burst, part.ccd_l_write if write else part.ccd_l)
        close = part.write_latency + part.burst + part.wr if write else part.rtp
        opened = part.rcd_write if write else part.rcd_read
        visit = np.maximum(part.rc, opened + (bursts - 1) * gap + close + part.rp)
        steps = np.asarray(self.rows.pitch) // self.span
        aligned = np.asarray(self.rows.pitch) % self.span == 0
        common = np.gcd(np.maximum(steps, 1), self.banks)
        each = np.minimum(_ceil_div(self.rows.n_bytes, self.span), common)
        apart = np.where(aligned, self.banks // common * each, self.banks)
        reached = np.where(self.dense, self.banks, apart)
        times = _ceil_div(self.stops, np.maximum(reached, 1))
        return np.where(times > 1, times * visit, 0)

    def group(self, write: int) -> Whole:
        """Return the clocks of the busiest bank group."""
        part, rows = self.part, self.rows
        gap = part.ccd_l_write if write else part.ccd_l
        bursts = _ceil_div(rows.count * self.each, self.ways)
        if self.groups > 1:
            busy = np.where(self.narrow, np.minimum(self.groups, self.each), self.groups)
            return _ceil_div(bursts * gap, np.maximum(busy, 1))
        # page by page: the next pages' bursts are in sight while the last ones of a page go
        pages = np.maximum(1, np.minimum(part.bank_groups, self.stops))
        own = np.maximum(self.per_stop, 1)
        return np.maximum(
            _ceil_div(bursts * gap, pages), _ceil_div(bursts * gap * own, own + _WINDOW)
        )
