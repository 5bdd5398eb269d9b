"""Sequences of groups that are a whole workload: their figures, and the best of some."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from simaccel.analytic.prediction import predict
from simaccel.hardware.memory import dram_bytes
from simaccel.mapping.tree import Mapping
from simaccel.schedulers.resident_attention import energy_of, objective_of
from simaccel.search.candidate_set import ScoredTree
from simaccel.search.grid_search import Goal
from simaccel.search.judge import Body, mapping_of
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
    predicted = predict(workload, mapping_of(workload, "", body), goal.accelerator)
    moved = dram_bytes(predicted.moved)
    cycles = float(predicted.bound_cycles)
    if goal.is_timed:
        (outcome,) = goal.judge.judge(workload, [body], float("inf"))
        if outcome.refused is not None:
            raise outcome.refused
        cycles = outcome.cycles
    value, energy = objective_of(predicted, goal, cycles), energy_of(predicted, goal, cycles)
    return ScoredTree((), value, int(cycles), moved, predicted.buffer_bytes, energy)
