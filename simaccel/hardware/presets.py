"""Presets of an accelerator's sections, as of a DRAM part or a node, and settings of its fields."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from difflib import get_close_matches
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from string import Template
from typing import Any, Final, get_args

from simaccel.errors import ABSENT, Fault, InputError, SimaccelError, suggest, suggest_field
from simaccel.files.catalogue import FOLDER
from simaccel.files.documents import refuse_others
from simaccel.files.schema import read_yaml
from simaccel.hardware.accelerator import Accelerator
from simaccel.hardware.area.spec import CELL_UM2
from simaccel.hardware.dram.parts import PARTS
from simaccel.hardware.energy.tables import NODES, dram_pj_per_byte
from simaccel.hardware.noc import Topology
from simaccel.hardware.quantity import parse_quantity
from simaccel.numbers import BITS
from simaccel.plugins import Plugin, Registry

SECTIONS: Final = ("array", "buffer", "noc", "sfu", "dram", "dma", "links", "energy", "area")
"""Sections that may be a name, or a mapping with ``preset`` and other values of some fields."""
_AMOUNT: Final = re.compile(r"unlimited|[0-9.]+ ?[KMGT]?i?B(/s)?|[0-9]+( ?x ?[0-9]+)?")
_FIRST_FIELDS: Final = {
    "array": "array.rows",
    "buffer": "buffer.capacity_bytes",
    "dram": "dram.bandwidth_bytes_per_second",
}
"""The field of a section that an amount in its place stands for."""
_DRAM: Final = re.compile(r"(?:([1-9][0-9]{0,3}) ?x ?)?(\S+)")
_BURSTS: Final = 32
"""Entries of a read queue and a write buffer (DRAMsim3, Ramulator 2.1)."""
PRESET: Final = "preset"
BASE: Final = "of"

_PACKAGE: Final = Path(__file__).resolve().parents[1]
_FOLDERS: Final = (_PACKAGE / "hwconfigs", _PACKAGE.parent / "hwconfigs")
"""Folders of hwconfigs: inside an installed wheel, or beside the package in a checkout."""
EXPECTED: Final = f"a mapping with {', '.join(Accelerator.model_fields)}"


def _accept(plugin: Plugin, found: object) -> Path:
    if not isinstance(found, str | Path):
        raise plugin.error(f"is a {type(found).__name__}, not the path of a .yaml file")
    return Path(found)


def accelerator_files() -> Registry[Path]:
    """Return the files of accelerators by name: simaccel's, then those of plug-ins."""
    return Registry("simaccel.accelerators", _shipped_files(), _accept)


def list_accelerators() -> list[str]:
    """Return the sorted names of the accelerators of simaccel and of plug-ins."""
    return sorted(accelerator_files())


def _sections_of(name: str) -> dict[str, Any]:
    """Return the sections of an accelerator's file; none for a broken plug-in."""
    try:
        files = accelerator_files()
        return deepcopy(with_base(_read_file(files[name]), lambda other: _read_file(files[other])))
    except (SimaccelError, ValueError):
        if name in _shipped_files():
            raise
        return {}


@lru_cache
def _read_file(path: Path) -> dict[str, Any]:
    return read_yaml(path, EXPECTED)[0]


def _shipped_files() -> dict[str, Path]:
    for folder in _FOLDERS:
        if folder.is_dir():
            return {path.stem: path for path in folder.glob("*.yaml")}
    return {}


def with_presets(
    raw: Mapping[str, Any], file: str, within: tuple[Path, ...] = ()
) -> tuple[dict[str, Any], list[Fault]]:
    """Return a document with its base accelerator (``of``) and presets written out, and faults.

    The faults are unknown names, and all of a file that is the base. What is made of another
    accelerator has its file's name, unless it has one of its own. ``within``: files whose base it
    is.
    """
    faults: list[Fault] = []
    try:
        if BASE in raw:
            raw = {"name": re.sub(r"[^A-Za-z0-9_.-]", "_", Path(file).stem), **raw}
        if str(raw.get(BASE)).lower().endswith((".yaml", ".yml")):
            raw, faults = _with_file(raw, file, within)
        raw = with_base(raw, _sections_of)
    except ValueError as error:
        faults.append(Fault(file, BASE, raw[BASE], str(error)))
        raw = {key: value for key, value in raw.items() if key != BASE}
    filled = dict(raw)
    for section in SECTIONS:
        content = raw.get(section)
        more = dict(content) if isinstance(content, Mapping) else {}
        name = more.pop(PRESET, None) if isinstance(content, Mapping) else content
        if not isinstance(name, str):
            continue
        match = _DRAM.fullmatch(name) if section == "dram" else None
        wanted = match[2] if match else name
        preset = _preset(section, wanted, int(match[1] or 1) if match else 1, raw)
        if preset is not None:
            filled[section] = _merge_fields(preset, more)
            continue
        others = (other for other in list_accelerators() if section in _sections_of(other))
        meant = _narrower(wanted) if section == "dram" else ""
        meant = _FIRST_FIELDS.get(section, "") if _AMOUNT.fullmatch(name) else meant
        known = suggest(name, [*PRESETS.get(section, ()), *others])
        meant = f"did you mean {meant!r}?" if meant else known
        faults.append(Fault(file, section, name, f"a section, or {meant}"))
        filled.pop(section)
    return filled, faults


def _with_file(
    raw: Mapping[str, Any], file: str, within: tuple[Path, ...]
) -> tuple[dict[str, Any], list[Fault]]:
    """Return a document with the fields of the file that is its base, and faults of that.

    Raises:
        ValueError: the file is made of this one; the message is what is allowed.
    """
    more = dict(raw)
    path = Path(file).parent / str(more.pop(BASE))
    seen = (*within, Path(file).resolve())
    if path.resolve() in seen:
        raise ValueError("an accelerator or a file that is not made of this one")
    base, faults = read_yaml(path, EXPECTED)
    refuse_others(base, "array", str(path), EXPECTED)
    base, wrong = with_presets(base, str(path), seen)
    return _merge_fields(base, more), [*faults, *wrong]


def with_base(
    raw: Mapping[str, Any], sections_of: Callable[[str], Mapping[str, Any]]
) -> dict[str, Any]:
    """Return a document with the fields of its base accelerator (``of``) that it does not set.

    Raises:
        ValueError: the name is unknown; the message is what is allowed.
    """
    more = dict(raw)
    base = more.pop(BASE, None)
    if base is None:
        return more
    names = list_accelerators()
    if base not in names:
        allowed = f"the name of an accelerator, or a .yaml file: {suggest(str(base), names)}"
        raise ValueError(allowed)
    return _merge_fields(sections_of(base), more)


def _narrower(name: str) -> str:
    """Return channels of a known part that are as wide as an unknown one; empty without any.

    >>> _narrower("LPDDR5-6400x32"), _narrower("LPDDR5-6400x17")
    ('2 x LPDDR5-6400x16', '')
    """
    kind, _, width = name.rpartition("x")
    for part in PARTS if re.fullmatch("[1-9][0-9]{0,4}", width) else ():
        known, _, bits = part.rpartition("x")
        if known == kind and bits.isdecimal() and int(width) % int(bits) == 0:
            return f"{int(width) // int(bits)} x {part}"
    return ""


PRESETS: Final[Mapping[str, Collection[str]]] = {
    "noc": get_args(Topology),
    "dram": PARTS,
    "energy": NODES,
    "area": CELL_UM2,
}
"""Names of the presets of sections, without those of other accelerators."""


def _preset(
    section: str, name: str, channels: int, raw: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """Return the section of a name; None if there is none. ``channels``: of DRAM."""
    other = _sections_of(name) if name in list_accelerators() else {}
    if section in other or name not in PRESETS.get(section, ()):
        preset: Mapping[str, Any] | None = other.get(section)
        return preset
    if section == "dram":
        return _dram(name, channels, raw)
    return _noc(name) if section == "noc" else {"node": name}


def _noc(topology: str) -> dict[str, Any]:
    """Return two pipes of a topology: 4 B per link and cycle, one cycle per hop, as edge.yaml."""
    pipe = {"topology": topology, "link_bytes_per_cycle": 4, "hop_cycles": 1}
    source = "4 B per link and cycle, one cycle per hop, as assumed in edge.yaml"
    source = f"preset {topology}: {source}"
    return {"distribution": pipe, "collection": dict(pipe), "source": source}


def _dram(name: str, channels: int, raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section of a part's channels: the rate of a stream, and times in cycles.

    Latency is an activate, a read and its burst, without the controller's own. Enough bytes are in
    flight that a stream never waits for a request: those of a latency and a burst.
    """
    part = PARTS[name]
    try:
        clock_hz = parse_quantity(raw.get("clock_hz"), "Hz")
    except ValueError:  # a fault of the clock, reported where it is read
        clock_hz = 1
    per_clock = part.clock_ps * clock_hz / 10**12
    latency = part.rcd_read + part.read_latency + part.burst
    n_bytes = _BURSTS * part.burst_bytes
    cycles = math.ceil(latency * per_clock)
    share = Fraction(part.stream_bytes_per_second, clock_hz)  # bytes per cycle of a channel
    coming = math.ceil(share * cycles / part.burst_bytes) * part.burst_bytes
    return {
        "part": name,
        "bandwidth_bytes_per_second": channels * part.stream_bytes_per_second,
        "channels": channels,
        "capacity_bytes": channels * part.capacity_bytes,
        "latency_cycles": cycles,
        "turnaround_cycles": math.ceil(part.turnaround / 2 * per_clock),
        "batch_bytes": n_bytes,
        "in_flight_bytes": channels * max(n_bytes, coming),
        "source": (
            f"preset {name}: of the peak of {channels} channel(s) the "
            f"{part.stream_permille / 10:.1f}% that a stream of reads gets (simaccel dram "
            "measured); latency of an activate, a "
            f"read and its burst; half of the part's turnaround; {_BURSTS} bursts a batch; in "
            "flight as many, or what comes in a latency; capacity of all rows of all banks"
        ),
    }


def _merge_fields(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return a preset with the given fields in place of its own."""
    found = dict(base)
    for key, value in more.items():
        below = found.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        found[key] = _merge_fields(below, value) if both else value  # type: ignore[arg-type]
    return found


def template(name: str, accelerators: list[str]) -> str:
    """Return a file for a new accelerator; comments list the allowed values."""
    priced = [part for part in PARTS if dram_pj_per_byte(part) is not None]
    unpriced = (part.partition("-")[0] for part in PARTS if part not in priced)
    return Template((FOLDER / "new_accelerator.yaml").read_text(encoding="utf-8")).substitute(
        name=name,
        noc=", ".join(PRESETS["noc"]),
        accelerators=", ".join(accelerators[:4]) + ", ...",
        parts=", ".join(priced[:3]),
        unpriced=", ".join(dict.fromkeys(unpriced)),
        part=next(part for part in PARTS if part.startswith("DDR4")),
        numbers=", ".join(BITS),
        nodes=", ".join(NODES),
        areas=", ".join(CELL_UM2),
    )


Settings = Mapping[str, object] | Sequence[str]
"""Values for fields of an accelerator: by path, or texts ``path.to.field=value``."""


def unknown_field(field: str, leaves: Sequence[str]) -> str:
    """Return a suggestion for an unknown field, from its own section if one is similar."""
    name, rest = field.replace("-", "_").partition(".")[::2]
    sections = dict.fromkeys(leaf.partition(".")[0] for leaf in leaves)
    before, _, behind = name.partition("_")
    if behind and not rest and any(leaf.startswith(f"{before}.") for leaf in leaves):
        name, rest = before, behind
    if own := [leaf for leaf in leaves if leaf.startswith(f"{field}.")]:
        return f"its fields, {', '.join(leaf for leaf in own if not leaf.endswith('source'))}"
    near = get_close_matches(name, sections, n=1, cutoff=0.7)
    section = f"{near[0]}." if near and rest else ""
    inside = [leaf.removeprefix(section) for leaf in leaves if leaf.startswith(section)]
    fields = inside if section else [*sections]
    if not rest:  # the name of a field without its section
        fields += [leaf for leaf in leaves if leaf.endswith(f".{name}")][:1]
        name = fields[-1] if fields[-1].endswith(f".{name}") else name
    hint = suggest_field(rest if section else name, fields)
    if hint.startswith("did"):
        return hint.replace("mean '", f"mean '{section}")
    known = ", ".join(leaf for leaf in fields if not leaf.endswith("source"))
    return f"nothing, as it isn't modelled; {near[0] if section else 'an accelerator'} has {known}"


def each_setting(overrides: Settings) -> Iterator[tuple[str, object, str]]:
    """Yield path, value and source of each override; a text without `=` has the value ABSENT.

    Raises:
        InputError: neither a mapping nor a list of texts.
    """
    if isinstance(overrides, Mapping):
        yield from ((field, value, "settings") for field, value in _leaves(overrides, ""))
        return
    listed = isinstance(overrides, Sequence) and not isinstance(overrides, str)
    if not (listed and all(isinstance(override, str) for override in overrides)):
        allowed = "{'path.to.field': value}, or a list of texts path.to.field=value"
        raise InputError([Fault("settings", "overrides", overrides, allowed)])
    for override in overrides:
        field, equals, text = override.partition("=")
        field = field.strip()
        source = "--chips" if field == "chips" else f"--set {field}"
        yield (field, text, source) if equals else (override, ABSENT, "--set")


def _leaves(settings: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    """Yield the path and value of each field, also inside sections that name no preset."""
    for name, value in settings.items():
        if isinstance(value, Mapping) and PRESET not in value:
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
