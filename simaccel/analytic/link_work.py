"""Costs of an exchange between chips for one of them: bytes, work of resources, and a bound.

It is read off the exchange alone. Its collectives come one after the other, and the first can't
begin before what it takes has been loaded: no run of it is shorter than all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from simaccel.analytic.family_counts import Level
from simaccel.hardware import Accelerator
from simaccel.hardware.chips import LINK_SENT
from simaccel.hardware.core_noc import HOPS_READ, HOPS_WRITE
from simaccel.mapping.chips.exchanges import Exchange
from simaccel.units import LINK


def merge_parts(
    moved: Mapping[Level, int], parts: Mapping[str, str], received: Mapping[str, int]
) -> dict[Level, int]:
    """Return bytes with those that loads of parts bring under the tensors that they are parts of.

    ``parts``: part -> tensor; ``received``: by tensor the bytes that loads write to the buffers of
    all cores, more than what is read where a read serves several.
    """
    merged = Counter(moved)
    for part, tensor in parts.items():
        merged["dram_read", tensor] += merged.pop(("dram_read", part), 0)
        merged["buffer_write", tensor] += received.get(part, 0)
        merged["buffer_write", part] -= received.get(part, 0)
        merged[HOPS_READ, tensor] += merged.pop((HOPS_READ, part), 0)
    return {level: n for level, n in merged.items() if n}


@dataclass(frozen=True)
class LinkWork:
    """An exchange ``times`` times on a chip of a pod."""

    exchange: Exchange
    accelerator: Accelerator
    times: int
    place: None = None
    """All cores wait for it."""

    @property
    def stored(self) -> set[str]:
        """The tensor that it stores."""
        return {self.exchange.target}

    @property
    def cycles(self) -> int:
        """Cycles of the links, once."""
        chips, hardware = self.accelerator.chips, self.accelerator
        kind, rings = self.exchange.kind, self.exchange.rings
        return sum(
            trips * chips.cycles(kind, self._max_bytes(*sides), rings, hardware.clock_hz)
            for trips, *sides in self.exchange.chunks(hardware)
        )

    def _max_bytes(self, *sides: int) -> int:
        return self.exchange.n_bytes(max(sides))

    @cached_property
    def moved(self) -> dict[Level, int]:
        """Bytes by level and tensor, once."""
        exchange, moved = self.exchange, Counter[Level]()
        hops_in, hops_out = (len(self._links(write=write)) for write in (False, True))
        for trips, taken, given_away in exchange.chunks(self.accelerator):
            sent = self.accelerator.chips.sent_bytes(
                exchange.kind, self._max_bytes(taken, given_away), exchange.rings
            )
            moved["dram_read", exchange.source] += trips * exchange.n_bytes(taken)
            moved["buffer_write", exchange.source] += trips * exchange.n_bytes(taken)
            moved["buffer_read", exchange.source] += trips * sent
            moved[LINK_SENT, exchange.source] += trips * sent
            moved["link_read", exchange.target] += trips * sent
            moved["buffer_write", exchange.target] += trips * sent
            moved["buffer_read", exchange.target] += trips * exchange.n_bytes(given_away)
            moved["dram_write", exchange.target] += trips * exchange.n_bytes(given_away)
            moved[HOPS_READ, exchange.source] += trips * exchange.n_bytes(taken) * hops_in
            moved[HOPS_WRITE, exchange.target] += trips * exchange.n_bytes(given_away) * hops_out
        return {level: n for level, n in moved.items() if n}

    def _links(self, *, write: bool) -> tuple[str, ...]:
        """Return the links of the NoC between memories and core 0, whose queues it uses."""
        return self.accelerator.cores.links(0, write=write)

    def _total(self, level: str) -> int:
        return sum(n for (where, _), n in self.moved.items() if where == level)

    @property
    def resources(self) -> dict[str, int]:
        """Cycles of each resource's work, once."""
        hardware = self.accelerator
        parts = hardware.dram.channels
        loads = hardware.channel_read_rate.cycles(self._total("dram_read") // parts)
        stores = hardware.channel_rate.cycles(self._total("dram_write") // parts)
        links: Counter[str] = Counter()
        for way, write in (("dram_read", False), ("dram_write", True)):
            cycles = hardware.cores.noc.rate.cycles(self._total(way))
            links.update(dict.fromkeys(self._links(write=write), cycles))
        return {
            **links,
            "dram": max(0, loads + stores - 1),
            "buffer_read": hardware.read_rate.cycles(self._total("buffer_read")),
            "buffer_write": hardware.write_rate.cycles(self._total("buffer_write")),
            LINK: self.cycles,
        }

    @property
    def path(self) -> Mapping[str, int]:
        """Cycles on the way through an exchange by term: none is shorter."""
        return {LINK: self.cycles}

    @property
    def buffer_bytes(self) -> int:
        """Bytes of its tiles: two slots of the largest chunk on both sides."""
        chunks = list(self.exchange.chunks(self.accelerator))
        return sum(
            2 * max(self.exchange.n_bytes(chunk[side]) for chunk in chunks) for side in (1, 2)
        )
