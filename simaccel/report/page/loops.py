"""The loop tree of a trace's program: each loop's share of time, and where an iteration lies.

**Share of time**, exact, of the cycles of the run. Of an operator: its cycles as the run has them
(`simaccel.machine.totals`), which add up to 100%; a loop around operators takes what they
take together. Of a loop inside, or a command: the cycles in which its *critical engine* is at a
command of the loop, busy or stalled (an idle engine is nowhere). The critical engine is the array
where it has commands in the loop, else the engine with most cycles there. Loops of different
critical engines overlap in time, so shares of neighbours may add up to more than their operator's.

**One iteration**: where in the run the middle iteration of a loop lies. The array and the SFU
work the same number of cycles each time that they execute a command, so the first busy cycle of
the n-th execution is found by counting busy cycles, in the tree of stored rows. An iteration
goes from the start of the loop's first command to its start in the next iteration (to the end of
its last command where a loop has one trip). For commands of DMA engines, whose transfers take
as long as the DRAM lets them, the same count is an estimate: ``exact`` is false.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from math import prod

import numpy as np

from simaccel.hardware.cores import without_core
from simaccel.machine.accounts import OUTER_SITES
from simaccel.program.program import Node, Operator, Program, ProgramLoop
from simaccel.program.text import program_text
from simaccel.trace import CommandSite
from simaccel.trace.sites import command_text
from simaccel.trace.track import ChainTrack, RowTrack, Track
from simaccel.units import ARRAY, COMPUTE_UNITS, Cause

OPERATORS = "operators"
"""The "critical engine" of a loop around operators, each of which has its own."""
Window = tuple[int, int]


@dataclass(frozen=True)
class TreeLine:
    """One line of the loop tree: an operator, a loop or a command."""

    text: str
    """Text as in the program's text form."""
    kind: str
    """``operator``, ``loop`` or ``command``."""
    depth: int
    site: int
    """Site of a command; otherwise 0."""
    lane: str
    """Critical engine; empty if no engine spends a cycle here."""
    cycles: int
    """Cycles of the critical engine here, without idle ones."""
    busy: int
    """Cycles in which it works."""
    executions: int
    """How often the run executes the command, or the body of the operator or loop."""
    window: Window | None
    """One iteration or execution; None if nothing works or the run didn't end."""
    exact: bool
    """Whether the window is exact."""


@dataclass(frozen=True)
class _NodeLine:
    """A node of the program before it is measured."""

    text: str
    kind: str
    depth: int
    trips: tuple[int, ...]
    sites: range
    """Of the commands in it: positions in the list of sites."""
    command: str = ""
    """The text of a command alone, as sites have it."""


class Work:
    """Work of one engine, by site.

    ``cycles`` and ``busy``: of commands; ``within`` and ``busy_within``: also by the operator to
    whose cycles they belong. Idle ones belong to none.
    """

    def __init__(self, track: ChainTrack) -> None:
        self.track = track
        self.cycles: Counter[int] = Counter()
        self.within: Counter[int] = Counter()
        self.busy_within: Counter[int] = Counter()
        self._busy: dict[Track, Counter[int]] = {}
        for (cause, *_, site, _), n in track.account_cycles(track.start, track.end).items():
            if cause != Cause.IDLE:
                self.within[site] += n
                self.cycles[site % OUTER_SITES] += n
            if cause == Cause.BUSY:
                self.busy_within[site] += n
        self.busy = self._busy_by_site(track)

    def _busy_by_site(self, node: Track) -> Counter[int]:
        """Return the busy cycles of a stretch of the lane by site; of a repeat, once."""
        if node not in self._busy:
            busy = self._busy[node] = Counter()
            if isinstance(node, RowTrack):
                for (cause, *_, site, _), n in node.account.items():
                    busy[site % OUTER_SITES] += n * (cause == Cause.BUSY)
                return busy
            for each in node.nodes:
                for site, n in self._busy_by_site(each).items():
                    busy[site] += n * _executions(each)
        return self._busy[node]

    def row(self, site: int, n: int) -> tuple[int, int, int]:
        """Return busy cycle ``n`` of a site, counted from 0: (cycle, row's start, row's end).

        Whole repetitions are skipped by division, so the work grows with the stored rows.
        IndexError: the site has fewer busy cycles.
        """
        node: Track = self.track
        shift = 0
        if n >= self.busy[site]:
            raise IndexError(n)
        while not isinstance(node, RowTrack):
            if node.times:
                times, n = divmod(n, self._busy_by_site(node)[site])
                shift += times * node.period
            for inner in node.nodes:
                node = inner
                busy = self._busy_by_site(inner)[site] * _executions(inner)
                if n < busy:
                    break
                n -= busy
        rows = node.rows
        of_site = (rows["cause"] == Cause.BUSY) & (rows["site"] % OUTER_SITES == site)
        done = np.cumsum(np.where(of_site, rows["end"] - rows["start"], 0))
        row = int(np.searchsorted(done, n, "right"))
        start, end = (int(rows[name][row]) + shift for name in ("start", "end"))
        return end - int(done[row]) + n, start, end


def _executions(node: Track) -> int:
    return node.times + 1 if isinstance(node, ChainTrack) else 1


def loop_tree(
    program: Program,
    sites: Mapping[int, CommandSite],
    works: Mapping[str, Work],
    *,
    complete: bool = True,
) -> list[TreeLine]:
    """Return every operator, loop and command of a program with its cycles, in textual order.

    ``works``: the work of each engine. If the run isn't ``complete``, the length of an iteration is
    unknown, so there are no windows.

    Raises:
        ValueError: the sites are not those of the program.
    """
    lines = list(_lines(program))
    numbers = [n for n in sorted(sites) if sites[n].command and n < OUTER_SITES]
    commands = [line.command for line in lines if line.kind == "command"]
    if commands != [sites[number].command for number in numbers]:
        raise ValueError("the sites are not the commands of the program")
    of: dict[str, list[int]] = {}
    for number, site in sites.items():
        of.setdefault(f"operator {site.operator}", []).append(number)
    places = [
        _place(
            line,
            [numbers[at] for at in line.sites],
            of.get(line.text.partition(" on cores ")[0]) if line.kind == "operator" else None,
            works,
            complete,
        )
        for line in lines
    ]
    return [_with_operators(place, places[at + 1 :]) for at, place in enumerate(places)]


def _with_operators(place: TreeLine, after: Sequence[TreeLine]) -> TreeLine:
    """Let a loop around operators take as long as they do: they come one after the other."""
    inside = takewhile(lambda other: other.depth > place.depth, after)
    operators = [other for other in inside if other.kind == "operator"]
    if not operators:
        return place
    cycles, busy = (sum(getattr(o, what) for o in operators) for what in ("cycles", "busy"))
    return replace(place, lane=OPERATORS if cycles else "", cycles=cycles, busy=busy)


def _lines(program: Program) -> Iterator[_NodeLine]:
    """Pair the nodes of a program with the lines of its text."""
    texts = (line.strip() for line in program_text(program).splitlines()[1:])
    lines = (text for text in texts if not text.startswith("tile "))

    def visit(
        body: Sequence[Node], depth: int, trips: tuple[int, ...], seen: int
    ) -> tuple[list[_NodeLine], int]:
        numbered: list[_NodeLine] = []
        for node in body:
            text, first = next(lines), seen
            if isinstance(node, ProgramLoop | Operator):
                kind, around = "operator", (*trips, 1)
                if isinstance(node, ProgramLoop):  # cores have an iteration each
                    kind, around = "loop", (*trips, node.trips if node.core is None else 1)
                inner, seen = visit(node.body, depth + 1, around, seen)
                numbered += [_NodeLine(text, kind, depth, around, range(first, seen)), *inner]
            else:
                seen += 1
                place = depth, (*trips, 1), range(first, seen), command_text(node)
                numbered.append(_NodeLine(text, "command", *place))
        return numbered, seen

    yield from visit(program.body, 0, (), 0)[0]


def _place(
    line: _NodeLine,
    sites: Sequence[int],
    own: Sequence[int] | None,
    works: Mapping[str, Work],
    complete: bool,  # noqa: FBT001 - called in one place
) -> TreeLine:
    counts = {
        lane: (work.cycles, work.busy) if own is None else (work.within, work.busy_within)
        for lane, work in works.items()
    }
    counted = sites if own is None else own
    cycles = {lane: sum(total[site] for site in counted) for lane, (total, _) in counts.items()}
    lane = max(cycles, key=lambda name: (cycles[name], name == ARRAY), default="")
    lane = ARRAY if own is None and cycles.get(ARRAY) else lane
    lane = lane if lane and cycles[lane] else ""
    window, exact = _window(line, sites, works, cycles) if complete and lane else (None, False)
    return TreeLine(
        text=line.text,
        kind=line.kind,
        depth=line.depth,
        site=sites[0] if line.kind == "command" and sites else 0,
        lane=lane,
        cycles=cycles[lane] if lane else 0,
        busy=sum(counts[lane][1][site] for site in counted) if lane else 0,
        executions=prod(line.trips),
        window=window,
        exact=exact,
    )


def _window(
    line: _NodeLine, sites: Sequence[int], works: Mapping[str, Work], cycles: Mapping[str, int]
) -> tuple[Window | None, bool]:
    """Find the middle iteration, on a compute unit, whose pace is fixed, where there is one."""
    fixed = {name for name in works if without_core(name) in COMPUTE_UNITS}
    for lane in sorted(works, key=lambda name: (name != ARRAY, name not in fixed, -cycles[name])):
        busy = works[lane].busy
        working = [site for site in sites if busy[site]]
        if working:
            break
    else:
        return None, False
    work, (first, last) = works[lane], (working[0], working[-1])
    executions, trips = prod(line.trips), line.trips[-1]
    exact = lane in fixed and not (busy[first] % executions or busy[last] % executions)
    if line.kind == "command" and lane not in fixed:
        _, start, end = work.row(first, busy[first] * ((executions - 1) // 2) // executions)
        return (start, end), False
    at = (executions // trips - 1) // 2 * trips + (trips - 1) // 2
    start = work.row(first, busy[first] * at // executions)[0]
    if trips > 1:
        end = work.row(first, busy[first] * (at + 1) // executions)[0]
    else:
        end = work.row(last, busy[last] * (at + 1) // executions - 1)[0] + 1
    return (start, max(start + 1, end)), exact
