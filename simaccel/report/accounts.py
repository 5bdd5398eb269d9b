"""Accounts of searches, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from simaccel.report.layout import add_row, make_table
from simaccel.report.units import bytes_text, cycles_text, edp_text, energy_text
from simaccel.search.accounts import RULES, Curve, SearchAccount
from simaccel.search.effort import Objective

if TYPE_CHECKING:
    from rich.table import Table

    from simaccel.hardware import Accelerator


def accounts_table(
    accounts: Sequence[SearchAccount], objective: Objective, accelerator: Accelerator
) -> Table:
    """Tabulate the searches: what left each by which rule, what ran, and what was chosen."""
    table = make_table(
        ("operators", "search"),
        ("space", *RULES, "near", "ran", "best", "runner-up"),
        ("how good",),
    )
    scale = objective_scale(objective, accelerator)

    def value_cell(value: float | None) -> str:
        return "-" if value is None else value_text(scale * value, objective)

    for account in accounts:
        add_row(
            table,
            (
                "+".join(account.operators),
                account.name,
                _count(account.space),
                *(_count(account.pruned.get(rule, 0)) for rule in RULES),
                *(_count(n) for n in (account.near, account.ran)),
                value_cell(None if account.left_out else account.value),
                value_cell(account.runner_up),
                account.says,
            ),
        )
    return table


def _count(n: int) -> str:
    return f"{n:,}" if n < 10**9 else f"{n:.2e}"


def objective_scale(objective: Objective, accelerator: Accelerator) -> float:
    """Return what a search's objective is multiplied with for data: EDP is pJ cycles in searches.

    In data and text it is joule seconds; cycles, pJ and bytes stay as they are.
    """
    return 1e-12 / accelerator.clock_hz if objective == "edp" else 1


def value_text(value: float, objective: Objective) -> str:
    """Write an objective in its unit: cycles, pJ, joule seconds or bytes."""
    if objective == "cycles":
        return cycles_text(round(value))
    if objective == "energy":
        return energy_text(value)
    return edp_text(value) if objective == "edp" else bytes_text(value)


def account_json(account: SearchAccount, scale: float) -> dict[str, Any]:
    """Return an account as one JSON object; objectives, ``scale`` times those of the search."""
    return {
        "operators": list(account.operators),
        "search": account.name,
        "space": account.space,
        "pruned": {rule.replace(" ", "_"): n for rule, n in account.pruned.items()},
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
    """Return the improvements of a search: mappings until then, and the objective."""
    return [{"mappings": n, "objective": scale * value} for n, value in curve]
