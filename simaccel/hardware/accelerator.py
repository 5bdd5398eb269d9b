"""An accelerator: all its units, and the rates between them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from simaccel.files.accounting import FileAccount
from simaccel.hardware.area.spec import AreaSpec
from simaccel.hardware.array import ArraySpec, NotSpatialError, NotSystolicError
from simaccel.hardware.chips import ChipPod
from simaccel.hardware.compiler import REPLACED_GROUPS, CompilerSpec, MeasuringSpec
from simaccel.hardware.cores import HOPS, CoresSpec
from simaccel.hardware.dram.tile import TileRows, rows_of_transfer
from simaccel.hardware.energy.spec import DRAM, EnergyPrices, EnergySpec, place_of
from simaccel.hardware.energy.tables import DRAM_PJ_PER_BYTE
from simaccel.hardware.links import LINK_RECEIVED, ONE_CHIP, REPLACED_CHIPS, ChipShape, LinksSpec
from simaccel.hardware.memory import BufferSpec, DmaSpec, DramSpec, MemoriesSpec
from simaccel.hardware.noc import NocPipes
from simaccel.hardware.precision import PrecisionSpec, with_sums
from simaccel.hardware.quantity import Amount, Hertz, Rate, format_quantity, larger, rate
from simaccel.hardware.sections import contradictions
from simaccel.hardware.sfu import SfuSpec
from simaccel.hardware.spatial import SpatialArraySpec
from simaccel.hardware.spec import Spec
from simaccel.numbers import BYTE, SHARED
from simaccel.units import LINK


def _kind(array: object) -> str:
    """Return the kind of an array; a document without one is checked as systolic."""
    kind = array.get("kind") if isinstance(array, dict) else getattr(array, "kind", None)
    return "spatial" if kind == "spatial" else "systolic"


Array = Annotated[
    Annotated[ArraySpec, Tag("systolic")] | Annotated[SpatialArraySpec, Tag("spatial")],
    Discriminator(_kind),
]

_NOT_TIMED = frozenset({"name", "description", "stands_for", "energy", "area", "measuring"})


class Accelerator(Spec):
    """One ``hwconfigs/*.yaml`` file. Rates are per cycle of ``clock_hz``."""

    REPLACED: ClassVar[Mapping[str, str]] = REPLACED_CHIPS | REPLACED_GROUPS
    OMITTED: ClassVar = (
        *("stands_for", "area", "memories", "precision", "cores", "links", "chips"),
    )

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$")]
    description: str = ""
    clock_hz: Hertz
    array: Array
    buffer: BufferSpec
    noc: NocPipes
    sfu: SfuSpec
    dram: DramSpec
    memories: MemoriesSpec = Field(default_factory=MemoriesSpec)
    dma: DmaSpec = Field(default_factory=DmaSpec)
    compiler: CompilerSpec = Field(default_factory=CompilerSpec)
    cores: CoresSpec = Field(default_factory=CoresSpec)
    links: LinksSpec = Field(default_factory=LinksSpec)
    chips: ChipShape = ONE_CHIP
    measuring: MeasuringSpec | None = None
    precision: PrecisionSpec = Field(default_factory=PrecisionSpec)
    energy: EnergySpec
    area: AreaSpec = Field(default_factory=AreaSpec)  # nothing runs by it
    stands_for: Literal["chip", "design", "example"] = "design"

    def __repr__(self) -> str:
        counts = {"chips": self.pod.count, "cores": self.cores.count, "arrays": self.array.count}
        several = "".join(f"{n} {what} of " for what, n in counts.items() if n > 1)
        buffer = format_quantity(self.buffer.capacity_bytes, "B")
        dram = format_quantity(self.dram.bandwidth_bytes_per_second, "B/s")
        pes = f"{self.array.rows} x {self.array.cols} PEs at {format_quantity(self.clock_hz, 'Hz')}"
        return f"<Accelerator {self.name}: {several}{pes}, buffer {buffer}, DRAM {dram}>"

    __str__ = __repr__

    @model_validator(mode="before")
    @classmethod
    def _sums(cls, document: Any) -> Any:  # noqa: ANN401 - whatever stands in a file
        return with_sums(document)

    def _impossible(self) -> Iterator[tuple[str, str]]:
        yield from ((field, allowed) for field, _, allowed in contradictions(dict(self)))
        if self._prices() is None:
            parts = f"a number of pJ, or a dram.part of {', '.join(DRAM_PJ_PER_BYTE)}"
            yield f"energy.{DRAM}", parts
        has_sums = isinstance(self.array, ArraySpec) and self.array.accumulator is not None
        sums = self.precision.sums
        if sums is not None and (allowed := self.precision.wrong_sums(accumulates=has_sums)):
            yield "precision.sums", allowed

    def _prices(self) -> EnergyPrices | None:
        shared = self.cores.shared_buffer
        own = None if shared is None else shared.pj_per_byte
        return self.energy.prices(self.buffer.capacity_bytes, self.dram.part_name, own)

    @cached_property
    def prices(self) -> EnergyPrices:
        """Energy per action, from the file or from the tables of its node and DRAM part."""
        found = self._prices()
        assert found is not None  # noqa: S101 - refused otherwise
        return found

    @cached_property
    def unknown_energies(self) -> tuple[str, ...]:
        """The energy fields that are not given; these energies are unknown, not 0.

        With ``known: false`` PE memories without any price count as one field.
        """
        fields, noc, pod = self.energy.unknown(self.dram.part_name), self.cores.noc, self.pod
        spatial = isinstance(self.array, SpatialArraySpec) and not self.energy.known
        prices = self.array.memories.prices() if spatial else {}  # type: ignore[union-attr]
        unknown = {
            "array.memories": bool(prices) and not any(prices.values()),
            "cores.noc.pj_per_bit_hop": noc.topology is not None and noc.pj_per_bit_hop is None,
            "links.pj_per_bit": pod.count > 1 and self.links.pj_per_bit is None,
            "links.pj_per_bit of the network": pod.count > 1 and pod.slices > 1,
        }
        return (*(f"energy.{n}" for n in fields), *(name for name, so in unknown.items() if so))

    @property
    def pod(self) -> ChipPod:
        """All chips and their links."""
        return ChipPod.from_links(self.links, self.chips, self.clock_hz)

    def with_sections(self, **sections: object) -> Accelerator:
        """Return a copy with other sections, unchecked; ``model_copy`` would keep the rates."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self).model_construct(**{**fields, **sections})

    @property
    def one_core(self) -> Accelerator:
        """The same with one core only."""
        return self.with_sections(cores=self.cores.alone)

    @cached_property
    def account(self) -> FileAccount:
        """The account of what was taken from another tool's file; empty for files of simaccel."""
        return FileAccount()

    @property
    def systolic(self) -> ArraySpec:
        """The array, if it is systolic; NotSystolicError if it is spatial."""
        if isinstance(self.array, ArraySpec):
            return self.array
        allowed = "systolic (see simaccel hw list)"
        raise NotSystolicError(f"{self.name}: array.kind = 'spatial'; allowed here: {allowed}")

    @property
    def spatial(self) -> SpatialArraySpec:
        """The array, if it is spatial; NotSpatialError if it is systolic."""
        if isinstance(self.array, SpatialArraySpec):
            return self.array
        allowed = "spatial (see simaccel hw list)"
        raise NotSpatialError(f"{self.name}: array.kind = 'systolic'; allowed: {allowed}")

    @property
    def pes(self) -> int:
        """Peak MACs per cycle of all arrays of all cores."""
        return self.array.pes * self.cores.count

    def __hash__(self) -> int:
        """Return a hash of all that times depend on."""
        return hash(self.timed)

    @cached_property
    def timed(self) -> str:
        """All that times depend on, as text: without energies and the size of the buffer."""
        sections = {n: getattr(self, n) for n in type(self).model_fields if n not in _NOT_TIMED}
        sections["buffer"] = self.buffer.model_copy(update={"capacity_bytes": None})
        return repr(sections)

    @cached_property
    def _backings(self) -> dict[str, Accelerator]:
        """By class, the accelerator with that class's memory in place of the DRAM."""
        memories = self.memories.by_class() | self.compiler.memories | self.cores.memories
        return {name: self.with_sections(dram=memory) for name, memory in memories.items()}

    def backing(self, kind: str) -> Accelerator:
        """Return the accelerator with the memory of a class of tensors as its ``dram``.

        >>> from simaccel import load_accelerator
        >>> toy = load_accelerator("toy", ["memories.weight.bandwidth_bytes_per_second=1 GB/s"])
        >>> toy.backing("weight").dram.bandwidth_bytes_per_second
        1000000000
        >>> toy.backing("") is toy
        True
        """
        return self._backings.get(kind, self)

    def memory(self, kind: str) -> str:
        """Return the memory in which tensors of a class live, by the name of its channels."""
        return kind if kind in self._backings else "dram"

    @property
    def every_backing(self) -> dict[str, Accelerator]:
        """By memory, the accelerator with it as its ``dram`` (`backing`); the DRAM first."""
        return {"dram": self, **self._backings}

    @property
    def staging(self) -> dict[str, int | None]:
        """By class with a memory of its own, the bytes of the buffer that its tiles may take."""
        memories = self.memories.by_class()
        return {kind: memory.staging_bytes for kind, memory in memories.items()}

    @cached_property
    def capacities(self) -> dict[tuple[str, ...], int | None]:
        """Bytes of each memory (of one PE, if it is in PEs), by the places of tiles in it."""
        found: dict[tuple[str, ...], int | None] = {("buffer",): self.buffer.capacity_bytes}
        if isinstance(self.array, SpatialArraySpec):
            for roles, memory in self.array.memories.by_roles().items():
                found[tuple(f"pe.{role}" for role in sorted(roles))] = memory.capacity_bytes
        return found

    def energy_by_level(
        self,
        macs: Amount,
        elements: Amount,
        moved: Mapping[tuple[str, str], Amount],
        cycles: Amount | None = None,
    ) -> dict[str, Any]:
        """Return the energy by level in pJ, including the memories of PEs (``pe``).

        ``elements``: elements x passes of the SFU; ``moved``: bytes by (level and direction,
        tensor); ``cycles``: of leakage, if it is to be counted. Floats, or arrays if amounts are.
        """
        levels: dict[str, Any] = {}
        for (level, _), n_bytes in moved.items():
            levels[level] = levels.get(level, 0) + n_bytes
        at: dict[str, Any] = {}
        for level, n_bytes in levels.items():
            place = place_of(level)
            at[place] = at.get(place, 0) + (n_bytes if level != LINK_RECEIVED else 0)
        by_level: dict[str, Any] = {"mac": macs * self.prices.mac_pj}
        by_level["sfu"] = elements * self.prices.sfu_pj_per_element
        for place in ("buffer", "noc", "dram", *({SHARED} & at.keys())):
            by_level[place] = at.get(place, 0) * self._pj_per_byte(place)
        if self.prices.leakage_pj_per_cycle and cycles is not None:
            by_level["leakage"] = cycles * self.cores.count * self.prices.leakage_pj_per_cycle
        if isinstance(self.array, SpatialArraySpec):
            in_pes = ((way, n) for (way, _), n in moved.items() if place_of(way) == "pe")
            by_level["pe"] = sum(n * self._pj_per_byte(level) for level, n in in_pes)
        elif self.array.accumulator is not None:
            by_level["accumulator"] = at.get("accumulator", 0) * self._pj_per_byte("accumulator")
        return by_level | {
            place: at[place] * self._pj_per_byte(place) for place in (HOPS, LINK) if place in at
        }

    def energy_by_tensor(self, moved: Mapping[tuple[str, str], int]) -> dict[str, dict[str, float]]:
        """Return the energy in pJ of moving each tensor, by level; ``moved``: see above."""
        by_tensor: dict[str, dict[str, float]] = {}
        for (level, tensor), n_bytes in moved.items():
            by_level, place = by_tensor.setdefault(tensor, {}), place_of(level)
            by_level[place] = by_level.get(place, 0.0) + n_bytes * self._pj_per_byte(level)
        return by_tensor

    def _pj_per_byte(self, level: str) -> float:
        """Return the energy in pJ of a byte at a level (and direction); NaN if it is unknown.

        The energy of a link is booked where a chip sends.
        """
        place = place_of(level)
        if place == "pe" and isinstance(self.array, SpatialArraySpec):
            return self.array.memories.prices().get(level, 0.0)
        if place == "accumulator":
            accumulator = getattr(self.array, "accumulator", None)
            own = None if accumulator is None else accumulator.pj_per_byte
            return self.prices.buffer_pj_per_byte if own is None else own
        if place in (HOPS, LINK):
            per_bit = self.cores.noc.pj_per_bit_hop if place == HOPS else self.links.pj_per_bit
            price = math.nan if per_bit is None else per_bit * BYTE
            return 0.0 if level == LINK_RECEIVED else price
        if place == SHARED and self.prices.shared_pj_per_byte is not None:
            return self.prices.shared_pj_per_byte
        of_place = "buffer" if place == SHARED else place
        return getattr(self.prices, f"{of_place}_pj_per_byte", 0.0) or 0.0

    @cached_property
    def read_rate(self) -> Rate:
        """Bytes per cycle of the buffer's read port."""
        return rate(self.buffer.read_bytes_per_second, self.clock_hz)

    @cached_property
    def write_rate(self) -> Rate:
        """Bytes per cycle of the buffer's write port."""
        return rate(self.buffer.write_bytes_per_second, self.clock_hz)

    def bytes_per_cycle(self, kinds: Iterable[str] = ("",)) -> Fraction | None:
        """Return the peak bytes per cycle of the memories of classes of tensors; None: no limit."""
        found = Fraction(0)
        for memory in {self.memory(kind) for kind in kinds}:
            backing = self.every_backing[memory]
            if (each := backing.channel_rate).unlimited:
                return None
            found += Fraction(each.n_bytes * backing.dram.channels, each.n_cycles)
        return found

    @cached_property
    def channel_rate(self) -> Rate:
        """Bytes per cycle of a DRAM channel; with a part at most its peak less refreshes."""
        given = rate(self.dram.bandwidth_bytes_per_second, self.clock_hz, self.dram.channels)
        if self.dram.model != "banked":
            return given
        (n_bytes, clocks), cycles = self.dram.stream, self._part_rate
        most = Fraction(n_bytes * cycles.n_bytes, clocks * cycles.n_cycles)
        return min(given, Rate(most.numerator, most.denominator), key=Rate.exact)

    @cached_property
    def channel_read_rate(self) -> Rate:
        """Bytes per cycle of loads on one DRAM channel: at most those in flight per latency."""
        n_bytes, latency = self.dram.in_flight_bytes, self.dram.latency_cycles
        if n_bytes is None or latency == 0:
            return self.channel_rate
        limit = rate(n_bytes, latency, self.dram.channels)
        return min(self.channel_rate, limit, key=Rate.exact)

    def transfer_cycles(
        self, n_bytes: Amount, rows: TileRows | None, *, write: bool, channel: int = 0
    ) -> Amount:
        """Return the cycles of a DRAM channel for its share of a transfer.

        ``rows``: the tile's rows in DRAM; None: its bytes are contiguous.
        """
        rate = self.channel_rate if write else self.channel_read_rate
        share = self.dram.channel_bytes(n_bytes, channel)
        cycles = rate.cycles(share)
        if self.dram.model == "channel":
            return cycles
        if self.dram.model == "requests":
            request_cycles = self.dram.request_cycles(n_bytes, rows_of_transfer(n_bytes, rows))
        else:
            clocks = self.dram.bank_clocks(share, rows_of_transfer(n_bytes, rows), write=write)
            request_cycles = self._part_rate.cycles(clocks)
        return larger(cycles, request_cycles)

    def batch_cycles(self, *, write: bool) -> int:
        """Return the cycles of a batch of ``dram.batch_bytes`` in one direction on each channel."""
        n_bytes = self.dram.batch_bytes * self.dram.channels
        if self.dram.model != "banked":
            rate = self.channel_rate if write else self.channel_read_rate
            return max(1, rate.cycles(self.dram.batch_bytes))
        return max(1, self.transfer_cycles(n_bytes, None, write=write))

    @cached_property
    def _part_rate(self) -> Rate:
        """The ratio of the DRAM part's clock to the accelerator's, which turns clocks to cycles."""
        return rate(10**12, self.clock_hz, self.dram.part.clock_ps if self.dram.part else 1)

    @property
    def waits_for_requests(self) -> bool:
        """Whether requests in flight limit loads more than the bandwidth does."""
        return self.channel_read_rate is not self.channel_rate

    @cached_property
    def array_in_rate(self) -> Rate:
        """Bytes per cycle from the buffer to one array."""
        return self.noc.distribution.rate(self.array.rows, self.array.cols)

    @cached_property
    def array_out_rate(self) -> Rate:
        """Bytes per cycle from one array to the buffer."""
        return self.noc.collection.rate(self.array.rows, self.array.cols)

    @cached_property
    def distribution_rate(self) -> Rate:
        """Bytes per cycle from the buffer to all arrays."""
        return self.array_in_rate.times(self.array.count)

    @cached_property
    def collection_rate(self) -> Rate:
        """Bytes per cycle from all arrays to the buffer."""
        return self.array_out_rate.times(self.array.count)

    @cached_property
    def lead_latency_cycles(self) -> int:
        """Cycles of the first operand word of a GEMM in the distribution pipe."""
        return self.noc.distribution.latency_cycles(self.array.rows, self.array.cols)

    @cached_property
    def tail_latency_cycles(self) -> int:
        """Cycles of the last output word of a GEMM in the collection pipe."""
        return self.noc.collection.latency_cycles(self.array.rows, self.array.cols)

    def seconds(self, cycles: int) -> float:
        """Return the duration of ``cycles`` in seconds."""
        return cycles / self.clock_hz
