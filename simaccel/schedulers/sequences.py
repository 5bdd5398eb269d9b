"""Sequences of groups that form a whole workload, and their figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress

from simaccel.analytic.prediction import predict
from simaccel.errors import SimaccelError
from simaccel.hardware.memory import dram_bytes
from simaccel.mapping.checks import faults
from simaccel.search.candidate_set import leakage
from simaccel.search.goal import Goal
from simaccel.search.judge import Body, ScoredTree, mapping_of, operators_of
from simaccel.workload import Workload


def additive_value(value: float, goal: Goal) -> float:
    """Return a group's objective on a scale on which the values of groups add up.

    EDP is replaced by its root: the sum of the groups' roots, squared, is at most the EDP of the
    whole, and close to it if all groups take about the same power.
    """
    return math.sqrt(value) if goal.objective == "edp" else value


def unique(bodies: Sequence[Body]) -> list[Body]:
    """Return the different bodies, in their order."""
    return [body for at, body in enumerate(bodies) if body not in bodies[:at]]


def measure_groups(workload: Workload, body: Body, goal: Goal) -> ScoredTree:
    """Return the figures of all groups of a workload together.

    Raises:
        SimaccelError: the machine refuses them.
    """
    return measure_all(workload, [body], goal)[0]


def measure_all(workload: Workload, bodies: Sequence[Body], goal: Goal) -> dict[int, ScoredTree]:
    """Run several mappings of a workload; return the figures by index, without refused ones.

    Raises:
        SimaccelError: the machine refuses all of them.
    """
    outcomes = goal.judge.judge(workload, bodies, float("inf"))
    scored = {
        at: _score_run(workload, bodies[at], goal, outcome.cycles)
        for at, outcome in enumerate(outcomes)
        if outcome.refused is None  # it takes fewer trees than the closed form
    }
    refused = outcomes[-1].refused if outcomes else None
    if refused is not None and not scored:
        raise refused
    return scored


def value_of_groups(workload: Workload, body: Body, goal: Goal) -> float:
    """Return the objective of all groups of a workload; infinite if they can't run."""
    figures = measure_legal(workload, body, goal)
    return float("inf") if figures is None else figures.value


def measure_legal(workload: Workload, body: Body, goal: Goal) -> ScoredTree | None:
    """Return the figures of all groups of a workload together; None if they can't run."""
    if faults(workload, mapping_of(workload, "", body), goal.accelerator):
        return None
    with suppress(SimaccelError):  # the machine takes fewer trees than the closed form
        return measure_groups(workload, body, goal)
    return None


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
    """Return the figures of a body that takes ``cycles``; its energy is 0 if that is unknown."""
    predicted = predict(workload, mapping_of(workload, "", body), goal.accelerator)
    energy, taken, moved = 0.0, predicted.buffer_bytes, dram_bytes(predicted.moved)
    if not goal.accelerator.unknown_energies:
        leaked = sum(one.bound_cycles for one in predicted.groups)
        energy = sum(predicted.energy_pj.values())
        energy += leakage(goal.accelerator) * (cycles - leaked)
    values = {"cycles": cycles, "footprint": taken, "dram-bytes": moved, "energy": energy}
    value = values.get(goal.objective, energy * cycles)
    return ScoredTree((), float(value), int(cycles), moved, taken, energy)
