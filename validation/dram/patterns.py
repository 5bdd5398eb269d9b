"""Access patterns: the bursts that a stream of requests asks a channel for, in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from simaccel.hardware.dram.part import DramPart
from validation.dram.addresses import Ints, places
from validation.dram.controller import NEVER, BurstTraffic

SPACE_BYTES: Final = 2**30
"""Addresses that a pattern uses."""
_SEED = 1


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """A pattern of accesses. Sizes are in bytes; a field that a pattern does not have is unused.

    ``kind``: ``sequential``; ``random-chunk``, ``chunk`` bytes in a row at random multiples of it;
    ``strided-tile``, tiles of ``tile_rows`` rows of ``row`` bytes that are ``pitch`` bytes apart,
    side by side and then band by band; ``alternating``, ``chunk`` bytes read in one half of the
    addresses and as many written in the other; ``two-streams``, the same of two streams that read,
    or one of which writes. ``load``: requests come at random, as a share of the peak.
    """

    kind: str
    chunk: int = 0
    row: int = 0
    pitch: int = 0
    tile_rows: int = 64
    write_fraction: float = 0.0
    reads_in_flight: int | None = None
    waits: bool = False
    """Whether a turn of ``alternating`` waits until all reads before are back."""
    apart: bool = False
    """Whether two streams are half of all banks apart; else in the same bank, in another row."""
    load: float | None = None


@dataclass(frozen=True)
class RequestStream:
    """Addresses of requests of a burst each in bytes, and which of them write."""

    addresses: Ints
    writes: Ints
    waits: frozenset[int] = frozenset()


def _sequential(pattern: Pattern, part: DramPart, count: int) -> RequestStream:
    writes = _random_writes(pattern.write_fraction, count)
    return RequestStream(np.arange(count) * part.burst_bytes, writes)


def _random_chunk(pattern: Pattern, part: DramPart, count: int) -> RequestStream:
    each = -(-pattern.chunk // part.burst_bytes)
    chunks = -(-count // each)
    random = np.random.default_rng(_SEED)
    base = random.integers(0, max(1, SPACE_BYTES // pattern.chunk), chunks) * pattern.chunk
    inside = np.tile(np.arange(each) * part.burst_bytes, chunks)
    writes = np.repeat(_random_writes(pattern.write_fraction, chunks), each)
    return RequestStream((np.repeat(base, each) + inside)[:count], writes[:count])


def _strided_tile(pattern: Pattern, part: DramPart, count: int) -> RequestStream:
    each = -(-pattern.row // part.burst_bytes)
    rows, columns = pattern.tile_rows, max(1, pattern.pitch // pattern.row)
    rest, inside = np.divmod(np.arange(count), each)
    rest, row = np.divmod(rest, rows)
    band, column = np.divmod(rest, columns)
    addresses = (band * rows + row) * pattern.pitch + column * pattern.row
    writes = _random_writes(pattern.write_fraction, count)
    return RequestStream(addresses + inside * part.burst_bytes, writes)


def _two_streams(pattern: Pattern, part: DramPart, count: int) -> RequestStream:
    each = -(-pattern.chunk // part.burst_bytes)
    turns, inside = np.divmod(np.arange(count), each)
    pair, second = np.divmod(turns, 2)
    offset = part.rows_of_all_banks // part.ranks // 2 if pattern.apart else 0
    addresses = pair * pattern.chunk + inside * part.burst_bytes
    writes = second * (pattern.kind == "alternating" or pattern.write_fraction > 0)
    waits = frozenset(range(0, count, each)) if pattern.waits else frozenset()
    return RequestStream(addresses + second * (SPACE_BYTES // 2 + offset), writes, waits)


def _random_writes(share: float, count: int) -> Ints:
    return (np.random.default_rng(_SEED + 1).random(count) < share).astype(np.int64)


KINDS: Final[Mapping[str, Callable[[Pattern, DramPart, int], RequestStream]]] = {
    "sequential": _sequential,
    "random-chunk": _random_chunk,
    "strided-tile": _strided_tile,
    "alternating": _two_streams,
    "two-streams": _two_streams,
}
"""What makes the stream of a pattern, by its kind."""


def traffic(pattern: Pattern, part: DramPart, mapping: str, count: int) -> BurstTraffic:
    """Return the first ``count`` bursts of a pattern, with their places in the part."""
    stream = KINDS[pattern.kind](pattern, part, count)
    bursts = stream.addresses % SPACE_BYTES // part.burst_bytes
    placed = places(part, mapping, bursts)
    arrivals = None
    if pattern.load is not None:
        chance = pattern.load * part.pseudo_channels / part.burst
        gaps = np.random.default_rng(_SEED + 2).geometric(min(1.0, chance), count)
        arrivals = np.cumsum(gaps).tolist()
    return BurstTraffic(
        banks=placed.banks.tolist(),
        rows=(placed.rows % part.rows).tolist(),
        writes=stream.writes.tolist(),
        keys=bursts.tolist(),
        waits=stream.waits,
        arrivals=arrivals,
        in_flight=pattern.reads_in_flight or NEVER,
    )


def useful_bytes(pattern: Pattern, part: DramPart) -> float:
    """Return the bytes of a request that were asked for: a burst may bring more than that."""
    whole = {"strided-tile": pattern.row, "sequential": part.burst_bytes}
    size = whole.get(pattern.kind, pattern.chunk)
    return size / -(-size // part.burst_bytes)
