"""Naive: weight-stationary with fixed tiles, operator by operator (FLAT, Table 3).

Weights are held fold by fold: B tiles of one fold, A streamed past them in tiles of fixed
height, partial sums written back and read again for each step of the reduction.
"""

from __future__ import annotations

from collections.abc import Mapping as Sizes
from dataclasses import replace

from simaccel.analytic.estimate import evaluate
from simaccel.analytic.family import family_of
from simaccel.errors import Fault, InputError
from simaccel.hardware import Accelerator, Stationarity
from simaccel.mapping.space import mergeable, space_of
from simaccel.mapping.tree import Do, Group, Keep, Loop, Mapping, Tree
from simaccel.schedulers.choosing import NothingFitsError, capacity
from simaccel.schedulers.einsums import Search, roles
from simaccel.schedulers.problems import Options, mapping_of
from simaccel.schedulers.search import Goal
from simaccel.workload import Vector, Workload

_FOLDS_HIGH = 4
"""Height of the fixed A tile in array sides."""


def naive(workload: Workload, accelerator: Accelerator, options: Options) -> Mapping:
    """Schedule each operator on its own with the fixed tile.

    Raises:
        NotMappableError: the array can't do an operator.
        NothingFitsError: not even a fold's weights and one row fit.
        InputError: constraints, which it has no room for.

    """
    if options.constraints:
        allowed = "nothing with naive, whose tiles are fixed"
        raise InputError(
            [Fault("--constrain", "dataflow", ", ".join(options.constraints), allowed)]
        )
    search, body = Search(Goal.of(accelerator, options)), []
    for operator in workload.operators:
        if isinstance(operator, Vector):
            rows = search.vector(workload, operator.name, rows=accelerator.array.rows)
            chosen = rows.best(capacity(accelerator))
            if chosen is None:
                raise NothingFitsError(
                    f"{operator.name}: not even one row fits into {capacity(accelerator)} B"
                )
            body.append(replace(rows.group, tree=chosen.tree))
        else:
            body.append(_fixed(workload, operator.name, accelerator, options.stationarity or "ws"))
    return mapping_of(workload, "naive", body)


def _fixed(
    workload: Workload, name: str, accelerator: Accelerator, stationarity: Stationarity
) -> Group:
    """Return the fixed tile; lower only if the buffer is too small for it."""
    array = accelerator.systolic
    group = Group(operators=(name,), tree=(), merged=mergeable(workload, [name]))
    space = space_of(workload, group)
    seen = space.seen(name)
    parts = roles(space, seen)
    names = dict.fromkeys((*seen.names, seen.output.name))
    height = _FOLDS_HIGH * array.rows
    while height:
        tree: Tree = (
            *(Loop(rank, 1) for rank in parts.g),
            *_cut(space.sizes, parts.n, array.cols),
            *_cut(space.sizes, parts.k, array.rows),
            *_cut(space.sizes, parts.m, height),
            *(Keep(one, slots=2) for one in names),
            Do(name, "array", stationarity),
        )
        found = replace(group, tree=tree)
        totals = evaluate(family_of(space, found), accelerator)
        need, others_fit = int(totals.buffer_bytes()), bool(totals.fits())
        if need <= capacity(accelerator) and others_fit:
            return found
        height //= 2
    if need <= capacity(accelerator):
        raise NothingFitsError(
            f"{name}: a fold's sums of one row need more than array.accumulator.capacity_bytes, or "
            "two tiles of its weights more than memories.*.staging_bytes"
        )
    raise NothingFitsError(
        f"{name}: a fold's weights and one row need {need} B, the buffer has "
        f"{capacity(accelerator)} B"
    )


def _cut(sizes: Sizes[str, int], ranks: tuple[str, ...], most: int) -> list[Loop]:
    """Return loops that leave at most so many positions of some ranks together."""
    found = []
    for rank in reversed(ranks):
        tile = min(sizes[rank], max(most, 1))
        found.append(Loop(rank, tile))
        most //= tile
    return found[::-1]


SCHEDULERS = {"naive": naive}
