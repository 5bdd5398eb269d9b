"""Naive: weight-stationary with fixed tiles, operator by operator (FLAT, Table 3).

Weights are held fold by fold: B tiles of one fold, A streamed past them in tiles of fixed
height, partial sums written back and read again for each step of the reduction. Between L, softmax
and A as much of the intermediate stays on chip as fits beside these tiles, as in `flex`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from simaccel.analytic.evaluation import evaluate
from simaccel.analytic.family import Family, family_of
from simaccel.errors import Fault, InputError
from simaccel.hardware import Accelerator, Stationarity
from simaccel.mapping.space import BoundOperator, IterationSpace
from simaccel.mapping.tree import Do, Group, Keep, Loop, Tree
from simaccel.schedulers.einsums import roles
from simaccel.schedulers.group_place import remove_tiles
from simaccel.schedulers.kernel_trees import shrink_sizes
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.candidate_set import capacity
from simaccel.search.goal import Goal
from simaccel.search.problems import NothingFitsError, Options
from simaccel.units import ARRAY

_FOLDS_HIGH = 4
"""Height of the fixed tile of A, in array sides."""


def fixed_search(goal: Goal, options: Options) -> TreeSearch:
    """Return the search in which an einsum has a single fixed tile, and row blocks a fixed height.

    Raises:
        InputError: constraints, which fixed tiles have no room for.
    """
    if options.constraints:
        allowed = "nothing with naive, whose tiles are fixed"
        raise InputError(
            [Fault("--constrain", "dataflow", ", ".join(options.constraints), allowed)]
        )
    tile = partial(_fixed_family, stationarity=options.stationarity or "ws")
    return TreeSearch(goal, tile, goal.accelerator.array.rows)


def _fixed_family(
    space: IterationSpace,
    op: BoundOperator,
    accelerator: Accelerator,
    *,
    kept: Sequence[str] = (),
    stationarity: Stationarity,
) -> list[Family]:
    """Return the fixed tile; lower only if the buffer is too small for it.

    ``kept`` tensors are around the group.
    """
    array, ranks = accelerator.systolic, roles(space, op)
    names = dict.fromkeys((*op.names, op.output.name))
    around = tuple(Keep(name) for name in kept)
    height, group = _FOLDS_HIGH * array.rows, Group(operators=(op.name,), tree=())

    def loops(ranks: tuple[str, ...], most: int) -> list[Loop]:
        """Return loops whose tiles have at most ``most`` positions, over all of ``ranks``."""
        tiles = shrink_sizes(space, ranks, most)
        return [Loop(rank, tiles[rank]) for rank in ranks]

    while height:
        tree: Tree = (
            *(Loop(rank, 1) for rank in ranks.g),
            *loops(ranks.n, array.cols),
            *loops(ranks.k, array.rows),
            *loops(ranks.m, height),
            *(Keep(tensor, slots=2) for tensor in names),
            Do(op.name, ARRAY, stationarity),
        )
        totals = evaluate(family_of(space, replace(group, tree=tree)), accelerator)
        need, others_fit = int(totals.buffer_bytes()), bool(totals.fits())
        if need <= capacity(accelerator) and others_fit:
            tree = remove_tiles(tree, {*kept}, {})
            return [family_of(space, replace(group, tree=tree), around)]
        height //= 2
    if need <= capacity(accelerator):
        raise NothingFitsError(
            f"{op.name}: a fold's sums of one row need more than "
            "array.accumulator.capacity_bytes, or two tiles of its weights more than "
            "memories.*.staging_bytes"
        )
    raise NothingFitsError(
        f"{op.name}: a fold's weights and one row need {need} B, the buffer has "
        f"{capacity(accelerator)} B"
    )
