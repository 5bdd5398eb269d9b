"""All chips of a pod whose groups are on different chips, each on a machine of its own.

Each machine has the part of the program that its chip does. They share a clock and nothing else but
messages: what receives goes on when what is sent to it has come. Collectives take the cycles of
their formula, as `all_chips` has them as messages. Figures of each chip are compared with the run
in which one chip of each place stands for all: operators, bytes, channels, busy cycles of engines.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import simpy

from simaccel.hardware import Accelerator
from simaccel.hardware.cores import CHIP, REMOTE, on_chip, on_core, without_core
from simaccel.machine.clock import Clock
from simaccel.machine.engines import UnitEngine, Waiting
from simaccel.machine.instructions import Instruction
from simaccel.machine.machine import Machine, Run
from simaccel.mapping.chips.exchanges import Exchange
from simaccel.mapping.chips.sharding import Pod
from simaccel.program.exchanges import lower_pod
from simaccel.program.program import Node, Operator, Program, ProgramLoop
from simaccel.units import LINK, Cause
from tests.drawn_chips import draw_pod_of_places

EVENTS = 100_000


class Arrivals:
    """Messages on their way, by what they are."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.events: dict[object, simpy.Event] = {}

    def event(self, key: object) -> simpy.Event:
        """Return the event that a message comes."""
        return self.events.setdefault(key, self.clock.event())

    def deliver(self, cycles: int, key: object) -> None:
        """Let a message come so many cycles later."""
        self.clock.call_in(cycles, lambda _: self._come(key))

    def _come(self, key: object) -> None:
        self.event(key).succeed()


class PlaceEngine(UnitEngine):
    """The links of a chip of several groups of chips: messages to others, and collectives."""

    chip: int
    arrivals: Arrivals
    exchanges: dict[str, Exchange]
    times: Counter[str]

    def work(self, op: Instruction) -> Waiting:
        """Send a message, wait for one, or do what a collective does."""
        exchange = self.exchanges[op.operator]
        if not exchange.is_message:
            yield from super().work(op)
            return
        self.times[op.operator] += 1
        chip = self.chip - exchange.source_layout.first
        if op.operator == exchange.receipt:
            chip = self.chip - exchange.target_layout.first
        source, target = chip + exchange.source_layout.first, chip + exchange.target_layout.first
        key = exchange.name, self.times[op.operator], source, target
        if op.operator == exchange.receipt:
            self.account.enter(self.clock.cycle, op.site)
            self.account.switch(self.clock.cycle, Cause.BUSY)
            self.stage = 1
            yield self.arrivals.event(key)
        yield from super().work(op)
        if op.operator == exchange.name:  # all has been read, and has left
            pod = self.resources.accelerator.pod
            self.arrivals.deliver(pod.lag_cycles("send", exchange.axes), key)


def run_places(pod: Pod, accelerator: Accelerator) -> Iterator[str]:
    """Run all chips of a pod; yield every figure that is not that of the one for its place."""
    program = lower_pod(pod, accelerator)
    together = Machine(accelerator, program).run()
    clock, machines = Clock(), dict[int, Machine]()
    arrivals = Arrivals(clock)
    for place in pod.places:
        part = _part(program, place.start, pod.exchanges)
        for chip in place:
            machines[chip] = Machine(accelerator, part, fast_forward=False, clock=clock)
            _link(machines[chip], chip, arrivals, pod)
    for machine in machines.values():
        machine.start()
    while clock.run_some(EVENTS):
        pass
    runs = {chip: machine.finish() for chip, machine in machines.items()}
    for place in pod.places:
        for chip in place:
            yield from _compare(chip, _figures(runs[chip], together, place.start))
    cycles = max(run.cycles for run in runs.values())
    if cycles != together.cycles:
        yield f"{cycles} cycles, not {together.cycles}"


def _compare(chip: int, figures: Iterable[tuple[str, object, object]]) -> Iterator[str]:
    for name, own, told in figures:
        if own != told:
            yield f"chip {chip}: {name}: {own}, not {told}"


def _part(program: Program, chip: int, exchanges: Sequence[Exchange]) -> Program:
    """Return what a chip does of a program, without what its links wait for."""
    sent = {exchange.name for exchange in exchanges if exchange.is_message}

    def inside(body: Sequence[Node]) -> Iterator[Node]:
        for node in body:
            if isinstance(node, Operator):
                cores = node.cores or range(0)
                if cores and cores.start // CHIP == chip:
                    first = cores.start % CHIP
                    place = range(first, first + len(cores))
                    yield replace(node, cores=place, body=tuple(map(alone, node.body)))
            elif isinstance(node, ProgramLoop):
                yield replace(node, body=tuple(inside(node.body)))

    def alone(node: Node) -> Node:
        if not isinstance(node, ProgramLoop):
            return node
        awaits = tuple(tiles for tiles in node.awaits if tiles.tensor not in sent)
        hands_on = tuple(name for name in node.hands_on if name not in sent)
        body = tuple(map(alone, node.body))
        return replace(node, awaits=awaits, hands_on=hands_on, body=body)

    return replace(program, body=tuple(inside(program.body)))


def _link(machine: Machine, chip: int, arrivals: Arrivals, pod: Pod) -> None:
    """Let the link engines of a machine send messages."""
    exchanges = {name: exchange for exchange in pod.exchanges for name in exchange.operators}
    for engine in machine.engines:
        if without_core(engine.name) != LINK or not isinstance(engine, UnitEngine):
            continue
        engine.__class__ = PlaceEngine
        if not isinstance(engine, PlaceEngine):
            raise TypeError(type(engine))
        engine.chip, engine.arrivals = chip, arrivals
        engine.exchanges, engine.times = exchanges, Counter()


def _figures(run: Run, together: Run, chip: int) -> Iterator[tuple[str, object, object]]:
    """Yield the figures of a chip, and those of the chip that stands for it."""
    core = chip * CHIP
    operators = {operator.name: operator for operator in together.operators}
    for operator in run.operators:
        known = operators[operator.name]
        for name in ("cycles", "macs", "native_macs", "elements", "moved"):
            yield f"{operator.name} {name}", getattr(operator, name), getattr(known, name)
    for name, cycles in run.served_cycles.items():
        yield name, cycles, together.served_cycles[on_chip(core, name)]
    for name, engine in run.engines.items():
        if name != on_core(REMOTE, LINK):  # what receives is busy for as long as it waits
            yield f"{name} busy", engine.busy, together.engines[on_chip(core, name)].busy


def main() -> None:
    """Draw pods whose groups are on different chips, and print how many have other figures."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=500, metavar="N")
    asked = parser.parse_args()
    drawn = [case for case in map(draw_pod_of_places, range(asked.cases)) if case is not None]
    chips = differ = messages = 0
    for case in drawn:
        differences = list(run_places(case.pod, case.on))
        differ += bool(differences)
        chips += sum(map(len, case.pod.places))
        messages += sum(exchange.is_message for exchange in case.pod.exchanges)
        print(*differences[:3], sep="\n", end="\n" if differences else "")
    print(f"{len(drawn)} pods, {chips} chips, {messages} messages: {differ} differ")


if __name__ == "__main__":
    main()
