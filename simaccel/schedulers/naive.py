"""Naive: weight-stationary with fixed tiles, operator by operator (FLAT, Table 3).

Weights are held fold by fold: B tiles of one fold, A streamed past them in tiles of fixed
height, partial sums written back and read again for each step of the reduction. Between L, softmax
and A as much of the intermediate stays on chip as fits beside these tiles, as in `flex`.
"""

from __future__ import annotations

from collections.abc import Mapping as Sizes
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from simaccel.analytic.evaluation import evaluate
from simaccel.analytic.family import Family, family_of
from simaccel.errors import Fault, InputError
from simaccel.hardware import Accelerator, Stationarity
from simaccel.mapping.space import BoundOperator, IterationSpace
from simaccel.mapping.tree import Do, Group, Keep, Loop, Mapping, ResidentScope, Tree
from simaccel.schedulers import flex
from simaccel.schedulers.einsums import roles
from simaccel.schedulers.resident_attention import GRANULARITIES
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.accounts import ignore
from simaccel.search.candidate_set import capacity
from simaccel.search.effort import Objective
from simaccel.search.grid_search import Goal
from simaccel.search.judge import mapping_of
from simaccel.search.problems import NothingFitsError, Options, Scheduler, parts
from simaccel.units import ARRAY
from simaccel.workload import Workload
from simaccel.workload.names import tensor_of

_FOLDS_HIGH = 4
"""Height of the fixed A tile in array sides."""


def fixed_search(goal: Goal, options: Options) -> TreeSearch:
    """Return the search in which an einsum has its fixed tile alone, and rows fixed heights.

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


def _schedule(
    workload: Workload, accelerator: Accelerator, options: Options, *, granularities: str, name: str
) -> Mapping:
    """Schedule each operator on its own with the fixed tile; errors as of ``sequence``."""
    goal = Goal.from_options(accelerator, options, workload)
    return mapping_of(workload, name, sequence(workload, goal, options, granularities))


def sequence(
    workload: Workload, goal: Goal, options: Options, granularities: str = GRANULARITIES
) -> list[Group | ResidentScope]:
    """Return all operators, each with its fixed tile.

    Of energy times delay, which is no sum over operators, the fastest softmax or the one with the
    least energy may be best.

    Raises:
        InputError: constraints, which fixed tiles have no room for.
        NotMappableError: the array can't do an operator.
        NothingFitsError: not even a fold's weights and one row fit.

    """
    search, quiet = fixed_search(goal, options), replace(goal, note=ignore)
    others: tuple[Objective, ...] = ("cycles", "energy") if goal.objective == "edp" else ()
    searches = [(search, goal)]
    searches += [(fixed_search(replace(goal, objective=aim), options), quiet) for aim in others]
    body: list[Group | ResidentScope] = []
    for part in parts(workload):
        if isinstance(part, tuple):
            threes = [
                flex.attention(workload, part, search=by, goal=on, granularities=granularities)
                for by, on in searches
            ]
            body += min(threes, key=lambda three: three[1])[0]
        else:
            body.append(search.group(workload, part))
    return body


def _fixed_family(
    space: IterationSpace,
    seen: BoundOperator,
    accelerator: Accelerator,
    *,
    kept: Sequence[str] = (),
    stationarity: Stationarity,
) -> list[Family]:
    """Return the fixed tile; lower only if the buffer is too small for it.

    ``kept`` tensors are around the group.
    """
    array, ranks = accelerator.systolic, roles(space, seen)
    names = dict.fromkeys((*seen.names, seen.output.name))
    around = tuple(map(Keep, kept))
    height, group = _FOLDS_HIGH * array.rows, Group(operators=(seen.name,), tree=())
    while height:
        tree: Tree = (
            *(Loop(rank, 1) for rank in ranks.g),
            *_cut_loops(space.sizes, ranks.n, array.cols),
            *_cut_loops(space.sizes, ranks.k, array.rows),
            *_cut_loops(space.sizes, ranks.m, height),
            *(Keep(tensor, slots=2) for tensor in names),
            Do(seen.name, ARRAY, stationarity),
        )
        totals = evaluate(family_of(space, replace(group, tree=tree)), accelerator)
        need, others_fit = int(totals.buffer_bytes()), bool(totals.fits())
        if need <= capacity(accelerator) and others_fit:
            left = tuple(
                node
                for node in tree
                if not isinstance(node, Keep) or tensor_of(node.tensor) not in kept
            )
            return [family_of(space, replace(group, tree=left), around)]
        height //= 2
    if need <= capacity(accelerator):
        raise NothingFitsError(
            f"{seen.name}: a fold's sums of one row need more than "
            "array.accumulator.capacity_bytes, or two tiles of its weights more than "
            "memories.*.staging_bytes"
        )
    raise NothingFitsError(
        f"{seen.name}: a fold's weights and one row need {need} B, the buffer has "
        f"{capacity(accelerator)} B"
    )


def _cut_loops(sizes: Sizes[str, int], ranks: tuple[str, ...], most: int) -> list[Loop]:
    """Return loops that leave at most so many positions of some ranks together."""
    found = []
    for rank in reversed(ranks):
        tile = min(sizes[rank], max(most, 1))
        found.append(Loop(rank, tile))
        most //= tile
    return found[::-1]


SCHEDULERS: dict[str, Scheduler] = {
    f"naive-{one}": partial(_schedule, granularities=one, name=f"naive-{one}")
    for one in GRANULARITIES
}
SCHEDULERS["naive"] = partial(_schedule, granularities=GRANULARITIES, name="naive")
