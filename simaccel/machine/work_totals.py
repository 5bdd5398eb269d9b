"""Work of the executed steps of a program: MACs, SFU work, bytes moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from simaccel.machine.engines import Engine


@dataclass
class WorkTotals:
    """Work of executed steps: MACs, elements x passes of the SFU, bytes moved.

    ``native_macs``: MACs in units of the multipliers' native width.
    """

    macs: int = 0
    native_macs: int = 0
    elements: int = 0
    moved: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Bytes by (level and direction, tensor)."""


def sum_work(engines: Sequence[Engine], operators: Iterable[str]) -> dict[str, WorkTotals]:
    """Return the work of the executed steps of each operator."""
    totals = {name: WorkTotals() for name in operators}
    for engine in engines:
        for at, (n, op) in enumerate(zip(engine.counts, engine.plan.ops, strict=True)):
            if n and (op.macs or op.elements or op.amounts):
                total = totals[op.operator]
                total.macs += n * op.macs
                total.native_macs += n * op.native_macs
                total.elements += n * op.elements
                for key, n_bytes in engine.amounts(at):
                    total.moved[key] += n * n_bytes
    return totals


def sum_totals(parts: Iterable[WorkTotals]) -> WorkTotals:
    """Return the sum of the work of operators."""
    found = WorkTotals()
    for one in parts:
        found.macs += one.macs
        found.native_macs += one.native_macs
        found.elements += one.elements
        found.moved.update(one.moved)
    return found


def by_name(moved: Counter[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Return the bytes above 0, sorted by level and tensor."""
    return {key: n for key, n in sorted(moved.items()) if n}
