"""Memories: the global buffer, the DRAM channels and the DMA queues between them."""

from __future__ import annotations

from typing import Literal

from simaccel.hardware.quantity import (
    Amount,
    Bytes,
    BytesOrUnlimited,
    BytesPerSecond,
    Count,
    Cycles,
    Picojoules,
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

    A request is spread over the channels in pieces of ``interleave_bytes``. A channel that
    changes between reading and writing loses ``turnaround_cycles``; ``latency_cycles`` is
    pipelined; ``max_outstanding`` requests are accepted at a time.
    """

    bandwidth_bytes_per_second: BytesPerSecond
    channels: Count = 1
    interleave_bytes: Bytes = 256
    latency_cycles: Cycles = 0
    turnaround_cycles: Cycles = 0
    turn_cycles: Count = 64
    max_outstanding: Count = 64

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


class EnergySpec(Spec):
    """Energy per action in pJ."""

    mac_pj: Picojoules
    sfu_pj_per_element: Picojoules
    buffer_pj_per_byte: Picojoules
    noc_pj_per_byte: Picojoules
    dram_pj_per_byte: Picojoules
