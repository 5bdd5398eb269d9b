"""Accounts of searches as a table and as JSON, and the losses by choices among near-ties."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from simaccel.experiment.run import given_up_json
from simaccel.hardware.area.parts import edp_js
from simaccel.report.tables import Column, Table, tabulate
from simaccel.report.units import (
    bytes_text,
    cycles_text,
    edp_text,
    energy_text,
    fine_share_text,
    short_share_text,
    space_text,
    work_energy_text,
)
from simaccel.search.accounts import RULES, Curve, ObjectiveLosses, SearchAccount
from simaccel.search.effort import Objective
from simaccel.study.figure_table import total_of

if TYPE_CHECKING:
    from simaccel.hardware import Accelerator


def accounts_table(
    accounts: Sequence[SearchAccount], objective: Objective, accelerator: Accelerator
) -> Table:
    """Tabulate the searches: candidates, how many each rule pruned, runs, and the chosen one."""
    scale = objective_scale(objective, accelerator)
    rows = [account_json(account, scale) for account in accounts]
    columns = (
        Column("operators", "operators", "+".join, "text"),
        Column("search", "search", kind="text"),
        Column("space", "space", space_text),
        *(Column(rule, "pruned", partial(_pruned_text, rule.replace(" ", "_"))) for rule in RULES),
        *(Column(name, name, space_text) for name in ("near", "ran")),
        Column("best", "best", lambda value: value_text(value, objective)),
        Column("runner-up", "runner_up", lambda value: value_text(value, objective)),
        Column("how good", "how_good", kind="wrapped"),
    )
    return tabulate(rows, columns)


def _pruned_text(rule: str, pruned: Mapping[str, int]) -> str:
    return space_text(pruned.get(rule, 0))


def objective_scale(objective: Objective, accelerator: Accelerator) -> float:
    """Return the factor from a search's objective to data: searches have EDP in pJ cycles.

    In data and text it is in joule seconds; cycles, pJ and bytes are the same in both.
    """
    return edp_js(1, accelerator.seconds(1)) if objective == "edp" else 1


def value_text(value: float, objective: Objective) -> str:
    """Write an objective in its unit: cycles, pJ, joule seconds or bytes."""
    if objective == "cycles":
        return cycles_text(round(value))
    if objective == "energy":
        return energy_text(value)
    return edp_text(value) if objective == "edp" else bytes_text(value)


def account_json(account: SearchAccount, scale: float) -> dict[str, Any]:
    """Return an account as one JSON object, with objectives multiplied by ``scale``."""
    return {
        "operators": list(account.operators),
        "search": account.name,
        "space": account.space,
        "pruned": {
            rule.replace(" ", "_"): account.pruned[rule] for rule in RULES if rule in account.pruned
        },
        "near": account.near,
        "ran": account.ran,
        "best": None if account.left_out else scale * account.value,
        "runner_up": None if account.runner_up is None else scale * account.runner_up,
        "none_below": scale * account.none_below or None,
        "gap": account.gap,
        "ended": account.ended,
        "how_good": account.says,
        "convergence": convergence_json(account.curve, scale),
    }


def convergence_json(curve: Curve, scale: float) -> list[dict[str, float]]:
    """Return the improvements of a search: mappings so far, and the objective."""
    return [{"mappings": n, "objective": scale * value} for n, value in curve]


_SMALL: Final = 0.001
_SEEN: Final = 0.0001
"""Smaller shares are not printed."""


def given_up_lines(result: Mapping[str, Any], tolerance: float) -> list[str]:
    """Return the line with the differences to the best mapping; none without a difference.

    ``result``: a run as JSON, with ``given_up`` (``given_up_json``).
    """
    losses = result.get("given_up")
    if losses is None:
        return []
    shares = ", ".join(_shares(losses, result))
    line = f"chosen within {100 * tolerance:g}%: {shares} against {losses['against']}"
    return [line] if shares else []


def given_up_amounts(
    losses: Sequence[ObjectiveLosses], objective: Objective, tolerance: float
) -> list[str]:
    """Return the line for a mapping that has not run, with amounts instead of shares."""
    total = given_up_json(losses, objective).get("given_up")
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


def _shares(losses: Mapping[str, Any], result: Mapping[str, Any]) -> Iterator[str]:
    moved = total_of(result["bytes"]["dram"])
    every = (
        ("cycles", losses["cycles"], result["cycles"]),
        ("DRAM bytes", losses["dram_bytes"], moved),
        ("energy", losses["energy_pj"], total_of(result["energy_pj"])),
    )
    for name, more, of in every:
        if more and not math.isnan(of) and of > more:
            share = more / (of - more)
            if abs(share) >= _SEEN:
                write = short_share_text if abs(share) >= _SMALL else fine_share_text
                yield f"{'-' if share < 0 else '+'}{write(abs(share))} {name}"
