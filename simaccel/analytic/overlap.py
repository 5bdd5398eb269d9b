"""Lower bound of the cycles of groups that overlap: the longest path through them.

A group begins while the one before drains, on each core and unit after that one's commands there;
work on a tensor waits for the group that makes it. Cycles are counted by term (fill, array, SFU,
drain, ...), so that the path says what the bound consists of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Final

from simaccel.analytic.core_totals import CoreTotals, GroupTotals
from simaccel.analytic.evaluation import FamilyTotals
from simaccel.analytic.link_work import LinkWork
from simaccel.hardware.cores import CHIP, PIPELINE
from simaccel.hardware.memory import WRITES
from simaccel.mapping.lifetimes import resident_tensor
from simaccel.mapping.tree import Group, Keep
from simaccel.units import ARRAY, LINK, SFU
from simaccel.workload import Workload, operands_of

WEIGHT: Final = "weight"


@dataclass(frozen=True)
class PlacedGroup:
    """A group with the counts of its cores, and the bytes of keeps around it."""

    workload: Workload
    group: Group
    around: tuple[Keep, ...]
    cores: tuple[CoreTotals, ...]
    kept_bytes: int
    times: int
    streamed: frozenset[str] = frozenset()
    """Tensors that groups on other cores hand to it tile by tile."""

    @property
    def totals(self) -> FamilyTotals:
        """The counts of its first core."""
        return self.cores[0].totals

    @cached_property
    def sums(self) -> GroupTotals:
        """The sums over all its cores."""
        return GroupTotals(self.cores)

    @property
    def stored(self) -> set[str]:
        """Tensors that the group stores in memory."""
        moved = self.totals.counts.moved
        return {name for (level, name), n in moved.items() if level in WRITES and int(n)}

    @property
    def place(self) -> range | None:
        """The cores that run it; None for all."""
        return self.group.place

    @property
    def read(self) -> set[str]:
        """Tensors that the group's operators read."""
        own = map(self.workload.operator, self.group.operators)
        return {given.tensor for operator in own for given in operator.inputs}


def total_of(terms: Counter[str] | None) -> float:
    """Return the sum of terms in cycles; -1 for None (no bound), to lose any `max`."""
    return -1.0 if terms is None else sum(terms.values())


def _latest(*ends: Counter[str] | None) -> Counter[str] | None:
    return max(ends, key=total_of)


def _add_to_end(end: Counter[str] | None, cycles: Counter[str] | None) -> Counter[str] | None:
    return None if end is None or cycles is None else end + cycles


@dataclass
class _PathEnds:
    """The earliest ends on a core's path through groups, by term; None if unknown.

    ``units``: of the last command of array and of SFU; ``last``: of the last group; ``before``: of
    the group before it. A group may begin while its predecessor drains, but not before that began;
    each unit runs one group after the other; work on the predecessor's output waits for its end.
    """

    units: dict[str, Counter[str] | None] = field(default_factory=dict)
    last: Counter[str] | None = None
    before: Counter[str] | None = None

    def add(
        self,
        group: PlacedGroup | LinkWork,
        previous: PlacedGroup | LinkWork | None,
        *,
        again: bool = False,
        elsewhere: Sequence[tuple[Counter[str], str]] = (),
    ) -> None:
        """Append a group; ``again``: its predecessor is of the layer's repetition before.

        ``elsewhere``: ends of groups on other cores, each with a tensor that it makes for this one.
        An exchange reads the tensor of its predecessor, or of that one's exchange; beside the cores
        it waits for links and for the maker of its tensor (in ``elsewhere``).
        """
        if isinstance(group, LinkWork):
            before = self.units.get(LINK) if group.is_beside else self.last
            start = _latest(before, *(other_end for other_end, _ in elsewhere))
            end = _add_to_end(start, Counter(group.path))
            self.units[LINK] = _add_to_end(start, Counter({LINK: group.cycles}))
            self.last, self.before = _latest(self.last, end), self.last
            return
        execution, unit, alternation = _execution(group), _unit(group), _alternation(group)
        known = self.units.get(unit)
        end = _latest(
            _add_to_end(known, execution - alternation.front), _add_to_end(self.before, execution)
        )
        of_unit = [known, _add_to_end(known, execution - alternation.all)]
        of_unit.append(_add_to_end(self.before, execution - alternation.rear))
        if previous is not None:
            late = _late_work(group, _late_tensors(group, previous, again=again), execution)
            end = _latest(end, _add_to_end(self.last, late.whole))
            of_unit.append(_add_to_end(self.last, late.of_unit))
        for other_end, tensor in elsewhere:
            late = _late_work(group, {tensor}, execution)
            end = _latest(end, _add_to_end(other_end, late.whole))
            of_unit.append(_add_to_end(other_end, late.of_unit))
        self.units[unit] = _latest(*of_unit)
        stored = _add_to_end(end, Counter({"drain": int(group.totals.path["drain"])}))
        self.last, self.before = _latest(self.last, stored), self.last


def _unit(group: PlacedGroup) -> str:
    """Return the unit whose first and last commands begin and end a group's execution."""
    return ARRAY if int(group.totals.path[ARRAY]) else SFU


@dataclass(frozen=True)
class _Alternation:
    """Cycles of vector operators that alternate with the array in a group, by term.

    ``front``: of those that may precede its first command; ``rear``: that may follow its last one.
    """

    all: Counter[str]
    front: Counter[str]
    rear: Counter[str]


def _alternation(group: PlacedGroup) -> _Alternation:
    """Return how a group's only array operator alternates with its vector operators."""
    zero: Counter[str] = Counter()
    units = [path.leaf.unit for path in group.totals.units.family.paths]
    if _unit(group) == SFU or units.count(ARRAY) != 1:
        return _Alternation(zero, zero, zero)
    some = Counter({SFU: int(group.totals.path[SFU])})
    is_first, is_last = units[0] == ARRAY, units[-1] == ARRAY
    return _Alternation(some, zero if is_first else some, zero if is_last else some)


@dataclass
class _CorePath:
    """The path of a core through the groups whose first core it is (``own``)."""

    own: Sequence[PlacedGroup | LinkWork]
    ends: _PathEnds = field(init=False)
    previous: PlacedGroup | LinkWork | None = None

    def __post_init__(self) -> None:
        """Begin with the fill of its first group; without any group there is none."""
        zero: Counter[str] = Counter()
        self.ends = _PathEnds({ARRAY: zero, SFU: zero, LINK: zero}, zero, zero)
        for first in [part for part in self.own if isinstance(part, PlacedGroup)][:1]:
            self.ends.units[_unit(first)] = Counter({"fill": int(first.totals.path["fill"])})


def is_joined(part: PlacedGroup | LinkWork) -> bool:
    """Return whether a group may be in one kernel with the group before (`Group.joined`)."""
    return isinstance(part, PlacedGroup) and part.group.joined


def first_core(part: PlacedGroup | LinkWork) -> int:
    """Return the first core of a group."""
    return 0 if part.place is None else part.place.start


def longest_path(placed: Sequence[PlacedGroup | LinkWork]) -> Counter[str]:
    """Return the cycles of the longest path through groups that overlap, by term.

    Each core has a path of its own, which waits for tensors from groups on other cores. A group
    ends when all of its cores have ended it.
    """
    core_paths = {
        core: _CorePath([part for part in placed if first_core(part) == core])
        for core in sorted(set(map(first_core, placed)))
    }
    made: dict[str, _Made] = {}
    for times, run in groupby(placed, lambda part: part.times):
        layer = list(run)
        for group in layer:
            _step(core_paths, group, made)
        for core, path in core_paths.items() if times > 1 else ():
            own = [group for group in layer if first_core(group) == core]
            if own:
                _repeat(path.ends, own, times - 1)
    return _latest(*(path.ends.last for path in core_paths.values())) or Counter()


@dataclass(frozen=True)
class _Made:
    """The first core and the end of the group that made a tensor last.

    ``alone``: whether it stores nothing else, so that it ends with the tensor's last tile.
    """

    core: int
    end: Counter[str]
    alone: bool


def _step(
    core_paths: Mapping[int, _CorePath], group: PlacedGroup | LinkWork, made: dict[str, _Made]
) -> None:
    """Append a group to the path of its first core, and its end to those of its other cores.

    A reader that takes a tensor tile by tile ends no earlier than the maker's last tile.
    """
    core, place = first_core(group), group.place
    own = core_paths[core]
    known = {name: made[name] for name in sorted(group.read) if name in made}
    is_beside = isinstance(group, LinkWork) and group.is_beside
    apart = {name: other for name, other in known.items() if is_beside or other.core != core}
    elsewhere = [(maker.end, name) for name, maker in apart.items() if name not in group.streamed]
    streamed = [
        maker.end for name, maker in apart.items() if name in group.streamed and maker.alone
    ]
    own.ends.add(group, own.previous, elsewhere=elsewhere)
    own.previous = group
    others = [path for at, path in core_paths.items() if at != core and _is_on(at, place)]
    end = _latest(own.ends.last, *streamed, *(path.ends.last for path in others))
    own.ends.last = end
    for path in others:
        path.ends.last, path.ends.before, path.previous = end, path.ends.last, group
    if end is not None:
        made.update(dict.fromkeys(group.stored, _Made(core, end, len(group.stored) == 1)))


def _core_cycles(part: PlacedGroup | LinkWork) -> Counter[str]:
    """Return the least cycles of a group's first core from its start to its end.

    None of a group that is joined to the one before, whose work may be done before that ends.
    """
    if isinstance(part, LinkWork):
        return Counter(part.path)
    if is_joined(part):
        return Counter()
    start = Counter({"start": part.totals.start_cycles})
    return start + Counter(part.totals.path_terms())


def _is_on(core: int, place: range | None) -> bool:
    """Return whether a core is in a place; None stands for all cores that compute."""
    return core % CHIP < PIPELINE if place is None else core in place


def one_after_the_other(
    placed: Sequence[tuple[PlacedGroup | LinkWork, Counter[str]]],
) -> Counter[str]:
    """Return the bound, by term, of groups that wait for the end of their predecessors.

    The sum of the groups' own bounds, each from the time at which its first core is free; of a
    joined group only that it ends no earlier. In a repeated layer: the paths of cores through the
    groups of which they are the first.
    """
    zero: Counter[str] = Counter()
    places = [part.place for part, _ in placed if part.place is not None]
    edges = {0, *(edge for place in places for edge in (place.start, place.stop))}
    ends = dict.fromkeys(sorted(edges), zero)
    made: dict[str, Counter[str]] = {}
    for times, run in groupby(placed, lambda pair: pair[0].times):
        more: dict[int, Counter[str]] = {core: Counter() for core in ends}
        for part, bound in run:
            cores = [core for core in ends if _is_on(core, part.place)]
            starts = [min((ends[core] for core in cores), key=total_of)]
            read = part.read - part.streamed
            starts += [made[name] for name in sorted(read) if name in made]
            own = zero if is_joined(part) else bound
            end = _latest(max(starts, key=total_of) + own, *(ends[core] for core in cores))
            ends.update(dict.fromkeys(cores, end or zero))
            made.update(dict.fromkeys(part.stored, end or zero))
            more[first_core(part)] += _core_cycles(part)
        ends = {core: end + _multiply_terms(more[core], times - 1) for core, end in ends.items()}
    return max(ends.values(), key=total_of)


def _repeat(ends: _PathEnds, layer: Sequence[PlacedGroup | LinkWork], times: int) -> None:
    """Append ``times`` more runs of a layer: each end grows by what one more run adds to it."""
    zero: Counter[str] = Counter()
    found = [
        _add_to_end(ends.last, _multiply_terms(_round(_PathEnds({}, zero), layer).last, times))
    ]
    for unit in (ARRAY, SFU, LINK):
        after = _round(_PathEnds({unit: zero}), layer).units.get(unit)
        ends.units[unit] = _add_to_end(ends.units[unit], _multiply_terms(after, times))
        found.append(ends.units[unit])
    ends.last, ends.before = _latest(*found), zero


def _round(ends: _PathEnds, layer: Sequence[PlacedGroup | LinkWork]) -> _PathEnds:
    previous = layer[-1]
    for at, group in enumerate(layer):
        ends.add(group, previous, again=not at)
        previous = group
    return ends


def _multiply_terms(terms: Counter[str] | None, times: int) -> Counter[str]:
    return Counter({name: n * times for name, n in (terms or {}).items()})


def _late_tensors(group: PlacedGroup, before: PlacedGroup | LinkWork, *, again: bool) -> set[str]:
    """Return the tensors that a group can load only after its predecessor has ended.

    These are its outputs; between repetitions of a layer (``again``) all tensors but weights.
    """
    if not again:
        return before.stored
    tensors = group.workload.tensors
    return {name for name in tensors if tensors[name].kind != WEIGHT}


@dataclass(frozen=True)
class _LateWork:
    """Cycles from the arrival of late tensors; None if no operator uses any.

    ``whole``: to the group's last command; ``of_unit``: to the last command of its unit.
    """

    whole: Counter[str] | None = None
    of_unit: Counter[str] | None = None


def _late_work(group: PlacedGroup, late: set[str], execution: Counter[str]) -> _LateWork:
    """Return the cycles of the work on late tensors, or on tiles of keeps around groups."""
    made, late_names = set(late), set()
    for name in group.group.operators:
        *inputs, output = (
            operand.tensor for _, operand in operands_of(group.workload.operator(name))
        )
        if made.intersection(inputs) or _is_around(group, (*inputs, output)):
            late_names.add(name)
            made.add(output)
    if not late_names:
        return _LateWork()
    first = group.totals.units.family.paths[0].leaf
    fill: Counter[str] = Counter()
    if first.operator in late_names:
        fill = Counter({"fill": int(group.totals.fill(late))})
    if late_names.issuperset(group.group.operators):
        return _LateWork(fill + execution, fill + execution - _alternation(group).rear)
    work = {
        unit: Counter({unit: n}) + (fill if unit == first.unit else Counter())
        for unit, n in _work_by_unit(group, late_names).items()
    }
    longest = max(work.values(), key=total_of, default=Counter[str]())
    return _LateWork(longest, work.get(_unit(group)))


def _is_around(group: PlacedGroup, tensors: Sequence[str]) -> bool:
    """Return whether one of the tensors has its tile in a keep around the group."""
    held = (resident_tensor(group.workload, group.group, one, group.around) for one in tensors)
    return any(one is not None for one in held)


def _execution(group: PlacedGroup) -> Counter[str]:
    """Return the cycles from a group's first command to its last, by term.

    Tiles that are loaded early fill at most their slots, which no term counts.
    """
    path = group.totals.path
    return Counter({name: int(n) for name, n in path.items() if name not in ("fill", "drain")})


def _work_by_unit(group: PlacedGroup, operators: set[str]) -> Counter[str]:
    """Return the cycles of some operators of a group by the unit that runs them."""
    counts, leaves = group.totals.counts, group.totals.units.family.paths
    unit_of = {path.leaf.operator: path.leaf.unit for path in leaves}
    work: Counter[str] = Counter()
    for name, cycles in counts.chains.items():
        if name in operators:
            work[SFU if unit_of.get(name) == SFU else ARRAY] += int(cycles)
    return work
