"""Memories: the global buffer, the DRAM channels and the DMA queues between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from simaccel.hardware.quantity import (
    Amount,
    Bytes,
    BytesOrUnlimited,
    BytesPerSecond,
    Count,
    Cycles,
)
from simaccel.hardware.spec import Spec


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


class DmaSpec(Spec):
    """DMA engines. ``in_queues`` = ``per_tensor`` or ``single`` (loads in program order)."""

    in_queues: Literal["per_tensor", "single"] = "per_tensor"
