"""A wide search: thousands of random candidates by their bounds, hundreds run on the machine.

It has nothing of the schedulers' search: neither its grid, nor its neighbours, nor its estimates.
Candidates run from the lowest resource bound on (`Totals.bound`, which no run is below), some of
them at random, then what is near the best, until as many have run as were asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from simaccel.analytic.evaluation import evaluate
from simaccel.analytic.family import ints, take, tree_of
from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.tree import Group, Mapping, Tree, WorkloadReference
from simaccel.program.lowering import lower
from simaccel.workload import Workload
from validation.search.trees import Drawn, Kind

_DRAWN, _NEAR = 4000, 600
_ROUNDS = 5
_OTHERS = 4
"""One run in so many is of a candidate at random, not of that with the lowest bound."""


@dataclass
class Best:
    """The fastest so far, and how many ran."""

    cycles: int = 1 << 62
    tree: Tree = ()
    kind: Kind | None = None
    like: dict[str, int] | None = None
    runs: int = 0


def cycles_of(workload: Workload, groups: list[Group], accelerator: Accelerator) -> int:
    """Run groups on the machine."""
    reference = WorkloadReference(name=workload.name, fingerprint=workload.fingerprint)
    mapping = Mapping(workload=reference, dataflow="wide", body=tuple(groups))
    return Machine(accelerator, lower(workload, mapping)).run().cycles


def wide(kinds: list[Kind], accelerator: Accelerator, runs: int, seed: int = 0) -> Best:
    """Return the fastest of some kinds of trees; about ``runs`` run on the machine."""
    rng, best = np.random.default_rng(seed), Best()
    seen: set[object] = set()
    for kind in kinds:
        drawn = Drawn(rng, _DRAWN, accelerator.systolic.rows)
        _run(kind, drawn, accelerator, best, best.runs + runs // 2 // len(kinds), seen)
    for at in range(_ROUNDS):
        if best.kind is None:
            break
        drawn = Drawn(rng, _NEAR, accelerator.systolic.rows, best.like)
        most = runs // 2 + runs // 2 * (at + 1) // _ROUNDS
        _run(best.kind, drawn, accelerator, best, most, seen)
    return best


def _run(
    kind: Kind, drawn: Drawn, accelerator: Accelerator, best: Best, most: int, seen: set[object]
) -> None:
    """Run candidates of a draw until ``most`` have run altogether."""
    family = kind.family(drawn)
    totals = evaluate(family, accelerator)
    room = accelerator.buffer.capacity_bytes or 1 << 62
    fits = (totals.buffer_bytes() <= room) & totals.fits()
    bounds = np.broadcast_to(totals.bound(), (drawn.count,))
    order = np.argsort(bounds, kind="stable")
    order = order[np.broadcast_to(fits, bounds.shape)[order]]
    others = drawn.rng.permutation(order)
    alone = kind.workload.select_operators(list(kind.operators))
    for at in range(len(order)):
        which = int(others[at] if at % _OTHERS == _OTHERS - 1 else order[at])
        if best.runs >= most or bounds[order[at]] >= best.cycles:
            break
        tree = tree_of(take(family, (ints(which),)))
        if bounds[which] >= best.cycles or (kind, tree) in seen:
            continue
        seen.add((kind, tree))
        best.runs += 1
        try:
            cycles = cycles_of(alone, [replace(kind.group, tree=tree)], accelerator)
        except SimaccelError:  # the machine takes fewer trees than the closed form counts
            continue
        if cycles < best.cycles:
            best.cycles, best.tree, best.kind = cycles, tree, kind
            best.like = {name: int(column[which]) for name, column in drawn.columns.items()}
