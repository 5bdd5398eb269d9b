"""All chips of a pod, each on a machine of its own, beside the one that stands for them.

Machines share a clock and nothing else but messages: a chip goes on with a collective when what is
sent to it has come. Every figure of each chip is compared with the run of one: cycles, bytes by
level and tensor, every engine's busy and stall cycles, channels, each operator. `python -m
validation.pods.all_chips` runs 2 to 16 chips and writes `all_chips.csv`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

import simpy

from simaccel import load_accelerator
from simaccel.experiment.scheduling import schedule_workload
from simaccel.hardware import Accelerator
from simaccel.hardware.links import LINK_SENT
from simaccel.machine.clock import Clock
from simaccel.machine.engines import UnitEngine, Waiting
from simaccel.machine.instructions import Action, Instruction
from simaccel.machine.machine import Machine, Run
from simaccel.machine.round_robin_arbiter import READ, WRITE
from simaccel.mapping.chips.exchanges import Exchange
from simaccel.mapping.chips.layout import runs
from simaccel.mapping.chips.sharding import Pod, pod_of
from simaccel.mapping.tree import Mapping
from simaccel.program.exchanges import lower_pod
from simaccel.program.program import Program, commands
from simaccel.program.unit_commands import Link
from simaccel.schedulers import Options
from simaccel.units import LINK, Cause
from simaccel.workload import Workload
from simaccel.workload.language import Transformer
from simaccel.workload.language.build import transformer
from validation.pods.messages import Step, steps_of

EVENTS = 100_000


class Links:
    """The links of all chips: a queue each, from one chip to another."""

    def __init__(self, clock: Clock, accelerator: Accelerator) -> None:
        self.clock = clock
        self.spec = accelerator.pod
        self.rate = self.spec.link_rate(accelerator.clock_hz)
        self.free: dict[tuple[int, int], int] = {}
        """When each link has sent all that it was given."""
        self.arrivals: dict[object, simpy.Event] = {}

    def arrival(self, key: object) -> simpy.Event:
        """Return the event that a message comes."""
        return self.arrivals.setdefault(key, self.clock.event())

    def send(self, source: int, target: int, n_bytes: int, key: object) -> simpy.Event:
        """Send a message; return the event that the link is through with it."""
        start = max(self.clock.cycle, self.free.get((source, target), 0))
        self.free[source, target] = end = start + self.rate.cycles(n_bytes)
        self.deliver(end + self.spec.links.hop_cycles - self.clock.cycle, key)
        return self.clock.timeout(end - self.clock.cycle)

    def deliver(self, cycles: int, key: object) -> None:
        """Let a message come in so many cycles."""
        come = self.arrival(key)

        def arrive(_: simpy.Event) -> None:
            come.succeed()

        self.clock.call_in(cycles, arrive)


@dataclass
class Collective:
    """A command to links, and the chips that it is between."""

    exchange: Exchange
    steps: Sequence[tuple[int, Step]]
    places: Sequence[tuple[int, int]]
    """Stride and size of each ring, in chip numbers."""

    @classmethod
    def of(cls, exchange: Exchange, command: Link, accelerator: Accelerator) -> Collective:
        """Read a command."""
        spec, places = accelerator.pod, []
        for axis in runs(exchange.digits):
            stride = axis.stride
            for size in spec.rings([axis]) or ():
                places.append((stride, size))
                stride *= size
        steps = tuple(steps_of(exchange.kind, command.n_bytes, exchange.rings, spec))
        return cls(exchange, steps, _as_rings(places, exchange.rings))

    def number(self, chip: int, ring: int, place: int) -> int:
        """Return the chip at a place on a chip's ring."""
        stride, size = self.places[ring]
        return chip + (place - chip // stride % size) * stride

    def place(self, chip: int, ring: int) -> int:
        """Return the place of a chip on its ring."""
        stride, size = self.places[ring]
        return chip // stride % size


def _as_rings(places: Sequence[tuple[int, int]], rings: Sequence[int]) -> list[tuple[int, int]]:
    if [size for _, size in places] != list(rings):
        raise AssertionError(f"rings of {rings} at {places}")
    return list(places)


class MessageEngine(UnitEngine):
    """The links of one chip of several that are all there: what it waits for are messages."""

    chip: int
    links: Links
    by_step: dict[int, Collective]
    done: int
    sent: int

    def work(self, op: Instruction) -> Waiting:
        """Go through the steps of a collective; ports read and write meanwhile."""
        account, clock = self.account, self.clock
        reads, writes = self.ports["buffer_read"], self.ports["buffer_write"]
        read = reads.request(op.read_cycles, READ, self.name)
        write = writes.request(op.write_cycles, WRITE, self.name)
        account.enter(clock.cycle, op.site)
        account.switch(clock.cycle, Cause.BUSY)
        self.stage, self.done = 1, self.done + 1
        collective = self.by_step[self.at]
        for number, (ring, step) in enumerate(collective.steps):
            yield clock.all_of(list(self._exchanged(collective, number, ring, step)))
        for self.stage, channel, entry in ((3, reads, read), (4, writes, write)):
            if not channel.is_done(entry):
                account.switch(clock.cycle, Cause.BUFFER_PORT)
                yield channel.wait(entry)
        self.stage = 0

    def _exchanged(
        self, collective: Collective, number: int, ring: int, step: Step
    ) -> Iterator[simpy.Event]:
        """Send the messages of a step; yield that they are out, and that others have come."""
        own_place = collective.place(self.chip, ring)
        for message in step:
            source, target = (
                collective.number(self.chip, ring, at) for at in (message.source, message.target)
            )
            key = collective.exchange.name, self.done, number, source, target
            if message.source == own_place:
                self.sent += message.n_bytes
                yield self.links.send(source, target, message.n_bytes, key)
            if message.target == own_place:
                yield self.links.arrival(key)


@dataclass
class Together:
    """The runs of all chips, bytes that each sent by messages, and the run of one for all."""

    accelerator: Accelerator
    pod: Pod
    program: Program
    one: Run
    all: list[Run] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)

    def differences(self) -> Iterator[str]:
        """Yield every figure of a chip that is not that of the one."""
        for chip, run in enumerate(self.all):
            for name in (each.name for each in fields(Run) if each.name != "events"):
                own, told = getattr(run, name), getattr(self.one, name)
                if own != told:
                    yield f"chip {chip}: {name}: {own}, not {told}"
        sent = sum(n for (level, _), n in self.one.moved.items() if level == LINK_SENT)
        yield from (
            f"chip {chip} sends {n} bytes, not {sent}"
            for chip, n in enumerate(self.sent)
            if n != sent
        )


def run_all(workload: Workload, mapping: Mapping, accelerator: Accelerator) -> Together:
    """Run all chips of a pod at once, cycle by cycle, and the one that stands for them."""
    pod = pod_of(workload, mapping, accelerator)
    program = lower_pod(pod, accelerator)
    together = Together(accelerator, pod, program, Machine(accelerator, program).run())
    clock = Clock()
    links = Links(clock, accelerator)
    machines = [
        Machine(accelerator, program, fast_forward=False, clock=clock)
        for _ in range(accelerator.pod.count)
    ]
    engines = [_linked(machine, chip, links, pod, program) for chip, machine in enumerate(machines)]
    for machine in machines:
        machine.start()
    while clock.run_some(EVENTS):
        pass
    together.all = [machine.finish() for machine in machines]
    together.sent = [sum(message_engine.sent for message_engine in engine) for engine in engines]
    return together


def _linked(
    machine: Machine, chip: int, links: Links, pod: Pod, program: Program
) -> list[MessageEngine]:
    """Let the link engine of a machine send messages."""
    message_engines: list[MessageEngine] = []
    by_name = {exchange.name: exchange for exchange in pod.exchanges}
    for engine in machine.engines:
        if engine.name != LINK or not isinstance(engine, UnitEngine):
            continue
        engine.__class__ = MessageEngine
        if not isinstance(engine, MessageEngine):
            raise TypeError(type(engine))
        engine.chip, engine.links, engine.done, engine.sent = chip, links, 0, 0
        at = [n for n, op in enumerate(engine.plan.ops) if op.act is Action.COMMAND]
        sent = [command for command in commands(program.body) if isinstance(command, Link)]
        engine.by_step = {
            n: Collective.of(by_name[engine.plan.ops[n].operator], command, machine.accelerator)
            for n, command in zip(at, sent, strict=True)
        }
        message_engines.append(engine)
    return message_engines


def small(tensor: int) -> Transformer:
    """Return a transformer of two layers whose heads can be cut so many ways."""
    kv_heads = tensor if tensor <= MOST_KV_HEADS or tensor % 2 else tensor // 2
    return Transformer(
        name="small",
        source="sizes for this validation",
        hidden=256,
        layers=2,
        heads=2 * kv_heads,
        kv_heads=kv_heads,
        head_size=32,
        ff_size=48 * tensor,
        vocabulary=512,
    )


MOST_KV_HEADS = 8
POD = [
    "array.rows=32",
    "array.cols=32",
    "buffer.capacity_bytes=256 KiB",
    "links.bytes_per_second=45 GB/s",
    "links.hop_cycles=150",
    "links.chunk_bytes=2 KiB",
]
"""A small chip: as many events as there are in a run of minutes on all chips."""
LINKS: dict[str, tuple[dict[str, str], Sequence[tuple[int, int]]]] = {
    "ring, both ways": (
        {"topology": "ring"},
        [(chips, 1) for chips in range(2, 17)],
    ),
    "ring, one way": ({"topology": "ring", "algorithm": "ring"}, [(4, 1), (7, 1), (16, 1)]),
    "torus": ({"topology": "torus", "dimensions": "2"}, [(4, 1), (8, 1), (8, 2), (16, 1), (16, 4)]),
    "all to all": ({"topology": "all_to_all", "algorithm": "direct"}, [(8, 1), (16, 2)]),
    "switch": ({"topology": "switch", "algorithm": "halving_doubling"}, [(8, 1), (16, 4)]),
}
"""By kind of link: chips, and into how many groups data parallelism divides them."""
TABLE = Path(__file__).parent / "all_chips.csv"
FIGURES = ("links", "chips", "data parallel", "cycles", "link cycles", "sent bytes", "differences")


def case(links: dict[str, str], chips: int, data: int) -> Together:
    """Run a decode step of the small transformer on so many chips."""
    sets = [f"chips={chips}", *(f"links.{name}={value}" for name, value in links.items())]
    pod = load_accelerator("mxu_128", [*sets, *POD])
    tensor = chips // data
    model = small(tensor)
    workload = transformer(model, phase="decode", prompt=32, batch=2 * data, scope="model")
    options = Options(tensor_parallel=tensor, data_parallel=data)
    return run_all(workload, schedule_workload(workload, pod, "naive", options), pod)


def main() -> None:
    """Run all pods, and write how many figures of any chip are not those of the one."""
    with TABLE.open("w") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(FIGURES)
        for name, (links, sizes) in LINKS.items():
            for chips, data in sizes:
                together = case(links, chips, data)
                differences, alone = list(together.differences()), together.one
                link = alone.engines["link"].busy if "link" in alone.engines else 0
                row = (name, chips, data, alone.cycles, link, max(together.sent), len(differences))
                writer.writerow(row)
                print(*row, *differences[:3], flush=True)


if __name__ == "__main__":
    main()
