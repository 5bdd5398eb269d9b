"""Costs of an exchange between chips for one chip: bytes, work of resources, and a lower bound.

They follow from the exchange alone. Its chunks' collectives run one after the other, the first
after its load, so their sum is a lower bound of the exchange's cycles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from simaccel.analytic.family_counts import Level
from simaccel.hardware import Accelerator
from simaccel.hardware.collectives import LinkAct
from simaccel.hardware.cores import CHIP, HOPS_READ, HOPS_WRITE, PIPELINE, on_chip, on_core
from simaccel.hardware.links import LINK_RECEIVED, LINK_SENT
from simaccel.mapping.chips.exchanges import Exchange
from simaccel.mapping.chips.places import remote_cores
from simaccel.units import LINK


def merge_parts(
    moved: Mapping[Level, int], parts: Mapping[str, str], received: Mapping[str, int]
) -> dict[Level, int]:
    """Return bytes with the DRAM reads of parts booked to the tensors that they belong to.

    ``parts``: part -> tensor; ``received``: by part, the bytes that its loads write to the buffers
    of all cores: more than are read if a read serves several cores.
    """
    merged = Counter(moved)
    for part, tensor in parts.items():
        merged["dram_read", tensor] += merged.pop(("dram_read", part), 0)
        merged["buffer_write", tensor] += received.get(part, 0)
        merged["buffer_write", part] -= received.get(part, 0)
        merged[HOPS_READ, tensor] += merged.pop((HOPS_READ, part), 0)
    return dict(merged)


@dataclass(frozen=True)
class LinkWork:
    """The work of an exchange that runs ``times`` times on a chip; ``act``: what its links do."""

    exchange: Exchange
    accelerator: Accelerator
    times: int
    act: LinkAct

    @property
    def name(self) -> str:
        """Name in tables and traces."""
        return self.exchange.receipt if self.act == "receive" else self.exchange.name

    @property
    def place(self) -> range | None:
        """The cores that wait for it (None: all); of a message, its core on the chip."""
        if not self.exchange.is_message:
            return self.exchange.cores
        layouts = self.exchange.source_layout, self.exchange.target_layout
        return remote_cores(layouts[self.act == "receive"].first)

    @property
    def core(self) -> int:
        """Number of the core that executes it."""
        return 0 if self.place is None else self.place.start

    @property
    def read(self) -> set[str]:
        """The tensor that it reads; at the receiving end of a message, the sending end's name."""
        return {self.exchange.name if self.act == "receive" else self.exchange.source}

    @property
    def streamed(self) -> set[str]:
        """The tensor that it reads, if that arrives tile by tile; else empty."""
        tiles = self.exchange.streamed
        is_streamed = self.act != "receive" and tiles is not None and tiles.stream.maker != ""
        return self.read if is_streamed or self.act == "receive" else set()

    @property
    def stored(self) -> set[str]:
        """The tensor that it stores."""
        return {self.exchange.name if self.act == "send" else self.exchange.target}

    @cached_property
    def channels(self) -> Counter[str]:
        """Busy cycles of the links of each dimension, by name of the channel, for one run."""
        hardware, exchange, cycles = self.accelerator, self.exchange, Counter[str]()
        for trips, *sides in exchange.chunks(hardware):
            n_bytes = self._max_bytes(*sides)
            for name, n in hardware.pod.link_cycles(self.act, n_bytes, exchange.axes):
                cycles[name] += trips * n
        return cycles

    @property
    def cycles(self) -> int:
        """Busy cycles of the busiest dimension's links, for one run."""
        return max(self.channels.values(), default=0)

    def _max_bytes(self, *sides: int) -> int:
        return self.exchange.n_bytes(max(sides))

    @cached_property
    def moved(self) -> dict[Level, int]:
        """Bytes by level and tensor, for one run."""
        exchange, moved = self.exchange, Counter[Level]()
        hops_in, hops_out = (len(self._links(write=write)) for write in (False, True))
        for trips, n_in, n_out in exchange.chunks(self.accelerator):
            most = self._max_bytes(n_in, n_out)
            cost = self.accelerator.pod.cost(exchange.kind, most, exchange.axes)
            sent = received = cost.sent_bytes
            if self.act in ("send", "send_receive"):
                sent = exchange.n_bytes(n_in)
                received = 0 if self.act == "send" else exchange.n_bytes(n_out)
                links = sum(axis.size for axis in exchange.axes)
                moved[LINK_SENT, exchange.source] += trips * sent * (links - 1)
            if self.act == "receive":
                sent, received = 0, exchange.n_bytes(n_out)
            loaded = trips * exchange.n_bytes(n_in) * (self.act != "receive")
            stored = trips * exchange.n_bytes(n_out) * (self.act != "send")
            moved["dram_read", exchange.source] += loaded
            moved["buffer_write", exchange.source] += loaded
            moved["buffer_read", exchange.source] += trips * sent
            moved[LINK_SENT, exchange.source] += trips * sent
            moved[LINK_RECEIVED, exchange.target] += trips * received
            moved["buffer_write", exchange.target] += trips * received
            moved["buffer_read", exchange.target] += stored
            moved["dram_write", exchange.target] += stored
            moved[HOPS_READ, exchange.source] += loaded * hops_in
            moved[HOPS_WRITE, exchange.target] += stored * hops_out
        return {level: n for level, n in moved.items() if n}

    def _links(self, *, write: bool) -> tuple[str, ...]:
        """Return the links of the NoC between memories and the core whose queues it uses."""
        return self.accelerator.cores.links(self.core, write=write)

    def _total(self, level: str) -> int:
        return sum(n for (where, _), n in self.moved.items() if where == level)

    @property
    def resources(self) -> dict[str, int]:
        """Work of each resource in cycles by name, for one run."""
        hardware, core = self.accelerator, self.core
        parts = hardware.dram.channels
        loads = hardware.channel_read_rate.cycles(self._total("dram_read") // parts)
        stores = hardware.channel_rate.cycles(self._total("dram_write") // parts)
        links: Counter[str] = Counter()
        for level, write in (("dram_read", False), ("dram_write", True)):
            cycles = hardware.cores.noc.rate.cycles(self._total(level))
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
        """Whether it runs beside the cores, and waits only for links and its tensor."""
        return self.core % CHIP >= PIPELINE or self.exchange.is_stored

    @property
    def path(self) -> Mapping[str, int]:
        """Lower bound of the exchange's cycles, by term."""
        if self.act in ("send", "receive"):
            return {LINK: self.cycles}
        return {LINK: self.cycles + self.accelerator.pod.lag_cycles(self.act, self.exchange.axes)}

    @property
    def buffer_bytes(self) -> int:
        """Buffer bytes of its tiles: all slots of the largest chunk, on each side that it has."""
        exchange, chunks = self.exchange, list(self.exchange.chunks(self.accelerator))
        sides = {"send": (1,), "receive": (2,)}.get(self.act, (1, 2))
        slot_bytes = sum(max(exchange.n_bytes(chunk[at]) for chunk in chunks) for at in sides)
        return exchange.slots(self.accelerator) * slot_bytes


def link_works(exchange: Exchange, accelerator: Accelerator, times: int) -> Iterator[LinkWork]:
    """Yield the work of an exchange: of a collective, or of both ends of a message."""
    acts: tuple[LinkAct, ...] = ("send", "receive") if exchange.is_message else (exchange.kind,)
    for act in acts:
        yield LinkWork(exchange, accelerator, times, act)
