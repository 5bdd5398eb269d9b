"""Gains and losses of near-ties: a mapping gives up some of its objective for other figures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

from simaccel.experiment.run import ExperimentResult, energy_pj
from simaccel.hardware.memory import dram_bytes
from simaccel.report.units import (
    bytes_text,
    cycles_text,
    fine_share_text,
    short_share_text,
    work_energy_text,
)
from simaccel.search.accounts import ObjectiveLosses
from simaccel.search.effort import Objective

_BEST: Final[dict[Objective, str]] = {
    "cycles": "the fastest",
    "energy": "the least energy",
    "edp": "the least product",
    "dram-bytes": "the fewest bytes",
    "footprint": "the smallest",
}
_SMALL: Final = 0.001
_SEEN: Final = 0.0001
"""Smaller shares are not printed."""


def given_up_json(gave: Sequence[ObjectiveLosses], objective: Objective) -> dict[str, Any]:
    """Return the differences to the best mapping in cycles, bytes and energy; empty without any."""
    total = sum(gave, start=ObjectiveLosses())
    return (
        {"given_up": {"against": _BEST[objective], **vars(total)}}
        if total != ObjectiveLosses()
        else {}
    )


def given_up_lines(
    gave: Sequence[ObjectiveLosses],
    result: ExperimentResult,
    objective: Objective,
    tolerance: float,
) -> list[str]:
    """Return the line with the differences to the best mapping; none without a difference.

    The best is the sum over the groups' searches, each alone.
    """
    total = sum(gave, start=ObjectiveLosses())
    if total == ObjectiveLosses():
        return []
    shares = ", ".join(_shares(total, result))
    lead = f"chosen within {100 * tolerance:g}%"
    return [f"{lead}: {shares} against {_BEST[objective]}"] if shares else []


def given_up_amounts(
    gave: Sequence[ObjectiveLosses], objective: Objective, tolerance: float
) -> list[str]:
    """Return the line for a mapping that has not run: cycles, bytes and energy, not shares."""
    total = sum(gave, start=ObjectiveLosses())
    every = (
        (total.cycles, f"{cycles_text(round(abs(total.cycles)))} cycles"),
        (total.dram_bytes, f"{bytes_text(abs(total.dram_bytes))} of DRAM"),
        (total.energy_pj, work_energy_text(abs(total.energy_pj))),
    )
    amounts = ", ".join(
        f"{'-' if amount < 0 else '+'}{text}"
        for amount, text in every
        if amount and not math.isnan(amount)
    )
    against = f"against {_BEST[objective]}"
    return [f"chosen within {100 * tolerance:g}%: {amounts} {against}"] if amounts else []


def _shares(total: ObjectiveLosses, result: ExperimentResult) -> Iterator[str]:
    moved = dram_bytes(result.run.moved)
    energy = sum(energy_pj(result.run, result.accelerator).values())
    every = (
        ("cycles", total.cycles, result.run.cycles),
        ("DRAM bytes", total.dram_bytes, moved),
        ("energy", total.energy_pj, energy),
    )
    for name, more, of in every:
        if more and not math.isnan(of) and of > more:
            share = more / (of - more)
            if abs(share) >= _SEEN:
                yield f"{'-' if share < 0 else '+'}{_text(abs(share))} {name}"


def _text(share: float) -> str:
    return short_share_text(share) if share >= _SMALL else fine_share_text(share)
