"""VCD (IEEE 1364) for GTKWave: what engines, channels and tiles do, as signals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from vcd.writer import Variable, VCDWriter

from simaccel.trace.events import Event
from simaccel.trace.exports.excerpt import Excerpt
from simaccel.trace.schema import CAUSES

_NONE = "-"
"""Stands for an empty text: a value without characters confuses readers."""
_TEXTS = ("cause", "tile", "wait", "waits_for", "operator", "command")


_SIGNALS: Mapping[str, Sequence[tuple[str, str, int]]] = {
    "engine": (("busy", "wire", 1), ("state", "reg", 8), ("site", "integer", 32)),
    "channel": (("busy", "wire", 1), ("served", "integer", 64)),
    "tile": (("held", "integer", 64),),
}
"""Name, type and bits of the signals that are numbers, by kind of lane."""

Signals = dict[str, Variable[Any]]


def write_vcd(stream: TextIO, part: Excerpt) -> None:
    """Write the signals of each lane; events are cut at the window.

    A tick of the time scale, 1 ns, is one cycle, whatever the clock: real times are no
    multiples of what VCD can say. There is no date in the file.
    """
    states = " ".join(f"{number}={cause}" for number, cause in enumerate(CAUSES))
    with VCDWriter(
        stream,
        timescale="1 ns",
        date="",
        comment="1 ns stands for 1 cycle of the accelerator clock. "
        f"Cycles {part.start} to {part.end} of {part.trace.cycles}. state: {states}",
        version=f"simaccel {part.trace.header.version}",
        init_timestamp=part.start,
    ) as writer:
        names = identifiers(part.lanes)
        lanes = {lane: _register(writer, kind, names[lane]) for lane, kind in part.lanes.items()}
        for event in part.events():
            cycle = max(event.start, part.start)
            for name, signal in lanes[event.lane].items():
                writer.change(signal, cycle, _value(event, name))
        writer.close(part.end)


def identifiers(lanes: dict[str, str]) -> dict[str, str]:
    """Return each lane a name that VCD and its readers accept: letters, digits and ``_``."""
    taken: dict[str, str] = {}
    for lane in lanes:
        name = re.sub(r"\W", "_", lane, flags=re.ASCII)
        while name in taken.values():
            name += "_"
        taken[lane] = name
    return taken


def _register(writer: VCDWriter, kind: str, name: str) -> Signals:
    scope = f"{kind}s", name
    signals: Signals = {
        signal: writer.register_var(scope, signal, form, bits)
        for signal, form, bits in _SIGNALS[kind]
    }
    if kind == "engine":
        for text in _TEXTS:
            signals[text] = writer.register_var(scope, text, "string", init=_NONE)
    return signals


def _value(event: Event, name: str) -> int | str:
    if name == "busy":
        return int(event.cause == "busy")
    if name == "state":
        return CAUSES.index(event.cause)
    value: int | str = getattr(event, "kind" if name == "wait" else name)
    if isinstance(value, int):
        return value
    return value.encode("unicode_escape").decode("ascii") or _NONE  # VCD is ASCII; blanks escaped
