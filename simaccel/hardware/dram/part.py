"""A DRAM part: organisation and timings of one channel, from its standard or data sheet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from simaccel.hardware.spec import Spec

Clocks = Annotated[int, Field(ge=0, le=2**20)]
Positive = Annotated[int, Field(ge=1, le=2**20)]

OTHERS: Final = "others"
"""The key in ``origins`` for all fields without an entry."""


def _pairs(origins: object) -> object:
    """Return the origins of a file as pairs (fields, origin)."""
    return tuple(origins.items()) if isinstance(origins, Mapping) else origins


class DramPart(Spec):
    """One channel of a DRAM part. Timings are in its own command clocks of ``clock_ps``.

    A request is one burst of ``burst_bytes``. ``ranks`` counts those of a channel; ``bank_groups``
    those of a rank (and pseudo channel); ``rows`` those of a bank. Ranks share the data bus; pseudo
    channels have one each and share the command bus. Timings have JEDEC's names without the t.
    """

    name: str
    clock_ps: Clocks
    burst_bytes: Positive
    page_bytes: Positive
    rows: Positive
    bank_groups: Positive = 1
    banks_per_group: Positive
    ranks: Positive = 1
    pseudo_channels: Positive = 1
    dual_command: bool = False
    """Whether a row and a column command may be issued in one clock, as in HBM."""

    controller: Literal["banks", "window"] = "banks"
    """The memory controller that the part is measured with (`validation/dram`)."""

    stream_permille: Annotated[int, Field(ge=1, le=1000)]
    """Throughput of one sequential stream of reads in thousandths of the peak, with refreshes."""

    burst: Clocks
    """Clocks of the data bus for one burst."""
    read_latency: Clocks
    write_latency: Clocks
    rcd_read: Clocks
    rcd_write: Clocks
    rp: Clocks
    ras: Clocks
    rrd_s: Clocks
    rrd_l: Clocks
    faw: Clocks
    ccd_s: Clocks
    ccd_l: Clocks
    ccd_l_write: Clocks
    wtr_s: Clocks
    wtr_l: Clocks
    rtrs: Clocks
    """Clocks between a read's data and a write's, and between two ranks' data."""
    wr: Clocks
    rtp: Clocks
    rfc: Clocks
    """Clocks of a refresh of all banks of a rank."""
    refi: Clocks
    origins: Annotated[tuple[tuple[str, str], ...], BeforeValidator(_pairs)] = ()
    """Pairs (fields separated by blanks, or `others`; the source of their figures)."""

    @property
    def default_map(self) -> str:
        """The default address map; it interleaves bank groups, if there are any."""
        return "bgil" if self.bank_groups > 1 else "rbc"

    @property
    def rc(self) -> int:
        """Clocks from one activate of a bank to the next."""
        return self.ras + self.rp

    @property
    def units(self) -> int:
        """Ranks x pseudo channels: the units that refresh at once and have an activate window."""
        return self.ranks * self.pseudo_channels

    @property
    def banks(self) -> int:
        """Banks of a channel."""
        return self.units * self.bank_groups * self.banks_per_group

    @property
    def peak_bytes_per_second(self) -> int:
        """Bandwidth of the channel with all its data buses busy."""
        return self.pseudo_channels * self.burst_bytes * 10**12 // (self.burst * self.clock_ps)

    @property
    def stream_bytes_per_second(self) -> int:
        """Bandwidth of one sequential stream of reads."""
        return self.peak_bytes_per_second * self.stream_permille // 1000

    @property
    def capacity_bytes(self) -> int:
        """Bytes of all rows of all banks of the channel.

        >>> from simaccel.hardware.dram.parts import PARTS
        >>> [PARTS[p].capacity_bytes // 2**20 for p in ("DDR4-3200x64", "HBM2", "HBM3")]
        [8192, 1024, 512]
        """
        return self.rows_of_all_banks * self.rows

    @property
    def turnaround(self) -> int:
        """Idle clocks of the data bus for a change from reading to writing and back.

        Less a read and a write burst, the commands are ``read_latency + burst + rtrs -
        write_latency`` and ``write_latency + burst + wtr_s`` apart.

        >>> from simaccel.hardware.dram.parts import PARTS
        >>> [PARTS[p].turnaround for p in ("LPDDR4-3200x16", "DDR4-3200x64", "HBM2")]
        [46, 27, 22]
        """
        return self.read_latency + self.rtrs + self.wtr_s

    @property
    def rows_of_all_banks(self) -> int:
        """Bytes of one row in every bank."""
        return self.page_bytes * self.banks

    def origin(self, field: str) -> str:
        """Return the source of a figure."""
        if field == "stream_permille":
            return f"measured: simaccel dram measured --part {self.name}"
        origins = {name: origin for names, origin in self.origins for name in names.split()}
        return origins.get(field) or origins.get(OTHERS, "")


_FIELDS = list(DramPart.model_fields)
TIMINGS: Final = _FIELDS[_FIELDS.index("burst") : _FIELDS.index("refi") + 1]
"""The fields of a part in clocks, named as by JEDEC without the t."""
