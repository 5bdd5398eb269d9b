"""Runs that are exported, and what happened in them, without any reader."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import strategies as st

from simaccel.machine.accounts import NO_WAIT, EngineCycles, Wait
from simaccel.trace import CommandSite, Event, TraceHeader, TraceReader, TraceWriter
from simaccel.units import Cause
from tests.trace.scripts import (
    ENGINES,
    HEADER,
    SITES,
    Again,
    Row,
    Script,
    lengths,
    padded,
    tell,
    totals,
    unrolled,
)

FOLDER = Path(__file__).parents[3] / "traces"
REFERENCES = ("toy_gemm_naive", "toy_attention_flat", "edge_bert_flat")
NOWHERE = CommandSite("", "")
ACCELERATOR = (FOLDER.parent / "hwconfigs" / "toy.yaml").read_text(encoding="utf-8")
CHANNELS, TILES = ("dram0", "noc_collection"), ("tile K", "tile.K", "tile pe.K")
ALL = ("engine", "channel", "tile")
ChannelRows = dict[str, list[tuple[int, bool, int]]]
"""Cycles, whether in use, and cycles of service, by channel."""
TileRows = dict[str, list[tuple[int, int]]]
"""Cycles and bytes held, by tile."""


def engine_events(script: Script) -> Iterator[Event]:
    """Expand a script without any reader."""
    for engine, intervals in unrolled(script).items():
        for _, first, after, (cause, wait, site) in intervals:
            place = SITES.get(site, NOWHERE)
            direct = wait.tile, wait.kind, wait.engine
            where = site, place.operator, place.command
            yield Event(engine, first, after, cause.name.lower(), *direct, *where)


def other_events(channels: ChannelRows, tiles: TileRows) -> Iterator[Event]:
    """Join what belongs together: a channel in use or not, a tile with the same bytes."""
    for channel, rows in channels.items():
        cycle = 0
        for busy, same in groupby(rows, lambda row: row[1]):
            lengths, _, served = zip(*same, strict=True)
            cause = "busy" if busy else "idle"
            end = cycle + sum(lengths)
            yield Event(channel, cycle, end, cause, *NOTHING_ELSE, served=sum(served))
            cycle = end
    for tile, held in tiles.items():
        cycle = 0
        for n_bytes, parts in groupby(held, lambda row: row[1]):
            end = cycle + sum(cycles for cycles, _ in parts)
            cause = "busy" if n_bytes else "idle"
            yield Event(tile, cycle, end, cause, *NOTHING_ELSE, held=n_bytes)
            cycle = end


NOTHING_ELSE = "", "", "", 0, "", ""


@st.composite
def other_lanes(draw: st.DrawFn, cycles: int) -> tuple[ChannelRows, TileRows]:
    """Channels and tiles of a run of so many cycles."""

    def lengths() -> list[int]:
        cuts = draw(st.sets(st.integers(1, cycles), max_size=8))
        return [b - a for a, b in pairwise([0, *sorted(cuts - {cycles}), cycles])]

    channels: ChannelRows = {name: [] for name in CHANNELS}
    for rows in channels.values():
        for length in lengths():
            busy = draw(st.booleans())
            rows.append((length, busy, draw(st.integers(0, length)) if busy else 0))
    held = st.integers(0, 3).map(lambda n_slots: n_slots * 64)
    return channels, {name: [(length, draw(held)) for length in lengths()] for name in TILES}


@contextmanager
def recorded(script: Script, channels: ChannelRows, tiles: TileRows) -> Iterator[TraceReader]:
    """Write a trace with lanes of all kinds."""
    header = replace(HEADER, accelerator=ACCELERATOR)
    cycles = max(lengths(script).values())
    served = {name: sum(row[2] for row in rows) for name, rows in channels.items()}
    with TemporaryDirectory() as folder:
        with TraceWriter(Path(folder) / "t.h5", header, block_rows=16) as writer:
            lanes = {**dict.fromkeys(channels, "channel"), **dict.fromkeys(tiles, "tile")}
            writer.announce({**dict.fromkeys(ENGINES, "engine"), **lanes})
            tell(writer, script)
            for name, in_use in channels.items():
                at = reported = 0
                for length, busy, n in in_use:
                    end, total = at + length, reported + n
                    writer.note_service(name, at, reported, [end if busy else at, end, total])
                    at, reported = end, total
            for name, held in tiles.items():
                at = 0
                for length, n_bytes in held:
                    writer.note_held(name, at, at + length, n_bytes)
                    at += length
            writer.finish(cycles, totals(script), {}, served)
        with TraceReader.open(Path(folder) / "t.h5") as trace:
            yield trace


def by_lane(events: Iterable[Event]) -> dict[str, list[Event]]:
    ordered = sorted(events, key=lambda event: (event.lane, event.start))
    return {lane: list(row) for lane, row in groupby(ordered, lambda event: event.lane)}


NASTY = 'gemm "S", Q\\x20\n\r $end \u00e9\t'
LANES = ("dma in/0", "dma in.0")


def nasty(folder: Path) -> TraceReader:
    """Two engines whose names differ only in what VCD can't say, and texts that need escapes."""
    header = TraceHeader(version="9", sites={1: CommandSite("a,b", NASTY)})
    wait = Wait("tile, \u20ac 1", "ready", LANES[0])
    with TraceWriter(folder / "t.h5", header) as writer:
        writer.interval(LANES[0], 0, 5, Cause.BUSY, NO_WAIT, 1)
        writer.interval(LANES[1], 0, 5, Cause.DRAM_BANDWIDTH, wait, 1)
        stalls = {"dram_bandwidth": 5}
        writer.finish(5, {LANES[0]: EngineCycles(5, 0, {}), LANES[1]: EngineCycles(0, 0, stalls)})
    return TraceReader.open(folder / "t.h5")


BUSY, WAITING = (Cause.BUSY, NO_WAIT, 1), (Cause.SFU, NO_WAIT, 2)


def alternating(pairs: int) -> Script:
    body = (Row("array", 3, BUSY), Row("array", 2, WAITING))
    return padded([Again(body, pairs - 1)], ENGINES)
