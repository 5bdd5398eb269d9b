"""Tables of predictions, and of a user's estimates beside a run or its bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from simaccel.analytic.native import mac_share
from simaccel.analytic.prediction import GroupPrediction, Prediction
from simaccel.diagnosis.limits import OF_UNIT
from simaccel.diagnosis.own_estimate import TOTAL, CycleTerm, OwnEstimate, own_estimate
from simaccel.errors import Fault, InputError, suggest
from simaccel.hardware import Accelerator
from simaccel.hardware.area.parts import area_of
from simaccel.hardware.cores import CORE_NOC, without_core
from simaccel.machine.machine import OperatorRun, Run
from simaccel.report.tables import Column, Row, Table, figure_columns, pick, tabulate
from simaccel.report.units import error_text, fine_share_text, short_share_text
from simaccel.study.experiment import ExperimentResult, bound_json, known_energies, moved_tree
from simaccel.units import CAUSES, cause_text
from simaccel.workload import Workload
from simaccel.workload.roles import operators_of


def _work_text(figures: Row) -> str:
    most = sorted(figures["work_cycles"].items(), key=lambda work: -work[1])
    links = [name for name, _ in most if name.startswith(CORE_NOC)]
    return ", ".join(
        f"{name} {short_share_text(n / figures['bound']['cycles'])}"
        for name, n in most
        if n and without_core(name) == name and name not in links[1:]
    )


_COLUMNS: Final = (
    Column("operator", "name", kind="text"),
    Column("MACs", "macs", "count"),
    Column("DRAM", "bytes.dram", "B"),
    *figure_columns("footprint_bytes", "energy_pj"),
    Column("bound", "bound.cycles", "cycles"),
    Column("busiest", "bound.by", kind="wrapped"),
    Column("work of each resource, in % of that", _work_text, kind="wrapped"),
)


def estimate_table(predicted: Prediction, accelerator: Accelerator) -> Table:
    """Tabulate the predicted groups and their total: counts, bound, work of each resource."""
    whole = estimate_json(predicted, accelerator)
    return tabulate(whole["operators"], _COLUMNS, {**whole, "name": "total"})


def estimate_json(predicted: Prediction, accelerator: Accelerator) -> dict[str, Any]:
    """Return a prediction as one JSON object (the format of ``simaccel estimate --json``)."""
    operators = [{"name": group.name, **_figures(group, accelerator)} for group in predicted.groups]
    area = area_of(accelerator)
    size = {"area_mm2": area.mm2, "area_um2": dict(area.by_part)}
    return {**_figures(predicted, accelerator), **size, "operators": operators}


def _figures(predicted: Prediction | GroupPrediction, accelerator: Accelerator) -> dict[str, Any]:
    return {
        **bound_json(predicted),
        "bound_seconds": accelerator.seconds(predicted.bound_cycles),
        "macs": predicted.macs,
        "bytes": moved_tree(predicted.moved),
        "footprint_bytes": predicted.buffer_bytes,
        "energy_pj": known_energies(predicted.energy_pj, accelerator),
        "energy_by_tensor_pj": accelerator.energy_by_tensor(predicted.moved),
    }


_HAS: Final = ("has", "lacks")


def own_estimates(
    entries: Mapping[str, int],
    workload: Workload,
    accelerator: Accelerator,
    predicted: Prediction,
    run: Run | None = None,
) -> list[OwnEstimate]:
    """Return each estimate beside its row, or beside the total.

    Raises:
        InputError: there is no such row.
    """
    groups = {group.name: group for group in predicted.groups}
    ran: dict[str, OperatorRun | Run] = {}
    if run is not None:
        ran = {**{item.name: item for item in run.operators}, TOTAL: run}
    parts: dict[str, GroupPrediction | Prediction] = {**groups, TOTAL: predicted}
    unknown = [name for name in entries if name not in parts]
    if unknown:
        raise InputError(
            [Fault("command line", "--estimate", name, suggest(name, groups)) for name in unknown]
        )
    outcome = []
    for name, cycles in entries.items():
        names = [item.name for item in workload.operators]
        share = mac_share(
            workload, accelerator, names if name == TOTAL else operators_of(workload, name)
        )
        ideal = -(-parts[name].macs * share // accelerator.pes)
        outcome.append(own_estimate(name, cycles, parts[name], int(ideal), ran.get(name)))
    return outcome


def of_result(given: Mapping[str, int], result: ExperimentResult) -> list[OwnEstimate]:
    """Return each estimate beside its row of a run.

    Raises:
        InputError: there is no such row.
    """
    return own_estimates(given, result.workload, result.accelerator, result.prediction, result.run)


def own_estimate_sections(outcome: Sequence[OwnEstimate]) -> dict[str, Table]:
    """Return a table for each estimate, its terms to the last cycle, titled by what it lacks."""
    return {_summary(item): _terms_table(item) for item in outcome}


def _terms_table(item: OwnEstimate) -> Table:
    rows = [(_term_text(term), term.cycles, _HAS[term.is_lacking]) for term in item.terms]
    columns = (
        Column("term", itemgetter(0), kind="text"),
        Column("cycles", itemgetter(1), "cycles"),
        Column("of all", lambda row: _share_text(item, row[1])),
        Column("in the estimate", itemgetter(2), kind="wrapped"),
    )
    return tabulate([*rows, (item.name, item.cycles, "")], columns)


def own_estimate_parts(outcome: Sequence[OwnEstimate]) -> list[Table | str]:
    """Return these tables, each below its title."""
    return [part for section in own_estimate_sections(outcome).items() for part in section]


def _summary(one: OwnEstimate) -> str:
    error = error_text((one.estimate_cycles - one.cycles) / one.cycles) if one.cycles else "-"
    lacks = [term for term in one.terms if term.is_lacking]
    missing = " + ".join(f"{_term_text(term)} {term.cycles:,}" for term in lacks)
    rest = one.unexplained_cycles
    unexplained = f"unexplained {'-' * (rest < 0)}{abs(rest):,}"
    return (
        f"estimate of {one.name} {one.estimate_cycles:,} of {one.cycles:,} "
        f"cycles ({error}): lacks {missing or 'nothing'}; {unexplained}"
    )


def _term_text(term: CycleTerm) -> str:
    """Name a term; of a wait, what is waited for.

    >>> _term_text(CycleTerm("dram_latency", 3, "wait")), _term_text(CycleTerm("fill", 2))
    ('wait for DRAM latency', 'fill')
    """
    text = cause_text(term.name)
    if term.kind != "wait" or term.name not in CAUSES:
        return text
    return f"compute unit {text}" if term.name in OF_UNIT else f"wait for {text}"


def _share_text(one: OwnEstimate, cycles: int) -> str:
    share = cycles / one.cycles if one.cycles else 0.0
    return fine_share_text(share) if share >= 0 else error_text(share)


def own_estimate_json(outcome: Sequence[OwnEstimate]) -> dict[str, Any]:
    """Return the estimates with their terms as JSON; empty without any."""
    estimates = [
        pick(item, "name", "estimate_cycles", "cycles")
        | {"terms": [vars(term) for term in item.terms]}
        | pick(item, "unexplained_cycles")
        for item in outcome
    ]
    return {"estimates": estimates} if estimates else {}
