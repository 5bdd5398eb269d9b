"""What holds for every program on every accelerator."""

from collections import Counter

from hypothesis import given, settings

from simaccel.hardware import Accelerator, FoldGrid
from simaccel.machine.machine import Machine, Run
from simaccel.program.overlap import most_reserved_bytes
from simaccel.program.program import Compute, Folds, Sfu
from tests.draws import DRAWS
from tests.machine.accelerators import accelerator, accelerators
from tests.program.programs import (
    Case,
    GemmTiles,
    Rows,
    attention_workload,
    case,
    cases,
    fused_cases,
    gemm_cases,
    separate_cases,
    staged_groups,
)
from tests.program.tree import dram_bytes, executed

QUEUES = {"per_tensor": ["dma_in0", "dma_in1", "dma_in2"], "single": ["dma_in"]}


def _run(on: Accelerator, one: Case) -> Run:
    return Machine(on, one.program).run()


def _shape(command: Compute) -> tuple[int, ...]:
    """Give g, m, k and n of a block: a rank plays them by the tensors that have it."""
    first, second = (tile.view.names for tile in command.inputs)
    found = dict.fromkeys("gmkn", 1)
    for rank, size in zip(command.ranks, command.shape, strict=True):
        both = rank in first and rank in second
        if both:
            found["g" if rank in command.out.view.names else "k"] *= size
        else:
            found["m" if rank in first else "n"] *= size
    return tuple(found.values())


def _array_cycles(on: Accelerator, command: Compute) -> int:
    """Fold after fold in plain loops: what the array is busy for one command."""
    assert isinstance(command.on, Folds)
    g, m, k, n = _shape(command)
    array, kind = on.systolic, command.on.stationarity
    high, wide, stream = {"ws": (k, n, m), "os": (m, n, k), "is": (k, m, n)}[kind]
    edges = [
        (min(array.rows, high - r), min(array.cols, wide - c))
        for c in range(0, wide, array.cols)
        for r in range(0, high, array.rows)
    ]
    grid = FoldGrid(high, wide, stream, array.rows, array.cols)
    first = grid.first_rows
    return g * sum(array.fold_cycles(r, c, stream, kind, first) for r, c in edges)


def _work(on: Accelerator, one: Case) -> dict[str, int]:
    """Cycles of service of each resource, from the program alone."""
    work: Counter[str] = Counter()
    for command in executed(one.program.body):
        if isinstance(command, Compute):
            work["array"] += _array_cycles(on, command)
        elif isinstance(command, Sfu):
            passes = on.sfu.choose_form(command.does, command.does.merged)
            work["sfu"] += on.sfu.cycles(passes, command.elements, command.rows)
    return work


@given(cases(), accelerators())
@settings(max_examples=14 * DRAWS)
def test_a_run_is_accounted_for(one: Case, on: Accelerator) -> None:
    """MACs and bytes of DRAM are the program's; each cycle of an engine has a cause, by operator.

    Each load is written to the buffer once, each store read from it once.
    """
    run = _run(on, one)
    assert run.macs == one.workload.macs
    moved = {key: n for key, n in run.moved.items() if key[0].startswith("dram")}
    assert moved == dram_bytes(one.program)
    for (level, tensor), n_bytes in moved.items():
        there = "buffer_write" if level == "dram_read" else "buffer_read"
        assert run.moved[there, tensor] >= n_bytes
    assert set(run.engines) == {*QUEUES[on.dma.in_queues], "array", "sfu", "dma_out"}
    for engine in run.engines.values():
        assert engine.busy + engine.idle + sum(engine.stalls.values()) == run.cycles
        assert min(engine.busy, engine.idle, *engine.stalls.values(), 0) == 0
    assert sum(operator.cycles for operator in run.operators) == run.cycles
    assert sum(operator.macs for operator in run.operators) == run.macs
    assert sum(operator.elements for operator in run.operators) == run.elements
    shares: Counter[tuple[str, str]] = Counter()
    for operator in run.operators:
        shares.update(operator.moved)
        for engine in operator.engines.values():
            assert engine.busy + engine.idle + sum(engine.stalls.values()) == operator.cycles
    assert shares == run.moved
    assert _run(on, one) == run


@given(cases(), accelerators(array={"count": 1, "steps_per_cycle": 1, "macs_per_cycle": {}}))
def test_the_busiest_resource_bounds_the_cycles(one: Case, on: Accelerator) -> None:
    run, work = _run(on, one), _work(on, one)
    assert run.engines["array"].busy == work["array"]
    assert run.engines["sfu"].busy == work["sfu"]
    assert max(work.values(), default=0) <= run.cycles
    assert max(run.served_cycles.values()) <= run.cycles


@given(cases(), accelerators(memories={}))
def test_dram_serves_each_transfer_rounded_up(one: Case, on: Accelerator) -> None:
    run = _run(on, one)
    if not on.channel_rate.unlimited:
        served = sum(run.served_cycles[f"dram{i}"] for i in range(on.dram.channels))
        rate = on.channel_rate.n_bytes / on.channel_rate.n_cycles
        assert served * rate >= dram_bytes(one.program).total() - 1e-6


@given(gemm_cases() | separate_cases() | fused_cases(), accelerators())
def test_the_buffer_never_holds_more_than_is_reserved(one: Case, on: Accelerator) -> None:
    assert 0 < _run(on, one).peak_buffer_bytes <= most_reserved_bytes(one.program, on)


def test_pieces_of_a_staged_operator_share_the_slots_of_a_tile() -> None:
    workload = attention_workload(1, 1, 3, 1)
    groups = staged_groups(
        workload,
        logit=GemmTiles(m=1, k=1, n=1, order="mkn"),
        softmax=Rows(rows=1, cols=1),
        attend=GemmTiles(m=1, k=1, n=1, order="kmn"),
        resident_rows=1,
    )
    one = case(workload, *groups)
    on = accelerator(dram={"bandwidth_bytes_per_second": "1 GB/s"})
    assert _run(on, one).peak_buffer_bytes <= most_reserved_bytes(one.program, on)
