"""When does each command start and end? A recurrence over maxima and sums, without any events.

Independent of `simaccel.machine`: it follows the design's rules in program order. An engine runs
its own commands one after the other; a command waits until the tiles that it touches come from
whoever had them before and, where it is the first to touch a tile, until a slot is free; a tile
is free when the last engine that touches it is past its last command with it; at the end of an
operator an engine goes on as far as the overlap of the next one says. On a systolic array a
stationary operand shifts in behind the last fold before, if it is there, and the last results
leave behind the first fold after.

Engines share the channels of DRAM, and of memories beside it, and the two ports of the buffer. How
long each use of them lasts is given (`shared` finds it); what isn't given lasts as long as alone.
`costs` has what isn't covered.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from simaccel.hardware import Accelerator
from simaccel.program.fit import Fifo, fifos, rings
from simaccel.program.overlap import Overlap, overlaps
from simaccel.program.program import (
    Command,
    Compute,
    Folds,
    Node,
    Operator,
    Program,
    ProgramLoop,
    Reserve,
    Sfu,
    Store,
    Tile,
    UnitCommand,
    commands,
    tiles_of,
)
from tests.machine.costs import Costs, Work
from tests.machine.stepped import Use

Ring = tuple[str, str, str, str]
Lasting = Mapping[tuple[str, str], Sequence[int]]
"""(channel, engine) -> how long each of its uses lasts, in order."""


@dataclass
class _Instance:
    """A tile in one execution of its body: who has it, and since when."""

    ring: Ring
    slots: int
    holder: str = ""
    ready: int = 0
    came: int = 0
    """When it came to the engine that has it, or will come from the array."""
    used: int = 0
    """When the last engine was past its last use so far."""


_Living = dict[str, _Instance]


@dataclass
class MaxPlus:
    """The state of the recurrence: when each engine, and each slot of a tile, is free."""

    costs: Costs
    lasting: Lasting = field(default_factory=dict)
    uses: dict[tuple[str, str], list[Use]] = field(default_factory=lambda: defaultdict(list))
    """(channel, engine) -> what it asks for, in order."""
    time: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    slots: dict[str, tuple[int, int]] = field(default_factory=dict)
    claimed: dict[Ring, int] = field(default_factory=lambda: defaultdict(int))
    freed: dict[Ring, list[int]] = field(default_factory=lambda: defaultdict(list))
    began: int = 0
    """When the last fold's stream began: behind it the next stationary operand shifts in."""
    left: int = 0
    """When the last output-stationary sums have left the rows."""
    drained: int = 0
    """When the last result has left the array."""
    made: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """When the last results of the array for a tile have left it."""
    ended: int = 0
    """When the operator before has ended."""
    opened: int = 0
    """When the next one may begin: an operator's start stands between."""
    overlaps: dict[str, Overlap] = field(default_factory=dict)
    fifos: dict[str, dict[str, Fifo]] = field(default_factory=dict)
    name: str = ""
    overlap: Overlap = field(default_factory=Overlap)

    @property
    def accelerator(self) -> Accelerator:
        """What the program runs on."""
        return self.costs.on

    def cycles(self, program: Program) -> int:
        """Cycles of a whole program."""
        self.overlaps = overlaps(program, self.accelerator)
        self.fifos = fifos(program, self.accelerator)
        self.time.update({self._engine(command): 0 for command in commands(program.body)})
        self.opened = self.accelerator.compiler.kernel_start_cycles
        self._outside(program.body)
        return self.ended

    def _outside(self, body: Sequence[Node]) -> None:
        for node in body:
            if isinstance(node, ProgramLoop):
                for _ in range(node.trips):
                    self._outside(node.body)
            elif isinstance(node, Operator):
                self._operator(node)

    def _operator(self, operator: Operator) -> None:
        self.name, self.overlap = operator.name, self.overlaps[operator.name]
        self.slots = rings(operator.body, operator.tiles)
        self._body(operator.body, operator.tiles, {})
        # nobody goes on beyond an operator before the one before it has ended
        self.time.update({name: max(time, self.ended) for name, time in self.time.items()})
        self.ended = max([self.ended, self.drained, *self.time.values()])
        self.opened = self.ended + self.accelerator.compiler.kernel_start_cycles
        # loaders go on together
        loaders = [name for name in self.time if name.startswith("dma_in")]
        together = max((self.time[name] for name in loaders), default=0)
        self.time.update(dict.fromkeys(loaders, together))

    def _gate(self, node: Node) -> None:
        """Let loaders wait for the end before where they first load what is not early."""
        for command in commands((node,)):
            engine = self._engine(command)
            names = {tile.name for tile in tiles_of(command)}
            if engine.startswith("dma_in") and not names <= self.overlap.early:
                self.time[engine] = max(self.time[engine], self.opened)

    def _body(self, body: Sequence[Node], tiles: Sequence[Tile], outer: _Living) -> None:
        own = self._open(body, tiles)
        self._nodes(body, outer, own)
        self._close(own)

    def _open(self, body: Sequence[Node], tiles: Sequence[Tile]) -> _Living:
        own = {}
        for tile in tiles:
            engines = [
                self._engine(c)
                for c in commands(body)
                if tile.name in [t.name for t in tiles_of(c)]
            ]
            ring = self._ring(tile.name, engines[0], engines[-1])
            own[tile.name] = _Instance(ring, self.slots[tile.name][1])
        return own

    def _ring(self, tile: str, first: str, last: str) -> Ring:
        """Name the slots of a tile: those of its operator, or of a FIFO that several have."""
        fifo = self.fifos[self.name].get(tile)
        return (self.name, tile, first, last) if fifo is None else ("", fifo.name, first, last)

    def _close(self, own: _Living) -> None:
        for instance in own.values():
            self.freed[instance.ring].append(instance.used)

    def _nodes(self, nodes: Sequence[Node], outer: _Living, own: _Living) -> None:
        """Go through (a part of) a body that declares ``own``."""
        for node in nodes:
            if not outer and not self.overlap.free:
                self._gate(node)
            if isinstance(node, ProgramLoop):
                self._loop(node, outer | own)
            elif not isinstance(node, Operator):
                self._command(node, outer | own)

    def _loop(self, loop: ProgramLoop, outer: _Living) -> None:
        """Run a loop; a part that is ahead runs an iteration early."""
        if not loop.ahead:
            for _ in range(loop.trips):
                self._body(loop.body, loop.tiles, outer)
            return
        behind: _Living | None = None
        late = {t.name for c in commands(loop.body[loop.ahead :]) for t in tiles_of(c)}
        for own in [*self._instances(loop), None]:
            if own is not None:
                self._nodes(loop.body[: loop.ahead], outer, own)
                self._close({name: one for name, one in own.items() if name not in late})
            if behind is not None:
                self._nodes(loop.body[loop.ahead :], outer, behind)
                self._close({name: one for name, one in behind.items() if name in late})
            behind = own

    def _instances(self, loop: ProgramLoop) -> Iterator[_Living]:
        for _ in range(loop.trips):
            yield self._open(loop.body, loop.tiles)

    def _engine(self, command: Command) -> str:
        if isinstance(command, Compute):
            return "array"
        assert not isinstance(command, UnitCommand)
        if isinstance(command, Sfu):
            return "sfu"
        if isinstance(command, Store):
            return "noc_out" if command.target else "dma_out"
        if command.noc if isinstance(command, Reserve) else command.source:
            return f"noc_in{command.queue}"
        return f"dma_in{'' if self.accelerator.dma.in_queues == 'single' else command.queue}"

    def _command(self, command: Command, living: _Living) -> None:
        engine = self._engine(command)
        # tiles kept outside the operators need no hand-over: engines have met since
        names = {tile.name for tile in tiles_of(command)}
        instances = {name: living[name] for name in sorted(names & set(living))}
        start = self._begin(engine)
        for instance in instances.values():
            start = max(start, self._available(instance, engine))
            if instance.holder != engine:
                instance.came = start if not instance.holder else instance.ready
        ready = None
        if isinstance(command, Compute) and isinstance(command.on, Folds):
            ready = self._fold(command, command.on, start, instances)
        else:
            self.time[engine] = self._end(engine, start, self.costs.work(command))
        for instance in instances.values():
            instance.holder = engine
            instance.used = instance.ready = self.time[engine]
            if engine.startswith("dma_in") and not isinstance(command, Reserve):
                instance.ready += self.costs.memory(command).dram.latency_cycles
        if not instances.keys() <= self.overlap.ahead:
            self._pause(engine)
        if ready is not None and isinstance(command, Compute) and command.out.name in instances:
            made = instances[command.out.name]
            made.came = made.ready = made.used = ready

    def _begin(self, engine: str) -> int:
        """When an engine can begin a command, its tiles apart."""
        waits = not engine.startswith("dma_in") and not self.overlap.whole
        return max(self.time[engine], self.opened if waits else 0)

    def _pause(self, engine: str) -> None:
        """Let a loader bring one tile only before the end of the operator before."""
        if engine.startswith("dma_in") and not self.overlap.free:
            self.time[engine] = max(self.time[engine], self.opened)

    def _fold(self, command: Compute, folds: Folds, start: int, own: _Living) -> int:
        """Run the folds of a block as soon as it can be on the array; say when its last is out."""
        kind, latency = folds.stationarity, self.accelerator.lead_latency_cycles
        block = self.costs.block(command, folds)
        held = {"ws": 1, "is": 0}.get(kind)
        for number, tile in enumerate(command.inputs):
            came = self._came(tile, own)
            if number == held:
                start = max(start, max(self.began, came + latency) + block.lead)
            else:
                start = max(start, came + latency)
        if kind == "os" and command.accumulate:
            start = max(start, self._came(command.out, own) + latency)
        if (
            block.staying
        ):  # they move on at the end of the first stream, and those before are gone then
            start = max(start, self.left - block.steps)
        self.time["array"] = start
        for fold in block.folds:
            self.time["array"] = self._end("array", self.time["array"], fold)
        if (
            block.staying
        ):  # they moved on at the end of the last stream, in whose charge is their way
            self.left = self.time["array"] - max(block.rows - block.steps, 0) + block.rows
        self.began = self.time["array"] - block.hidden
        out = self.time["array"] + block.tail + self.accelerator.tail_latency_cycles
        self.drained = self.made[command.out.name] = max(self.drained, out)
        return self.drained

    def _came(self, tile: Tile, own: _Living) -> int:
        """When a tile came to the array; one kept outside when an operator, or a block, made it."""
        return own[tile.name].came if tile.name in own else max(self.ended, self.made[tile.name])

    def _available(self, instance: _Instance, engine: str) -> int:
        """When a tile has come from another engine, or has a slot at all."""
        if instance.holder:
            return 0 if instance.holder == engine else instance.ready
        _, _, first, last = instance.ring
        number = self.claimed[instance.ring]
        self.claimed[instance.ring] += 1
        before = number - instance.slots
        return self.freed[instance.ring][before] if first != last and before >= 0 else 0

    def _end(self, engine: str, start: int, work: Work) -> int:
        """When some work that begins at ``start`` is done: at the end of all its uses."""
        cycles, asked = work
        ends = [start + cycles]
        for channel, served, direction in asked:
            if served:
                before, given = self.uses[channel, engine], self.lasting.get((channel, engine), ())
                lasts = given[len(before)] if len(before) < len(given) else served
                before.append(Use(start, engine, served, direction))
                ends.append(start + lasts)
        return max(ends)


def cycles_alone(on: Accelerator, program: Program) -> int:
    """Cycles of a program where no engine shares a channel with others."""
    return MaxPlus(Costs(on)).cycles(program)
