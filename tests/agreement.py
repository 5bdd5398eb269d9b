"""The machine, the closed form and fast-forward on one mapping: they have to agree."""

from collections.abc import Mapping as Map
from dataclasses import replace

import pytest

from simaccel.analytic.core_totals import GroupTotals, core_totals
from simaccel.analytic.family_counts import ACCUMULATOR
from simaccel.analytic.prediction import Prediction, predict
from simaccel.hardware import Accelerator, ArraySpec
from simaccel.hardware.cores import without_core
from simaccel.hardware.load import with_values
from simaccel.machine.machine import Machine, Run
from simaccel.mapping.lifetimes import lifetimes
from simaccel.mapping.tree import BUFFER, Mapping, ResidentScope
from simaccel.program.fit import reserved_slots
from simaccel.program.lowering import lower
from simaccel.program.overlap import most_reserved_bytes
from simaccel.program.program import DoesNotFitError, Program
from simaccel.workload import Workload


def assert_counts(of: Workload, one: Mapping, on: Accelerator) -> Run:
    """Compare MACs, passes of elements, and bytes by tensor and level, group by group."""
    program = lower(of, one)
    run = Machine(on, program).run()
    room, weights = reserved_slots(program), reserved_slots(program, kind="weight")
    sums_bytes = 0
    bits = _bits_around(of, one)
    for (group, around), done in zip(one.groups_with_keeps(), run.operators, strict=True):
        cores = core_totals(of, on, group, around, bits)
        sums, counts, times = GroupTotals(cores), cores[0].totals.counts, of.repeat
        moved = {key: int(n) * times for key, n in sums.moved.items() if int(n)}
        seen = {key: n for key, n in done.moved.items() if n}
        differ = {
            key: (seen.get(key, 0), moved.get(key, 0))
            for key in seen | moved
            if seen.get(key, 0) != moved.get(key, 0)
        }
        assert not differ, f"{group.name}: (machine, closed form) of {differ}"
        for name in ("macs", "native_macs", "elements"):
            assert getattr(done, name) == getattr(sums, name) * times, name
        sums_bytes = max(sums_bytes, int(counts.room(ACCUMULATOR)))
        own = {name: ring for name, ring in room[group.name].items() if "_kept" not in name}
        assert int(counts.room(BUFFER)) == sum(n * slots for n, slots in own.values()), own
        own = {name: ring for name, ring in weights[group.name].items() if "_kept" not in name}
        assert int(counts.staged_bytes("weight")) == sum(n * slots for n, slots in own.values()), (
            own
        )
    _assert_staged(program, on, run)
    assert run.peak_buffer_bytes <= most_reserved_bytes(program, on)
    _assert_sums(program, on, sums_bytes)
    return run


def assert_bounded(of: Workload, one: Mapping, on: Accelerator) -> tuple[Run, Prediction]:
    """Run a mapping: no shorter than its bound, of the work and the bytes that are counted."""
    run, predicted = Machine(on, lower(of, one)).run(), predict(of, one, on)
    cycles, bound = run.cycles, predicted.bound_cycles
    assert bound <= cycles, f"{cycles} cycles, below {dict(predicted.bound_terms)}"
    assert predicted.moved == {key: n for key, n in run.moved.items() if n}
    assert predicted.macs == run.macs
    for unit in run.engines:
        if without_core(unit) in ("array", "sfu"):
            busy = sum(one.engines[unit].busy for one in run.operators)
            assert predicted.resources.get(unit, 0) == busy
    for name, work in predicted.resources.items():
        served = [n for channel, n in run.served_cycles.items() if channel.startswith(name)]
        assert work <= max(served, default=cycles), name
        assert work <= cycles, name
    for group, done in zip(predicted.groups, run.operators, strict=True):
        assert group.overlaps or group.bound_cycles <= done.cycles, group.name
    return run, predicted


def _bits_around(of: Workload, one: Mapping) -> dict[str, int]:
    """Return the bits per element of what is kept around groups."""
    scopes = [part for part in one.body if isinstance(part, ResidentScope)]
    living = [life for scope in scopes for life in lifetimes(of, scope)]
    return {life.keep.tensor: life.bits for life in living}


def _assert_sums(program: Program, on: Accelerator, n_bytes: int) -> None:
    """Check that the program needs so many bytes of an accumulator, and not one less."""
    if not isinstance(on.array, ArraySpec) or on.array.accumulator is None:
        assert n_bytes == 0
        return
    capacity = "array.accumulator.capacity_bytes"
    if n_bytes:
        Machine(with_values(on, {capacity: n_bytes}, "test"), program)
    if n_bytes > 1:
        with pytest.raises(DoesNotFitError, match=capacity):
            Machine(with_values(on, {capacity: n_bytes - 1}, "test"), program)


def _assert_staged(program: Program, on: Accelerator, run: Run) -> None:
    """Check what tiles of a memory for weights need of the buffer, and what is read from where."""
    if on.memories.weight is None:
        assert set(run.served_cycles) >= {"dram0"}
        assert "weight0" not in run.served_cycles
        return
    need = max(
        sum(n * m for n, m in use.values())
        for use in reserved_slots(program, kind="weight").values()
    )
    staging = "memories.weight.staging_bytes"
    if need > 1:
        Machine(with_values(on, {staging: need}, "test"), program)
        with pytest.raises(DoesNotFitError, match=staging):
            Machine(with_values(on, {staging: need - 1}, "test"), program)


def assert_exact(of: Workload, one: Mapping, on: Accelerator, run: Run) -> None:
    """Compare a run with one that skips nothing."""
    slow = Machine(on, lower(of, one), fast_forward=False).run()
    assert replace(run, events=0) == replace(slow, events=0)


def run_exactly(on: Accelerator, program: Program) -> Run:
    """Run a program, and compare the run with one that skips nothing."""
    run, slow = (Machine(on, program, fast_forward=fast).run() for fast in (True, False))
    assert replace(run, events=0) == replace(slow, events=0)
    return run


def dram_total(moved: Map[tuple[str, str], int]) -> int:
    """Return the bytes with DRAM, of bytes by level and tensor."""
    return sum(n for (level, _), n in moved.items() if level.startswith("dram"))
