"""Costs of an exchange between chips, for one of them: bytes, work of resources, and a bound.

They follow from the exchange alone. Its collectives run one after the other, the first one after
its load, so no run is shorter than all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from simaccel.analytic.family_counts import Level
from simaccel.hardware import Accelerator
from simaccel.hardware.collectives import LinkAct
from simaccel.hardware.core_noc import HOPS_READ, HOPS_WRITE
from simaccel.hardware.cores import CHIP, REMOTE, on_chip, on_core
from simaccel.hardware.links import LINK_SENT
from simaccel.mapping.chips.exchanges import Exchange
from simaccel.mapping.chips.places import remote_cores
from simaccel.units import LINK


def merge_parts(
    moved: Mapping[Level, int], parts: Mapping[str, str], received: Mapping[str, int]
) -> dict[Level, int]:
    """Return bytes with the DRAM reads of parts booked to the tensors that they belong to.

    ``parts``: part -> tensor; ``received``: by tensor, the bytes that loads write to the buffers of
    all cores, which exceed those read if a read serves several.
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
    """The work of an exchange on one chip, ``times`` times; ``act``: its end of a message."""

    exchange: Exchange
    accelerator: Accelerator
    times: int
    act: LinkAct

    @property
    def name(self) -> str:
        """Its name in tables and traces."""
        return self.exchange.receipt if self.act == "receive" else self.exchange.name

    @property
    def place(self) -> range | None:
        """The cores that wait for it: all, or of a message the core that sends or receives it."""
        if not self.exchange.is_message:
            return self.exchange.cores
        layout = self.exchange.behind if self.act == "receive" else self.exchange.before
        return remote_cores(layout.first)

    @property
    def core(self) -> int:
        """The core that executes it."""
        return 0 if self.place is None else self.place.start

    @property
    def read(self) -> set[str]:
        """The tensor that it reads; of the receiving end of a message, the sending end."""
        return {self.exchange.name if self.act == "receive" else self.exchange.source}

    @property
    def streamed(self) -> set[str]:
        """The tensor that it reads, if it comes tile by tile; else empty."""
        handed = self.exchange.handed
        is_handed = self.act != "receive" and handed is not None and handed.stream.maker != ""
        return self.read if is_handed or self.act == "receive" else set()

    @property
    def stored(self) -> set[str]:
        """The tensor that it stores."""
        return {self.exchange.name if self.act == "send" else self.exchange.target}

    @cached_property
    def channels(self) -> Counter[str]:
        """Busy cycles of the links of each dimension by name, of one run."""
        hardware, exchange, found = self.accelerator, self.exchange, Counter[str]()
        for trips, *sides in exchange.chunks(hardware):
            n_bytes = self._max_bytes(*sides)
            for name, n in hardware.pod.link_cycles(self.act, n_bytes, exchange.axes):
                found[name] += trips * n
        return found

    @property
    def cycles(self) -> int:
        """Busy cycles of the busiest dimension's links, of one run."""
        return max(self.channels.values(), default=0)

    def _max_bytes(self, *sides: int) -> int:
        return self.exchange.n_bytes(max(sides))

    @cached_property
    def moved(self) -> dict[Level, int]:
        """Bytes by level and tensor, of one run."""
        exchange, moved = self.exchange, Counter[Level]()
        hops_in, hops_out = (len(self._links(write=write)) for write in (False, True))
        for trips, taken, given_away in exchange.chunks(self.accelerator):
            sent = come = self._sent_bytes(self._max_bytes(taken, given_away))
            if self.act == "send":
                sent, come = exchange.n_bytes(taken), 0
                links = sum(axis.size for axis in exchange.axes)
                moved[LINK_SENT, exchange.source] += trips * sent * (links - 1)
            if self.act == "receive":
                sent, come = 0, exchange.n_bytes(given_away)
            loaded = trips * exchange.n_bytes(taken) * (self.act != "receive")
            stored = trips * exchange.n_bytes(given_away) * (self.act != "send")
            moved["dram_read", exchange.source] += loaded
            moved["buffer_write", exchange.source] += loaded
            moved["buffer_read", exchange.source] += trips * sent
            moved[LINK_SENT, exchange.source] += trips * sent
            moved["link_read", exchange.target] += trips * come
            moved["buffer_write", exchange.target] += trips * come
            moved["buffer_read", exchange.target] += stored
            moved["dram_write", exchange.target] += stored
            moved[HOPS_READ, exchange.source] += loaded * hops_in
            moved[HOPS_WRITE, exchange.target] += stored * hops_out
        return {level: n for level, n in moved.items() if n}

    def _sent_bytes(self, n_bytes: int) -> int:
        """Return the bytes of a collective that a chip sends."""
        exchange = self.exchange
        return self.accelerator.pod.cost(exchange.kind, n_bytes, exchange.axes).sent_bytes

    def _links(self, *, write: bool) -> tuple[str, ...]:
        """Return the links of the NoC between memories and the core whose queues it uses."""
        return self.accelerator.cores.links(self.core, write=write)

    def _total(self, level: str) -> int:
        return sum(n for (where, _), n in self.moved.items() if where == level)

    @property
    def resources(self) -> dict[str, int]:
        """Work of each resource in cycles by name, of one run."""
        hardware, core = self.accelerator, self.core
        parts = hardware.dram.channels
        loads = hardware.channel_read_rate.cycles(self._total("dram_read") // parts)
        stores = hardware.channel_rate.cycles(self._total("dram_write") // parts)
        links: Counter[str] = Counter()
        for way, write in (("dram_read", False), ("dram_write", True)):
            cycles = hardware.cores.noc.rate.cycles(self._total(way))
            links.update(dict.fromkeys(self._links(write=write), cycles))
        return {
            **{on_chip(core, name): n for name, n in links.items()},
            on_chip(core, "dram"): max(0, loads + stores - 1),
            on_core(core, "buffer_read"): hardware.read_rate.cycles(self._total("buffer_read")),
            on_core(core, "buffer_write"): hardware.write_rate.cycles(self._total("buffer_write")),
            on_core(core, LINK): self.cycles,
            **{on_chip(core, name): n for name, n in self.channels.items()},
        }

    @property
    def is_beside(self) -> bool:
        """Whether it runs beside the cores: it waits for links and its tensor only."""
        return self.core % CHIP == REMOTE or self.exchange.is_stored

    @property
    def path(self) -> Mapping[str, int]:
        """The least cycles of an exchange by term."""
        if self.act in ("send", "receive"):
            return {LINK: self.cycles}
        return {LINK: self.cycles + self.accelerator.pod.lag_cycles(self.act, self.exchange.axes)}

    @property
    def buffer_bytes(self) -> int:
        """Bytes of its tiles: all slots of the largest chunk, on each side that it has."""
        exchange, chunks = self.exchange, list(self.exchange.chunks(self.accelerator))
        sides = {"send": (1,), "receive": (2,)}.get(self.act, (1, 2))
        each = sum(max(exchange.n_bytes(chunk[side]) for chunk in chunks) for side in sides)
        return exchange.slots(self.accelerator) * each


def link_works(exchange: Exchange, accelerator: Accelerator, times: int) -> Iterator[LinkWork]:
    """Yield the work of an exchange: of a collective, or of both ends of a message."""
    acts: tuple[LinkAct, ...] = ("send", "receive") if exchange.is_message else (exchange.kind,)
    for act in acts:
        yield LinkWork(exchange, accelerator, times, act)
