"""What the executed steps of a program did: MACs, SFU work, bytes moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from simaccel.machine.engines import Engine


@dataclass(frozen=True)
class Done:
    """What executed steps did: MACs, elements that passed the SFU, bytes moved.

    ``native_macs``: MACs of operands as wide as the array's multipliers that the MACs take.
    """

    macs: int
    native_macs: int
    elements: int
    moved: dict[tuple[str, str], int]


def done(engines: Sequence[Engine], operator: str | None) -> Done:
    """Sum what the executed steps of all operators, or of one, did."""
    moved: Counter[tuple[str, str]] = Counter()
    macs = native_macs = elements = 0
    for engine in engines:
        for n, op in zip(engine.counts, engine.plan.ops, strict=True):
            if n and operator in (None, op.operator):
                macs += n * op.macs
                native_macs += n * op.native_macs
                elements += n * op.elements
                for key, n_bytes in op.amounts:
                    moved[key] += n * n_bytes
    return Done(macs, native_macs, elements, {key: n for key, n in sorted(moved.items()) if n})
