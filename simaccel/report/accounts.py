"""Accounts of searches, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from simaccel.hardware.area.parts import edp_js
from simaccel.report.tables import Column, Table, tabulate
from simaccel.report.units import bytes_text, cycles_text, edp_text, energy_text
from simaccel.search.accounts import RULES, Curve, SearchAccount
from simaccel.search.effort import Objective

if TYPE_CHECKING:
    from simaccel.hardware import Accelerator


def accounts_table(
    accounts: Sequence[SearchAccount], objective: Objective, accelerator: Accelerator
) -> Table:
    """Tabulate the searches: what left each by which rule, what ran, and what was chosen."""
    scale = objective_scale(objective, accelerator)
    rows = [account_json(account, scale) for account in accounts]
    columns = (
        Column("operators", "operators", "+".join, "text"),
        Column("search", "search", kind="text"),
        Column("space", "space", _count),
        *(Column(rule, "pruned", partial(_pruned_text, rule.replace(" ", "_"))) for rule in RULES),
        *(Column(name, name, _count) for name in ("near", "ran")),
        Column("best", "best", lambda value: value_text(value, objective)),
        Column("runner-up", "runner_up", lambda value: value_text(value, objective)),
        Column("how good", "how_good", kind="wrapped"),
    )
    return tabulate(rows, columns)


def _pruned_text(rule: str, pruned: Mapping[str, int]) -> str:
    return _count(pruned.get(rule, 0))


def _count(n: int) -> str:
    return f"{n:,}" if n < 10**9 else f"{n:.2e}"


def objective_scale(objective: Objective, accelerator: Accelerator) -> float:
    """Return what a search's objective is multiplied with for data: EDP is pJ cycles in searches.

    In data and text it is joule seconds; cycles, pJ and bytes stay as they are.
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
