"""Sequences of groups that form a whole workload, and their figures."""

from __future__ import annotations

import math
from collections.abc import Sequence

from simaccel.analytic.prediction import Prediction, predict
from simaccel.errors import SimaccelError
from simaccel.hardware.memory import dram_bytes
from simaccel.mapping.checks import faults
from simaccel.search.candidate_set import leakage
from simaccel.search.goal import Goal
from simaccel.search.judge import Body, mapping_of, operators_of
from simaccel.search.scored_tree import ScoredTree
from simaccel.workload import Workload


def additive_value(value: float, goal: Goal) -> float:
    """Return a group's objective on a scale on which the values of groups add up.

    EDP is replaced by its root: the sum of the groups' roots, squared, is at most the EDP of the
    whole, and close to it if all groups take about the same power.
    """
    return math.sqrt(value) if goal.objective == "edp" else value


def unique(bodies: Sequence[Body]) -> list[Body]:
    """Return the different bodies, in their order."""
    found: list[Body] = []
    for body in bodies:
        if body not in found:
            found.append(body)
    return found


def measure_groups(workload: Workload, body: Body, goal: Goal) -> ScoredTree:
    """Return the figures of all groups of a workload together.

    Raises:
        SimaccelError: the machine refuses them.

    """
    (outcome,) = goal.judge.judge(workload, [body], float("inf"))
    if outcome.refused is not None:
        raise outcome.refused
    return _score_run(workload, body, goal, outcome.cycles)


def value_of_groups(workload: Workload, body: Body, goal: Goal) -> float:
    """Return the objective of all groups of a workload; infinite if they can't run."""
    if faults(workload, mapping_of(workload, "", body), goal.accelerator):
        return float("inf")
    try:
        return measure_groups(workload, body, goal).value
    except SimaccelError:  # the machine takes fewer trees than the closed form
        return float("inf")


def score(
    workload: Workload, body: Body, goal: Goal, below: float = float("inf")
) -> ScoredTree | None:
    """Return the figures of a body; None if the machine refuses it or it isn't ``below``."""
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
    """Return the objective of a mapping that takes ``cycles``."""
    if goal.objective == "cycles":
        return float(cycles)
    if goal.objective == "footprint":
        return float(predicted.buffer_bytes)
    if goal.objective == "dram-bytes":
        return float(dram_bytes(predicted.moved))
    energy = energy_of(predicted, goal, cycles)
    return energy * cycles if goal.objective == "edp" else energy


def energy_of(predicted: Prediction, goal: Goal, cycles: float) -> float:
    """Return the energy in pJ of a mapping that takes ``cycles``; 0 if it is unknown."""
    if goal.accelerator.unknown_energies:
        return 0.0
    leaked = sum(one.bound_cycles for one in predicted.groups)
    energy = sum(predicted.energy_pj.values())
    return energy + leakage(goal.accelerator) * (cycles - leaked)
