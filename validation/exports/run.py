"""Exported reference traces, opened by the programs that they are for.

``python -m validation.exports.run [perfetto] [chrome] [wellen] [gtkwave]`` exports each trace in
``traces/``, reads it back and compares all events with ``trace.events``. It fails when one
differs, or when a program is not there.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from simaccel.trace import Event, Trace
from simaccel.trace.exports import FORMATS, excerpt

TRACES = Path(__file__).parents[2] / "traces"
NS_PER_CYCLE = 1000
_SLICES = """
    select slice.id, thread.name as lane, ts, dur, depth, arg_set_id
    from slice join thread_track on track_id = thread_track.id join thread using (utid)
"""
_ARGS = "select arg_set_id, key, int_value, string_value from args where key like 'args.%'"
_ERRORS = "select name, value from stats where severity != 'info' and value > 0"
_FLOWS = "select slice_out, slice_in from flow"
_ABSENT = {"operator": "", "command": "", "site": 0, "tile": "", "kind": "", "waits_for": ""}

Arrow = tuple[str, int, str, int]
"""Lane and start of the slice that it leaves, lane and start of the slice that it reaches."""


def perfetto(trace: Trace, folder: Path) -> Iterator[str]:
    """Compare what the Perfetto UI has to show."""
    from validation.exports.perfetto_ui import ask, version  # noqa: PLC0415 - an extra

    file = _export(trace, folder, "perfetto")
    slices, args, errors, flows = ask(file, [_SLICES, _ARGS, _ERRORS, _FLOWS])
    if any(row["depth"] for row in slices) or errors:
        raise SystemExit(f"{file.name}: slices are not side by side, or {errors}")
    texts: dict[int, dict[str, Any]] = defaultdict(dict)
    for row in args:
        text, number = row["string_value"], row["int_value"]
        texts[row["arg_set_id"]][row["key"].removeprefix("args.")] = text or number
    starts = {row["id"]: (row["lane"], row["ts"] // NS_PER_CYCLE) for row in slices}
    _compare(trace, [_slice_event(row, texts[row["arg_set_id"]]) for row in slices])
    _compare_arrows(file, trace, [(*starts[f["slice_out"]], *starts[f["slice_in"]]) for f in flows])
    yield f"Perfetto UI {version()}: {len(slices):,} slices, {len(flows):,} arrows"


def _slice_event(row: dict[str, Any], args: dict[str, Any]) -> Event:
    start, part = divmod(row["ts"], NS_PER_CYCLE)
    cycles, rest = divmod(row["dur"], NS_PER_CYCLE)
    if part or rest:
        raise SystemExit(f"{row} is not of whole cycles")
    return Event(engine=row["lane"], start=start, end=start + cycles, **{**_ABSENT, **args})


def chrome(trace: Trace, folder: Path) -> Iterator[str]:
    """Compare what chrome://tracing has to show."""
    from validation.exports.chrome_tracing import imported  # noqa: PLC0415 - an extra

    file = _export(trace, folder, "perfetto")
    found = imported(file)
    slices = found["slices"]
    if found["warnings"] or not all(row["side_by_side"] for row in slices):
        raise SystemExit(f"{file.name}: slices are not side by side, or {found['warnings']}")
    ends = [(row["start"], row["start"] + row["cycles"]) for row in slices]
    events = [
        Event(engine=row["lane"], start=start, end=end, **{**_ABSENT, **row["args"]})
        for row, (start, end) in zip(slices, ends, strict=True)
    ]
    _compare(trace, events)
    _compare_arrows(file, trace, [tuple(arrow) for arrow in found["arrows"]])
    yield f"chrome://tracing: {len(slices):,} slices, {len(found['arrows']):,} arrows"


def _compare_arrows(file: Path, trace: Trace, found: list[Arrow]) -> None:
    """Require that each arrow joins the slices that its ends lie in."""
    entries = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
    lanes = {one["tid"]: one["args"]["name"] for one in entries if one["name"] == "thread_name"}
    ends = [one for one in entries if one["ph"] in ("s", "f")]
    expected = []
    for first, last in zip(ends[::2], ends[1::2], strict=True):
        places = []
        for end in (first, last):
            cycle, lane = int(end["ts"]), lanes[end["tid"]]
            (around,) = trace.events(cycle, cycle + 1, lane)["start"]
            places += [lane, int(around)]
        expected.append(tuple(places))
    if sorted(expected) != sorted(found):
        raise SystemExit(f"{file.name}: other arrows: {set(expected) ^ set(found)}")


def wellen(trace: Trace, folder: Path) -> Iterator[str]:
    """Compare what the library of the viewer Surfer reads."""
    import pywellen  # noqa: PLC0415 - an extra

    waves = pywellen.Waveform(str(_export(trace, folder, "vcd")))
    signals = {one.full_name: dict(one.tv) for one in waves.all_vars()}
    found = [event for engine in trace.engines for event in _events(signals, engine, trace.cycles)]
    _compare(trace, found)
    yield f"wellen: {sum(map(len, signals.values())):,} value changes"


def gtkwave(trace: Trace, folder: Path) -> Iterator[str]:
    """Compare what comes out of GTKWave's converters, there and back."""
    from tests.trace.exports.formats import read_vcd  # noqa: PLC0415 - of the tests

    file = _export(trace, folder, "vcd")
    for tool in ("vcd2fst", "fst2vcd"):
        if shutil.which(tool) is None:
            raise SystemExit(f"{tool} is not installed; it comes with GTKWave")
    subprocess.run(["vcd2fst", file, folder / "t.fst"], check=True, capture_output=True)
    back = subprocess.run(["fst2vcd", folder / "t.fst"], check=True, capture_output=True, text=True)
    header, _, changes = back.stdout.partition("$enddefinitions")
    header = re.sub(r"\$(comment|date).*?\$end", "", header, flags=re.DOTALL)
    ours, theirs = read_vcd(file.read_text()), read_vcd(f"{header}$enddefinitions{changes}")
    if (ours.values, ours.end) != (theirs.values, theirs.end):
        raise SystemExit(f"{file.name}: GTKWave reads other values")
    yield f"GTKWave: {sum(map(len, ours.values.values())):,} value changes"


def _export(trace: Trace, folder: Path, name: str) -> Path:
    file = folder / f"{trace.path.stem}.{name}"
    with file.open("w", encoding="utf-8", newline="") as stream:
        FORMATS[name](stream, excerpt(trace))
    return file


def _compare(trace: Trace, found: list[Event]) -> None:
    expected = trace.decode(trace.events())
    strange = set(found) ^ set(expected)
    if strange or len(found) != len(expected):
        examples = sorted(map(str, strange))[:3]
        raise SystemExit(f"{trace.path.name}: {len(strange)} differ, such as {examples}")


def _events(signals: dict[str, dict[int, str | int]], lane: str, cycles: int) -> Iterator[Event]:
    """Cut the time of an engine wherever one of its signals changes."""
    names = {"cause": "cause", "tile": "tile", "kind": "wait", "waits_for": "waits_for"}
    names |= {"site": "site", "operator": "operator", "command": "command"}
    changes = {field: signals[f"{lane}.{name}"] for field, name in names.items()}
    times = sorted({time for values in changes.values() for time in values})
    now: dict[str, str | int] = {}
    for start, end in pairwise([*times, cycles]):
        now |= {field: values[start] for field, values in changes.items() if start in values}
        said = {field: "" if value == "-" else value for field, value in now.items()}
        yield Event(engine=lane, start=start, end=end, **said)  # type: ignore[arg-type]


CHECKS: dict[str, Callable[[Trace, Path], Iterator[str]]] = {
    "perfetto": perfetto,
    "chrome": chrome,
    "wellen": wellen,
    "gtkwave": gtkwave,
}


def main(names: list[str]) -> None:
    """Run the named checks, or all."""
    for file in sorted(TRACES.glob("*.h5")):
        with Trace.open(file) as trace, TemporaryDirectory() as folder:
            for name in names or CHECKS:
                for line in CHECKS[name](trace, Path(folder)):
                    print(f"{file.stem}: {line}: equal")


if __name__ == "__main__":
    main(sys.argv[1:])
