"""Links between equal chips, and the shape in which chips are linked."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from simaccel.hardware.quantity import (
    Bytes,
    BytesPerSecond,
    Count,
    Cycles,
    Picojoules,
    Rate,
    rate,
)
from simaccel.hardware.spec import Spec

LinkTopology = Literal["ring", "torus", "all_to_all", "switch"]
MOST_CHIPS: Final = 4096
ONE_CHIP: Final = (1,)
"""The shape of a single chip."""
_MOST_DIMENSIONS: Final = 6
_UNLIMITED: Final = 10**18
"""Bytes per second of unlimited links, where they are compared with a network's."""
REPLACED_CHIPS: Final = {
    "chips.count": "chips: a number of chips, or their shape such as 4x4x4",
    "chips.shape": "chips: a number of chips, or their shape such as 4x4x4",
    "chips.topology": "links.topology, and links.dimensions of a torus",
    "chips.link_bytes_per_second": "links.bytes_per_second",
    "chips.links_per_direction": "links.per_direction",
    "chips.latency_cycles": "links.hop_cycles",
    "chips.algorithm": "nothing: links.topology says how collectives go",
    "chips.chunk_bytes": "links.chunk_bytes",
    "chips.pj_per_bit": "links.pj_per_bit",
}
"""Fields of the former section ``chips``, and their replacements."""
LINK_SENT: Final = "link_write"
LINK_RECEIVED: Final = "link_read"
"""Levels and directions of the bytes that a chip sends and receives."""
_SHAPE: Final = re.compile(r"[1-9][0-9]{0,3}(?:x[1-9][0-9]{0,3})*")
_SHAPES: Final = (
    f"a number of chips, or their shape such as 4x4x4, at most {MOST_CHIPS} in all and "
    f"{_MOST_DIMENSIONS} dimensions; how they are linked is the section links"
)


def _read_shape(value: object) -> tuple[int, ...]:
    """Parse a number of chips or a shape: ``4x4``, or a list of sizes."""
    if isinstance(value, list | tuple):
        is_whole = all(isinstance(n, int) and not isinstance(n, bool) for n in value)
        value = "x".join(map(str, value)) if is_whole else None
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    sizes = tuple(map(int, text.split("x"))) if _SHAPE.fullmatch(text) else ()
    if not sizes or len(sizes) > _MOST_DIMENSIONS or math.prod(sizes) > MOST_CHIPS:
        raise ValueError(_SHAPES)
    return sizes


def shape_text(shape: tuple[int, ...]) -> str:
    """Return a shape as text.

    >>> shape_text((4, 4, 4))
    '4x4x4'
    """
    return "x".join(map(str, shape))


def _dump_shape(shape: tuple[int, ...]) -> int | str:
    return shape[0] if len(shape) == 1 else shape_text(shape)


ChipShape = Annotated[tuple[int, ...], BeforeValidator(_read_shape), PlainSerializer(_dump_shape)]
"""Chips per dimension; of a number alone the links choose the shape."""


class LinksSpec(Spec):
    """Links of a chip: their topology, number and bandwidth.

    ``per_direction`` links of ``bytes_per_second`` (one way) lead to each neighbour: in a ring or
    torus the two in each of ``dimensions``, all to all every other chip, with a switch the switch.
    ``efficiency``: the share of the bandwidth that data get. A dimension is a ring if its size is a
    multiple of ``closes_at``, else a line. A message or collective arrives ``start_cycles``, and
    ``hop_cycles`` per hop, after its bytes have left.

    ``chunk_bytes``: bytes of a tensor that are in a chip's buffer at once; by default enough that
    chunks follow one another without waiting (`Exchange.chunks`). ``overlap``: collectives run
    beside the cores, tile by tile if groups write or read the tensor so; else cores wait for them.
    ``network_bytes_per_second``: of a chip to a network between slices of chips, one way; a message
    there takes ``network_start_cycles``.
    """

    OMITTED: ClassVar = ("dimensions", "closes_at", "efficiency", "overlap", "network_start_cycles")
    WRITTEN: ClassVar = ("bytes_per_second",)
    REPLACED: ClassVar[Mapping[str, str]] = {
        "latency_cycles": "hop_cycles",
        "algorithm": "nothing: the topology says how collectives go",
    }

    topology: LinkTopology = "ring"
    dimensions: Count = 1
    closes_at: Count = 1
    bytes_per_second: BytesPerSecond = None
    per_direction: Count = 1
    efficiency: Annotated[float, Field(gt=0, le=1)] = 1.0
    start_cycles: Cycles = 0
    hop_cycles: Cycles = 0
    chunk_bytes: Bytes | None = None
    overlap: bool = False
    network_bytes_per_second: BytesPerSecond = None
    network_start_cycles: Cycles = 0
    pj_per_bit: Picojoules | None = None

    def _impossible(self) -> Iterator[tuple[str, str]]:
        if self.closes_at > 1 and self.topology not in ("ring", "torus"):
            yield "closes_at", "1, or more of a ring or torus"
        if self.has_network and self.topology not in ("ring", "torus"):
            yield "network_bytes_per_second", "nothing, or that of slices of a ring or torus"
        if self.network_start_cycles and not self.has_network:
            yield "network_start_cycles", "0, without network_bytes_per_second"
        if self.dimensions > (_MOST_DIMENSIONS if self.topology == "torus" else 1):
            yield "dimensions", f"1, or up to {_MOST_DIMENSIONS} of a torus"

    @property
    def given(self) -> bool:
        """Whether a bandwidth is given, possibly unlimited."""
        return "bytes_per_second" in self.model_fields_set

    @property
    def has_network(self) -> bool:
        """Whether a network between slices is given."""
        return self.network_bytes_per_second is not None

    @property
    def network_share(self) -> Fraction:
        """Bandwidth of a chip to the network as a share of a link's."""
        link = self._link_bytes_per_second
        return Fraction(self.network_bytes_per_second or 0, link or _UNLIMITED)

    def rate(self, clock_hz: int) -> Rate:
        """Return the bytes per cycle from a chip to one neighbour."""
        return rate(self._link_bytes_per_second, clock_hz)

    @property
    def _link_bytes_per_second(self) -> int | None:
        """Bandwidth of all links to a neighbour, one way; None: unlimited."""
        if self.bytes_per_second is None:
            return None
        return max(1, round(self.bytes_per_second * self.per_direction * self.efficiency))

    def closes(self, size: int) -> bool:
        """Return whether a dimension of ``size`` chips is a ring.

        >>> LinksSpec(topology="torus", closes_at=4).closes(8)
        True
        """
        return size % self.closes_at == 0

    def wrong_shape(self, shape: tuple[int, ...]) -> str:
        """Return what is allowed in place of a wrong shape of chips; empty if it is right.

        >>> LinksSpec(topology="torus", dimensions=2, bytes_per_second=1).wrong_shape((2, 2, 2))
        'a number of chips, or a shape of at most 2 dimensions (links.dimensions)'
        """
        count = math.prod(shape)
        if count == 1:
            return ""
        if not self.given:
            return "1, without a section links: links.bytes_per_second is the least of it"
        most = self.dimensions
        if self.has_network and len(shape) == most + 1:
            return ""
        if len([n for n in shape if n > 1]) > most:
            slices = ", and slices before them" if self.has_network else ""
            return (
                f"a number of chips, or a shape of at most {most} dimensions (links.dimensions)"
                f"{slices}"
            )
        return ""

    def shape(self, chips: tuple[int, ...]) -> tuple[int, ...]:
        """Return the sizes of the chips' dimensions; of a number alone those nearest to a cube.

        >>> LinksSpec(topology="torus", dimensions=3).shape((32,))
        (2, 4, 4)
        """
        if self.has_network and len(chips) == self.dimensions + 1:
            return chips
        if self.topology != "torus":
            return (math.prod(chips),)
        if len(chips) > 1:
            return chips
        return min(_factorisations(chips[0], self.dimensions), key=max)


def _factorisations(number: int, factors: int, least: int = 1) -> Iterator[tuple[int, ...]]:
    """Yield all factorisations of a number into ``factors`` ascending factors."""
    if factors == 1:
        yield (number,)
        return
    for first in range(least, number + 1):
        if first**factors > number:
            return
        if number % first == 0:
            for rest in _factorisations(number // first, factors - 1, first):
                yield (first, *rest)


def follow_topology(raw: dict[str, Any], replaced: Collection[str]) -> None:
    """Remove from a document fields of links and chips that belong to a replaced topology."""
    links = raw.get("links")
    if "links.topology" not in replaced or not isinstance(links, dict):
        return
    if "links.dimensions" not in replaced and links["topology"] != "torus":
        links.pop("dimensions", None)
        if "chips" not in replaced and "chips" in raw:
            with suppress(ValueError):
                raw["chips"] = math.prod(_read_shape(raw["chips"]))
    if "links.closes_at" not in replaced and links["topology"] not in ("ring", "torus"):
        links.pop("closes_at", None)
