"""Timeloop architectures (`architecture: {subtree: ...}` or `{nodes: ...}`) as accelerators.

Taken over, as far as simaccel has such levels: the DRAM with its bandwidth, one buffer before the
first fan-out, the PEs as rows and columns (`meshX`), the memories of a PE, and several MACs in a PE
as lanes; roles that a constraint in the file bypasses. A bandwidth is words a cycle of `word-bits`;
a clock comes from `global_cycle_seconds`, and is 1 GHz without it. Amounts may be products of whole
numbers and of the file's `variables`. Fan-outs take no time and energy counts nothing: Timeloop
asks Accelergy, whose tables aren't in the file. What has no counterpart is named in `source`;
levels that would change the result are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from simaccel.errors import ABSENT, InputError
from simaccel.files.accounting import AccountEntry, FileAccount, account_keys, split_names
from simaccel.hardware.levels import ROLES, Role
from simaccel.importers.file_kinds import accelerator_name
from simaccel.importers.timeloop.parts import (
    CONSTRAINTS,
    LOOPS,
    SECONDS,
    SPELLINGS,
    TimeloopPart,
    TimeloopReading,
    role_of,
)

_CLOCK_HZ: Final = 10**9
_BITS: Final = 8
_FASTEST: Final = 1e-12
_TAKEN: Final = split_names("entries sizeKB instances name class subclass").union(
    SECONDS, *SPELLINGS.values()
)
_HARMLESS: Final = {
    **dict.fromkeys(("technology", "node"), "energies and areas depend on it"),
    **dict.fromkeys(("type", "tag"), "a kind"),
}
_RATES: Final = ("read_bandwidth", "write_bandwidth", "shared_bandwidth")


def is_architecture(document: Mapping[str, Any]) -> bool:
    """Return whether a document holds a Timeloop architecture."""
    return "array" not in document and ("architecture" in document or "arch" in document)


def read_timeloop(document: Mapping[str, Any], file: str) -> tuple[dict[str, Any], FileAccount]:
    """Return the document of an accelerator, and the account of the architecture's parts.

    Raises:
        InputError: all that can't be modelled.
    """
    reading = TimeloopReading(document, file)
    made = _arrange(reading, reading.parts())
    fields = {} if made is None else made.document()
    if reading.faults or made is None:
        raise InputError(reading.faults)
    return fields, FileAccount(file, tuple(made.entries()))


def _arrange(reading: TimeloopReading, parts: Sequence[TimeloopPart]) -> _Architecture | None:
    """Return the parts by the level that they become; None with faults."""
    faulty = bool(reading.faults)
    drams = [part for part in parts if part.of == "dram"]
    macs = [part for part in parts if part.of == "compute"]
    for what, known in (("DRAM", drams), ("MAC (class intmac)", macs)):
        if len(known) != 1 and not faulty:
            names = ", ".join(part.name for part in known) or ABSENT
            reading.refuse("architecture", names, f"one {what}")
    if reading.faults:
        return None
    left = {part.name: "neither a memory nor a MAC" for part in parts if part.of == "other"}
    storages = []
    for part in (storage for storage in parts if storage.of == "storage"):
        if part.keeps == frozenset() or part.name.lower().startswith("dummy"):
            left[part.name] = "holds nothing; it only splits the fan-out"
        else:
            storages.append(part)
    outer = [storage for storage in storages if storage.instances == 1 and macs[0].instances > 1]
    inner = [storage for storage in storages if storage not in outer]
    if len(outer) > 1:
        names = ", ".join(storage.name for storage in outer)
        reading.refuse("architecture", names, "one buffer between DRAM and PEs")
    pes, columns = _fan(reading, inner, macs[0])
    memories = {} if reading.faults else _memories(reading, inner, left)
    buffer = outer[0] if outer else None
    return _Architecture(reading, drams[0], buffer, memories, macs[0], pes, columns, left)


def _fan(
    reading: TimeloopReading, inner: Sequence[TimeloopPart], macs: TimeloopPart
) -> tuple[int, int]:
    """Return (number of PEs, number of their columns)."""
    first = inner[0] if inner else macs
    pes, columns = first.instances, first.columns or macs.columns or first.instances
    for part in inner:
        if part.instances != pes:
            value = f"{part.instances} of them, {pes} of {first.name}"
            reading.refuse(part.path, value, "memories of one PE, as many of one as of another")
    for number, of, value in (
        (pes, columns, f"{pes} PEs, meshX {columns}"),
        (macs.instances, pes, f"{macs.instances} MACs, {pes} PEs"),
    ):
        if number % of:
            reading.refuse(first.path, value, "whole rows of whole PEs")
    return pes, columns


def _memories(
    reading: TimeloopReading, inner: Sequence[TimeloopPart], left: dict[str, str]
) -> dict[Role, TimeloopPart]:
    """Return the memory of each role in a PE; registers of one word go to ``left``."""
    parts: dict[Role, TimeloopPart] = {}
    for part in inner:
        named = role_of(part.name)
        kept = part.keeps
        if kept is None:
            kept = frozenset({named} if named and len(inner) > 1 else ROLES)
        for role in sorted(kept):
            other = parts.get(role)
            if other is None:
                parts[role] = part
            elif 1 in (words := (_words(reading, other), _words(reading, part))):
                gone = part if words[1] == 1 else other
                parts[role] = other if gone is part else part
                left[gone.name] = "a register of one word beside another memory"
            else:
                names = f"{other.name} and {part.name}"
                what = f"one memory of a PE for {role}s, by their names or a constraint"
                reading.refuse(part.path, names, what)
    shared = {part.path for part in parts.values() if [*parts.values()].count(part) > 1}
    if shared and len(parts) < len(ROLES):
        what = "memories of a PE that keep one role each, or together all"
        reading.refuse(min(shared), f"keeps {' and '.join(parts)}", what)
    return parts


def _words(reading: TimeloopReading, part: TimeloopPart) -> int | None:
    if (entries := reading.amount(part, "entries")) is not None:
        return entries
    bits, word = _capacity_bits(reading, part), reading.amount(part, "word_bits")
    return bits and word and bits // word


def _capacity_bits(reading: TimeloopReading, part: TimeloopPart) -> int | None:
    """Return the size of a memory in bits; None if the file doesn't have it."""
    amounts = {
        name: reading.amount(part, name)
        for name in ("depth", "width", "word_bits", "block_size", "entries", "sizeKB")
    }
    depth, width, word = amounts["depth"], amounts["width"], amounts["word_bits"]
    if amounts["sizeKB"] is not None:
        return amounts["sizeKB"] * 1024 * _BITS
    if amounts["entries"] is not None:
        return word and amounts["entries"] * word
    if depth is None or (width is None and word is None):
        return None
    return depth * (width or (word or 1) * (amounts["block_size"] or 1))


_NUMBERS: Final = {4: "int4", 8: "int8", 16: "int16", 32: "int32"}
"""Number formats by bits; for other formats users have `--precision` and `precision`."""


@dataclass
class _Architecture:
    """The parts of an architecture by the level of an accelerator that they become.

    ``left``: why others become none, by name.
    """

    reading: TimeloopReading
    dram: TimeloopPart
    buffer: TimeloopPart | None
    memories: dict[Role, TimeloopPart]
    macs: TimeloopPart
    pes: int
    columns: int
    left: dict[str, str]

    def document(self) -> dict[str, Any]:
        """Return the document of the accelerator."""
        path, buffer = Path(self.reading.file), self.buffer
        source = f"Timeloop architecture {path.name}"
        other = f"{source}: not described there, so not limited"
        pipe = {"topology": "unlimited", "link_bytes_per_cycle": 2, "hop_cycles": 0}
        rows, lanes = self.pes // self.columns, self.macs.instances // self.pes
        lane = f" of {lanes} MACs" if lanes > 1 else ""
        clock = self._clock()
        kept = buffer.keeps if buffer is not None else frozenset()
        bypassed = [] if kept is None else [role for role in ROLES if role not in kept]
        document = {
            "name": accelerator_name(path),
            "description": f"{rows} x {self.columns} PEs{lane} of a Timeloop architecture",
            "clock_hz": clock,
            "array": {
                "kind": "spatial",
                "rows": rows,
                "cols": self.columns,
                "lanes": lanes,
                "memories": self._memories(source),
                "bypass_buffer": bypassed,
                "source": source,
            },
            "buffer": {
                "capacity_bytes": self._bytes(buffer) if buffer else "unlimited",
                "read_bytes_per_second": self._rate(buffer, "read", clock),
                "write_bytes_per_second": self._rate(buffer, "write", clock),
                "source": source if buffer else f"{source} has none",
            },
            "noc": {"source": other, "distribution": pipe, "collection": pipe},
            "sfu": {"lanes": self.columns, "source": f"{source} has none: a lane per column"},
            "dram": {"bandwidth_bytes_per_second": self._dram(clock), "source": source},
            **self._precision(source),
            "energy": {
                "known": False,
                "source": f"{source}: energy is Accelergy's, not described there",
            },
        }
        left = [f"{part.name} ({part.why})" for part in self.entries() if part.how == "not taken"]
        document["source"] = source + (f". Not taken over: {'; '.join(left)}" if left else "")
        return document

    def _clock(self) -> int:
        variables = self.reading.variables
        attributes = {**variables, **self.macs.attributes}
        name = next((name for name in SECONDS if name in attributes), "")
        if not name:
            return _CLOCK_HZ
        seconds = attributes[name]
        seconds = variables.get(seconds, seconds) if isinstance(seconds, str) else seconds
        with suppress(ValueError, TypeError):
            if _FASTEST <= float(seconds) <= 1:  # 1e-9 is text in YAML 1.1
                return round(1 / float(seconds))
        path = f"{self.macs.path}.attributes.{name}"
        self.reading.refuse(path, seconds, "seconds such as 1.0e-9")
        return _CLOCK_HZ

    def _memories(self, source: str) -> dict[str, Any]:
        sections: dict[str, Any] = {"source": source}
        for role, part in self.memories.items():
            several = [*self.memories.values()].count(part) > 1
            sections["shared" if several else role] = {
                "capacity_bytes": self._bytes(part),
                "read_pj_per_byte": 0.0,
                "write_pj_per_byte": 0.0,
            }
        return sections

    def _bytes(self, part: TimeloopPart) -> int:
        bits = _capacity_bits(self.reading, part)
        if bits is None:
            allowed = "a size: depth and width (or word-bits and block-size), or entries"
            self.reading.refuse(f"{part.path}.attributes", part.name, allowed)
        return max(1, (bits or _BITS) // _BITS)

    def _rate(self, part: TimeloopPart | None, way: str, clock: int) -> int | str:
        """Return a part's bandwidth in bytes per second, from its words per cycle."""
        if part is None or (words := self.reading.amount(part, f"{way}_bandwidth")) is None:
            return "unlimited"
        bits = self.reading.amount(part, "word_bits")
        if bits is None:
            self.reading.refuse(f"{part.path}.attributes.word-bits", ABSENT, "bits of a word")
            return "unlimited"
        return words * bits * clock // _BITS

    def _dram(self, clock: int) -> int | str:
        """Return the DRAM's bandwidth in bytes per second; of two directions the larger one."""
        rates = [self._rate(self.dram, way, clock) for way in ("shared", "read", "write")]
        known = [rate for rate in rates if isinstance(rate, int)]
        return rates[0] if rates[0] in known else max(known, default="unlimited")

    def _precision(self, source: str) -> dict[str, Any]:
        """Return the number formats of elements, as wide as the DRAM's words, if there is one."""
        bits = self.reading.amount(self.dram, "word_bits")
        number = _NUMBERS.get(bits or 0)
        if number is None:
            return {}
        numbers = dict.fromkeys(("weights", "activations", "cache"), number)
        return {"precision": {**numbers, "source": f"{source}: words of {bits} bits in the DRAM"}}

    def entries(self) -> Iterator[AccountEntry]:
        """Yield the account entry of each part, attribute and section."""
        for name, why in self.left.items():
            yield AccountEntry(name, "not taken", why, "component")
        own = [self.dram, *([self.buffer] if self.buffer else [])]
        memories = {memory.path: memory for memory in self.memories.values()}
        for part in (*own, *memories.values(), self.macs):
            yield AccountEntry(part.name, "taken", part.of, "component")
            taken = _TAKEN | (set(_RATES) if part in own else set())
            yield from account_keys(part.attributes, taken, _HARMLESS, within=part.name, macs=0)
        yield from self.reading.left.values()
        for name in map(str, self.reading.document):
            if name in ("architecture", "arch"):
                yield AccountEntry(name, "taken", "read")
            elif name in ("problem", "version"):
                yield AccountEntry(name, "harmless", "no part of the architecture")
            elif name == "sparse_optimizations":
                yield AccountEntry(name, "not taken", "sparsity is not modelled", macs=None)
            elif name == "variables" and self.reading.variables:
                harmless = {**_HARMLESS, "version": "of the format"}
                used = (*SECONDS, *self.reading.used)
                yield from account_keys(self.reading.variables, used, harmless, within=name, macs=0)
            else:
                yield AccountEntry(name, "not taken", LOOPS if name in CONSTRAINTS else "not read")
