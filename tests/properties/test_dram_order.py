"""Data dependences through DRAM: partial sums are not read back before they are stored.

The interpreter executes in program order and can't see this; here each transfer of a run is
matched with its command and its block, and loads are held against the stores before them.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from simaccel.hardware import Accelerator
from simaccel.machine.dma_engines import DmaInEngine, DmaOutEngine
from simaccel.machine.engine_kinds import engine_of
from simaccel.machine.instructions import Instruction
from simaccel.machine.machine import Machine
from simaccel.program.program import (
    Command,
    Load,
    Node,
    Operator,
    Program,
    ProgramLoop,
    Reserve,
    Store,
)
from simaccel.workload import gemm
from tests.machine.accelerators import accelerator, accelerators
from tests.program.programs import Case, gemm_case, gemm_cases

Place = dict[str, int]
Span = tuple[int, int]


@dataclass
class Spans:
    """When each engine's transfers began and ended, in order."""

    of: dict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))

    def record(
        self, engine: DmaInEngine | DmaOutEngine, work: Iterator[simpy.Event]
    ) -> Iterator[simpy.Event]:
        """Run a transfer and note its span."""
        start = engine.clock.cycle
        yield from work
        self.of[engine.name].append((start, engine.clock.cycle))


def _transfers(on: Accelerator, program: Program, patch: pytest.MonkeyPatch) -> Spans:
    spans = Spans()
    for kind in (DmaInEngine, DmaOutEngine):
        work = kind.work

        def recorded(
            self: DmaInEngine | DmaOutEngine, op: Instruction, work: object = work
        ) -> Iterator[simpy.Event]:
            return spans.record(self, work(self, op))  # type: ignore[operator]

        patch.setattr(kind, "work", recorded)
    Machine(on, program, fast_forward=False).run()
    return spans


def _in_order(body: Sequence[Node], at: Place) -> Iterator[tuple[Command, Place]]:
    """Every command execution with its coordinates, in program order (no loop runs ahead)."""
    for node in body:
        if isinstance(node, ProgramLoop):
            for trip in range(node.trips):
                where = at.get(node.rank, 0) + node.start + trip * node.step
                yield from _in_order(node.body, at | {node.rank: where})
        elif isinstance(node, Operator):
            yield from _in_order(node.body, at)
        else:
            yield node, at


def _too_early(on: Accelerator, program: Program, spans: Spans) -> list[str]:
    """Loads that begin before the last store of their block has ended."""
    left = {engine: iter(found) for engine, found in spans.of.items()}
    stored: dict[tuple[object, ...], int] = {}
    early = []
    for command, at in _in_order(program.body, {}):
        if not isinstance(command, Load | Store | Reserve):
            continue
        start, end = next(left[engine_of(command, on)])
        block = (command.tile.name, *(at.get(r, 0) for r in command.tile.view.ranks))
        if isinstance(command, Store):
            stored[block] = end
        elif isinstance(command, Load) and start < stored.get(block, 0):
            early.append(f"{block} is loaded at {start}, but stored until {stored[block]}")
    return early


def early_loads(on: Accelerator, case: Case) -> list[str]:
    """Run a case and name the loads that came before the store that they depend on."""
    with pytest.MonkeyPatch.context() as patch:
        return _too_early(on, case.program, _transfers(on, case.program, patch))


@given(gemm_cases(most_slots=2), accelerators())
def test_partial_sums_are_read_back_after_they_were_stored(case: Case, on: Accelerator) -> None:
    assert early_loads(on, case) == []


@given(slots=st.integers(1, 4), more=st.integers(0, 2), on=accelerators())
def test_slots_up_to_the_blocks_of_a_round_keep_the_order(
    slots: int, more: int, on: Accelerator
) -> None:
    """The next sums of a block come a round of blocks later, when its slot has gone round too."""
    blocks = max(2, slots + more)
    case = gemm_case(gemm(m=2 * blocks, k=9, n=2), m=2, k=3, n=2, order="kmn", out_slots=slots)
    assert early_loads(on, case) == []


def test_more_slots_than_blocks_don_t_read_ahead_of_the_store() -> None:
    case = gemm_case(gemm(m=4, k=6, n=2), m=2, k=3, n=2, order="kmn", out_slots=3)
    on = accelerator(dram={"bandwidth_bytes_per_second": "1 GB/s"})
    assert early_loads(on, case) == []


def test_spans_are_found() -> None:
    case = gemm_case(gemm(m=4, k=8, n=2), m=2, k=4, n=2, order="kmn", out_slots=2)
    on = accelerator(dram={"bandwidth_bytes_per_second": "1 GB/s"})
    with pytest.MonkeyPatch.context() as patch:
        spans = _transfers(on, case.program, patch)
    assert len(spans.of["dma_out"]) == 4
    assert spans.of["dma_in0"][0] == (0, 16)  # the oldest transfer first: B comes behind it
