"""What a family moves and computes, exactly, and the space that its tiles take.

Bytes by (level and direction, tensor), MACs and element passes are the machine's, to the byte.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from simaccel.analytic.blocks import Units
from simaccel.analytic.family import Bools, Family, Fan, Ints, Kept, Loops, Path, ints
from simaccel.analytic.pieces import Cuts, expanded, extent, number, tiles
from simaccel.analytic.transfers import Transfer, blocks_of, elements_of, over_pieces
from simaccel.hardware import Accelerator
from simaccel.mapping.space import Seen
from simaccel.mapping.tree import BUFFER, DRAM, PE
from simaccel.mapping.view import View
from simaccel.workload import Vector
from simaccel.workload.vectors import VECTORS, Step

Level = tuple[str, str]
"""(level and direction, tensor), e.g. ("dram_read", "K")."""
PORTS = ("input", "weight")
"""The memories of a PE that feed its MACs, by the position of the input; sums have "output"."""
_HUGE = 1 << 62
_WORK = (
    ("array", "compute"),
    ("chain", "cycles"),
    ("buffer_read", "read_port"),
    ("buffer_write", "write_port"),
    ("noc_distribution", "distribution"),
    ("noc_collection", "collection"),
)
_MOVED = (
    ("buffer_read", 0, "a_bytes"),
    ("buffer_read", 1, "b_bytes"),
    ("buffer_read", -1, "sums_bytes"),
    ("buffer_write", -1, "out_bytes"),
    ("noc_distribution", 0, "a_sent"),
    ("noc_distribution", 1, "b_sent"),
    ("noc_collection", -1, "out_bytes"),
)
_FOLDED = tuple(dict.fromkeys(what for *_, what in (*_WORK, *_MOVED)))
_TRUE = np.ones((), dtype=np.bool_)


@dataclass
class Counts:
    """Totals of a family.

    ``busy``: cycles of each unit's and channel's own work by name. ``tiles``: (bytes of a slot,
    slots) by place and name.
    """

    macs: Ints = field(default_factory=lambda: ints(0))
    elements: Ints = field(default_factory=lambda: ints(0))
    busy: dict[str, Ints] = field(default_factory=dict)
    moved: dict[Level, Ints] = field(default_factory=dict)
    tiles: dict[Level, tuple[Ints, Ints]] = field(default_factory=dict)

    def move(self, level: str, tensor: str, n_bytes: Ints) -> None:
        """Count bytes."""
        known = self.moved.get((level, tensor))
        self.moved[level, tensor] = ints(n_bytes) if known is None else known + n_bytes

    def work(self, name: str, cycles: Ints) -> None:
        """Count cycles of a unit or channel."""
        self.busy[name] = self.busy.get(name, ints(0)) + cycles

    def hold(self, place: str, name: str, n_bytes: Ints, slots: Ints) -> None:
        """Take space; tiles of one name share their slots."""
        known = self.tiles.get((place, name), (ints(0), ints(0)))
        self.tiles[place, name] = (np.maximum(known[0], n_bytes), np.maximum(known[1], slots))

    def room(self, *places: str) -> Ints:
        """Return the bytes that tiles in some places take together."""
        found = (n * s for (place, _), (n, s) in self.tiles.items() if place in places)
        return ints(sum(found, start=ints(0)))

    def total(self, level: str) -> Ints:
        """Return the bytes of all tensors at a level and direction."""
        return ints(sum((n for (at, _), n in self.moved.items() if at == level), start=ints(0)))


def port_of(seen: Seen, position: int) -> str:
    """Return the memory of a PE that holds an operand, by its position among the uses."""
    if position == len(seen.inputs):
        return "output"
    return PORTS[position] if position < len(PORTS) else f"input{position}"


def count(family: Family, accelerator: Accelerator) -> Counts:
    """Count a family on an accelerator."""
    return _Counter(family, accelerator).count()


@dataclass(frozen=True)
class _Way:
    """Where tiles come from for some candidates: entry (-1 for DRAM) and place."""

    at: int
    far: str
    served: Bools


@dataclass(frozen=True)
class _Side:
    """A tile on its path, and the memories outside."""

    cuts: Cuts
    view: View
    kept: Kept
    at: int
    place: str
    ways: tuple[_Way, ...]


class _Counter:
    def __init__(self, family: Family, accelerator: Accelerator) -> None:
        self.family, self.space = family, family.space
        self.accelerator = accelerator
        self.units = Units(family, accelerator)
        self.found = Counts()
        self.known: set[tuple[int, str]] = set()
        self.transfers: dict[object, Transfer] = {}
        self.stepped: dict[int, Cuts] = {}

    def count(self) -> Counts:
        for path in self.family.paths():
            seen, cuts = self.space.seen(path.leaf.operator), Cuts(self.space, path)
            for position in range(len(seen.uses)):
                self._operand(path, cuts, seen, position)
            if isinstance(seen.operator, Vector):
                self._vector(path, cuts, seen, seen.operator)
                continue
            self.found.macs = self.found.macs + elements_of(cuts, seen.ranks)
            if path.leaf.unit == "mac":
                self._steps(cuts, seen)
            else:
                self._folds(path, cuts, seen)
        return self.found

    # -- tiles

    def _operand(self, path: Path, cuts: Cuts, seen: Seen, position: int) -> None:
        use, view = seen.uses[position]
        name = self.family.aliases.get(use, use)
        outside: list[tuple[int, Bools]] = []
        for at, entry in enumerate(path.entries):
            if not isinstance(entry, Kept) or entry.tensor != name or not np.any(entry.slots):
                continue
            place = BUFFER if entry.level == BUFFER else f"{PE}.{port_of(seen, position)}"
            if (id(entry), place) not in self.known:
                self.known.add((id(entry), place))
                made = self.space.made.get(name)
                if place != BUFFER and made != seen.name:
                    made = None
                own = self.space.seen(made).output if made else view
                ways = self._ways(path, outside, entry.slots > 0)
                self._tile(path, _Side(cuts, own, entry, at, place, ways), made)
            outside.append((at, entry.slots > 0))
        if path.leaf.unit == "mac":
            if id(path) not in self.stepped:
                stepped = Cuts(self.space, _stepped(path, self.space.sizes))
                self.stepped[id(path)] = stepped
            ways = self._ways(path, outside, _TRUE)
            self._accesses(self.stepped[id(path)], seen, position, ways)

    @staticmethod
    def _ways(path: Path, outside: list[tuple[int, Bools]], here: Bools) -> tuple[_Way, ...]:
        """Return where tiles come from: what keeps them next outside, by candidate."""
        found = []
        for at, keeps in reversed(outside):
            if np.any(served := here & keeps):
                entry = path.entries[at]
                buffered = isinstance(entry, Kept) and entry.level == BUFFER
                found.append(_Way(at, BUFFER if buffered else PE, served))
            here = here & ~keeps
        if np.any(here):
            found.append(_Way(-1, DRAM, here))
        return tuple(found)

    def _transfer(self, cuts: Cuts, view: View, child: int, outside: int) -> Transfer:
        """Return what goes to a place from one outside; the same if only loops are between."""
        fans = (n for n in range(outside + 1, child) if isinstance(cuts.entries[n], Fan))
        shared = next(fans, child)
        key = (id(cuts), id(view), child, shared)
        if key not in self.transfers:
            self.transfers[key] = Transfer(cuts=cuts, view=view, child=child, shared=shared)
        return self.transfers[key]

    def _tile(self, path: Path, side: _Side, made: str | None) -> None:
        name, on = side.kept.tensor, side.kept.slots > 0
        inside = self._transfer(side.cuts, side.view, side.at, side.at)
        doubled = own_axis(self.family, path, self.space, side.at)
        stored = self._stored(name) if side.place == BUFFER else [side.view] if made else []
        spills = made is not None and self._last_reduction(side, inside, made) >= 0
        if made is None or np.any(spills):
            width, times = self.units.width(name), 1 + doubled if np.any(doubled) else 1
            if made is not None:
                width, times = side.view.bytes_per_element, spills
            inner = self._coming(inside, made) * (on * times * width)
            for way in side.ways:
                one = self._transfer(side.cuts, side.view, side.at, way.at)
                outer = self._coming(one, made) * (way.served * times * width)
                self._down(side, way.far, outer, inner * way.served)
            self.found.move(f"{side.place}_write", side.view.name, inner)
        for view in stored:
            width = view.bytes_per_element
            for way in side.ways:
                one = self._transfer(side.cuts, side.view, side.at, way.at)
                outer = one.sums()[0] * (way.served * width)
                self.found.move(f"{way.far}_write", view.name, outer)
                if side.place != BUFFER:
                    self.found.move("noc_collection", view.name, outer)
            self.found.move(f"{side.place}_read", view.name, inside.sums()[0] * (on * width))
        self._hold(side, inside, made, stored, doubled)

    @staticmethod
    def _coming(one: Transfer, made: str | None) -> Ints:
        """Return the elements that come down: of sums those that come back."""
        if made is None:
            return one.elements()
        every, first = one.sums()
        return every - first

    def _down(self, side: _Side, far: str, outer: Ints, inner: Ints) -> None:
        self.found.move(f"{far}_read", side.view.name, outer)
        if side.place != BUFFER:
            multicasts = self.accelerator.noc.distribution.multicasts
            self.found.move("noc_distribution", side.view.name, outer if multicasts else inner)

    def _stored(self, name: str) -> list[View]:
        """Return what goes from a tile to DRAM: what is made in it, and needed elsewhere."""
        made = [name, *self.units.in_place(name)]
        views = (
            self.space.seen(self.space.made[one]).output for one in made if one in self.space.made
        )
        return [view for view in views if view.name in self.space.escapes]

    def _last_reduction(self, side: _Side, inside: Transfer, made: str) -> Ints:
        """Return the place of the innermost loop that adds to sums which leave their tile; or -1."""
        cuts, last, position = side.cuts, ints(-1), inside.position
        for (at, rank), place in cuts.places.items():
            if at < side.at and rank in self.space.seen(made).reduced:
                last = np.maximum(last, (place < position) * (place + 1) - 1)
        return last

    def _hold(
        self,
        side: _Side,
        inside: Transfer,
        made: str | None,
        stored: list[View],
        doubled: Bools,
    ) -> None:
        name, on = side.kept.tensor, side.kept.slots > 0
        width = self.units.tile_width(name, side.view)
        dims = expanded(self.space, side.view)
        sizes = side.cuts.full[side.at]
        n_bytes = on * width * math.prod((extent(dim, sizes) for dim in dims), start=ints(1))
        slots = side.kept.slots
        if np.any(slots > 1):
            slots = np.where(inside.position < 0, np.minimum(slots, 1), slots)
        if made is not None:
            last = self._last_reduction(side, inside, made)
            spills = last >= 0
            if np.any(spills):
                slots = np.where(
                    spills, np.minimum(slots, self._tiles_in_a_step(side, inside, last)), slots
                )
                if side.place == BUFFER:
                    self.found.hold(side.place, f"{name}_sums", n_bytes * spills, slots * spills)
                    n_bytes, slots = n_bytes * ~spills, slots * ~spills
        self.found.hold(side.place, name, ints(n_bytes), ints(slots))
        if np.any(doubled):
            for view in stored:
                again = ints(slots * doubled)
                self.found.hold(side.place, view.name, ints(n_bytes * doubled), again)

    def _tiles_in_a_step(self, side: _Side, inside: Transfer, last: Ints) -> Ints:
        """Return how many tiles of sums a step of the reduction has, at least."""
        cuts, most = side.cuts, ints(1)
        for (at, rank), place in cuts.places.items():
            if at < side.at and rank in inside.ranks:
                tile = next(one for r, one in tiles(cuts.entries[at]) if r == rank)
                least: Ints = ints(_HUGE)
                for n, size in cuts.pieces(rank, at):
                    least = np.minimum(least, np.where(n > 0, -(-size // tile), _HUGE))
                most = most * np.where(place > last, least, 1)
        return ints(most)

    # -- vector work

    def _vector(self, path: Path, cuts: Cuts, seen: Seen, vector: Vector) -> None:
        axis, steps = self.space.axes.get(seen.name), VECTORS[vector.kind].steps
        pieces = number(cuts.pieces(axis, len(cuts.entries))) if axis else ints(1)
        if not np.any(pieces > 1):
            self._pass(path, cuts, seen, steps["whole"])
        elif np.any(own_axis(self.family, path, self.space, len(path.entries))):
            self._pass(path, cuts, seen, steps["statistics"])
            self._pass(path, cuts, seen, steps["normalise"])
        else:
            self._pass(path, cuts, seen, steps["online"])
            first = next(
                n for n, e in enumerate(path.entries) if axis in {rank for rank, _ in tiles(e)}
            )
            around = Cuts(self.space, Path(path.entries[:first], path.leaf))
            for one in self.space.operators:
                if seen.output.name in {v.name for v in one.inputs} and axis in one.reduced:
                    self._correct(cuts, one, steps["rescale"])
                    self._correct(cuts, one, steps["rescale"], frozenset({axis or ""}), -1)
                    self._correct(around, one, steps["divide"])

    def _pass(self, path: Path, cuts: Cuts, seen: Seen, step: Step) -> None:
        names = self.units.names(path, seen)
        for level, position, cost in self.units.vector_bytes(path, seen, step):
            self.found.move(level, names[position], over_pieces(cuts, seen.ranks, cost))
        for name, cost in self.units.vector_cycles(path, seen, step).items():
            self.found.work(name, over_pieces(cuts, seen.ranks, cost))
        passes = self.units.cost(step).passes
        elements = elements_of(cuts, seen.ranks)
        self.found.elements = self.found.elements + passes * elements

    def _correct(
        self,
        cuts: Cuts,
        summed: Seen,
        step: Step,
        first: frozenset[str] = frozenset(),
        sign: int = 1,
    ) -> None:
        """Count a step in place on the sums of an einsum behind an online vector operator."""
        view = summed.output
        ranks = tuple(rank for dim in view.terms for rank, _ in dim)
        name = self.family.aliases.get(view.name, view.name)
        elements = over_pieces(cuts, ranks, lambda s: product(s, ranks), first) * sign
        width = self.units.tile_width(name, view)
        self.found.elements = self.found.elements + step.passes * elements
        self.found.move(f"{BUFFER}_read", name, step.reads[0] * width * elements)
        self.found.move(f"{BUFFER}_write", name, step.writes * width * elements)
        for unit, cost in self.units.correction_cycles(view, step).items():
            self.found.work(unit, sign * over_pieces(cuts, ranks, cost, first))

    # -- einsums

    def _folds(self, path: Path, cuts: Cuts, seen: Seen) -> None:
        """Count the folds of a systolic array; the first step of a reduction starts the sums."""
        names = self.units.names(path, seen)
        starts = not any(
            start and rank in seen.reduced for rank, start in part_starts(cuts).items()
        )

        upto = next(
            (n for n, entry in enumerate(cuts.entries) if isinstance(entry, Fan)),
            len(cuts.entries),
        )
        totals: dict[str, Ints] = {}

        def add(count: Ints, sizes: dict[str, Ints], *, accumulate: bool) -> None:
            one = self.units.fold(path, cuts, sizes, accumulate=accumulate)
            for what in _FOLDED:
                totals[what] = totals.get(what, ints(0)) + count * getattr(one, what)

        for count, sizes in blocks_of(cuts, seen.ranks, upto=upto):
            add(count, sizes, accumulate=True)
        if starts:
            for count, sizes in blocks_of(cuts, seen.ranks, seen.reduced, upto):
                add(count, sizes, accumulate=False)
                add(-count, sizes, accumulate=True)
        for name, what in _WORK:
            self.found.work(name, totals[what])
        for level, position, what in _MOVED:
            self.found.move(level, names[position], totals[what])

    def _steps(self, cuts: Cuts, seen: Seen) -> None:
        """Count the steps of PEs with memories; a part lasts as its first PE."""
        steps = ints(1)
        for rank in self.space.sizes:
            boxes = cuts.pieces(
                rank, len(cuts.entries), lambda at: not isinstance(cuts.entries[at], Fan)
            )
            laned = any(
                isinstance(e, Fan) and e.level in ("vectors", "lanes") and e.rank == rank
                for e in cuts.entries
            )
            each = rank in seen.ranks and not laned
            steps = steps * ints(sum((n * s if each else n for n, s in boxes), start=ints(0)))
        self.found.work("array", steps)
        self.found.work("chain", steps)

    def _accesses(self, cuts: Cuts, seen: Seen, position: int, ways: tuple[_Way, ...]) -> None:
        """Count what MACs take from the innermost memory of an operand."""
        view, end = seen.uses[position][1], len(cuts.entries)
        width, is_input = view.bytes_per_element, position < len(seen.inputs)
        behind = max((n for n, e in enumerate(cuts.entries) if _is_side(e)), default=-1)
        multicasts = self.accelerator.noc.distribution.multicasts
        for way in ways:
            in_pe = way.far == PE
            place = f"{PE}.{port_of(seen, position)}" if in_pe else way.far
            beyond = self._transfer(cuts, view, end, way.at)
            each = self._transfer(cuts, view, end, behind)
            scale = way.served * width
            if is_input:
                outer = down = beyond.elements() * scale
                if not (in_pe or multicasts):
                    down = each.elements() * scale
                self.found.move(f"{place}_read", view.name, outer)
            else:
                every, first = (n * scale for n in beyond.sums())
                down = every - first
                self.found.move(f"{place}_write", view.name, every)
                self.found.move(f"{place}_read", view.name, down)
                if not (in_pe or multicasts):
                    down = (each.sums()[0] - each.sums()[1]) * scale
                if not in_pe:
                    self.found.move("noc_collection", view.name, every)
            if not in_pe:
                self.found.move("noc_distribution", view.name, down)


def _stepped(path: Path, sizes: Iterable[str]) -> Path:
    """Return a path whose block is cut into the steps of PEs; lanes share a step."""
    laned = {
        entry.rank
        for entry in path.entries
        if isinstance(entry, Fan) and entry.level in ("vectors", "lanes")
    }
    ranks = tuple(rank for rank in sizes if rank not in laned)
    places = tuple(ints(at) for at in range(len(ranks)))
    return Path((*path.entries, Loops(ranks, (ints(1),) * len(ranks), places)), path.leaf)


def _is_side(entry: object) -> bool:
    return isinstance(entry, Fan) and entry.level in ("rows", "cols")


def product(sizes: dict[str, Ints], ranks: tuple[str, ...]) -> Ints:
    """Return the elements of a block."""
    return math.prod((sizes[rank] for rank in ranks), start=ints(1))


def part_starts(cuts: Cuts) -> dict[str, int]:
    """Return where the parts on a path start, by rank."""
    found: dict[str, int] = {}
    for entry in cuts.entries:
        start = getattr(entry, "start", None)
        if start is not None:
            found[entry.rank] = found.get(entry.rank, 0) + start  # type: ignore[union-attr]
    return found


def own_axis(family: Family, path: Path, space: object, upto: int) -> Bools:
    """Say whether loops outside of an entry cut the axis of the leaf for it alone."""
    axis = family.space.axes.get(path.leaf.operator)
    if axis is None:
        return np.zeros((), dtype=np.bool_)
    cuts = Cuts(family.space, path)
    mine = [place for (at, rank), place in cuts.places.items() if rank == axis and at < upto]
    cutting = [at for (at, rank) in cuts.places if rank == axis]
    if not mine or shared_entries(family, path) > min(cutting):
        return np.zeros((), dtype=np.bool_)
    return np.any(np.stack(np.broadcast_arrays(*[place >= 0 for place in mine])), axis=0)


def shared_entries(family: Family, path: Path) -> int:
    """Return how many entries of a path other leaves have too."""
    found = 0
    for other in family.paths():
        if other.leaf is path.leaf:
            continue
        same = 0
        for one, two in zip(path.entries, other.entries, strict=False):
            if one is not two:
                break
            same += 1
        found = max(found, same)
    return found


def iterate_loops(entries: tuple[object, ...]) -> Iterator[Loops]:
    """Yield the loops of a path."""
    yield from (entry for entry in entries if isinstance(entry, Loops))
