"""When does each command start and end? A recurrence over maxima and sums, without any events.

Independent of `simaccel.machine`: it follows the design's rules in program order. An engine runs
its own commands one after the other; a command waits until the tiles that it touches come from
whoever had them before and, where it is the first to touch a tile, until a slot is free; a tile
is free when the last engine that touches it is past the last command or loop with a use of it in
the body that declares it (of a loop with a part ahead that alone uses it, past that part's last
iteration); engines meet at the end of an operator. Nobody may share a resource: ports and NoC are
unlimited, and DRAM is unlimited or has one DMA engine as its only requester.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from simaccel.hardware import Accelerator, FoldGrid
from simaccel.program.program import (
    Command,
    Compute,
    Folds,
    Loop,
    Node,
    Operator,
    Program,
    Reserve,
    Sfu,
    Store,
    Tile,
    commands,
    rings,
    tiles_of,
    transferred,
)

Ring = tuple[str, str, str]


@dataclass
class _Instance:
    """A tile in one execution of its body: who has it, and since when."""

    ring: Ring
    holder: str = ""
    ready: int = 0


_Living = dict[str, _Instance]


@dataclass
class MaxPlus:
    """The state of the recurrence: when each engine, and each slot of a tile, is free."""

    accelerator: Accelerator
    time: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    slots: dict[str, tuple[int, int]] = field(default_factory=dict)
    claimed: dict[Ring, int] = field(default_factory=lambda: defaultdict(int))
    freed: dict[Ring, list[int]] = field(default_factory=lambda: defaultdict(list))
    kept: set[str] = field(default_factory=set)
    """Tiles that the later part of a body with a part ahead still uses."""

    def cycles(self, program: Program) -> int:
        """Cycles of a whole program."""
        self._outside(program.body)
        return max(self.time.values(), default=0)

    def _outside(self, body: Sequence[Node]) -> None:
        for node in body:
            if isinstance(node, Loop):
                for _ in range(node.trips):
                    self._outside(node.body)
            elif isinstance(node, Operator):
                self._operator(node)

    def _operator(self, operator: Operator) -> None:
        self.slots = rings(operator.body, operator.tiles)
        self._body(operator.body, operator.tiles, {})
        meeting = max(self.time.values(), default=0)
        self.time = defaultdict(lambda: meeting)
        self.time["meeting"] = meeting
        self.claimed.clear()
        self.freed.clear()

    def _body(self, body: Sequence[Node], tiles: Sequence[Tile], outer: _Living) -> None:
        own = self._open(body, tiles)
        self._nodes(body, outer, own)

    def _open(self, body: Sequence[Node], tiles: Sequence[Tile]) -> _Living:
        own = {}
        for tile in tiles:
            engines = [
                self._engine(c)
                for c in commands(body)
                if tile.name in [t.name for t in tiles_of(c)]
            ]
            own[tile.name] = _Instance((tile.name, engines[0], engines[-1]))
        return own

    def _nodes(self, nodes: Sequence[Node], outer: _Living, own: _Living) -> None:
        """Go through (a part of) a body that declares ``own``; free what has no use after it."""
        for at, node in enumerate(nodes):
            early: dict[str, int] = {}
            if isinstance(node, Loop):
                early = self._loop(node, outer | own)
            elif not isinstance(node, Operator):
                self._command(node, outer | own)
            for name in self._uses([node]) - self._uses(nodes[at + 1 :]):
                if name in own and name not in self.kept:
                    ring = own[name].ring
                    late = self._uses(node.body[node.ahead :]) if isinstance(node, Loop) else ()
                    times = self.time if not early or name in late else early
                    self.freed[ring].append(times.get(ring[2], 0))

    @staticmethod
    def _uses(nodes: Sequence[Node]) -> set[str]:
        return {tile.name for command in commands(nodes) for tile in tiles_of(command)}

    def _loop(self, loop: Loop, outer: _Living) -> dict[str, int]:
        """Run a loop; where a part of it is ahead, say when engines were past that part's last."""
        if not loop.ahead:
            for _ in range(loop.trips):
                self._body(loop.body, loop.tiles, outer)
            return {}
        early: dict[str, int] = {}
        late = self._uses(loop.body[loop.ahead :])
        behind: _Living | None = None
        for own in [*self._instances(loop), None]:
            if own is not None:
                self.kept = late
                self._nodes(loop.body[: loop.ahead], outer, own)
                self.kept = set()
            else:
                early = dict(self.time)
            if behind is not None:
                self._nodes(loop.body[loop.ahead :], outer, behind)
            behind = own
        return early

    def _instances(self, loop: Loop) -> Iterator[_Living]:
        for _ in range(loop.trips):
            yield self._open(loop.body, loop.tiles)

    def _engine(self, command: Command) -> str:
        if isinstance(command, Compute):
            return "array"
        if isinstance(command, Sfu):
            return "sfu"
        if isinstance(command, Store):
            return "noc_out" if command.target else "dma_out"
        if command.noc if isinstance(command, Reserve) else command.source:
            return f"noc_in{command.queue}"
        return f"dma_in{0 if self.accelerator.dma.in_queues == 'single' else command.queue}"

    def _command(self, command: Command, living: _Living) -> None:
        engine = self._engine(command)
        # tiles kept outside the operators need no hand-over: engines have met since
        names = {tile.name for tile in tiles_of(command)}
        instances = {name: living[name] for name in sorted(names & set(living))}
        start = self.time[engine]
        for instance in instances.values():
            start = max(start, self._available(instance, engine))
        self.time[engine] = start + self._cost(command, engine)
        latency = self.accelerator.dram.latency_cycles
        for instance in instances.values():
            instance.holder = engine
            instance.ready = self.time[engine]
            if engine.startswith("dma_in"):
                instance.ready += latency

    def _available(self, instance: _Instance, engine: str) -> int:
        """When a tile has come from another engine, or has a slot at all."""
        if instance.holder:
            return 0 if instance.holder == engine else instance.ready
        name, first, last = instance.ring
        number = self.claimed[instance.ring]
        self.claimed[instance.ring] += 1
        before = number - self.slots[name][1]
        return self.freed[instance.ring][before] if first != last and before >= 0 else 0

    def _cost(self, command: Command, engine: str) -> int:
        if isinstance(command, Compute):
            on = command.on
            return self._folded(command, on) if isinstance(on, Folds) else on.steps
        if isinstance(command, Sfu):
            return self.accelerator.sfu.cycles(self._passes(command), command.elements)
        if isinstance(command, Reserve) or engine.startswith("noc"):
            return 0
        dram, rate = self.accelerator.dram, self.accelerator.channel_rate
        _, moved = transferred(command)
        return max(rate.cycles(dram.channel_bytes(moved.outer, c)) for c in range(dram.channels))

    def _passes(self, command: Sfu) -> int:
        """Passes of a step; a softmax (mean and variance, too) has two of its three merged."""
        merged = self.accelerator.sfu.passes
        whole = {"softmax": merged, "layer_norm": merged, "rms_norm": 2}.get(command.work, 1)
        return {"whole": whole, "online": 2}.get(command.step, 1)

    def _folded(self, command: Compute, folds: Folds) -> int:
        """Cycles of all g: the first preload and the last skew are paid once."""
        g, m, k, n = _blocked(command)
        array, kind = self.accelerator.systolic, folds.stationarity
        once = array.gemm_cycles(m=m, k=k, n=n, stationarity=kind)
        high, wide, stream = {"ws": (k, n, m), "os": (m, n, k), "is": (k, m, n)}[kind]
        grid = FoldGrid(high, wide, stream, array.rows, array.cols)
        lead, tail = array.lead_cycles(grid, kind), array.tail_cycles(grid, kind)
        return lead + g * (once - lead - tail) + tail


def _blocked(command: Compute) -> tuple[int, ...]:
    """Give g, m, k and n of a product: a rank plays them by the tensors that have it."""
    first, second = (tile.view.names for tile in command.inputs)
    found = dict.fromkeys("gmkn", 1)
    for rank, size in zip(command.ranks, command.shape, strict=True):
        if rank in first and rank in second:
            found["g" if rank in command.out.view.names else "k"] *= size
        else:
            found["m" if rank in first else "n"] *= size
    return tuple(found.values())
