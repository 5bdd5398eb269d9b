"""What a nest needs has happened before: each command of a run held against those it depends on.

The oracle knows the program in program order and when each engine began and ended each of its
commands; it knows nothing of tokens.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import pytest

from simaccel.experiment.what_if import free
from simaccel.hardware import Accelerator
from simaccel.machine.engines import Engine, Waiting
from simaccel.machine.machine import Machine
from simaccel.machine.plan import Op
from simaccel.machine.walks import engine_of
from simaccel.program.lower import lower
from simaccel.program.program import (
    BUFFER,
    Command,
    Compute,
    Load,
    Loop,
    Node,
    Operator,
    Program,
    Reserve,
    Store,
    Tile,
    rings,
)
from tests.nests import NestCase, draw_accelerator, draw_long_nest, draw_nest, draw_sums, runs

MOST_COMMANDS = 3_000
Instance = tuple[str, int]
"""A tile by name, and the how-manieth of that name it is."""
Block = tuple[str, tuple[int, ...]]
"""A tensor or tile in the memory outside, and where a block starts."""


@dataclass(frozen=True)
class Done:
    """One execution of a command: the tiles alive by name, where it stands, and when it was."""

    command: Command
    alive: dict[str, Instance]
    at: dict[str, int]
    start: int = 0
    end: int = 0


@dataclass
class Order:
    """Executes a program in program order, one list of times by engine beside it."""

    on: Accelerator
    times: dict[str, list[tuple[int, int]]]
    opened: Counter[str] = field(default_factory=Counter)
    ran: Counter[str] = field(default_factory=Counter)

    def body(
        self,
        body: Sequence[Node],
        tiles: Sequence[Tile],
        alive: dict[str, Instance],
        at: dict[str, int],
    ) -> Iterator[Done]:
        """Give each command of a body, in program order, with the times of its engine."""
        for tile in tiles:
            alive = alive | {tile.name: (tile.name, self.opened[tile.name])}
            self.opened[tile.name] += 1
        for node in body:
            if isinstance(node, Operator):
                yield from self.body(node.body, node.tiles, alive, at)
            elif isinstance(node, Loop):
                for trip in range(node.trips):
                    here = at.get(node.rank, 0) + node.start + trip * node.step
                    yield from self.body(node.body, node.tiles, alive, at | {node.rank: here})
            else:
                engine = engine_of(node, self.on)
                start, end = self.times[engine][self.ran[engine]]
                self.ran[engine] += 1
                yield Done(node, alive, at, start, end)


@dataclass
class Require:
    """Holds each command against what must have happened before; counts what it has seen."""

    on: Accelerator
    slots: Mapping[str, int]
    filled: dict[Instance, int] = field(default_factory=dict)
    """When the contents of a tile are there."""
    loaded: dict[Instance, int] = field(default_factory=dict)
    """When what a tile was loaded with is there."""
    left: dict[Block, int] = field(default_factory=dict)
    """When sums that were stored are there."""
    used: dict[Instance, int] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)

    def true(self, done: Done) -> None:
        """Hold one command against those before it."""
        command = done.command
        if isinstance(command, Load):
            self.load(done, command)
        elif isinstance(command, Store):
            self.store(done, command)
        elif isinstance(command, Compute):
            for tile in (*command.inputs, *((command.out,) if command.accumulate else ())):
                self.after(done, self.filled[done.alive[tile.name]], "pass")
            self.fill(done, command.out, 0)
        for tile in _touched(command):
            instance = done.alive[tile.name]
            self.used[instance] = max(self.used.get(instance, 0), done.end)

    def load(self, done: Done, command: Load) -> None:
        """Require that what is read is there: a tile in the buffer, and sums that were stored."""
        latency = self.on.lead_latency_cycles if command.tile.place != BUFFER else 0
        if command.source is None:
            latency += self.on.dram.latency_cycles
        elif not command.back:
            self.after(done, self.filled[done.alive[command.source.name]], "load")
        else:
            self.after(done, self.loaded.get(done.alive[command.source.name], 0), "load")
        block = _block(command.tile, command.source, done)
        if block in self.left:
            self.after(done, self.left[block], "sums" if command.source is None else "back")
        self.fill(done, command.tile, latency)
        self.loaded[done.alive[command.tile.name]] = done.end + latency

    def store(self, done: Done, command: Store) -> None:
        """Require that the sums are complete before they leave, and free the way for them."""
        self.after(done, self.filled[done.alive[command.tile.name]], "store")
        latency = 0 if command.target is None else self.on.tail_latency_cycles
        self.left[_block(command.tile, command.target, done)] = done.end + latency
        if command.target is not None:
            self.fill(done, command.target, latency)

    def fill(self, done: Done, tile: Tile, latency: int) -> None:
        """Require that the slot is free that a tile comes into; note when it is there."""
        name, number = instance = done.alive[tile.name]
        before = self.used.get((name, number - self.slots[name]))
        if before is not None:
            self.after(done, before, "slot")
        self.filled[instance] = max(self.filled.get(instance, 0), done.end + latency)

    def after(self, done: Done, cycle: int, what: str) -> None:
        """Require that a command starts at a cycle or later."""
        assert done.start >= cycle, (what, done)
        self.seen[what] += 1


def _touched(command: Command) -> tuple[Tile, ...]:
    if isinstance(command, Load):
        return (command.tile, *((command.source,) if command.source is not None else ()))
    if isinstance(command, Store):
        return (command.tile, *((command.target,) if command.target is not None else ()))
    if isinstance(command, Compute):
        return (command.out, *command.inputs)
    return (command.tile,) if isinstance(command, Reserve) else ()


def _block(tile: Tile, outside: Tile | None, done: Done) -> Block:
    name = tile.view.name if outside is None else f"{outside.name}"
    return f"{name} of {tile.name}", tile.view.start(done.at)


def _timed(machine: Machine) -> dict[str, list[tuple[int, int]]]:
    """Note when each engine begins and ends each of its commands."""
    times: dict[str, list[tuple[int, int]]] = defaultdict(list)

    def watch(engine: Engine) -> None:
        plain = engine.work

        def work(op: Op) -> Waiting:
            start = machine.clock.cycle
            yield from plain(op)
            times[engine.name].append((start, machine.clock.cycle))

        engine.work = work  # type: ignore[method-assign]

    for engine in machine.engines:
        watch(engine)
    return times


def _n_commands(program: Program) -> int:
    def count(body: Sequence[Node]) -> int:
        return sum(
            n.trips * count(n.body)
            if isinstance(n, Loop)
            else count(n.body)
            if isinstance(n, Operator)
            else 1
            for n in body
        )

    return count(program.body)


def require_order(on: Accelerator, program: Program) -> Counter[str]:
    """Run a program and require that nothing happens too early; count what was looked at."""
    machine = Machine(on, program, fast_forward=False)
    times = _timed(machine)
    machine.run()
    slots = {name: slots for name, (_, slots) in rings(program.body).items()}
    order, require = Order(on, times), Require(on, slots)
    for done in order.body(program.body, (), {}, {}):
        require.true(done)
    assert all(order.ran[engine] == len(found) for engine, found in times.items())
    return require.seen


def _cases(seeds: range) -> Iterator[tuple[NestCase, Program]]:
    for seed in seeds:
        draw = Random(seed)  # noqa: S311 - not a secret
        made = [draw_sums(draw, draw_accelerator(draw)) for _ in range(4)]
        made += [draw_long_nest(draw, draw_accelerator(draw)), draw_nest(seed)]
        for case in made:
            if runs(case):
                program = lower(case.workload, case.mapping)
                if _n_commands(program) <= MOST_COMMANDS:
                    yield case, program


@pytest.mark.parametrize("block", range(8))
def test_nothing_is_read_before_it_is_there(block: int) -> None:
    seen = Counter[str]()
    for case, program in _cases(range(block * 20, block * 20 + 20)):
        seen += require_order(case.accelerator, program)
    assert min(seen[what] for what in ("pass", "load", "store", "slot", "sums", "back")) > 10


@pytest.mark.parametrize("block", range(4))
def test_nor_is_it_with_more_slots(block: int) -> None:
    """What-if gives tiles more slots; sums must still be stored before they are loaded."""
    more = 0
    for case, program in _cases(range(200 + block * 15, 215 + block * 15)):
        on, freed = free(case.accelerator, program, ("slots",))
        require_order(on, freed)
        more += rings(freed.body) != rings(program.body)
    assert more > 10
