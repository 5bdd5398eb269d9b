"""Several cores for schedulers that map a single one: mapspaces, and rules such as `strips`.

The workload is mapped to one core first. Then each group is cut along one rank over the cores, and
the piece of a core is mapped with its share of the memory bandwidth. Cuts whose lower bound
(`core_cuts`) is above the best are skipped. The faster of both mappings on the machine is returned,
so no workload is slower than on one core.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as Map
from contextlib import suppress
from dataclasses import dataclass, field, replace

from simaccel.errors import SimaccelError, require_none
from simaccel.hardware import Accelerator
from simaccel.hardware.core_share import share_bandwidth
from simaccel.mapping.cores import CORES
from simaccel.mapping.space import IterationSpace, space_of
from simaccel.mapping.tree import Group, Mapping, ResidentScope, Spread
from simaccel.schedulers.sequences import measure_groups, value_of_groups
from simaccel.search.accounts import ignore
from simaccel.search.canonical import key_of
from simaccel.search.core_cuts import CutBounds, cuts_of_one_rank, parallel_ranks
from simaccel.search.goal import Goal
from simaccel.search.judge import Body, mapping_of, operators_of
from simaccel.search.problems import Options
from simaccel.search.tree_constraints import read_spreads, unmet_spreads
from simaccel.workload import Operator, Workload

Schedule = Callable[[Workload, Accelerator, str, Options], Mapping]
"""Maps a workload by the name of a dataflow."""


def map_over_cores(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str,
    options: Options,
    schedule: Schedule,
) -> Mapping:
    """Return the mapping of a workload on all cores, which is no slower than on one of them.

    The ranks of ``options.spread`` are cut over the cores in each group that can have the cut.

    Raises:
        InputError: a spread can't be read, or no group can have it.
        SimaccelError: as of ``schedule``.
    """
    spreads = read_spreads(options.spread, accelerator.cores.count)
    options = replace(options, spread=())
    first = schedule(workload, accelerator.one_core, dataflow, replace(options, on_losses=ignore))
    quiet = replace(options, on_account=ignore, on_losses=ignore)
    goal = Goal.from_options(accelerator, replace(options, on_account=ignore), workload)
    search = _Search(
        workload, goal, lambda part, core: schedule(part, core, dataflow, quiet), spreads
    )
    spread = tuple(group for part in first.body for group in search.part(part))
    require_none(unmet_spreads(spreads, search.met))
    fastest = spread if spreads else search.faster(workload, first.body, spread)
    return mapping_of(workload, first.dataflow, fastest)


@dataclass
class _Search:
    """The search for the cut of each group over the cores.

    ``schedule``: maps a workload on one core. ``spreads``: ranks that the user wants cut, with the
    number of pieces; ``met``: those of them that some group has. ``known``: the chosen cut (index
    of the rank, size of a piece) of operators that were searched, by a key that equal ones share.
    """

    workload: Workload
    goal: Goal
    schedule: Callable[[Workload, Accelerator], Mapping]
    spreads: Map[str, int]
    met: set[str] = field(default_factory=set)
    known: dict[object, tuple[int, int] | None] = field(default_factory=dict)

    @property
    def accelerator(self) -> Accelerator:
        """The accelerator with all cores."""
        return self.goal.accelerator

    def part(self, part: Group | ResidentScope) -> Body:
        """Return the groups that replace a group, or a scope of groups with resident tensors."""
        if isinstance(part, Group):
            return self._best(part)
        whole = self.workload.select_operators(operators_of([part]))
        groups: list[Group | ResidentScope] = []
        alone = self.accelerator.one_core
        for group in part.groups:
            single = self.schedule(self.workload.select_operators(group.operators), alone)
            groups += [inner for first in single.groups for inner in self._best(first)]
        return groups if self.spreads else self.faster(whole, (part,), groups)

    def faster(self, workload: Workload, *bodies: Body) -> Body:
        """Return the mapping with the best objective; of equal ones the first."""
        return min(bodies, key=lambda body: measure_groups(workload, body, self.goal).value)

    def _best(self, group: Group) -> Body:
        """Return the best mapping of a group's operators: the group itself, or one on all cores."""
        whole = self.workload.select_operators(group.operators)
        space = space_of(whole, Group(operators=group.operators, tree=()))
        ranks = list(parallel_ranks(space))
        if required := [rank for rank in ranks if rank in self.spreads]:
            return self._search_spread(whole, group, space, required)
        floors, timed = CutBounds(space, self.accelerator), self.goal.objective == "cycles"
        cuts = [  # lower bound of the objective, rank, size of a piece
            (floors.floor_of(cut) if timed else 0, cut.spreads[0].rank, cut.spreads[0].tile)
            for cut in cuts_of_one_rank(space, self.accelerator)
        ]
        key = key_of(space, ()) if len(space.operators) == 1 else None
        if key is not None and key in self.known:
            chosen = self.known[key]
            cuts = [] if chosen is None else [(0, ranks[chosen[0]], chosen[1])]
        best: Body = (group,)
        least, taken = measure_groups(whole, best, self.goal).value, None
        for floor, rank, tile in sorted(cuts):
            if floor >= least:
                break
            for body in self._bodies(whole, group, space, rank, tile):
                value = value_of_groups(whole, body, self.goal)
                if value < least:
                    best, least, taken = body, value, (ranks.index(rank), tile)
        if key is not None:
            self.known.setdefault(key, taken)
        return best

    def _search_spread(
        self, whole: Workload, group: Group, space: IterationSpace, ranks: Sequence[str]
    ) -> Body:
        """Return the best mapping with one of ``ranks`` cut; the group itself if none can be."""
        bodies = [
            (value_of_groups(whole, body, self.goal), rank, body)
            for rank in ranks
            for tile in [-(-space.sizes[rank] // self.spreads[rank])]
            for body in self._bodies(whole, group, space, rank, tile)
        ]
        value, rank, body = min(bodies, key=lambda scored: scored[0], default=(math.inf, "", ()))
        if value == math.inf:
            return (group,)
        self.met.add(rank)
        return body

    def _bodies(
        self, whole: Workload, group: Group, space: IterationSpace, rank: str, tile: int
    ) -> Iterator[Body]:
        """Yield mappings with a rank cut: of the group's own tree, and of new trees for a piece."""
        if own := _spread_group(whole, group, space, rank, tile):
            yield (own,)
        piece = _piece(whole, space, {**space.sizes, rank: tile})
        parts = [-(-space.sizes[rank] // tile)]
        parts += [1] * self.accelerator.cores.noc.multicast  # of what all cores load alike
        for share in parts:
            with suppress(SimaccelError):
                body = self.schedule(piece, share_bandwidth(self.accelerator, share)).body
                groups = [part for part in body if isinstance(part, Group)]
                cut = [_spread_group(whole, part, space, rank, tile) for part in groups]
                if len(groups) == len(body) and all(cut):
                    yield tuple(filter(None, cut))


def _piece(whole: Workload, space: IterationSpace, sizes: dict[str, int]) -> Workload:
    """Return the workload of a core's piece; ``sizes``: of the piece by rank."""
    wide = space.widen(sizes)
    operators: list[Operator] = []
    for op in space.operators:
        pairs = zip(op.operator.ranks, op.ranks, strict=True)
        ranks = {own: min(wide[name], op.operator.ranks[own]) for own, name in pairs}
        operators.append(replace(op.operator, ranks=ranks))
    return Workload(whole.name, tuple(operators), whole.tensors)


def _spread_group(
    whole: Workload, group: Group, unit: IterationSpace, rank: str, tile: int
) -> Group | None:
    """Return a group cut along a rank in pieces of ``tile`` positions, one for each core.

    ``unit``: the iteration space whose rank names ``rank`` is of. None if the group has padded
    ranks, or has merged the rank with a longer one outside of it.
    """
    plain = space_of(whole, replace(group, tree=(), merged={}, padded={}))
    names = {
        own: name
        for op in plain.operators
        for own, name in zip(unit.bound_operator(op.name).ranks, op.ranks, strict=True)
    }
    if group.padded or rank not in names:
        return None
    name = names[rank]
    for merged, ranks in group.merged.items():
        if name in ranks:
            outer, inner = ranks[: ranks.index(name)], ranks[ranks.index(name) + 1 :]
            if math.prod(plain.sizes[own] for own in outer) > 1:
                return None
            name, tile = merged, tile * math.prod(plain.sizes[own] for own in inner)
            break
    return replace(group, tree=(Spread(name, tile, CORES), *group.tree))
