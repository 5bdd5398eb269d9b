"""The recurrence where engines share channels: when each of them asks, and until when it is served.

`MaxPlus` says when each engine asks for a channel, given how long each use lasts. The rules of the
channels, stepped (`stepped`), say how long each use lasts, given when each engine asks. Neither
looks ahead: what either says of the time up to a cycle follows from what the other says of the
time before. So both hold for one set of times only, and one after the other finds it, from the
first cycles to the last.

Who comes first of those that ask for a channel in the same cycle is nobody's rule but the order in
which the machine looks at them. It is given, as ``in_turn``: for each channel the engines that ask
for it, in order. That decides between uses of one cycle and nothing else.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simaccel.hardware import Accelerator
from simaccel.program.program import Program
from tests.machine.costs import Costs
from tests.machine.max_plus import Lasting, MaxPlus
from tests.machine.stepped import Stepped, SteppedQueues, SteppedRing, Use, finishes


@dataclass(frozen=True)
class Shared:
    """What the recurrence says: the cycles of a program, and all uses of each channel in order."""

    cycles: int
    uses: Mapping[str, Sequence[Use]]


def shared(on: Accelerator, program: Program, in_turn: Mapping[str, Sequence[str]]) -> Shared:
    """Go from when channels are asked to how long they serve and back, until both agree."""
    costs = Costs(on)
    before: Mapping[str, Sequence[Use]] = {}
    lasting: Lasting = {}
    while True:
        times = MaxPlus(costs, lasting)
        cycles = times.cycles(program)
        uses = {name: _in_order(name, times.uses, in_turn[name]) for name, _ in times.uses}
        if uses == before:
            return Shared(cycles, uses)
        moved = {name: mine for name, mine in uses.items() if mine != before.get(name)}
        before, lasting = uses, {**lasting, **_lasting(on, moved)}


def _in_order(
    channel: str, uses: Mapping[tuple[str, str], Sequence[Use]], in_turn: Sequence[str]
) -> list[Use]:
    """Sort the uses of a channel by when they begin; those of one cycle as they come."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, engine in enumerate(in_turn):
        places[engine].append(place)
    placed = [
        (use.at, place, use)
        for (name, engine), mine in uses.items()
        if name == channel
        for use, place in zip(mine, places[engine], strict=True)
    ]
    return [use for _, _, use in sorted(placed)]


def _lasting(on: Accelerator, uses: Mapping[str, Sequence[Use]]) -> Lasting:
    """Serve all uses of each channel by its rules."""
    found: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for name, mine in uses.items():
        for use, end in zip(mine, finishes(_channel(on, name), mine), strict=True):
            found[name, use.engine].append(end - use.at)
    return found


def _channel(on: Accelerator, name: str) -> Stepped:
    """Return a channel at rest: a port of the buffer, or one of a memory."""
    if name.startswith("buffer_"):
        return SteppedRing(on.buffer.turn_cycles)
    there = on.every_backing[name.rstrip("0123456789")]
    batch = there.batch_cycles(write=False), there.batch_cycles(write=True)
    return SteppedQueues(batch, there.dram.turnaround_cycles)
