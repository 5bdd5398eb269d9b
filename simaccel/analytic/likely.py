"""Likely cycles of candidates: a guess by which a search orders them.

It includes waits that no bound has. A transfer begins at a memory's first channel, so small tiles
use no other channel. A tile occupies its slot from its request to the end of its use.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from simaccel.analytic.evaluation import WITH_DRAM, FamilyTotals
from simaccel.analytic.family import Ints, ints
from simaccel.analytic.family_counts import Level
from simaccel.analytic.pointwise import choose, maximum
from simaccel.hardware import Accelerator
from simaccel.hardware.memory import READS
from simaccel.mapping.tree import BUFFER
from simaccel.workload.names import sums_name

Floats = npt.NDArray[np.float64]


def first_channel_cycles(totals: FamilyTotals, moved: Mapping[Level, Ints]) -> Ints:
    """Return the approximate cycles of the first channel of the busiest memory for all bytes."""
    by_memory: dict[str, Ints] = {}
    for (level, name), n_bytes in moved.items():
        if level in WITH_DRAM:
            memory, _, service = _service(totals, level, name)
            share = np.asarray(n_bytes, dtype=np.float64) * service
            by_memory[memory] = by_memory.get(memory, ints(0)) + ints(share)
    found = ints(0)
    for cycles in by_memory.values():
        found = maximum(found, cycles)
    return found


def slot_cycles(totals: FamilyTotals) -> Ints:
    """Return the approximate cycles of the slowest tensor's tiles, one after the other per slot."""
    counts, outcome = totals.counts, ints(0)
    for (level, name), n_bytes in counts.moved.items():
        if level not in WITH_DRAM:
            continue
        _, backing, service = _service(totals, level, name)
        tile, slots = _tile(totals, name)
        work = sum((counts.chains.get(user, ints(0)) for user in _users(totals, name)), ints(0))
        latency = backing.dram.latency_cycles if level in READS else 0
        tiles = -(-n_bytes // maximum(tile, 1))
        each = tiles * latency + np.asarray(n_bytes, dtype=np.float64) * service + work
        outcome = maximum(outcome, ints((tile > 0) * each / maximum(slots, 1)))
    return ints(outcome)


def _service(totals: FamilyTotals, level: str, name: str) -> tuple[str, Accelerator, Floats]:
    """Return a tensor's memory, its accelerator view, and the first channel's cycles per byte."""
    accelerator = totals.accelerator
    kind = totals.family.space.workload.tensors[name].lives
    backing, (tile, _) = accelerator.backing(kind), _tile(totals, name)
    rate = backing.channel_read_rate if level in READS else backing.channel_rate
    share = backing.dram.channel_bytes(tile, 0) / maximum(tile, 1)
    share = choose(tile > 0, share, 1 / backing.dram.channels)
    cycles: Floats = np.asarray(share * (rate.n_cycles / rate.n_bytes), dtype=np.float64)
    return accelerator.memory(kind), backing, cycles


def _tile(totals: FamilyTotals, name: str) -> tuple[Ints, Ints]:
    """Return the bytes of a tensor's largest tile and its slots; 0 without a tile."""
    tiles, aliases = totals.counts.tiles, totals.family.aliases
    home = aliases.get(name, name)
    known = [tiles.get((BUFFER, one), (ints(0), ints(0))) for one in (home, sums_name(home))]
    (tile, slots), (sums, slots_of_sums) = known
    return ints(maximum(tile, sums)), ints(maximum(slots, slots_of_sums))


def _users(totals: FamilyTotals, name: str) -> list[str]:
    return [
        seen.name
        for seen in totals.family.space.operators
        if name in {view.name for _, view in seen.uses}
    ]
