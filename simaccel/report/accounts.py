"""Accounts of searches, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from simaccel.report.layout import add_row, make_table
from simaccel.report.units import bytes_text, cycles_text, energy_text
from simaccel.search.accounts import RULES, SearchAccount
from simaccel.search.mapspace.costs import Objective

if TYPE_CHECKING:
    from rich.table import Table


def accounts_table(accounts: Sequence[SearchAccount], objective: Objective) -> Table:
    """Tabulate the searches: what left each by which rule, what ran, and what was chosen."""
    table = make_table(
        ("operators", "search"),
        ("space", *RULES, "near", "ran", "best", "runner-up"),
        ("how good",),
    )
    for account in accounts:
        add_row(
            table,
            (
                "+".join(account.operators),
                account.name,
                _count(account.space),
                *(_count(account.pruned.get(rule, 0)) for rule in RULES),
                *(_count(n) for n in (account.near, account.ran)),
                "-" if account.left_out else value_text(account.value, objective),
                "-" if account.runner_up is None else value_text(account.runner_up, objective),
                account.says,
            ),
        )
    return table


def _count(n: int) -> str:
    return f"{n:,}" if n < 10**9 else f"{n:.2e}"


def value_text(value: float, objective: Objective) -> str:
    """Write an objective in its unit."""
    if objective == "cycles":
        return cycles_text(round(value))
    if objective == "energy":
        return energy_text(value)
    return f"{value * 1e-12:.4g} J cycles" if objective == "edp" else bytes_text(value)


def account_json(account: SearchAccount) -> dict[str, Any]:
    """Return an account as one JSON object; objectives in cycles, pJ, pJ cycles or bytes."""
    return {
        "operators": list(account.operators),
        "search": account.name,
        "space": account.space,
        "pruned": {rule.replace(" ", "_"): n for rule, n in account.pruned.items()},
        "near": account.near,
        "ran": account.ran,
        "best": None if account.left_out else account.value,
        "runner_up": account.runner_up,
        "none_below": account.none_below or None,
        "gap": account.gap,
        "ended": account.ended,
        "how_good": account.says,
        "convergence": [{"mappings": n, "objective": value} for n, value in account.curve],
    }
