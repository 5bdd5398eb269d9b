"""Gains and losses of near-ties: a mapping gives up some of its objective for other figures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from simaccel.experiment.run import given_up_json
from simaccel.report.units import (
    bytes_text,
    cycles_text,
    fine_share_text,
    short_share_text,
    work_energy_text,
)
from simaccel.search.accounts import ObjectiveLosses
from simaccel.search.effort import Objective
from simaccel.study.figure_table import total_of

_SMALL: Final = 0.001
_SEEN: Final = 0.0001
"""Smaller shares are not printed."""


def given_up_lines(result: Mapping[str, Any], tolerance: float) -> list[str]:
    """Return the line with the differences to the best mapping; none without a difference.

    ``result``: a run as JSON has it, with what was ``given_up`` (``given_up_json``).
    """
    gave = result.get("given_up")
    if gave is None:
        return []
    shares = ", ".join(_shares(gave, result))
    line = f"chosen within {100 * tolerance:g}%: {shares} against {gave['against']}"
    return [line] if shares else []


def given_up_amounts(
    gave: Sequence[ObjectiveLosses], objective: Objective, tolerance: float
) -> list[str]:
    """Return the line for a mapping that has not run: cycles, bytes and energy, not shares."""
    total = given_up_json(gave, objective).get("given_up")
    if total is None:
        return []
    every = (
        (total["cycles"], f"{cycles_text(round(abs(total['cycles'])))} cycles"),
        (total["dram_bytes"], f"{bytes_text(abs(total['dram_bytes']))} of DRAM"),
        (total["energy_pj"], work_energy_text(abs(total["energy_pj"]))),
    )
    amounts = ", ".join(
        f"{'-' if amount < 0 else '+'}{text}"
        for amount, text in every
        if amount and not math.isnan(amount)
    )
    against = f"against {total['against']}"
    return [f"chosen within {100 * tolerance:g}%: {amounts} {against}"] if amounts else []


def _shares(gave: Mapping[str, Any], result: Mapping[str, Any]) -> Iterator[str]:
    moved = total_of(result["bytes"]["dram"])
    every = (
        ("cycles", gave["cycles"], result["cycles"]),
        ("DRAM bytes", gave["dram_bytes"], moved),
        ("energy", gave["energy_pj"], total_of(result["energy_pj"])),
    )
    for name, more, of in every:
        if more and not math.isnan(of) and of > more:
            share = more / (of - more)
            if abs(share) >= _SEEN:
                write = short_share_text if abs(share) >= _SMALL else fine_share_text
                yield f"{'-' if share < 0 else '+'}{write(abs(share))} {name}"
