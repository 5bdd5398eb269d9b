"""A nest executed point by point in plain Python, with explicit buffers that count each access.

Nothing here is shared with the closed form but the rules of docs/decisions/prediction.md. Each
memory holds values: an operand that isn't where its MAC looks for it is a KeyError, and what the
outermost memory holds at the end is the einsum.
"""

import functools
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from simaccel.hardware.levels import ROLES, Hierarchy, Role
from simaccel.workload import Einsum, Operand
from tests.analytic.nest_cases import NestMapping

Digits = tuple[int, ...]
Point = tuple[int, ...]
Loop = tuple[int, str]  # level, rank
FACTORS: tuple[Role, ...] = ("input", "weight")


@dataclass
class Buffer:
    """What one instance of a memory holds of one tensor, and what was moved through it."""

    values: dict[Point, float | None] = field(default_factory=dict)
    residency: Digits | None = None
    seen: set[Point] = field(default_factory=set)  # corners of the output tiles that were here
    reads: int = 0
    writes: int = 0


@dataclass
class Counts:
    """All that an execution counts, in elements but for ``first_...``, in bytes."""

    steps: int = 0
    macs: int = 0
    reads: Counter[tuple[str, Role]] = field(default_factory=Counter)
    writes: Counter[tuple[str, Role]] = field(default_factory=Counter)
    tiles: dict[tuple[str, Role], int] = field(default_factory=lambda: defaultdict(int))
    first_reads: Counter[str] = field(default_factory=Counter)  # of the first instance, all roles
    first_writes: Counter[str] = field(default_factory=Counter)
    used: dict[str, int] = field(default_factory=dict)
    adds_across: dict[str, bool] = field(default_factory=dict)
    output: dict[Point, float] = field(default_factory=dict)


class Execution:
    """One mapping of one einsum on one hierarchy, run to its end."""

    def __init__(
        self,
        einsum: Einsum,
        hierarchy: Hierarchy,
        mapping: NestMapping,
        widths: tuple[int, int, int],
    ) -> None:
        self.widths: dict[Role, int] = dict(zip(ROLES, widths, strict=True))
        self.hierarchy, self.levels = hierarchy, hierarchy.levels
        self.ranks = {r: mapping.padded.get(r, size) for r, size in einsum.ranks.items()}
        self.factors = FACTORS[: len(einsum.inputs)]
        self.operands: dict[Role, Operand] = {
            **dict(zip(self.factors, einsum.inputs, strict=True)),
            "output": einsum.output,
        }
        self.relevant = {role: given.ranks for role, given in self.operands.items()}
        self.depth = len(self.levels)  # of the MACs, as though they were a level
        self.keeps: dict[Role, list[int]] = {
            role: [i for i, given in enumerate(mapping.levels) if role in given.keep]
            for role in self.operands
        }
        self._split(einsum, mapping)
        self.loops = [
            (i, rank)
            for i in hierarchy.temporal
            for rank in (
                *mapping.levels[i].order,
                *(r for r in einsum.ranks if r not in mapping.levels[i].order),
            )
        ]
        self.splits = [
            (i, rank) for i in hierarchy.spatial for rank in self.ranks if self.trips[i, rank] > 1
        ]
        self.reached = {
            (rank, above): [
                (loop, self.piece[loop])
                for loop in (*self.loops, *self.splits)
                if loop[1] == rank and loop[0] < above and self.trips[loop] > 1
            ]
            for rank in self.ranks
            for above in range(self.depth + 1)
        }
        self.buffers: dict[tuple[int, Role, Digits], Buffer] = defaultdict(Buffer)
        self.counts = Counts()

    def _split(self, einsum: Einsum, mapping: NestMapping) -> None:
        """Give each loop its full trips and the size of the pieces that it makes."""
        self.trips: dict[Loop, int] = {}
        self.piece: dict[Loop, int] = {}
        for rank in einsum.ranks:
            piece = 1
            for i in range(self.depth - 1, -1, -1):
                self.piece[i, rank] = piece
                tiles = -(-self.ranks[rank] // piece)
                factor = mapping.levels[i].factors.get(rank, 1) if i else tiles
                self.trips[i, rank] = min(factor, tiles)
                piece *= factor

    def start(self, digits: dict[Loop, int], rank: str, above: int) -> int:
        """Where the tile starts that the loops of the levels above ``above`` have reached."""
        start = 0
        for loop, piece in self.reached[rank, above]:
            start += digits[loop] * piece
        return start

    def size(self, rank: str, above: int, start: int) -> int:
        """How long that tile is."""
        return min(
            self.piece[above - 1, rank] if above else self.ranks[rank], self.ranks[rank] - start
        )

    def position(self, role: Role, level: int) -> int:
        """Give the number of temporal loops that change the tile a level keeps."""
        relevant = self.relevant[role]
        last = 0
        for place, (i, rank) in enumerate(self.loops):
            if i < level and rank in relevant and self.trips[i, rank] > 1:
                last = place + 1
        return last

    def instances(self, level: int) -> Iterator[Digits]:
        """All digits of the splits above a level; zeros for those below."""
        yield from itertools.product(
            *(range(self.trips[split] if split[0] < level else 1) for split in self.splits)
        )

    def times(self) -> Iterator[Digits]:
        """All digits of the temporal loops, in the order of execution."""
        yield from itertools.product(*(range(self.trips[loop]) for loop in self.loops))

    def where(self, time: Digits, instance: Digits) -> dict[Loop, int]:
        """All digits by loop, of time and of place."""
        return dict(zip(self.loops, time, strict=True)) | dict(
            zip(self.splits, instance, strict=True)
        )

    def active(self, digits: dict[Loop, int]) -> bool:
        """Whether there is anything to do at this time and place."""
        for rank, size in self.ranks.items():  # noqa: SIM110 - a generator takes twice as long
            if self.start(digits, rank, self.depth) >= size:
                return False
        return True

    def run(self) -> Counts:
        """Execute all."""
        previous: Digits | None = None
        for time in self.times():
            if not self.active(self.where(time, (0,) * len(self.splits))):
                continue
            self._drain(time)
            self._fill(time, previous)
            self._compute(time)
            self.counts.steps += 1
            previous = time
        self._drain(None)
        self._collect()
        return self.counts

    # ---------------------------------------------------------------- between memories

    def _pairs(self, role: Role) -> list[tuple[int, int]]:
        """Parent and child of all kept levels of a role, outermost first."""
        return list(itertools.pairwise(self.keeps[role]))

    @functools.cache  # noqa: B019 - lives as long as its execution
    def _children(self, parent: int, child: int) -> dict[Digits, list[Digits]]:
        """Group the instances of a child level by the parent's instance."""
        found: dict[Digits, list[Digits]] = defaultdict(list)
        for instance in self.instances(child):
            found[self._cut(instance, parent)].append(instance)
        return found

    def _cut(self, instance: Digits, level: int) -> Digits:
        return tuple(
            n if split[0] < level else 0 for n, split in zip(instance, self.splits, strict=True)
        )

    def _box(self, role: Role, level: int, digits: dict[Loop, int]) -> dict[str, range]:
        """Give the positions of each relevant rank in the tile that a level keeps."""
        found = {}
        for rank in self.relevant[role]:
            start = self.start(digits, rank, level)
            found[rank] = range(start, start + self.size(rank, level, start))
        return found

    def _points(self, role: Role, box: dict[str, range]) -> set[Point]:
        """Give the elements of a box, those that a stride skips included."""
        sides = []
        for dim in self.operands[role].projection:
            low = sum(c * box[rank][0] for rank, c in dim.terms)
            high = sum(c * box[rank][-1] for rank, c in dim.terms)
            sides.append(range(low, high + 1))
        return set(itertools.product(*sides))

    def _fill(self, time: Digits, previous: Digits | None) -> None:
        for role in self.operands:
            if previous is None:
                self._load_outermost(role)
            for parent, child in self._pairs(role):
                place = self.position(role, child)
                key = time[:place]
                for above, children in self._children(parent, child).items():
                    starting = [
                        c
                        for c in children
                        if self.buffers[child, role, c].residency != key
                        and self.active(self.where(time, c))
                    ]
                    if not starting:
                        continue
                    if role == "output":
                        self._start_sums(time, parent, child, above, starting)
                    else:
                        slid = self._slid(role, place, time, previous)
                        self._load(role, (parent, child), above, starting, time, slid)
                        self.buffers[parent, role, above].reads += self._multicast(
                            role, child, children, time, slid
                        )
                    for c in starting:
                        self.buffers[child, role, c].residency = key

    def _slid(self, role: Role, place: int, time: Digits, previous: Digits | None) -> Digits | None:
        """Give the time of the window from which this one slides on, if it does."""
        if not place or time[place - 1] == 0:
            return None
        rank = self.loops[place - 1][1]
        dim = next(d for d in self.operands[role].projection if rank in dict(d.terms))
        if len(dim.terms) == 1:
            return None
        assert previous is not None
        before = (*time[: place - 1], time[place - 1] - 1, *[0] * (len(time) - place))
        assert previous[:place] == before[:place]
        return before

    def _load(
        self,
        role: Role,
        pair: tuple[int, int],
        above: Digits,
        children: list[Digits],
        time: Digits,
        slid: Digits | None,
    ) -> None:
        parent, child = pair
        source = self.buffers[parent, role, above]
        for c in children:
            now = self._points(role, self._box(role, child, self.where(time, c)))
            old = self._points(role, self._box(role, child, self.where(slid, c))) if slid else set()
            buffer = self.buffers[child, role, c]
            buffer.values = {p: buffer.values[p] for p in now & old} | {
                p: source.values[p] for p in now - old
            }
            buffer.writes += len(now - old)
            key = self.levels[child].name, role
            self.counts.tiles[key] = max(self.counts.tiles[key], len(now))

    def _multicast(
        self, role: Role, child: int, children: list[Digits], time: Digits, slid: Digits | None
    ) -> int:
        """Count the elements that a parent reads for children that ask at the same time.

        Where positions of a rank adjoin, their elements lie in one box, which is read once.
        """
        now = self._boxes(role, child, children, time)
        old = self._boxes(role, child, children, slid) if slid else {}
        total = 0
        for place, box in now.items():
            before = self._points(role, old[place]) if slid else set()
            total += len(self._points(role, box) - before)
        return total

    def _boxes(
        self, role: Role, child: int, children: list[Digits], time: Digits
    ) -> dict[Digits, dict[str, range]]:
        """Give boxes of adjoining positions by the numbers of their runs in each rank."""
        places = [at for at in (self.where(time, c) for c in children) if self.active(at)]
        runs = []
        ranks = self.relevant[role]
        for rank in ranks:
            held: set[int] = set()
            for digits in places:
                held.update(self._box(role, child, digits)[rank])
            runs.append(_runs(held))
        return {
            tuple(i for i, _ in chosen): {
                rank: run for rank, (_, run) in zip(ranks, chosen, strict=True)
            }
            for chosen in itertools.product(*(list(enumerate(found)) for found in runs))
        }

    def _load_outermost(self, role: Role) -> None:
        whole = {rank: range(self.ranks[rank]) for rank in self.relevant[role]}
        points = self._points(role, whole)
        buffer = self.buffers[0, role, (0,) * len(self.splits)]
        if role == "output":
            buffer.values = dict.fromkeys(points)
        else:
            buffer.values = {point: value(role, point) for point in points}
        self.counts.tiles[self.levels[0].name, role] = len(points)

    # ---------------------------------------------------------------- sums

    def _start_sums(
        self, time: Digits, parent: int, child: int, above: Digits, children: list[Digits]
    ) -> None:
        """Start tiles of sums: from zero the first time, else from the sum so far."""
        source = self.buffers[parent, "output", above]
        taken: set[Point] = set()
        for c in children:
            points = self._points("output", self._box("output", child, self.where(time, c)))
            buffer, corner = self.buffers[child, "output", c], min(points)
            assert not buffer.values
            key: tuple[str, Role] = (self.levels[child].name, "output")
            self.counts.tiles[key] = max(self.counts.tiles[key], len(points))
            if corner not in buffer.seen:
                buffer.seen.add(corner)
                buffer.values = dict.fromkeys(points)
                continue
            buffer.writes += len(points)
            for point in points:  # the first of those that add to a sum goes on with it
                if point in taken:
                    buffer.values[point] = 0.0
                else:
                    taken.add(point)
                    source.reads += 1
                    so_far = source.values[point]
                    assert so_far is not None
                    buffer.values[point] = so_far

    def _drain(self, time: Digits | None) -> None:
        """End the residencies of sums that the time leaves, innermost first."""
        for parent, child in reversed(self._pairs("output")):
            place = self.position("output", child)
            for above, children in self._children(parent, child).items():
                sums: dict[Point, float] = defaultdict(float)
                for c in children:
                    buffer = self.buffers[child, "output", c]
                    if not buffer.values or (time is not None and buffer.residency == time[:place]):
                        continue
                    for point, so_far in buffer.values.items():
                        assert so_far is not None
                        sums[point] += so_far
                        buffer.reads += 1
                    buffer.values, buffer.residency = {}, None
                target = self.buffers[parent, "output", above]
                for point, so_far in sums.items():
                    assert point in target.values
                    target.values[point] = so_far
                    target.writes += 1

    # ---------------------------------------------------------------- MACs

    def _compute(self, time: Digits) -> None:
        """Let all active lanes multiply and add, once."""
        lanes = [c for c in self.instances(self.depth) if self.active(self.where(time, c))]
        self.counts.macs += len(lanes)
        products: dict[Digits, dict[Point, float]] = defaultdict(lambda: defaultdict(float))
        for lane in lanes:
            at = self.where(time, lane)
            factors = 1.0
            for role in self.factors:
                (element,) = self._points(role, self._box(role, self.depth, at))
                held = self.buffers[self._home(role, lane)].values[element]
                assert held is not None
                factors *= held
            (element,) = self._points("output", self._box("output", self.depth, at))
            products[self._home("output", lane)[2]][element] += factors
        for role in self.factors:
            homes: dict[Digits, list[Digits]] = defaultdict(list)
            for lane in lanes:
                homes[self._home(role, lane)[2]].append(lane)
            for instance, sharing in homes.items():
                buffer = self.buffers[self.keeps[role][-1], role, instance]
                buffer.reads += self._multicast(role, self.depth, sharing, time, None)
        for instance, added in products.items():
            buffer = self.buffers[self.keeps["output"][-1], "output", instance]
            for element, amount in added.items():
                so_far = buffer.values[element]
                buffer.reads += so_far is not None
                buffer.writes += 1
                buffer.values[element] = (so_far or 0.0) + amount

    def _home(self, role: Role, lane: Digits) -> tuple[int, Role, Digits]:
        """Give the innermost memory of a role, as this lane sees it."""
        level = self.keeps[role][-1]
        return level, role, self._cut(lane, level)

    def _collect(self) -> None:
        counts = self.counts
        for (level, role, instance), buffer in self.buffers.items():
            name = self.levels[level].name
            counts.reads[name, role] += buffer.reads
            counts.writes[name, role] += buffer.writes
            if not any(instance):
                counts.first_reads[name] += buffer.reads * self.widths[role]
                counts.first_writes[name] += buffer.writes * self.widths[role]
        for (level, role, _), buffer in list(self.buffers.items()):
            first = self.buffers[level, role, (0,) * len(self.splits)]
            assert buffer.reads <= first.reads
            assert buffer.writes <= first.writes
        for level in self.hierarchy.spatial:
            counts.used[self.levels[level].name] = math.prod(
                self.trips[level, rank] for rank in self.ranks
            )
            counts.adds_across[self.levels[level].name] = any(
                self.trips[level, rank] > 1
                for rank in self.ranks
                if rank not in self.relevant["output"]
            )
        last = self.buffers[0, "output", (0,) * len(self.splits)].values
        counts.output = {point: so_far or 0.0 for point, so_far in last.items()}


def _runs(positions: set[int]) -> list[range]:
    """Cut positions into runs without a gap, from the lowest."""
    found: list[range] = []
    for position in sorted(positions):
        if found and found[-1].stop == position:
            found[-1] = range(found[-1].start, position + 1)
        else:
            found.append(range(position, position + 1))
    return found


def value(role: Role, point: Point) -> float:
    """Give an operand's element: small whole numbers, so that sums are exact."""
    salt = 3 if role == "input" else 7
    return float((sum((i + 2) * x for i, x in enumerate(point, salt)) * salt) % 11 - 5)


def expected_output(einsum: Einsum, sizes: dict[str, int]) -> dict[Point, float]:
    """Compute the einsum without any mapping."""
    total: dict[Point, float] = defaultdict(float)
    names = list(sizes)
    for position in itertools.product(*(range(sizes[name]) for name in names)):
        at = dict(zip(names, position, strict=True))

        def element(operand: Operand, at: dict[str, int] = at) -> Point:
            return tuple(sum(c * at[rank] for rank, c in d.terms) for d in operand.projection)

        total[element(einsum.output)] += math.prod(
            value(role, element(given)) for role, given in zip(FACTORS, einsum.inputs, strict=False)
        )
    return total


def execute(
    einsum: Einsum,
    hierarchy: Hierarchy,
    mapping: NestMapping,
    widths: tuple[int, int, int] = (1, 1, 1),
) -> Counts:
    """Run a mapping point by point; widths are the bytes per element of input, weight, output."""
    return Execution(einsum, hierarchy, mapping, widths).run()
