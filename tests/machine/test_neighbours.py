"""What an operator takes is its own, beside others, and beside tiles from core to core."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest

from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.folds import folded_shape
from simaccel.machine.machine import Machine, Run
from simaccel.machine.stateful import FOREVER
from simaccel.machine.tile_counts import TileCounts
from simaccel.program.lowering import lower
from simaccel.program.program import Compute, Load, Program, ProgramError, Steps, commands
from simaccel.program.text import parse_program, program_text
from simaccel.schedulers import make_mapping
from simaccel.workload import gemm
from tests.drawn_places import draw_windows

STEPPED = """\
program stepped
  operator stepped
    tile A 8x8 x1 of A[m=8,k=8] 2B
    tile B 8x8 x1 of B[k=8,n=8] 2B
    tile C 8x8 x1 of C[m=8,n=8] 2B
    load A queue 0
    load B queue 1
    tile pe.B 8x8 x2 in pe.weight 2B each of B[k=8,n=8] 2B
    load pe.B queue 1 from tile B
    compute C = A pe.B over m=8 k=8 n=8 steps 8 on 8x8 reads 128/128 0/128 0/0 writes 128/128
    store C
"""
STREAMED = "\n".join(
    line for line in STEPPED.splitlines() if "pe.B" not in line or "compute" in line
).replace("pe.B", "B")
"""The same with B in the buffer alone."""
SPATIAL = "array=eyeriss_like"
SLOW = ("noc.distribution.hop_cycles=1000",)
NARROW = (
    "noc.distribution.topology=bus",
    "noc.distribution.link_bytes_per_cycle=16",
    "noc.collection.topology=bus",
    "noc.collection.link_bytes_per_cycle=8",
    "noc.collection.hop_cycles=77",
)


@cache
def _gemm() -> Program:
    workload = gemm(m=256, k=256, n=256)
    return lower(workload, make_mapping(workload, load_accelerator("edge"), "flex"))


def _run(on: Accelerator, *programs: Program) -> Run:
    body = tuple(node for program in programs for node in program.body)
    return Machine(on, Program(name="all", body=body)).run()


@pytest.mark.parametrize(
    "changes",
    [SLOW, (*NARROW, "dma.in_queues=single"), NARROW],
    ids=["slow", "narrow", "narrow and tied"],
)
def test_a_group_takes_the_same_whatever_its_neighbours_are(changes: tuple[str, ...]) -> None:
    """The latency of the NoC used to be lost where another group had tiles in PEs.

    A group that begins before the one before it has ended takes less of a run (`test_overlap.py`).
    """
    apart = ("dram.turnaround_cycles=0", "compiler.overlap=false")
    on = load_accelerator("edge", [*changes, *apart, SPATIAL])
    streamed = parse_program(STREAMED.replace("stepped", "streamed"))
    stepped = parse_program(STEPPED)
    (alone,) = _run(on, streamed).operators
    (other,) = _run(on, stepped).operators
    first, second = _run(on, streamed, stepped).operators
    assert (first.cycles, first.macs, first.moved) == (alone.cycles, alone.macs, alone.moved)
    assert first.engines["array"] == alone.engines["array"]
    assert (second.cycles, second.engines["array"].busy) == (
        other.cycles,
        other.engines["array"].busy,
    )
    before, after = _run(on, stepped, streamed).operators
    assert (before.cycles, after.cycles) == (other.cycles, alone.cycles)


def test_engines_of_the_noc_are_there_if_tiles_move_between_tiles() -> None:
    edge, on = load_accelerator("edge"), load_accelerator("edge", [SPATIAL])
    assert not any(name.startswith("noc") for name in _run(edge, _gemm()).engines)
    program = parse_program(STREAMED)
    assert any(isinstance(c, Compute) and isinstance(c.on, Steps) for c in commands(program.body))
    assert not any(name.startswith("noc") for name in _run(on, program).engines)
    assert list(_run(on, parse_program(STEPPED)).engines) == [
        "dma_in0", "dma_in1", "dma_in2", "noc_in0", "noc_in1", "noc_in2",
        "array", "sfu", "noc_out", "dma_out",
    ]  # fmt: skip


def test_there_is_a_queue_for_every_number_that_a_program_names() -> None:
    on = load_accelerator("edge", ["dma.in_queues=per_tensor", SPATIAL])
    text = STEPPED.replace("load B queue 1", "load B queue 4")
    text = text.replace("load pe.B queue 1", "load pe.B queue 3")
    run = _run(on, parse_program(text))
    assert [name for name in run.engines if "_in" in name] == [
        *(f"dma_in{i}" for i in range(5)), *(f"noc_in{i}" for i in range(4)),
    ]  # fmt: skip
    loads = [c for c in commands(parse_program(text).body) if isinstance(c, Load)]
    assert run.engines["dma_in4"].busy > 0
    assert len(loads) == 3


ROOMY = ["array.rows=16", "array.cols=16", "buffer.capacity_bytes=1MiB"]
FOLDED = """\
program folded
  operator gemm
    tile A 20x10 x1 of A[m=20,k=10] 2B
    tile B 10x12 x1 of B[k=10,n=12] 2B
    tile C 20x12 x1 of C[m=20,n=12] 2B
    load A queue 0
    load B queue 1
    compute C = A B over m=20 k=10 n=12 folds ws
    store C
"""


def test_folds_of_smaller_sides_are_more_folds() -> None:
    """On 16 x 16 PEs: one fold of 10 x 12, or 2 x 3 of 5 x 4, which read A three times."""
    on = load_accelerator("toy", ROOMY)
    whole, cut = FOLDED, FOLDED.replace("folds ws", "folds ws 5x4")
    assert program_text(parse_program(cut)) == cut
    (command,) = (c for c in commands(parse_program(cut).body) if isinstance(c, Compute))
    assert folded_shape(command) == (1, 20, 10, 12)
    one, six = (_run(on, parse_program(text)) for text in (whole, cut))
    assert (one.macs, six.macs) == (2400, 2400)
    assert one.moved["buffer_read", "A"] == 2 * 20 * 10
    assert six.moved["buffer_read", "A"] == 3 * one.moved["buffer_read", "A"]
    assert six.moved["buffer_read", "B"] == one.moved["buffer_read", "B"]
    assert six.engines["array"].busy > one.engines["array"].busy


def test_a_fold_larger_than_the_array_is_refused() -> None:
    text = FOLDED.replace("folds ws", "folds ws 17x4")
    on = load_accelerator("toy", ROOMY)
    with pytest.raises(ProgramError, match=r"C: folds of 17 rows; allowed: 1 to 16"):
        _run(on, parse_program(text))


SEEDS = range(40)


def _runs(*, fast_forward: bool) -> Iterator[tuple[Run, int] | None]:
    """Run drawn pairs of filters: what they do and their events; None if a skip never ends."""

    def stop(_cycle: int, _done: float) -> None:
        raise RuntimeError("a wrong skip never ends")

    for case in filter(None, map(draw_windows, SEEDS)):
        program = lower(case.of, case.mapping)
        try:
            run = Machine(case.on, program, fast_forward=fast_forward).run(stop)
            yield replace(run, events=0), run.events
        except Exception:  # noqa: BLE001 - whatever a wrong skip leads to
            yield None


@pytest.fixture(scope="module")
def both() -> list[list[tuple[Run, int] | None]]:
    """Run them with and without fast-forward."""
    return [list(_runs(fast_forward=on)) for on in (True, False)]


def test_runs_are_as_without_skips(both: list[list[tuple[Run, int] | None]]) -> None:
    fast, whole = ([run and run[0] for run in runs] for runs in both)
    assert None not in whole
    assert fast == whole


def test_runs_go_wrong_if_counts_never_end_a_skip(
    both: list[list[tuple[Run, int] | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TileCounts, "limit", lambda *_: FOREVER)
    wrong = _runs(fast_forward=True)
    assert any(
        run is None or run[0] != (whole and whole[0])
        for run, whole in zip(wrong, both[1], strict=False)
    )


def test_runs_skip(both: list[list[tuple[Run, int] | None]]) -> None:
    """Most that are long do: only loops whose paces have nothing in common are gone through."""
    events = [(one[1], other[1]) for one, other in zip(*both, strict=True) if one and other]
    less = [fast < every for fast, every in events if every > 1000]
    assert sum(less) > len(less) / 2
