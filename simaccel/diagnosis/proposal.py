"""A better dataflow for the operator that waits longest for DRAM bandwidth.

Only that operator is searched, or the attention that it belongs to: a fraction of a second, where a
search for the whole workload takes many.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from simaccel.diagnosis.stalls import Diagnosis, OperatorDiagnosis
from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator, ArraySpec
from simaccel.hardware.memory import dram_bytes
from simaccel.search.problems import parts
from simaccel.study.experiment import simulate
from simaccel.workload import Workload

FUSED: Final = "flash"
"""What an attention is searched with: of the dataflows with a fork the one with most choices."""
ALONE: Final = "flex"
"""What an operator on its own is searched with."""
_FEWER = 0.95
"""Of the bytes that a run moves; what saves less is not worth another dataflow."""


@dataclass(frozen=True)
class Proposal:
    """A dataflow for some operators of a run: DRAM bytes and cycles now, and with it."""

    dataflow: str
    operators: tuple[str, ...]
    moved_bytes: int
    cycles: int
    proposed_bytes: int
    proposed_cycles: int
    """Of these operators alone, on the machine."""


def propose(workload: Workload, accelerator: Accelerator, diagnosis: Diagnosis) -> Proposal | None:
    """Return a dataflow with fewer bytes and cycles for the operator that waits longest.

    Return None where hardly anything waits for DRAM bandwidth, where bytes are not known by
    operator (a window of a run), on spatial arrays, and where nothing better is found.
    """
    most = diagnosis.waits_for_bytes
    if most is None or not isinstance(accelerator.array, ArraySpec):
        return None
    names = _with_attention(workload, members(most))
    if not workload.by_name.keys() >= set(names):  # an exchange between chips
        return None
    now = [part for part in diagnosis.operators if set(members(part)) & set(names)]
    moved = sum(map(part_dram_bytes, now))
    if not moved or Counter(names) != Counter(name for part in now for name in members(part)):
        return None
    dataflow = FUSED if len(names) > 1 else ALONE
    alone = workload.select_operators(names)
    try:
        best = simulate(alone, accelerator, dataflow).run
    except SimaccelError:  # nothing fits, or an operator that this dataflow doesn't take
        return None
    times = workload.times(names[0])
    bytes_then = times * dram_bytes(best.moved)
    cycles_now, cycles_then = sum(part.cycles for part in now), times * best.cycles
    if bytes_then > _FEWER * moved or cycles_then >= cycles_now:
        return None
    return Proposal(dataflow, names, moved, cycles_now, bytes_then, cycles_then)


def part_dram_bytes(part: OperatorDiagnosis) -> int:
    """Return the bytes that a part moved to and from DRAM; 0 where they are unknown."""
    return sum(sum(part.moved.get(way, {}).values()) for way in ("dram_read", "dram_write"))


def members(part: OperatorDiagnosis) -> tuple[str, ...]:
    """Return the names of the operators of a group, fused or not."""
    return tuple(part.name.split("+"))


def _with_attention(workload: Workload, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return operators with all of the attention that one of them is a part of."""
    fused = [one for one in parts(workload) if isinstance(one, tuple)]
    return next((attention for attention in fused if set(names) & set(attention)), names)
