"""Hardware points of the analysis: PEs, NoC by level, off-chip bandwidth, lanes; hardware files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from simaccel.errors import ABSENT, Fault, require_none, suggest
from simaccel.numbers import BYTE, Element

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simaccel.hardware import Accelerator
    from simaccel.hardware.quantity import Rate

PLAIN: Final[tuple[Element, Element]] = ((2 * BYTE, ""), (2 * BYTE, ""))
"""The operands of a MAC where nobody says their numbers: of 2 bytes."""
UNLIMITED: Final = 2**31 - 1
"""What the tool takes where a hardware file says nothing."""
_MOST = UNLIMITED
_KEYS: Final = {
    "num_pes": "pes",
    "noc_bw_cstr": "noc_bandwidth",
    "NoC_NumHops": "noc_latency",
    "offchip_bw_cstr": "offchip_bandwidth",
    "l1_size_cstr": "l1",
    "l2_size_cstr": "l2",
    "NumPEs": "pes",
    "NoC_BW": "noc_bandwidth",
    "L1Size": "l1",
    "L2Size": "l2",
}
"""Fields of a hardware file, and the names that they had before."""
_COMMENT = re.compile(r"//[^\n]*")
_WORD = re.compile(r"[^\s:;,(){}]+")
_PAIR = 2


@dataclass(frozen=True, kw_only=True)
class DirectiveHardware:
    """The figures of an accelerator that the analysis knows.

    Bandwidths in elements per cycle and latencies in cycles; those of the NoC for each cluster
    level from the outermost, the last for all further ones. ``simd_lanes``: MACs at once in a PE,
    each of which takes ``cycles_per_mac``. ``l1_size`` and ``l2_size``: elements that fit, which
    change nothing but what is noted. The defaults are those of the paper's evaluation (256 PEs, 32
    elements per cycle).
    """

    pes: int = 256
    noc_bandwidth: tuple[int, ...] = (32,)
    noc_latency: tuple[int, ...] = (1,)
    offchip_bandwidth: int = 70_000
    simd_lanes: int = 1
    cycles_per_mac: int = 1
    l1_size: int = UNLIMITED
    l2_size: int = UNLIMITED


def is_hardware_text(text: str) -> bool:
    """Return whether a text is one of MAESTRO's hardware files.

    >>> is_hardware_text("num_pes: 256"), is_hardware_text("NumPEs: 256")
    (True, True)
    >>> is_hardware_text("name: edge")
    False
    """
    first = _WORD.search(_COMMENT.sub("", text))
    return first is not None and first[0] in _KEYS


def parse_hardware(text: str, source: str = "hardware") -> DirectiveHardware:
    """Return the hardware of one of MAESTRO's files; buffer sizes there are only warnings.

    Raises:
        InputError: all faults, each with line and column.
    """
    faults: list[Fault] = []
    fields: dict[str, int] = {}
    words = [
        (number, word.start() + 1, word[0])
        for number, line in enumerate(text.splitlines(), 1)
        for word in _WORD.finditer(_COMMENT.sub("", line))
    ]
    for at in range(0, len(words), _PAIR):
        line, column, key = words[at]
        where = f"line {line}, column {column}"
        value = words[at + 1][2] if at + 1 < len(words) else ABSENT
        least = 0 if key == "NoC_NumHops" else 1
        if key not in _KEYS:
            faults.append(Fault(source, where, key, suggest(key, _KEYS)))
        elif _KEYS[key] in fields:
            faults.append(Fault(source, where, key, "each field once"))
        elif not re.fullmatch(r"[0-9]{1,20}", str(value)) or not least <= int(str(value)) <= _MOST:
            allowed = f"a whole number from {least} to {_MOST}"
            faults.append(Fault(source, f"{where} ({key})", value, allowed))
        else:
            fields[_KEYS[key]] = int(str(value))
    require_none(faults)
    return DirectiveHardware(
        pes=fields.get("pes", 1),
        noc_bandwidth=(fields.get("noc_bandwidth", UNLIMITED),),
        noc_latency=(fields.get("noc_latency", 1),),
        offchip_bandwidth=fields.get("offchip_bandwidth", UNLIMITED),
        l1_size=fields.get("l1", UNLIMITED),
        l2_size=fields.get("l2", UNLIMITED),
    )


def hardware_of(accelerator: Accelerator, operands: Sequence[Element] = PLAIN) -> DirectiveHardware:
    """Return the figures that the analysis needs of an accelerator with a spatial array.

    ``operands``: what is multiplied, which says how fast a PE is, and by its widest how many
    elements the NoC and DRAM bring. The buffer's NoC stands for that of all cluster levels.

    Raises:
        NotSpatialError: the array is systolic.
        InputError: a memory beside the DRAM; the analysis has one way off the chip.
    """
    array = accelerator.spatial
    allowed = "nothing besides the DRAM: the analysis of directives has one way off the chip"
    beside = (name for name in accelerator.every_backing if name != "dram")
    require_none(Fault(accelerator.name, "memories", name, allowed) for name in beside)
    bits = max(width for width, _ in operands)
    offchip = accelerator.bytes_per_cycle()
    return DirectiveHardware(
        pes=array.rows * array.cols,
        noc_bandwidth=(elements_per_cycle(accelerator.distribution_rate, bits),),
        noc_latency=(accelerator.lead_latency_cycles,),
        offchip_bandwidth=UNLIMITED if offchip is None else max(1, int(offchip * BYTE / bits)),
        simd_lanes=array.vectors * array.lanes,
        cycles_per_mac=array.cycles_per_mac(operands),
    )


def elements_per_cycle(rate: Rate, bits: int) -> int:
    """Return the elements of ``bits`` bits per cycle of a rate in bytes, at least one."""
    if rate.unlimited:
        return UNLIMITED
    return max(1, int(rate.exact() * BYTE / bits))
