"""SCALE-Sim configurations (`.cfg`) as accelerators.

Taken over: the array's sides and its dataflow; a fold is preload, stream and skew with nothing
after it; words of one byte, as the tool has them (scalesim/single_layer_sim.py), at a clock of 1
GHz, which it hasn't got. So the array's cycles are the tool's own.

With `InterfaceBandwidth: CALC` nothing waits for a memory there, whatever its size, so that buffer
and DRAM are unlimited here. With `USER` the three memories together are the buffer, the interface
of the filters is a memory beside the DRAM with their part of the buffer, and those of IFMAP and
OFMAP together are the DRAM. Every other field is accounted for; energies are unknown.
"""

from __future__ import annotations

import configparser
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from simaccel.errors import ABSENT, Fault, InputError, require_none, suggest
from simaccel.files.accounting import AccountEntry, FileAccount, account_keys
from simaccel.files.documents import read_text
from simaccel.hardware.fold_grid import STATIONARITIES
from simaccel.hardware.quantity import MAX_COUNT
from simaccel.importers.file_kinds import accelerator_name

_PRESETS: Final = "architecture_presets"
_SIDES: Final = ("ArrayHeight", "ArrayWidth")
_MEMORIES: Final = ("IfmapSramSzkB", "FilterSramSzkB", "OfmapSramSzkB")
_CLOCK_HZ: Final = 10**9
_MODES: Final = ("CALC", "USER")
_KNOWN: Final = ("general", _PRESETS, "run_presets")
_INTERFACES: Final = 3
_ADDRESS: Final = "an address: no figure depends on it"
_UNREAD: Final = "SCALE-Sim does not use it"
_QUEUES: Final = "only traces for Ramulator depend on it"
_HARMLESS: Final[Mapping[str, Mapping[str, str]]] = {
    "general": {"run_name": "a name"},
    _PRESETS: {
        **dict.fromkeys(("IfmapOffset", "FilterOffset", "OfmapOffset"), _ADDRESS),
        "MemoryBanks": _UNREAD,
        **dict.fromkeys(("ReadRequestBuffer", "WriteRequestBuffer"), _QUEUES),
    },
    "network_presets": {"TopologyCsvLoc": "--workload names the topology"},
}
_OFF: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...], str]]] = {
    "layout": (
        ("IfmapCustomLayout", "FilterCustomLayout"),
        (
            *("IfmapSRAMBankBandwidth", "IfmapSRAMBankNum", "IfmapSRAMBankPort"),
            *("FilterSRAMBankBandwidth", "FilterSRAMBankNum", "FilterSRAMBankPort"),
        ),
        "conflicts of memory banks are not modelled",
    ),
    "sparsity": (
        ("SparsitySupport",),
        ("SparseRep", "SparseAcc", "OptimizedMapping", "BlockSize", "RandomNumberGeneratorSeed"),
        "sparsity is not modelled",
    ),
}
"""Sections that do nothing while their switches are off: switches, others, what is missing then."""
_SWITCHED: Final = {name.lower() for both in _OFF.values() for name in (*both[0], *both[1])}
"""The fields of these, in small letters."""

_NEAR: Final = 0.8
"""Least similarity of a misspelt name to its field."""


def read_scalesim(path: Path) -> tuple[dict[str, Any], FileAccount]:
    """Return the document of an accelerator, and the account of the configuration's fields.

    Raises:
        InputError: the file is no configuration, or lacks a size.
    """
    file, parser = str(path), configparser.ConfigParser(strict=True, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # as they are written
    try:
        parser.read_string(read_text(path, "SCALE-Sim", "utf-8-sig"))
    except configparser.Error as error:
        allowed = "a SCALE-Sim configuration: sections with lines NAME: VALUE"
        raise InputError([Fault(file, "file", str(error).splitlines()[0], allowed)]) from None
    if not parser.has_section(_PRESETS):
        sections = ", ".join(parser.sections()) or ABSENT
        allowed = f"a SCALE-Sim configuration with a section [{_PRESETS}]; {suggest('', _KNOWN)}"
        raise InputError([Fault(file, "sections", sections, allowed)])
    reading = _Reading(file, {name: dict(parser[name]) for name in parser.sections()})
    reading.require_once()
    document = reading.document(path)
    entries = tuple(reading.entries())
    require_none(reading.faults)
    return document, FileAccount(file, entries)


class _Reading:
    """The sections of a file that is being read, and their faults."""

    def __init__(self, file: str, sections: Mapping[str, dict[str, str]]) -> None:
        self.file, self.sections = file, sections
        self.faults: list[Fault] = []

    def require_once(self) -> None:
        """Refuse names that differ only in case, which are the same to SCALE-Sim."""
        for section, values in self.sections.items():
            known: set[str] = set()
            for key in values:
                if key.lower() in known:
                    allowed = "each name once (upper and lower case are the same)"
                    self.faults.append(Fault(self.file, f"{section}.{key}", "again", allowed))
                known.add(key.lower())

    def text(self, section: str, name: str) -> str:
        """Return a value by its name in any case, or by its name in SCALE-Sim 1."""
        values = {key.lower(): value for key, value in self.sections.get(section, {}).items()}
        older = name.lower().removesuffix("kb") if name in _MEMORIES else name.lower()
        return values.get(name.lower(), values.get(older, "")).strip()

    def switch(self, section: str, name: str) -> bool:
        """Return a switch's value, in any of the words that SCALE-Sim accepts."""
        text = self.text(section, name).lower() or "false"
        if text not in configparser.ConfigParser.BOOLEAN_STATES:
            self.faults.append(Fault(self.file, f"{section}.{name}", text, "true or false"))
        return configparser.ConfigParser.BOOLEAN_STATES.get(text, False)

    def choice(self, section: str, name: str, choices: tuple[str, ...], default: str = "") -> str:
        """Return a value that must be one of some choices; another is a fault."""
        text = self.text(section, name) or default
        found = next((one for one in choices if one.lower() == text.lower()), "")
        if not found:
            allowed = f"one of {', '.join(choices)}"
            self.faults.append(Fault(self.file, f"{section}.{name}", text or ABSENT, allowed))
        return found or choices[0]

    def whole(self, name: str, text: str | None = None, most: int = 10**9) -> int:
        """Return an integer of the presets; another value is a fault."""
        text = self.text(_PRESETS, name) if text is None else text.strip()
        if text.isdecimal() and len(text) <= len(str(most)) and 0 < int(text) <= most:
            return int(text)
        allowed = f"a whole number from 1 to {most}"
        near = [] if text else get_close_matches(name, self.sections[_PRESETS], n=1, cutoff=_NEAR)
        allowed += f", as {name}, not {near[0]}" if near else ""
        self.faults.append(Fault(self.file, f"{_PRESETS}.{name}", text or ABSENT, allowed))
        return 1

    @cached_property
    def limits(self) -> bool:
        """Whether memories and their interfaces have limits."""
        return self.choice("run_presets", "InterfaceBandwidth", _MODES, "CALC") == "USER"

    def rates(self) -> list[int]:
        """Return the bytes per second of the interfaces of IFMAP, filters and OFMAP."""
        texts = self.text(_PRESETS, "Bandwidth").split(",")
        if len(texts) not in (1, _INTERFACES):
            allowed = "a number of words per cycle, or three: of IFMAP, filters and OFMAP"
            value = self.text(_PRESETS, "Bandwidth")
            self.faults.append(Fault(self.file, f"{_PRESETS}.Bandwidth", value, allowed))
            return [1] * _INTERFACES
        found = [self.whole("Bandwidth", text, 10**6) * _CLOCK_HZ for text in texts]
        return found if len(found) == _INTERFACES else found * _INTERFACES

    def document(self, path: Path) -> dict[str, Any]:
        """Return the document of the accelerator."""
        source = f"SCALE-Sim configuration {path.name}"
        rows, cols = (self.whole(name, most=MAX_COUNT) for name in _SIDES)
        sizes = [1024 * self.whole(name) for name in _MEMORIES]
        limits = self.limits
        rates = self.rates() if limits else []
        pipe = {"topology": "unlimited", "link_bytes_per_cycle": 1, "hop_cycles": 0}
        dram: dict[str, Any] = {"bandwidth_bytes_per_second": "unlimited", "source": source}
        memories = {}
        if limits:
            dram["bandwidth_bytes_per_second"] = rates[0] + rates[2]
            weight = {"bandwidth_bytes_per_second": rates[1], "staging_bytes": sizes[1]}
            memories = {"memories": {"weight": {**weight, "source": source}, "source": source}}
        return {
            "name": accelerator_name(path),
            "description": f"{rows} x {cols} PEs of a SCALE-Sim file",
            "clock_hz": _CLOCK_HZ,
            "array": {
                "rows": rows,
                "cols": cols,
                "overlap": "none",
                "stationarity": self.choice(_PRESETS, "Dataflow", STATIONARITIES),
                "source": source,
            },
            "buffer": {
                "capacity_bytes": sum(sizes) if limits else "unlimited",
                "read_bytes_per_second": "unlimited",
                "write_bytes_per_second": "unlimited",
                "source": f"{source}: its three memories together, if they are to limit anything",
            },
            "noc": {
                "source": f"{source}: not described there, so not limited",
                "distribution": pipe,
                "collection": pipe,
            },
            "sfu": {"lanes": cols, "source": f"{source} has none: a lane per column"},
            "dram": dram,
            **memories,
            "precision": {
                **dict.fromkeys(("weights", "activations", "cache"), "int8"),
                "source": "SCALE-Sim: words of one byte",
            },
            "energy": {"known": False, "source": f"{source}: no energy is described"},
        }

    def entries(self) -> Iterator[AccountEntry]:
        """Yield the account entry of each field."""
        traced = self.switch("run_presets", "UseRamulatorTrace")
        for section, values in self.sections.items():
            for kind in [section] if section in _OFF else _OFF:
                yield from self._disabled_fields(section, kind)
            if section in _OFF:
                continue
            taken, harmless = self._known_fields(section)
            if traced:
                harmless = {name: why for name, why in harmless.items() if why != _QUEUES}
            names = {name.lower(): name for name in (*taken, *harmless)}
            present = [
                names.get(key.lower(), key) for key in values if key.lower() not in _SWITCHED
            ]
            yield from account_keys(present, taken, harmless, within=section, macs=0)

    def _known_fields(self, section: str) -> tuple[list[str], dict[str, str]]:
        """Return (fields of a section that are read, those that change nothing)."""
        harmless = dict(_HARMLESS.get(section, {}))
        if section == "run_presets":
            traced = self.switch(section, "UseRamulatorTrace")
            return ["InterfaceBandwidth"], {} if traced else {"UseRamulatorTrace": "off"}
        if section != _PRESETS:
            return [], harmless
        limits = [*_MEMORIES, *(name.removesuffix("kB") for name in _MEMORIES), "Bandwidth"]
        if self.limits:
            return [*_SIDES, "Dataflow", *limits], harmless
        unlimited = "with CALC nothing waits for a memory (--set buffer.capacity_bytes=.. limits)"
        return [*_SIDES, "Dataflow"], harmless | dict.fromkeys(limits, unlimited)

    def _disabled_fields(self, section: str, kind: str) -> Iterator[AccountEntry]:
        """Yield the entries of fields that do nothing while their switches are off.

        Older files have them among the presets; in a section of their own are no others.
        """
        switches, others, missing = _OFF[kind]
        on = {option.lower() for option in switches if self.switch(section, option)}
        for key in self.sections[section]:
            name, is_on = f"{section}.{key}", key.lower() in on
            work = None if kind == "sparsity" and is_on else 0
            if key.lower() not in map(str.lower, (*switches, *others)):
                unknown = [key] if section == kind else []
                yield from account_keys(unknown, (*switches, *others), within=section, macs=0)
            elif is_on or (on and key.lower() not in map(str.lower, switches)):
                yield AccountEntry(name, "not taken", missing, macs=work)
            elif kind == "layout" and self.limits and key.lower().endswith("bandwidth"):
                yield AccountEntry(name, "not taken", "Bandwidth gives that of each interface here")
            else:
                yield AccountEntry(name, "harmless", "off")
