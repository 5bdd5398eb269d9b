"""Search of L, softmax and A one after the other, with some rows of the scores kept on chip."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from simaccel.analytic.evaluation import memory_work
from simaccel.analytic.family import Ints, ints
from simaccel.mapping.tree import Keep, Tree
from simaccel.numbers import in_bytes
from simaccel.pareto import keep_cheaper
from simaccel.schedulers.attention import (
    ALL,
    AttentionProblem,
    Placed,
    parts_of,
    stage_attention,
    units,
)
from simaccel.schedulers.group_search import GroupSearch, Mapped, Part
from simaccel.schedulers.sequences import score
from simaccel.schedulers.tree_search import TreeSearch
from simaccel.search.accounts import BOUND, SearchAccount, ignore
from simaccel.search.candidate_set import capacity
from simaccel.search.canonical import rename_tree
from simaccel.search.effort import EFFORT, Objective
from simaccel.search.judge import Body, ScoredTree, key_of_body
from simaccel.search.problems import NothingFitsError


@dataclass
class StagedAttention:
    """An attention whose operators run one after the other.

    Resident rows are rows of the scores that stay on chip from one operator to the next. ``known``:
    by their number, the best mapping (None if none is below the limit), and that limit.
    """

    problem: AttentionProblem
    search: TreeSearch
    known: dict[int, tuple[Mapped | None, float]] = field(default_factory=dict)
    account: SearchAccount | None = None

    @property
    def every_row(self) -> int:
        """Rows of the intermediate, over all samples and heads."""
        return self.problem.size(self.problem.heads) * self.problem.size(self.problem.rows)

    # -- bounds

    def bound(self, room: int) -> float:
        """Return a lower bound of the objective of L, softmax and A; infinite if nothing fits."""
        _, most = units(self.problem, "r", self.search.accelerator)
        some = min(most, self.every_row - 1)  # the most resident rows, if others are in DRAM
        found = min(self._bound_of(rows, room) for rows in {0, some})
        if most < self.every_row:
            return found
        left = room - self.every_row * self.problem.row_bytes
        return min(found, self._bound_of(self.every_row, left))

    def _bound_of(self, rows: int, room: int) -> float:
        """Return a lower bound of the objective with ``rows`` resident rows in ``room`` bytes.

        Rows in DRAM take at least their share of the cycles with all rows in DRAM; resident ones at
        least the work of array and SFU. Subtracted are transfers that may overlap the operators
        before and after.
        """
        is_timed = self.search.goal.objective == "cycles"
        share = 1.0 if rows == self.every_row else 1 - rows / self.every_row
        operators = [candidates for candidates, _ in self._operator_candidates(rows)]
        work = (1 - share) * sum(each.least_work for each in operators) if is_timed else 0.0
        bound = share * sum(each.bound(room) for each in operators) + work
        if not is_timed or bound == float("inf"):
            return bound
        return max(bound - self._saved_cycles(), self.least_work)

    @property
    def least_work(self) -> float:
        """Least cycles of L, softmax and A, whatever other tensors are held on chip.

        They are those of array and SFU, or of the transfers of rows that can't stay on chip.
        """
        return float(self.search.recall(("work", self.problem.part), self._least_work))

    def _least_work(self) -> float:
        problem, accelerator = self.problem, self.search.accelerator
        count, (_, resident) = self.every_row, units(problem, "r", accelerator)
        works = [candidates.least_work for candidates, _ in self._operator_candidates(0)]
        transfers = []
        for name, _ in parts_of(problem):
            moved: dict[tuple[str, str], Ints] = {}
            op = problem.space.bound_operator(name)
            for view in (*op.inputs, op.output):
                if view.name in problem.intermediates:
                    level = "dram_write" if view is op.output else "dram_read"
                    n_bytes = in_bytes(problem.size(view.ranks), view.bits)
                    moved[level, view.name] = ints(n_bytes * (count - resident) // count)
            cycles_by_memory = memory_work(accelerator, problem.workload, moved)
            transfers.append(max(map(int, cycles_by_memory.values()), default=0))
        return max(sum(works), sum(map(max, works, transfers)) - self._saved_cycles())

    def _saved_cycles(self) -> float:
        """Return the most cycles that overlap can save: those of two transfers of a full buffer."""
        accelerator = self.search.accelerator
        room = accelerator.buffer.capacity_bytes
        if room is None:
            return float("inf")
        once = accelerator.transfer_cycles(room, None, write=False)
        once += accelerator.dram.latency_cycles
        return float(2 * once * bool(accelerator.compiler.overlap))

    # -- rows

    def map(self, kind: str, limit: float = float("inf")) -> Mapped | None:
        """Return the best mapping below ``limit``; the kind's last letter is its granularity.

        None if there is none.

        Raises:
            NothingFitsError: no tiling fits the buffer.
        """
        before = len(self.search.goal.judge.outcomes)
        unit, most = units(self.problem, kind[-1], self.search.accelerator)
        tried = self._try_all(unit, most, limit)
        staged = (self.known[rows][0] for rows in tried)
        best = min(filter(None, staged), key=lambda each: each[1].rank, default=None)
        name = "+".join(self.problem.part)
        if best is None and limit == float("inf"):
            room = self.search.goal.room
            raise NothingFitsError(f"{name}: no tiling fits the buffer of {room} B")
        if best is None or best[1].value >= limit:
            return None
        space = sum(len(candidates.candidates) for candidates, _ in self._operator_candidates(0))
        ran = len(self.search.goal.judge.outcomes) - before  # of the three alone and together
        self.account = SearchAccount(
            name="flex",
            operators=self.problem.part,
            space=space,
            pruned={BOUND: space},
            ran=ran,
            outside=ran,
            value=best[1].value,
            ended="rows",
        )
        self.search.goal.origins[key_of_body(best[0])] = self, 0
        return best

    def figures_of(self, part: Part) -> ScoredTree | None:
        """Return the figures of a part of a mapping if this search found it; else None."""
        staged = (staged for staged, _ in self.known.values() if staged)
        return next((scored for body, scored in staged if body == (part,)), None)

    def find_cheaper(self, limit: float) -> list[Mapped]:
        """Return mappings that cost less than the fastest, with objectives of at most ``limit``.

        The resident rows are those already searched; rows in DRAM may have less costly trees.
        """
        objective, room = self.search.goal.objective, self.search.goal.room
        mapped = [(rows, staged) for rows, (staged, _) in self.known.items() if staged]
        if not mapped:
            return []
        least, best = min(mapped, key=lambda pair: pair[1][1].rank)
        every = [staged for _, staged in mapped]
        slower = limit / best[1].value
        placed = self.place(least, self._room(least), slower)
        if placed is not None:
            body = stage_attention(self.problem, least, placed)
            scored = score(self.problem.workload, body, self.search.goal, limit + 1)
            every += [(body, scored)] if scored and scored.buffer_bytes <= room else []
        return keep_cheaper(
            (staged for staged in every if staged[1].value <= limit),
            rank=lambda staged: (staged[1].value, staged[1].cost(objective)),
            cost=lambda staged: staged[1].cost(objective),
        )

    def _try_all(self, unit: int, most: int, limit: float) -> list[int]:
        """Try all numbers of resident rows if they are few; else some, and promising ones between.

        Then numbers near the best one of a coarser granularity are tried, if it is not among them.
        """
        if most <= ALL:
            counts = [unit * count for count in range(most, -1, -1)]
            for rows in counts:
                self._value(rows, limit)
            return counts
        least = max(
            candidates.candidates.smallest for candidates, _ in self._operator_candidates(0)
        )
        spilled = (self.search.goal.room - least) // (unit * self.problem.row_bytes)
        fits = max(min(most, spilled), 0)
        tried = sorted({0, fits * unit, most * unit}, reverse=True)
        for rows in tried:
            self._value(rows, limit)
        tried += self._look_between([(0, fits)], unit, limit)
        known = ((staged[1].rank, rows) for rows, (staged, _) in self.known.items() if staged)
        start = min(known, default=((), 0))[1] // unit
        if 0 < start < fits and start * unit not in tried:
            low = max(rows for rows in tried if rows < start * unit) // unit
            high = min(rows for rows in tried if rows > start * unit) // unit
            self._value(start * unit, limit)
            between = [(low, start), (start, high)]
            tried += [start * unit, *self._look_between(between, unit, limit)]
        return tried

    def _look_between(self, between: list[tuple[int, int]], unit: int, limit: float) -> list[int]:
        """Try numbers of rows between others, the most promising first, until some gain nothing.

        Between two numbers, no mapping has more rows than the larger or more room than the smaller.
        """

        def lowest_bound(low: int, high: int) -> float:
            return self._bound_of((high - 1) * unit, self._room((low + 1) * unit))

        tried, best, idle = list[int](), self._best(), 0
        while between and idle < EFFORT.idle_rows:
            low, high = between.pop(0)
            if high - low <= 1:
                continue
            if lowest_bound(low, high) >= best * (1 - EFFORT.gap):
                break
            middle = self._middle(low, high, unit)
            tried.append(middle * unit)
            value = self._value(middle * unit, limit)
            idle = 0 if value < best * (1 - EFFORT.gain) else idle + 1
            best = min(best, value)
            between += [(middle, high), (low, middle)]
            between.sort(key=lambda pair: lowest_bound(*pair))
        return tried

    def _middle(self, low: int, high: int, unit: int) -> int:
        """Return a count between two others; of rows one that fills the array, if there is one."""
        middle, side = (low + high) // 2, self.search.accelerator.array.rows
        even = -(-middle // side) * side
        return even if unit == 1 and even < high else middle

    def _value(self, rows: int, limit: float) -> float:
        goal = self.search.goal
        below = min(limit, self._best() * (1 + goal.tolerance))
        staged, known = self.known.get(rows, (None, 0.0))
        if staged is None and known < below:
            late = below < float("inf") and goal.is_over
            if not late and self._bound_of(rows, self._room(rows)) < below:
                fitting = [
                    (body, scored)
                    for body in self._bodies(rows)
                    if (scored := score(self.problem.workload, body, goal, below))
                    and scored.buffer_bytes <= goal.room
                ]
                staged = min(fitting, key=lambda each: each[1].rank, default=None)
            self.known[rows] = staged, below
        return staged[1].value if staged else float("inf")

    def _best(self) -> float:
        """Return the best objective so far."""
        known = (staged for staged, _ in self.known.values() if staged)
        return min((scored.value for _, scored in known), default=float("inf"))

    def _bodies(self, rows: int) -> Iterator[Body]:
        """Yield L, softmax and A with their best trees for rows in DRAM, and with more slots.

        While rows are resident, the array doesn't wait for them but for tensors with one slot.
        """
        for search in self._searches:
            placed = self.place(rows, self._room(rows), search=search)
            if placed is None:
                return
            yield stage_attention(self.problem, rows, placed)
            more = [(group, held, _with_two_slots(tree)) for group, held, tree in placed]
            if rows and more != placed:
                yield stage_attention(self.problem, rows, more)

    @cached_property
    def _searches(self) -> list[TreeSearch]:
        """The search; of a product of energy and cycles of all three also those for each factor."""
        search, aims = self.search, list[Objective]()
        if search.goal.objective == "edp":
            aims = ["cycles", "energy"]
        goals = [replace(search.goal, objective=aim, on_account=ignore) for aim in aims]
        return [search, *(TreeSearch(goal, search.einsum_trees, search.rows) for goal in goals)]

    def place(
        self, rows: int, room: int, slower: float = 1.0, search: TreeSearch | None = None
    ) -> list[Placed] | None:
        """Return the best trees of L, softmax and A for ``rows`` resident rows in ``room`` bytes.

        ``slower``: above 1, the least costly trees are returned whose objectives are at most
        ``slower`` times the best ones. None if nothing fits.
        """
        taken, places = capacity(self.search.accelerator) - room, []
        for candidates, held in self._operator_candidates(rows, search):
            best = candidates.fastest(taken)
            if best is None:
                return None
            if slower > 1:
                least = candidates.find_cheaper(best.value * slower, taken)[-1]
                best = replace(least, tree=rename_tree(least.tree, candidates.names))
            places.append((candidates.group, held, best.tree))
        return places

    def _operator_candidates(
        self, rows: int, search: TreeSearch | None = None
    ) -> Iterator[tuple[GroupSearch, str]]:
        """Yield the searches of L, softmax and A, each with the intermediate that it shares.

        If all ``rows`` are resident, the intermediate is kept around the groups; if any are, a
        single core does everything.
        """
        problem, whole = self.problem, rows == self.every_row
        search = (search or self.search).quiet()
        search = search.on_one_core() if rows else search
        for name, held in parts_of(problem):
            merged, kept = problem.merged_ranks(name), (held,) if whole else ()
            yield (
                search.operator_candidates(problem.workload, name, merged, kept, overwrites=whole),
                held,
            )

    def _room(self, rows: int) -> int:
        """Return the bytes that ``rows`` of the intermediate leave of the buffer."""
        return self.search.goal.room - rows * self.problem.row_bytes


def _with_two_slots(tree: Tree) -> Tree:
    return tuple(
        replace(node, slots=max(node.slots, 2)) if isinstance(node, Keep) else node for node in tree
    )
