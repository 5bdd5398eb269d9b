"""Mappings: what a scheduler decides, as plain data that is saved and loaded."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from simaccel.hardware import Stationarity
from simaccel.hardware.levels import Role

Size = Annotated[int, Field(strict=True, ge=1)]
Slots = Annotated[int, Field(strict=True, ge=1, le=64)]
Order = Literal["mkn", "mnk", "kmn", "knm", "nmk", "nkm"]
ORDERS: tuple[Order, ...] = ("mkn", "mnk", "kmn", "knm", "nmk", "nkm")


class Choice(BaseModel):
    """What all mappings share: frozen, and nothing unknown is accepted."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class GemmMapping(Choice):
    """One GEMM out[g, m, n] += a[g, m, k] b[g, k, n] between DRAM, buffer and array.

    ``m``, ``k``, ``n`` are the tile sizes in the buffer (the last tile of a rank may be
    smaller), ``order`` the loops over tiles from the outermost to the innermost (g is outside
    them), ``stationarity`` what the array holds. ``*_slots``: slots per tile.
    """

    m: Size
    k: Size
    n: Size
    order: Order
    stationarity: Stationarity
    a_slots: Slots = 2
    b_slots: Slots = 2
    out_slots: Slots = 2


class SoftmaxMapping(Choice):
    """Softmax by blocks of ``rows`` rows and ``cols`` of their columns.

    With fewer columns than the row has, rows are read twice: for their statistics, then to
    be normalised.
    """

    rows: Size
    cols: Size
    slots: Slots = 2


class GemmGroup(Choice):
    """One einsum on its own."""

    kind: Literal["gemm"] = "gemm"
    operator: str
    mapping: GemmMapping


class SoftmaxGroup(Choice):
    """One softmax on its own."""

    kind: Literal["softmax"] = "softmax"
    operator: str
    mapping: SoftmaxMapping


class StagedGroup(Choice):
    """L, softmax and A one after the other (Flex), part of the intermediate kept on chip.

    ``resident_rows`` of the B*H*N rows of the intermediate stay in the buffer from L to A;
    the rest is spilled to DRAM.
    """

    kind: Literal["staged"] = "staged"
    operators: tuple[str, str, str]
    logit: GemmMapping
    softmax: SoftmaxMapping
    attend: GemmMapping
    resident_rows: Annotated[int, Field(strict=True, ge=0)] = 0


class FusedMapping(Choice):
    """L, softmax and A fused (FLAT, section 5): one FLAT-tile after the other.

    A FLAT-tile holds ``rows`` rows of ``heads`` heads (heads of all samples in a row, so B
    granularity is a multiple of H). ``keys`` < N: K and V are tiled over the keys and
    streamed for each row block. ``online``: key tiles with online softmax (beyond FLAT).
    ``pipelined``: L of the next FLAT-tile runs before A of this one.
    """

    heads: Size = 1
    rows: Size
    keys: Size
    online: bool = False
    pipelined: bool = False
    logit_stationarity: Stationarity
    attend_stationarity: Stationarity
    in_slots: Slots = 2
    out_slots: Slots = 2
    tile_slots: Slots = 1


class FusedGroup(Choice):
    """L, softmax and A as one operator."""

    kind: Literal["fused"] = "fused"
    operators: tuple[str, str, str]
    mapping: FusedMapping


class NestLevel(Choice):
    """What one level of a hierarchy does: ``factors`` by rank, 1 where a rank is not named.

    A temporal level also has the ``order`` of its loops, outer to inner (ranks that are not named
    come inside in the einsum's order), the roles that it keeps, and the slots of their tiles, 1
    where not given.
    """

    level: str
    factors: dict[str, Size] = Field(default_factory=dict)
    order: tuple[str, ...] = ()
    keep: tuple[Role, ...] = ()
    slots: dict[Role, Slots] = Field(default_factory=dict)


class NestMapping(Choice):
    """One einsum on a hierarchy of levels, outermost first, remainders allowed (Ruby, equation 5).

    A factor is the number of pieces that a level makes of a tile, of the last one perhaps fewer.
    The outermost level takes what the others leave, so it has no factors. ``padded`` are the
    sizes of ranks that are run as though they were longer.
    """

    levels: tuple[NestLevel, ...]
    padded: dict[str, Size] = Field(default_factory=dict)


class NestGroup(Choice):
    """One einsum on a spatial array."""

    kind: Literal["nest"] = "nest"
    operator: str
    mapping: NestMapping


Group = Annotated[
    GemmGroup | SoftmaxGroup | StagedGroup | FusedGroup | NestGroup, Field(discriminator="kind")
]


class WorkloadReference(Choice):
    """Which workload a mapping is for."""

    name: str
    fingerprint: str


class Mapping(Choice):
    """A whole workload's mapping: its groups in order of execution."""

    workload: WorkloadReference
    dataflow: str
    groups: tuple[Group, ...]
