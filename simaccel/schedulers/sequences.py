"""Sequences of groups that are a whole workload: their figures, and the best of some."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from simaccel.analytic.prediction import Prediction, predict
from simaccel.errors import SimaccelError
from simaccel.hardware.memory import dram_bytes
from simaccel.mapping.checks import faults
from simaccel.mapping.tree import Mapping
from simaccel.search.candidate_set import ScoredTree, leakage
from simaccel.search.grid_search import Goal
from simaccel.search.judge import Body, mapping_of, operators_of
from simaccel.search.near_ties import preferred_index
from simaccel.workload import Workload


def finish_mapping(workload: Workload, dataflow: str, body: Body, goal: Goal) -> Mapping:
    """Return the mapping of a workload, and report what it gives up."""
    goal.gave(goal.trades.total(workload, body))
    return mapping_of(workload, dataflow, body)


def best_of(workload: Workload, bodies: Sequence[Body], goal: Goal) -> Body:
    """Return the best of some sequences of groups; the first of equals."""
    found = unique(bodies)
    if len(found) == 1:
        return found[0]
    scored = [measure_groups(workload, body, goal) for body in found]
    at = preferred_sequence(workload, found, scored, goal)
    least = min(scored, key=lambda one: one.rank)
    if scored[at] is not least:
        goal.trades.note(found[at], replace(scored[at], instead=least), "whole")
    return found[at]


def preferred_sequence(
    workload: Workload, bodies: Sequence[Body], scored: Sequence[ScoredTree], goal: Goal
) -> int:
    """Return the number of the sequence that a user would choose."""
    given = goal.objective == "cycles"
    pairs = zip(bodies, scored, strict=True)
    lowest = min(n.value - given * goal.trades.total(workload, body).cycles for body, n in pairs)
    return preferred_index(scored, goal.objective, goal.tolerance, lowest)


def additive_value(value: float, goal: Goal) -> float:
    """Return an objective of a group as one whose sum is small where that of all groups is.

    Energy times cycles of all are at least the square of the sum of each group's roots, and about
    that where all take as much energy a cycle.
    """
    return math.sqrt(value) if goal.objective == "edp" else value


def unique(bodies: Sequence[Body]) -> list[Body]:
    """Return different sequences in their order."""
    found: list[Body] = []
    for body in bodies:
        if body not in found:
            found.append(body)
    return found


def measure_groups(workload: Workload, body: Body, goal: Goal) -> ScoredTree:
    """Return the figures of a workload's groups together.

    Raises:
        SimaccelError: the machine refuses them.

    """
    (outcome,) = goal.judge.judge(workload, [body], float("inf"))
    if outcome.refused is not None:
        raise outcome.refused
    return _score_run(workload, body, goal, outcome.cycles)


def value_of_groups(workload: Workload, body: Body, goal: Goal) -> float:
    """Return the objective of a workload's groups; infinite where they can't run."""
    if faults(workload, mapping_of(workload, "", body), goal.accelerator):
        return float("inf")
    try:
        return measure_groups(workload, body, goal).value
    except SimaccelError:  # the machine takes fewer trees than the closed form
        return float("inf")


def score(
    workload: Workload, body: Body, goal: Goal, below: float = float("inf")
) -> ScoredTree | None:
    """Return the figures of some groups; None if the machine refuses them, or not ``below``."""
    alone = workload.select_operators(operators_of(body))
    most = below if goal.objective == "cycles" else float("inf")
    (cycles,) = goal.judge.cycles(alone, [body], most)
    if cycles == float("inf"):
        return None
    scored = _score_run(alone, body, goal, cycles)
    return scored if scored.value < below else None


def _score_run(workload: Workload, body: Body, goal: Goal, cycles: float) -> ScoredTree:
    predicted = predict(workload, mapping_of(workload, "", body), goal.accelerator)
    value, energy = objective_of(predicted, goal, cycles), energy_of(predicted, goal, cycles)
    moved = dram_bytes(predicted.moved)
    return ScoredTree((), value, int(cycles), moved, predicted.buffer_bytes, energy)


def objective_of(predicted: Prediction, goal: Goal, cycles: float) -> float:
    """Return the objective of a mapping that takes so many cycles."""
    if goal.objective == "cycles":
        return float(cycles)
    if goal.objective == "footprint":
        return float(predicted.buffer_bytes)
    if goal.objective == "dram-bytes":
        return float(dram_bytes(predicted.moved))
    energy = energy_of(predicted, goal, cycles)
    return energy * cycles if goal.objective == "edp" else energy


def energy_of(predicted: Prediction, goal: Goal, cycles: float) -> float:
    """Return the energy of a mapping that takes so many cycles; 0 where it is not known."""
    if goal.accelerator.unknown_energies:
        return 0.0
    leaked = sum(one.bound_cycles for one in predicted.groups)
    energy = sum(predicted.energy_pj.values())
    return energy + leakage(goal.accelerator) * (cycles - leaked)
