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
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from simaccel.trace import Event, TraceReader
from simaccel.trace.exports import FORMATS, Excerpt, excerpt
from simaccel.trace.schema import LANES
from tests.trace.exports.formats import read_vcd

TRACES = Path(__file__).parents[2] / "traces"
MOST_CYCLES = 3_000_000
"""The window of each trace, from its first cycle on."""
NS_PER_CYCLE = 1000
_QUERIES = (
    """select slice.id, thread.name as lane, ts, dur, depth, arg_set_id
    from slice join thread_track on track_id = thread_track.id join thread using (utid)""",
    "select arg_set_id, key, int_value, string_value from args where key like 'args.%'",
    "select slice_out, slice_in from flow",
    """select name, ts, value from counter join process_counter_track as track
    on track_id = track.id order by ts""",
    "select name, value from stats where severity != 'info' and value > 0",
)
_ABSENT = {"operator": "", "command": "", "site": 0, "tile": "", "kind": "", "waits_for": ""}

Counters = dict[str, list[tuple[int, float]]]
"""Cycles and values by counter and series."""


def perfetto(part: Excerpt, folder: Path) -> str:
    """Compare what the Perfetto UI has to show."""
    from validation.exports.perfetto_ui import ask, version  # noqa: PLC0415 - an extra

    file = _export(part, folder, "perfetto")
    slices, args, flows, samples, errors = ask(file, _QUERIES)
    if any(row["depth"] for row in slices) or errors:
        raise SystemExit(f"{file.name}: slices are not side by side, or {errors}")
    texts: dict[int, dict[str, Any]] = defaultdict(dict)
    for row in args:
        text, number = row["string_value"], row["int_value"]
        key = row["key"].removeprefix("args.")
        texts[row["arg_set_id"]][key] = number if text is None else text
    counters: Counters = defaultdict(list)
    for row in samples:
        counters[row["name"]].append((_cycle(row["ts"]), row["value"]))
    places = {row["id"]: (row["lane"], _cycle(row["ts"])) for row in slices}
    arrows = [(*places[flow["slice_out"]], *places[flow["slice_in"]]) for flow in flows]
    events = [
        _event(*places[row["id"]], _cycle(row["dur"]), texts[row["arg_set_id"]]) for row in slices
    ]
    return f"Perfetto UI {version()}: {_compare(part, file, events, arrows, counters)}"


def _cycle(nanoseconds: int) -> int:
    cycle, rest = divmod(nanoseconds, NS_PER_CYCLE)
    if rest:
        raise SystemExit(f"{nanoseconds} ns is not a whole number of cycles")
    return cycle


def chrome(part: Excerpt, folder: Path) -> str:
    """Compare what chrome://tracing has to show."""
    from validation.exports.chrome_tracing import imported  # noqa: PLC0415 - an extra

    file = _export(part, folder, "perfetto")
    imported_trace = imported(file)
    slices, warnings = imported_trace["slices"], imported_trace["warnings"]
    if warnings or not all(row["side_by_side"] for row in slices):
        raise SystemExit(f"{file.name}: slices are not side by side, or {warnings}")
    events = [_event(row["lane"], row["start"], row["cycles"], row["args"]) for row in slices]
    arrows = [tuple(arrow) for arrow in imported_trace["arrows"]]
    counters = {
        name: [*map(tuple, samples)] for name, samples in imported_trace["counters"].items()
    }
    return f"chrome://tracing: {_compare(part, file, events, arrows, counters)}"


def _event(lane: str, start: int, cycles: int, args: dict[str, Any]) -> Event:
    return Event(**{"lane": lane, "start": start, "end": start + cycles, **_ABSENT, **args})


def _compare(
    part: Excerpt, file: Path, events: list[Event], arrows: list[Any], counters: Counters
) -> str:
    """Require that a viewer shows the events, and arrows and counters as they are in the file."""
    shown = [
        event
        for event in part.events()
        if part.lanes[event.lane] == "engine"
        or (part.lanes[event.lane] == "channel" and event.cause == "busy")
    ]
    _require_equal(file, set(events), set(shown))
    _require_equal(file, {len(events)}, {len(shown)})
    entries = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
    _require_equal(file, Counter(arrows), Counter(_arrows(entries, shown, part.start)))
    samples: Counters = defaultdict(list)
    for entry in entries:
        for series, value in entry["args"].items() if entry["ph"] == "C" else ():
            samples[f"{entry['name']} {series}"].append((entry["ts"], value))
    _require_equal(file, _rounded(counters), _rounded(samples))
    n_samples = sum(map(len, samples.values()))
    return f"{len(events):,} slices, {len(arrows):,} arrows, {n_samples:,} counter values"


def _rounded(counters: Counters) -> Counters:
    """Leave out the last bits of fractions, which the Perfetto UI reads inexactly."""
    return {
        name: [(cycle, float(f"{value:.14g}")) for cycle, value in samples]
        for name, samples in counters.items()
    }


def _arrows(
    entries: list[dict[str, Any]], shown: list[Event], first: int
) -> Iterator[tuple[str, int, str, int]]:
    """Give lane and start of the two slices around the ends of each arrow."""
    lanes = {
        entry["tid"]: entry["args"]["name"] for entry in entries if entry["name"] == "thread_name"
    }
    starts: dict[str, list[int]] = defaultdict(list)
    for event in shown:
        starts[event.lane].append(max(event.start, first))
    ends = [entry for entry in entries if entry["ph"] in ("s", "f")]
    for pair in zip(ends[::2], ends[1::2], strict=True):
        (giver, left), (waiter, reached) = (
            (lane, starts[lane][bisect(starts[lane], end["ts"]) - 1])
            for end in pair
            for lane in [lanes[end["tid"]]]
        )
        yield giver, left, waiter, reached


def _require_equal(file: Path, found: object, expected: object) -> None:
    if found != expected:
        raise SystemExit(f"{file.name}: {str(found)[:300]} instead of {str(expected)[:300]}")


def wellen(part: Excerpt, folder: Path) -> str:
    """Compare what the library of the viewer Surfer reads."""
    import pywellen  # noqa: PLC0415 - an extra

    file = _export(part, folder, "vcd")
    found = {one.full_name: list(one.tv) for one in pywellen.Waveform(str(file)).all_vars()}
    ours = read_vcd(file.read_text(encoding="ascii"))
    values = {".".join(key): changes for key, changes in ours.values.items()}
    _require_equal(file, found, values)
    return f"wellen: {sum(map(len, found.values())):,} value changes"


def gtkwave(part: Excerpt, folder: Path) -> str:
    """Compare what comes out of GTKWave's converters, there and back."""
    file = _export(part, folder, "vcd")
    for tool in ("vcd2fst", "fst2vcd"):
        if shutil.which(tool) is None:
            raise SystemExit(f"{tool} is not installed; it comes with GTKWave")
    subprocess.run(["vcd2fst", file, folder / "t.fst"], check=True, capture_output=True)
    back = subprocess.run(["fst2vcd", folder / "t.fst"], check=True, capture_output=True, text=True)
    header, _, changes = back.stdout.partition("$enddefinitions")
    header = re.sub(r"\$(comment|date).*?\$end", "", header, flags=re.DOTALL)
    ours = read_vcd(file.read_text(encoding="ascii"))
    theirs = read_vcd(f"{header}$enddefinitions{changes}")
    _require_equal(file, (theirs.values, theirs.end), (ours.values, ours.end))
    return f"GTKWave: {sum(map(len, theirs.values.values())):,} value changes"


def _export(part: Excerpt, folder: Path, name: str) -> Path:
    file = folder / f"{part.trace.path.stem}.{name}"
    with file.open("w", encoding="utf-8", newline="") as stream:
        FORMATS[name](stream, part)
    return file


CHECKS: dict[str, Callable[[Excerpt, Path], str]] = {
    "perfetto": perfetto,
    "chrome": chrome,
    "wellen": wellen,
    "gtkwave": gtkwave,
}


def main(names: list[str]) -> None:
    """Run the named checks, or all."""
    for file in sorted(TRACES.glob("*.h5")):
        with TraceReader.open(file) as trace, TemporaryDirectory() as folder:
            part = excerpt(trace, 0, min(trace.cycles, MOST_CYCLES), lanes=LANES)
            for name in names or CHECKS:
                print(f"{file.stem}: {CHECKS[name](part, Path(folder))}: equal")


if __name__ == "__main__":
    main(sys.argv[1:])
