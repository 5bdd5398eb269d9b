"""Accounts of searches as tables and JSON, and what near-ties give up of the best mapping."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from simaccel.hardware.area.parts import edp_js
from simaccel.report.tables import Column, Table, pick, tabulate
from simaccel.report.units import (
    bytes_text,
    figure_text,
    fine_share_text,
    large_count,
    short_share_text,
)
from simaccel.search.accounts import (
    RULES,
    SearchAccount,
    excess_text,
    floor_of_group,
)
from simaccel.search.effort import Objective
from simaccel.study.figure_table import place_of, total_of

if TYPE_CHECKING:
    from simaccel.hardware import Accelerator
    from simaccel.study.experiment import ExperimentResult
    from simaccel.study.figure_table import Unit


def accounts_table(
    accounts: Sequence[SearchAccount], objective: Objective, accelerator: Accelerator
) -> Table:
    """Tabulate the searches: candidates, how many each rule pruned, runs, and the chosen one."""
    scale = objective_scale(objective, accelerator)
    units: dict[Objective, Unit] = {"cycles": "cycles", "energy": "pJ", "edp": "Js"}
    unit = units.get(objective, "B")
    rows = [account_json(account, scale) for account in accounts]
    for row in rows:
        row["pruned"] = {rule.replace(" ", "_"): 0 for rule in RULES} | row["pruned"]
    columns = (
        Column("operators", "operators", "+".join, "text"),
        Column("search", "search", kind="text"),
        Column("space", "space", large_count),
        *(Column(rule, f"pruned.{rule.replace(' ', '_')}", large_count) for rule in RULES),
        *(Column(name, name, large_count) for name in ("outside", "ran")),
        Column("best", "best", unit),
        Column("runner-up", "runner_up", unit),
        Column("how good", "how_good", kind="wrapped"),
    )
    return tabulate(rows, columns)


def objective_scale(objective: Objective, accelerator: Accelerator) -> float:
    """Return the factor from a search's objective to data: searches have EDP in pJ cycles.

    In data and text it is in joule seconds; cycles, pJ and bytes are the same in both.
    """
    return edp_js(1, accelerator.seconds(1)) if objective == "edp" else 1


def account_json(account: SearchAccount, scale: float) -> dict[str, Any]:
    """Return an account as one JSON object, with objectives multiplied by ``scale``."""
    return {
        **pick(account, operators="operators", search="name", space="space"),
        "pruned": {
            rule.replace(" ", "_"): account.pruned[rule] for rule in RULES if rule in account.pruned
        },
        **pick(account, "outside", "ran"),
        "best": None if account.unfused_reason else scale * account.value,
        "runner_up": None if account.runner_up is None else scale * account.runner_up,
        "none_below": scale * account.none_below or None,
        **pick(account, "gap", "ended", how_good="gap_text"),
        "convergence": [{"mappings": n, "objective": scale * best} for n, best in account.curve],
    }


def whole_lines(result: ExperimentResult, objective: Objective) -> list[str]:
    """Return the line that says how far a run is at most above any mapping of its workload.

    None of several chips, or for another objective than cycles.
    """
    names = [operator.name for operator in result.workload.operators]
    if objective != "cycles" or len(names) == 1 or result.accelerator.pod.count > 1:
        return []
    floor = floor_of_group(result.workload, names, result.accelerator, objective)
    if not floor:
        return []
    above = f"at most {excess_text(result.run.cycles / floor, 2)} above any mapping, fused or not"
    why = f"folds of the array or bytes that must move take {int(floor):,} cycles"
    return [f"all operators: {above} ({why})"]


_SMALL: Final = 0.001
_SEEN: Final = 0.0001
"""Smaller shares are not printed."""


_FIGURES: Final[Mapping[str, tuple[str, str, Callable[[float], str]]]] = {
    "cycles": ("cycles", "cycles", lambda n: f"{round(n):,} cycles"),
    "dram_bytes": ("bytes.dram", "DRAM bytes", lambda n: f"{bytes_text(n)} of DRAM"),
    "energy_pj": ("energy_pj", "energy", partial(figure_text, unit="pJ")),
}
"""Figures that a choice gives up: place in a run, name of a share, text of an amount."""


def given_up_lines(result: Mapping[str, Any], tolerance: float) -> list[str]:
    """Return the line with the differences to the best mapping; none without a difference.

    ``result``: a run as JSON with ``given_up`` (`given_up_json`), or that alone: then amounts
    instead of shares.
    """
    if "given_up" not in result:
        return []
    parts, losses, has_run = [], result["given_up"], "cycles" in result
    for figure, (place, name, write) in _FIGURES.items():
        more = losses[figure]
        whole = total_of(place_of(result, place)) if has_run else math.inf
        if not more or math.isnan(more) or not whole > more:
            continue
        text = write(abs(more))
        if has_run:
            share = abs(more / (whole - more))
            if share < _SEEN:
                continue
            text = f"{(short_share_text if share >= _SMALL else fine_share_text)(share)} {name}"
        parts.append(f"{'-' if more < 0 else '+'}{text}")
    against = f"against {losses['against']}"
    return [f"chosen within {100 * tolerance:g}%: {', '.join(parts)} {against}"] if parts else []
