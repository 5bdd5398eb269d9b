"""Random programs on random accelerators, by seed: trees that no scheduler makes.

Up to five loops, tiles at any depth, any slots, remainders, software pipelining, several operators
in a loop of layers.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import prod
from random import Random
from typing import get_args

from simaccel.hardware import STATIONARITIES, Accelerator
from simaccel.hardware.dram.parts import PARTS
from simaccel.hardware.memory import BankedMap
from simaccel.machine.machine import DeadlockError, Machine, Run
from simaccel.mapping.view import TensorView
from simaccel.program.program import (
    Compute,
    Folds,
    Load,
    Node,
    Operator,
    Program,
    ProgramError,
    ProgramLoop,
    Reserve,
    Store,
    Tile,
)
from tests.machine.accelerators import accelerator
from tests.program.tree import softmax_of

_WITH_BANKS = 0.2
MOST_STEPS = 4_000
"""Longer runs are left out, so that a thousand cases take seconds."""

Body = tuple[tuple[Tile, ...], tuple[Node, ...]]
Fields = dict[str, object]
_RATES = (
    *("1 GB/s", "2 GB/s", "7 GB/s", "32 GB/s", "700 MB/s", "1300 MB/s", "5700 MB/s", "unlimited"),
)


@dataclass(frozen=True)
class Case:
    """A program, what it runs on, and the run without fast-forward.

    ``verify`` returns what else is wrong with that run, of a program that a mapping makes.
    """

    seed: int
    on: Accelerator
    program: Program
    run: Run
    verify: Callable[[], str] | None = None


def cases(seeds: Iterable[int], most_steps: int = MOST_STEPS) -> Iterator[Case]:
    """Draw one case for each seed whose program is valid and short enough."""
    for seed in seeds:
        random = Random(seed)  # noqa: S311 - reproducible, not secret
        program, on = draw_tree(random), draw_accelerator(random)
        case = run_of(seed, on, program, most_steps)
        if case is not None:
            yield case


def run_of(seed: int, on: Accelerator, program: Program, most_steps: int) -> Case | None:
    """Run a program event by event, unless it is not valid or too long."""
    on = with_banks(seed, on)
    try:
        machine = Machine(on, program, fast_forward=False)
        steps = sum(prod(around) for e in machine.engines for around in e.plan.around)
        return Case(seed, on, program, machine.run()) if steps <= most_steps else None
    except (ProgramError, DeadlockError):
        return None


def draw_accelerator(random: Random) -> Accelerator:
    """Draw an accelerator with odd ratios, few or many outstanding requests, 0 to 200 latency."""
    pick, apart = random.choice, Random()  # noqa: S311 - not to change what else is drawn
    apart.setstate(random.getstate())
    return accelerator(
        array={
            "rows": pick([2, 3, 4, 8]),
            "cols": random.randint(1, 6),
            "count": apart.choice([1, 1, 1, 1, 1, 2, 3]),
            "overlap": pick(["none", "preload", "stream"]),
            "edge_folds": pick(["full", "used"]),
        },
        buffer={
            "read_bytes_per_second": pick(_RATES),
            "write_bytes_per_second": pick(_RATES),
            "turn_cycles": pick([1, 3, 4, 16, 64]),
        },
        noc={
            "distribution": _pipe(random) | {"multicast": random.random() < 0.5},
            "collection": _pipe(random),
        },
        sfu={
            "lanes": random.randint(1, 8),
            "passes": pick([2, 3]),
            "latency_cycles": pick([0, 1, 17, 90]),
        },
        dram={
            "bandwidth_bytes_per_second": pick(_RATES),
            "channels": random.randint(1, 3),
            "interleave_bytes": pick([4, 16, 64]),
            "latency_cycles": pick([0, 1, 5, 17, 72, 200]),
            "turnaround_cycles": pick([0, 0, 2, 7]),
            "batch_bytes": pick([1, 4, 16, 64, 300, 2048]),
            "in_flight_bytes": pick([16, 100, 1000, "unlimited", "unlimited"]),
        },
        dma={"in_queues": pick(["per_tensor", "single"])},
    )


def with_banks(seed: int, on: Accelerator) -> Accelerator:
    """Give one accelerator of five a DRAM of rows and banks; the others stay as they are."""
    random = Random(f"banks {seed}")  # noqa: S311 - reproducible, not secret
    if random.random() >= _WITH_BANKS:
        return on
    part, mapping = random.choice(sorted(PARTS)), random.choice([None, *get_args(BankedMap)])
    dram = on.dram.model_copy(update={"model": "banked", "part": PARTS[part], "map": mapping})
    return on.model_copy(update={"dram": dram})


def _pipe(random: Random) -> Fields:
    if random.random() < 0.4:
        return {"topology": "unlimited"}
    return {
        "topology": random.choice(["systolic", "tree", "crossbar", "bus", "mesh"]),
        "link_bytes_per_cycle": random.randint(1, 8),
        "hop_cycles": random.randint(0, 2),
    }


def draw_tree(random: Random) -> Program:
    """Draw operators of nested loops, possibly in a loop of layers around a kept tile."""
    operators = []
    for index in range(random.choice([1, 1, 1, 2])):
        tiles, body = _Tree(random).body(0, 1, {})
        operators.append(Operator(name=f"op{index}", body=body, tiles=tiles))
    body = tuple(operators)
    if random.random() < 0.3:
        kept = (_tile("kept", 100, 1),) if random.random() < 0.5 else ()
        layers = random.choice([1, 2, 5, 30])
        return Program(
            name="random", body=(ProgramLoop(rank="layer", trips=layers, body=body, tiles=kept),)
        )
    return Program(name="random", body=body)


def _tile(name: str, n_bytes: int, slots: int) -> Tile:
    ranks = {"a": "g+x+y", "o": "g+x+z"}.get(name, "g+y+z")
    view = TensorView(name=name, ranks=(ranks,), shape=(1 << 20,), bytes_per_element=1)
    return Tile(name=name, view=view, shape=(max(1, n_bytes),), slots=slots)


@dataclass
class _Tree:
    """One nest: tensors a, b, c are read, o is written, each at a depth of its own."""

    random: Random
    trips: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        pick = self.random.choice
        depth = self.random.randint(2, 5)
        left = pick([30, 100, 200])
        for _ in range(depth):
            self.trips.append(max(1, min(left, pick([1, 2, 3, 4, 5, 7, 9, 12, 20, 40, 100, 200]))))
            left //= self.trips[-1]
        self.random.shuffle(self.trips)
        self.depth_of = {name: self.random.randint(0, depth) for name in "abco"}
        self.bytes_of = {name: pick([1, 4, 16, 60, 200, 1000, 3000]) for name in "abco"}
        self.slots_of = {name: pick([1, 2, 2, 3, 5, 64]) for name in "abco"}
        self.inputs = pick(["ab", "ab", "abc"])
        self.sfu = pick(["", "", "outside", "inside"])
        self.spill = pick([None, None, Reserve, Load])
        self.stores = self.random.random() < 0.85
        self.pipelined = self.random.random() < 0.25
        self.peels = [self.random.random() < 0.3 for _ in range(depth)]
        self.stationarity = pick(STATIONARITIES)
        self.sizes = tuple(pick([1, 2, 3, 5, 8, 13]) for _ in range(3))

    def body(self, depth: int, scale: int, outer: dict[str, Tile]) -> Body:
        """Draw the body below ``depth`` loops, its tiles ``scale`` times smaller."""
        names = [n for n in (*self.inputs, "o") if self.depth_of[n] == depth]
        own = {n: _tile(n, self.bytes_of[n] // scale, self.slots_of[n]) for n in names}
        tiles = outer | own
        nodes: list[Node] = [
            Load(tile=own[name], queue=queue)
            for queue, name in enumerate(self.inputs)
            if name in own
        ]
        if "o" in own and self.spill and not self.sfu:
            nodes.append(self.spill(tile=own["o"], queue=2))
        if depth < len(self.trips):
            nodes += self._loops(depth, scale, tiles)
        else:
            nodes += self._work(scale, tiles)
        if "o" in own and self.sfu == "outside":
            nodes.append(softmax_of(own["o"], (1, 1, own["o"].shape[0])))
        if "o" in own and self.stores:
            nodes.append(Store(tile=own["o"]))
        return tuple(own.values()), tuple(nodes)

    def _loops(self, depth: int, scale: int, tiles: dict[str, Tile]) -> Iterator[ProgramLoop]:
        own, body = self.body(depth + 1, scale, tiles)
        ahead = self.random.choice([0, 1, len(body) // 2]) if self.pipelined else 0
        trips = self.trips[depth]
        ahead = ahead if len(body) > 1 else 0
        yield ProgramLoop(rank=f"r{depth}", trips=trips, tiles=own, body=body, ahead=ahead)
        if self.peels[depth]:
            own, body = self.body(depth + 1, 2 * scale, tiles)
            trips = self.random.choice([1, 1, 2, 6])
            yield ProgramLoop(rank=f"r{depth}", trips=trips, tiles=own, body=body)

    def _work(self, scale: int, tiles: dict[str, Tile]) -> Iterator[Node]:
        m, k, n = self.sizes
        for b in self.inputs[1:]:
            yield Compute(
                out=tiles["o"],
                inputs=(tiles["a"], tiles[b]),
                ranks=("g", "x", "y", "z"),
                shape=(self.random.choice([1, 1, 2]), max(1, m // scale), k, n),
                on=Folds(self.stationarity, diagonal=k % 2 == 0),
                accumulate=self.random.random() < 0.5,
            )
        if self.sfu == "inside":
            yield softmax_of(tiles["o"], (1, 1, max(1, 3 * n // scale)))
