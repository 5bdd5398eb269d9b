"""The machine, the closed form and fast-forward on one mapping: they have to agree."""

from __future__ import annotations

from simaccel.analytic.counts import count
from simaccel.analytic.family import family_of
from simaccel.hardware import Accelerator
from simaccel.machine.machine import Machine, Run
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import BUFFER, Mapping
from simaccel.program.lowering import lower
from simaccel.program.program import reserved
from simaccel.workload import Workload


def assert_counts(of: Workload, one: Mapping, on: Accelerator) -> Run:
    """Compare MACs, passes of elements, and bytes by tensor and level, group by group."""
    program = lower(of, one)
    run = Machine(on, program).run()
    room = reserved(program)
    for (group, around), done in zip(one.placed(), run.operators, strict=True):
        counts = count(family_of(space_of(of, group), group, around), on)
        times = of.repeat
        moved = {key: int(n) * times for key, n in counts.moved.items() if int(n)}
        seen = {key: n for key, n in done.moved.items() if n}
        differ = {
            key: (seen.get(key, 0), moved.get(key, 0))
            for key in seen | moved
            if seen.get(key, 0) != moved.get(key, 0)
        }
        assert not differ, f"{group.name}: (machine, closed form) of {differ}"
        assert done.macs == int(counts.macs) * times
        assert done.elements == int(counts.elements) * times
        own = {name: ring for name, ring in room[group.name].items() if "_kept" not in name}
        assert int(counts.room(BUFFER)) == sum(n * slots for n, slots in own.values()), own
    least = max(sum(n * slots for n, slots in use.values()) for use in room.values())
    assert run.peak_buffer_bytes <= least
    return run


def assert_exact(of: Workload, one: Mapping, on: Accelerator, run: Run) -> None:
    """Compare a run with one that skips nothing."""
    slow = Machine(on, lower(of, one), fast_forward=False).run()
    assert (run.cycles, run.moved, run.engines) == (slow.cycles, slow.moved, slow.engines)
    assert run.peak_buffer_bytes == slow.peak_buffer_bytes
    assert run.operators == slow.operators
