"""VCD (IEEE 1364) for GTKWave: what each engine does, as signals."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TextIO

from vcd.writer import Variable, VCDWriter

from simaccel.trace.exports.excerpt import Excerpt
from simaccel.trace.reader import Event
from simaccel.trace.schema import CAUSES

_NONE = "-"
"""Stands for an empty text: a value without characters confuses readers."""
_TEXTS = ("cause", "tile", "wait", "waits_for", "operator", "command")


@dataclass(frozen=True)
class _Engine:
    """The signals of one engine."""

    busy: Variable[object]
    state: Variable[object]
    site: Variable[object]
    texts: dict[str, Variable[object]]


def write_vcd(stream: TextIO, part: Excerpt) -> None:
    """Write the signals of each engine; events are cut at the window.

    A tick of the time scale, 1 ns, is one cycle, whatever the clock: real times are no
    multiples of what VCD can say. There is no date in the file.
    """
    with VCDWriter(
        stream,
        timescale="1 ns",
        date="",
        comment=_comment(part),
        version=f"simaccel {part.trace.header.version}",
        init_timestamp=part.start,
    ) as writer:
        names = identifiers(part.lanes)
        engines = {lane: _register(writer, names[lane]) for lane in part.lanes}
        for event in part.events():
            _change(writer, engines[event.engine], max(event.start, part.start), event)
        writer.close(part.end)


def identifiers(lanes: dict[str, str]) -> dict[str, str]:
    """Give each lane a name that VCD and its readers accept: letters, digits and ``_``."""
    taken: dict[str, str] = {}
    for lane in lanes:
        name = re.sub(r"\W", "_", lane, flags=re.ASCII)
        while name in taken.values():
            name += "_"
        taken[lane] = name
    return taken


def _comment(part: Excerpt) -> str:
    states = " ".join(f"{number}={cause}" for number, cause in enumerate(CAUSES))
    return (
        f"1 ns stands for 1 cycle of the accelerator clock. Cycles {part.start} to {part.end} "
        f"of {part.trace.cycles}. state: {states}"
    )


def _register(writer: VCDWriter, name: str) -> _Engine:
    return _Engine(
        busy=writer.register_var(name, "busy", "wire", 1),
        state=writer.register_var(name, "state", "reg", 8),
        site=writer.register_var(name, "site", "integer", 32),
        texts={text: writer.register_var(name, text, "string", init=_NONE) for text in _TEXTS},
    )


def _change(writer: VCDWriter, engine: _Engine, cycle: int, event: Event) -> None:
    writer.change(engine.busy, cycle, int(event.cause == "busy"))
    writer.change(engine.state, cycle, CAUSES.index(event.cause))
    writer.change(engine.site, cycle, event.site)
    for name, signal in engine.texts.items():
        text = getattr(event, "kind" if name == "wait" else name)
        writer.change(signal, cycle, _escaped(text) or _NONE)


def _escaped(text: str) -> str:
    """Leave ASCII only, which is what VCD is made of; the writer escapes the blanks."""
    return text.encode("unicode_escape").decode("ascii")
