"""SCALE-Sim configurations (`.cfg`) as accelerators.

Taken over: the array's sides; the three memories together as the buffer (SCALE-Sim keeps them
apart, two halves each); with `InterfaceBandwidth: USER` the bandwidth in elements per cycle, of 2
bytes each, at a clock of 1 GHz, which SCALE-Sim hasn't got. The rest is unlimited, as it is there;
energy isn't described and counts nothing. The dataflow belongs to a mapping and isn't taken over.
"""

from __future__ import annotations

import configparser
from pathlib import Path
from typing import Any

from simaccel.errors import ABSENT, Fault, InputError, suggest
from simaccel.files.documents import read_text

_PRESETS = "architecture_presets"
_MEMORIES = ("IfmapSramSzkB", "FilterSramSzkB", "OfmapSramSzkB")
_CLOCK_HZ = 10**9
_BYTES = 2
_KNOWN = ("general", _PRESETS, "run_presets")


def read_scalesim(path: Path) -> dict[str, Any]:
    """Return a configuration as the document of an accelerator.

    Raises:
        InputError: it is none, or lacks a size.

    """
    file, parser = str(path), configparser.ConfigParser(strict=True, interpolation=None)
    try:
        parser.read_string(read_text(path, "SCALE-Sim", "utf-8-sig"))
    except configparser.Error as error:
        allowed = "a SCALE-Sim configuration: sections with lines NAME: VALUE"
        raise InputError([Fault(file, "file", str(error).splitlines()[0], allowed)]) from None
    if not parser.has_section(_PRESETS):
        found = ", ".join(parser.sections()) or ABSENT
        allowed = f"a SCALE-Sim configuration with a section [{_PRESETS}]; {suggest('', _KNOWN)}"
        raise InputError([Fault(file, "sections", found, allowed)])
    presets, faults = parser[_PRESETS], []
    sizes = {}
    for name in ("ArrayHeight", "ArrayWidth", *_MEMORIES):
        text = presets.get(name, "").strip()
        if text.isdecimal() and len(text) <= 9 and int(text) > 0:  # noqa: PLR2004 - up to 10^9
            sizes[name] = int(text)
        else:
            value = text or ABSENT
            faults.append(Fault(file, f"{_PRESETS}.{name}", value, "a whole number from 1"))
    rate, wrong = _rate(parser, file)
    if faults or wrong:
        raise InputError([*faults, *wrong])
    return _document(path, sizes, rate)


def _rate(parser: configparser.ConfigParser, file: str) -> tuple[object, list[Fault]]:
    """Return the DRAM bandwidth in bytes per second, or `unlimited` where SCALE-Sim computes it."""
    mode = parser.get("run_presets", "InterfaceBandwidth", fallback="CALC").strip().upper()
    if mode != "USER":
        return "unlimited", []
    text = parser.get(_PRESETS, "Bandwidth", fallback="").split(",")[0].strip()
    if text.isdecimal() and 0 < int(text) <= 10**6:
        return int(text) * _BYTES * _CLOCK_HZ, []
    allowed = "elements per cycle, a whole number from 1 to 1000000"
    return "unlimited", [Fault(file, f"{_PRESETS}.Bandwidth", text or ABSENT, allowed)]


def _document(path: Path, sizes: dict[str, int], rate: object) -> dict[str, Any]:
    source = f"SCALE-Sim configuration {path.name}"
    other = f"{source}: not described there, so not limited"
    pipe = {"topology": "unlimited", "link_bytes_per_cycle": _BYTES, "hop_cycles": 0}
    name = "".join(one if one.isalnum() or one in "_.-" else "_" for one in path.stem)
    return {
        "name": name,
        "description": f"{sizes['ArrayHeight']} x {sizes['ArrayWidth']} PEs of a SCALE-Sim file",
        "clock_hz": _CLOCK_HZ,
        "array": {
            "rows": sizes["ArrayHeight"],
            "cols": sizes["ArrayWidth"],
            "source": source,
        },
        "buffer": {
            "capacity_bytes": 1024 * sum(sizes[one] for one in _MEMORIES),
            "read_bytes_per_second": "unlimited",
            "write_bytes_per_second": "unlimited",
            "source": f"{source}: its three memories together",
        },
        "noc": {"source": other, "distribution": pipe, "collection": pipe},
        "sfu": {"lanes": sizes["ArrayWidth"], "source": f"{source} has none: a lane per column"},
        "dram": {"bandwidth_bytes_per_second": rate, "source": source},
        "energy": {"known": False, "source": f"{source}: no energy is described"},
    }
