"""Memories: the global buffer, the DRAM channels and the DMA queues between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, ClassVar, Final, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    PlainSerializer,
)

from simaccel.hardware.dram.part import DramPart
from simaccel.hardware.dram.parts import PARTS
from simaccel.hardware.dram.tile import (
    TileRows,
    bank_clocks,
    bus_clocks,
    larger,
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
)
from simaccel.hardware.spec import Spec, empty_fields
from simaccel.numbers import SHARED

BANKED_MAPS: Final = ("bgil", "rbc")
"""Address maps of which the model of a tile knows."""


def _validate_names(names: Iterable[str]) -> AfterValidator:
    def read(value: str) -> str:
        if value not in names:
            raise ValueError(", ".join(names))
        return value

    return AfterValidator(read)


def _find_part(value: object) -> object:
    """Return the part of a name; one of a user's own is a section with the same fields."""
    if not isinstance(value, str):
        return value
    if value not in PARTS:
        raise ValueError(", ".join(PARTS))
    return PARTS[value]


def _name(part: DramPart | None) -> str | dict[str, object] | None:
    """Return the name of a published part; of another one all its fields."""
    if part is None:
        return None
    return part.name if PARTS.get(part.name) == part else part.model_dump(mode="json")


class BufferSpec(Spec):
    """The software-addressed global buffer with one read and one write port.

    Requesters that wait together at a port take turns of ``turn_cycles`` cycles.
    """

    capacity_bytes: BytesOrUnlimited
    read_bytes_per_second: BytesPerSecond
    write_bytes_per_second: BytesPerSecond
    turn_cycles: Count = 1


class DramSpec(Spec):
    """Off-chip memory: ``bandwidth`` is the sum over ``channels``.

    A request is spread over the channels in pieces of ``interleave_bytes``. A channel serves the
    oldest request of a direction first and keeps reading, or writing, while there is such work;
    where the other direction waits, it changes after ``batch_bytes``, which costs
    ``turnaround_cycles``. ``latency_cycles`` is pipelined, with at most ``in_flight_bytes`` asked
    for and not yet there: no more than these come in each latency (Little's law).

    With the model ``banked`` a transfer takes at least what data bus, activates, the busiest bank
    and bank group of ``part`` need for its rows (`simaccel.hardware.dram.tile`), with its share of
    refreshes; ``map`` says which bits of an address are the bank. With the model ``channel`` the
    part costs no time.

    With the model ``requests`` a DMA engine asks for each row of a tile's innermost dimension on
    its own, in requests of at most ``request_bytes``; ``requests_in_flight`` of them are on their
    way, so that each takes its share of the latency, however short it is (Little's law). With other
    models these two cost no time. ``capacity_bytes``: how much there is (None: not known); a
    workload that needs more runs all the same, with a warning.
    """

    REPLACED: ClassVar[Mapping[str, str]] = {
        "turn_cycles": "batch_bytes: what a channel moves in one direction while the other waits",
        "max_outstanding": "in_flight_bytes: what may be asked for and not yet there",
    }

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
    map: Annotated[str, _validate_names(BANKED_MAPS)] | None = None

    def _impossible(self) -> Iterator[tuple[str, str]]:
        if self.model == "banked" and self.part is None:
            yield "part", f"with model banked: {', '.join(PARTS)}"
        for name in ("request_bytes", "requests_in_flight"):
            if self.model == "requests" and getattr(self, name) is None:
                yield name, "a number, with model requests"

    @property
    def absent(self) -> frozenset[str]:
        """Fields that are not set: those of a model with banks, in a model without."""
        names = ("part", "map", "request_bytes", "requests_in_flight", "capacity_bytes")
        given = {name: getattr(self, name) for name in names}
        absent = {name for name, value in given.items() if value is None}
        plain = self.model == "channel" and self.part is None
        return frozenset(absent | ({"model"} if plain else set()))

    @property
    def part_name(self) -> str | None:
        """The name of the part, if there is one."""
        return None if self.part is None else self.part.name

    def rows(self, sides: tuple[Amount, ...], shape: tuple[int, ...], bits: int) -> TileRows | None:
        """Return where a tile of a tensor lies; None if the model does not care."""
        if self.model == "requests":
            return requested_rows(sides, bits)
        return None if self.model == "channel" else rows_of(sides, shape, bits)

    def stream(self) -> tuple[int, int]:
        """Bytes and clocks of a stream on one channel of the part, refreshes included."""
        part, _ = self._map_addresses()
        return stream_rate(part)

    def bank_clocks(self, share_bytes: Amount, rows: TileRows, *, write: bool) -> Amount:
        """Clocks of a part's channel for its share of a tile, with model banked."""
        part, mapping = self._map_addresses()
        bus = bus_clocks(part, rows, share_bytes)
        banks = bank_clocks(part, mapping, rows, self.channels, int(write))
        found: Amount = with_refresh(part, larger(bus, banks)) * (share_bytes > 0)
        return found

    def request_cycles(self, n_bytes: Amount, rows: TileRows) -> Amount:
        """Cycles in which the requests of a transfer can be made, with model requests.

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
        in_flight: Amount = larger(1, -(-number * self.latency_cycles // self.requests_in_flight))
        return in_flight

    def _map_addresses(self) -> tuple[DramPart, str]:
        """Return the part, and its address map."""
        assert self.part is not None  # noqa: S101 - the model is banked
        return self.part, self.map or self.part.default_map

    def bound_by_banks(self, share_bytes: int, rows: TileRows, *, write: bool) -> bool:
        """Whether activates, a bank or a bank group need longer for a tile than the data bus."""
        part, mapping = self._map_addresses()
        banks = bank_clocks(part, mapping, rows, self.channels, int(write))
        return bool(banks > bus_clocks(part, rows, share_bytes))

    def channel_bytes(self, amount_bytes: Amount, channel: int) -> Amount:
        """Bytes of a request that fall to one channel, counted from channel 0.

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

    Tiles of its tensors take at most ``staging_bytes`` of the buffer: as many slots of a tile as
    go into that are a FIFO between memory and array. With ``fifo`` these slots are the same for all
    groups, so that tiles of the next group come as soon as those of this one go. Energy per byte is
    the DRAM's.
    """

    staging_bytes: BytesOrUnlimited = None
    fifo: bool = False

    @property
    def absent(self) -> frozenset[str]:
        """Fields that are not set."""
        absent = {"staging_bytes"} if self.staging_bytes is None else set()
        return super().absent | absent | (set() if self.fifo else {"fifo"})


class MemoriesSpec(Spec):
    """Backing memories beside the DRAM, each by the class of tensors that lives in it.

    Tensors of a class that has none (activations always) live in the DRAM.
    """

    weight: MemorySpec | None = None
    cache: MemorySpec | None = None

    @property
    def absent(self) -> set[str]:
        """Fields that are not set."""
        return empty_fields(self)

    def by_class(self) -> dict[str, MemorySpec]:
        """Return the memories by the class of their tensors."""
        given = {"weight": self.weight, "cache": self.cache}
        return {name: memory for name, memory in given.items() if memory is not None}


class DmaSpec(Spec):
    """DMA engines. ``in_queues`` = ``per_tensor`` or ``single`` (loads in program order)."""

    in_queues: Literal["per_tensor", "single"] = "per_tensor"


_DRAM_WAYS: Final = ("dram_read", "dram_write")
SHARED_WAYS: Final = (f"{SHARED}_read", f"{SHARED}_write")
READS: Final = ("dram_read", f"{SHARED}_read")
WRITES: Final = ("dram_write", f"{SHARED}_write")
"""Directions of what leaves a core's memories."""


def dram_bytes(moved: Mapping[tuple[str, str], int]) -> int:
    """Sum what crosses the DRAM channels, of bytes by (level and direction, tensor)."""
    return sum(n for (way, _), n in moved.items() if crosses_dram(way))


def shared_bytes(moved: Mapping[tuple[str, str], int]) -> int:
    """Sum what crosses the channel of a buffer that cores share."""
    return sum(n for (way, _), n in moved.items() if way in SHARED_WAYS)


def crosses_dram(way: str) -> bool:
    """Return whether bytes that go this way (a level and a direction) cross a DRAM channel."""
    return way in _DRAM_WAYS


def way_outside(way: str, kind: str) -> str:
    """Return the level and direction of bytes that cross to where tensors of a class live.

    >>> way_outside("read", "weight"), way_outside("write", "shared")
    ('dram_read', 'shared_write')
    """
    return f"{SHARED if kind == SHARED else 'dram'}_{way}"


def leaves_core(way: str) -> bool:
    """Return whether bytes that go this way cross to DRAM, or to a buffer that cores share."""
    return way in _DRAM_WAYS or way in SHARED_WAYS


def is_dram_channel(name: str) -> bool:
    """Return whether a channel of this name is one of the DRAM's."""
    return name.rpartition(".")[2].startswith("dram")
