"""Memories: the global buffer, the DRAM channels and the DMA queues between them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import (
    BeforeValidator,
    PlainSerializer,
)

from simaccel.hardware.dram.part import DramPart
from simaccel.hardware.dram.parts import PARTS
from simaccel.hardware.dram.tile import (
    TileRows,
    bank_clocks,
    bus_clocks,
    requested_rows,
    rows_of,
    stream_rate,
    with_refresh,
)
from simaccel.hardware.quantity import (
    Amount,
    Bytes,
    BytesOrUnlimited,
    BytesPerSecond,
    Count,
    Cycles,
    larger,
)
from simaccel.hardware.spec import Spec
from simaccel.numbers import SHARED

BankedMap = Literal["bgil", "rbc"]
"""Address maps that the model of a tile supports."""


def _find_part(value: object) -> object:
    """Return the published part of a name; another value must be a section with its fields."""
    if not isinstance(value, str):
        return value
    if value not in PARTS:
        raise ValueError(", ".join(PARTS))
    return PARTS[value]


def _name(part: DramPart | None) -> str | dict[str, object] | None:
    """Return the name of a published part, or all fields of another one."""
    if part is None:
        return None
    return part.name if PARTS.get(part.name) == part else part.model_dump(mode="json")


class BufferSpec(Spec):
    """The software-managed global buffer with one read port and one write port.

    Requesters that wait at a port are served round-robin, in turns of ``turn_cycles``.
    """

    capacity_bytes: BytesOrUnlimited
    read_bytes_per_second: BytesPerSecond
    write_bytes_per_second: BytesPerSecond
    turn_cycles: Count = 1


class DramSpec(Spec):
    """Off-chip memory; the bandwidth is the sum over ``channels``.

    A request is spread over the channels in pieces of ``interleave_bytes``. A channel serves the
    oldest request of a direction first and keeps its direction while it has such work; if the other
    direction waits, it changes after ``batch_bytes``, at a cost of ``turnaround_cycles``.
    ``latency_cycles`` is pipelined; at most ``in_flight_bytes`` are requested and have not arrived,
    so at most these arrive per latency (Little's law).

    - Model ``channel``: the ``part`` costs no time.
    - Model ``banked``: a transfer takes at least what data bus, activates, the busiest bank and
      bank group of ``part`` need for its rows (`simaccel.hardware.dram.tile`), with its share of
      refreshes. ``map``: the address map.
    - Model ``requests``: a DMA engine requests each row of a tile's innermost dimension, in pieces
      of at most ``request_bytes``, with ``requests_in_flight`` at once, so that even a short
      request takes its share of the latency (Little's law).

    ``capacity_bytes``: None if unknown; a workload that needs more runs with a warning.
    """

    REPLACED: ClassVar[Mapping[str, str]] = {
        "turn_cycles": "batch_bytes: what a channel moves in one direction while the other waits",
        "max_outstanding": "in_flight_bytes: bytes that are requested and have not arrived",
    }

    WRITTEN: ClassVar = ("in_flight_bytes",)

    MODEL_OF: ClassVar[Mapping[str, str]] = {
        "map": "banked",
        "request_bytes": "requests",
        "requests_in_flight": "requests",
    }
    """The model that alone uses a field."""

    bandwidth_bytes_per_second: BytesPerSecond
    channels: Count = 1
    interleave_bytes: Bytes = 256
    latency_cycles: Cycles = 0
    turnaround_cycles: Cycles = 0
    batch_bytes: Bytes = 2048
    in_flight_bytes: BytesOrUnlimited = None
    model: Literal["channel", "banked", "requests"] = "channel"
    request_bytes: Bytes | None = None
    requests_in_flight: Count | None = None
    capacity_bytes: BytesOrUnlimited = None
    part: Annotated[DramPart | None, BeforeValidator(_find_part), PlainSerializer(_name)] = None
    map: BankedMap | None = None

    def _impossible(self) -> Iterator[tuple[str, str]]:
        if self.model == "banked" and self.part is None:
            yield "part", f"with model banked: {', '.join(PARTS)}"
        for name in ("request_bytes", "requests_in_flight"):
            if self.model == "requests" and getattr(self, name) is None:
                yield name, "a number, with model requests"

    @property
    def absent(self) -> set[str]:
        """The fields that are not set, or that the model does not use."""
        plain = self.model == "channel" and self.part is None
        return super().absent | ({"model"} if plain else set())

    @property
    def part_name(self) -> str | None:
        """The name of the part; None without one."""
        return None if self.part is None else self.part.name

    def rows(self, sides: tuple[Amount, ...], shape: tuple[int, ...], bits: int) -> TileRows | None:
        """Return the rows of a tile in memory; None if the model does not depend on them."""
        if self.model == "requests":
            return requested_rows(sides, bits)
        return None if self.model == "channel" else rows_of(sides, shape, bits)

    @property
    def stream(self) -> tuple[int, int]:
        """Bytes and clocks of a stream on one channel of the part, including refreshes."""
        return stream_rate(self._map_addresses()[0])

    def bank_clocks(self, share_bytes: Amount, rows: TileRows, *, write: bool) -> Amount:
        """Return the clocks of a channel for its share of a tile, with model banked."""
        part, mapping = self._map_addresses()
        bus: Any = bus_clocks(part, rows, share_bytes)
        banks: Any = bank_clocks(part, mapping, rows, self.channels, int(write))
        found: Amount = with_refresh(part, larger(bus, banks)) * (share_bytes > 0)
        return found

    def request_cycles(self, n_bytes: Amount, rows: TileRows) -> Amount:
        """Return the cycles that the requests of a transfer take, with model requests.

        >>> spec = DramSpec(
        ...     bandwidth_bytes_per_second="unlimited",
        ...     model="requests",
        ...     request_bytes=64,
        ...     requests_in_flight=16,
        ...     latency_cycles=80,
        ... )
        >>> spec.request_cycles(1600, TileRows(count=100, n_bytes=16, pitch=256))
        500
        >>> spec.request_cycles(10000, TileRows(count=100, n_bytes=100, pitch=256))
        1000
        """
        assert self.request_bytes is not None  # noqa: S101 - the model is requests
        assert self.requests_in_flight is not None  # noqa: S101 - likewise
        count, length = -(-n_bytes // rows.n_bytes), rows.n_bytes
        number = count * -(-length // self.request_bytes)
        cycles: Any = -(-number * self.latency_cycles // self.requests_in_flight)
        slowest: Amount = larger(cycles, 1)
        return slowest

    def _map_addresses(self) -> tuple[DramPart, str]:
        assert self.part is not None  # noqa: S101 - the model is banked
        return self.part, self.map or self.part.default_map

    def bound_by_banks(self, share_bytes: int, rows: TileRows, *, write: bool) -> bool:
        """Return whether activates, a bank or bank group need longer for a tile than the bus."""
        part, mapping = self._map_addresses()
        banks = bank_clocks(part, mapping, rows, self.channels, int(write))
        return bool(banks > bus_clocks(part, rows, share_bytes))

    def channel_bytes(self, amount_bytes: Amount, channel: int) -> Amount:
        """Return the bytes of a request on one channel, if it begins on channel 0.

        >>> spec = DramSpec(bandwidth_bytes_per_second="unlimited", channels=3)
        >>> [spec.channel_bytes(1000, c) for c in range(3)]
        [488, 256, 256]
        """
        stripe = self.interleave_bytes * self.channels
        rest = amount_bytes % stripe - channel * self.interleave_bytes
        rest = rest * (rest > 0)
        over = (rest - self.interleave_bytes) * (rest > self.interleave_bytes)
        return amount_bytes // stripe * self.interleave_bytes + rest - over


class MemorySpec(DramSpec):
    """A backing memory beside the DRAM, with channels of its own.

    Tiles of its tensors take at most ``staging_bytes`` of the buffer: the slots that fit are a FIFO
    between memory and array. With ``fifo`` all groups share these slots, so tiles of the next group
    arrive as soon as those of this one are released. Energy per byte is the DRAM's.
    """

    OMITTED: ClassVar = ("fifo",)

    staging_bytes: BytesOrUnlimited = None
    fifo: bool = False


class MemoriesSpec(Spec):
    """Backing memories beside the DRAM, by the class of the tensors that live there.

    Tensors of other classes (activations always) live in the DRAM.
    """

    weight: MemorySpec | None = None
    cache: MemorySpec | None = None

    def by_class(self) -> dict[str, MemorySpec]:
        """Return the memories by the class of their tensors."""
        given = {"weight": self.weight, "cache": self.cache}
        return {name: memory for name, memory in given.items() if memory is not None}


class DmaSpec(Spec):
    """DMA engines. ``in_queues`` = ``per_tensor`` or ``single`` (loads in program order)."""

    in_queues: Literal["per_tensor", "single"] = "per_tensor"


DRAM_WAYS: Final = ("dram_read", "dram_write")
SHARED_WAYS: Final = (f"{SHARED}_read", f"{SHARED}_write")
READS: Final = ("dram_read", f"{SHARED}_read")
WRITES: Final = ("dram_write", f"{SHARED}_write")
"""Levels and directions of bytes that leave a core for DRAM or a shared buffer."""


def dram_bytes(moved: Mapping[tuple[str, str], int]) -> int:
    """Return the bytes over DRAM channels, from bytes by (level and direction, tensor)."""
    return bytes_over(moved, DRAM_WAYS)


def bytes_over(moved: Mapping[tuple[str, str], int], ways: Collection[str]) -> int:
    """Return the bytes of some levels and directions (``ways``), such as ``dram_read``."""
    return sum(n for (way, _), n in moved.items() if way in ways)


def way_outside(way: str, kind: str) -> str:
    """Return the level and direction of bytes from or to the memory of a class of tensors.

    >>> way_outside("read", "weight"), way_outside("write", "shared")
    ('dram_read', 'shared_write')
    """
    return f"{SHARED if kind == SHARED else 'dram'}_{way}"


def leaves_core(way: str) -> bool:
    """Return whether bytes of a level and direction go to or from DRAM or a shared buffer."""
    return way in DRAM_WAYS or way in SHARED_WAYS


def is_dram_channel(name: str) -> bool:
    """Return whether the name is that of a DRAM channel."""
    return name.rpartition(".")[2].startswith("dram")
