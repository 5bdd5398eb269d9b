"""How many folds could follow one another in one event: see `docs/decisions/machine.md`.

`python -m benchmarks.folds` prints a table; half a minute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from unittest.mock import patch

from benchmarks.measure import table
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.array import Array, OnChipEngine
from simaccel.machine.channel import Channel
from simaccel.machine.clock import Clock
from simaccel.machine.instructions import Instruction
from simaccel.machine.machine import Machine
from simaccel.program.lowering import lower
from simaccel.schedulers import make_mapping
from simaccel.workload import build

RUNS = (
    ("edge", 512, "flat"),
    ("edge", 8192, "flash"),
    ("edge", 8192, "flex"),
    ("cloud", 65_536, "flash"),
)
ARRAY = "array"


@dataclass(frozen=True)
class Fold:
    """One fold as it ran: its cycles, and whether nobody else asked what it used meanwhile."""

    start: int
    end: int
    alone: bool


@dataclass
class Heard:
    """What a run did: its folds, requests by others, cycles with events of others, operators."""

    folds: list[Fold] = field(default_factory=list)
    asked: Counter[int] = field(default_factory=Counter)
    others: set[int] = field(default_factory=set)
    by_operator: Counter[str] = field(default_factory=Counter)
    array: Array | None = None


@contextmanager
def listening(heard: Heard) -> Iterator[None]:
    """Note what folds, channels and events do."""
    work, request, step = OnChipEngine.work, Channel.request, Clock.step

    def noted_work(self: OnChipEngine, op: Instruction) -> Iterator[Any]:
        uses = [id(use.channel) for use in self.uses[self.at]]
        before, start = [heard.asked[use] for use in uses], self.clock.cycle
        yield from work(self, op)
        if isinstance(self, Array):
            heard.array = self
            alone = before == [heard.asked[use] for use in uses]
            heard.folds.append(Fold(start, self.clock.cycle, alone))

    def noted_request(self: Channel, cycles: int, direction: int, owner: str) -> Any:  # noqa: ANN401
        heard.asked[id(self)] += owner != ARRAY
        return request(self, cycles, direction, owner)

    def noted_step(self: Clock) -> None:
        array = heard.array
        place = array.at if array is not None else 0
        done = sum(array.counts) if array is not None else 0
        step(self)
        if array is not None and sum(array.counts) == done:
            heard.others.add(self.cycle)
        op = array.plan.ops[place] if array is not None and place < len(array.plan.ops) else None
        heard.by_operator[op.operator if op else ""] += 1

    with (
        patch.object(OnChipEngine, "work", noted_work),
        patch.object(Channel, "request", noted_request),
        patch.object(Clock, "step", noted_step),
    ):
        yield


def row(hw: str, seq_len: int, dataflow: str) -> list[object]:
    """Run a BERT block and count."""
    accelerator = load_accelerator(hw)
    workload = build("bert", batch=64, seq_len=seq_len, scope="block")
    program = lower(workload, make_mapping(workload, accelerator, dataflow))
    heard = Heard()
    with listening(heard):
        run = Machine(accelerator, program).run()
    pairs = [(a, b) for a, b in pairwise(heard.folds) if a.alone and b.alone and a.end == b.start]
    ties = sum(a.end in heard.others for a, _ in pairs)
    alone = sum(fold.alone for fold in heard.folds) / len(heard.folds)
    return [
        f"{hw}, {dataflow}, {seq_len:,}",
        f"{run.events:,}",
        f"{len(heard.folds):,}",
        f"{alone:.1%}",
        f"{len(pairs):,}",
        f"{len(pairs) / run.events:.1%}",
        f"{ties:,}",
        f"{heard.by_operator['V'] / run.events:.1%}",
    ]


def main() -> None:
    """Print the table."""
    head = ["run", "events", "folds", "nobody asks meanwhile", "could be one event with the next"]
    head += ["of all events", "ends in a cycle of others", "events of V"]
    print(table(head, [row(*one) for one in RUNS]))


if __name__ == "__main__":
    main()
