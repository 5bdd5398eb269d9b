"""The prediction of a whole mapping, from the tree alone: counts, work, and a lower bound.

Counts are the machine's: MACs, passes, bytes by tensor and level. No run is shorter than the bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from simaccel.analytic.evaluation import Totals, evaluate, require_countable
from simaccel.analytic.family import family_of
from simaccel.analytic.totals import Level
from simaccel.hardware import Accelerator
from simaccel.mapping.around import Life, holder, lives
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import Group, Keep
from simaccel.mapping.tree import Mapping as MappingTree
from simaccel.workload import Workload, operands_of

WEIGHT: Final = "weight"
Terms = Mapping[str, int]
"""Cycles by term; a bound is their sum."""


@dataclass(frozen=True)
class GroupPrediction:
    """Prediction of one group, all repetitions.

    ``bound_terms``: cycles that it takes at least where it runs alone, by term; ``resources``: the
    cycles of each resource's work.
    """

    name: str
    bound_terms: Terms
    macs: int
    elements: int
    moved: dict[Level, int]
    buffer_bytes: int
    resources: dict[str, int]
    energy_pj: dict[str, float]

    @property
    def bound_cycles(self) -> int:
        """Cycles that the group takes at least where it runs alone."""
        return sum(self.bound_terms.values())

    @property
    def resource_bound_cycles(self) -> int:
        """Cycles of the work of the busiest resource."""
        return max(self.resources.values())

    @property
    def bound_by(self) -> str:
        """Name of the busiest resource."""
        return max(self.resources, key=lambda name: self.resources[name])


@dataclass(frozen=True)
class Prediction:
    """Prediction of a mapping, whose groups run one after another, or overlap.

    ``bound_terms``: cycles that no run is below, by term. ``buffer_bytes``: the most that a group
    needs of the buffer, with what is kept around it. Energy has the leakage of the bound's cycles.
    """

    groups: tuple[GroupPrediction, ...]
    bound_terms: Terms

    @property
    def bound_cycles(self) -> int:
        """Cycles that no run is below."""
        return sum(self.bound_terms.values())

    @property
    def buffer_bytes(self) -> int:
        """The most bytes of the buffer that a group needs."""
        return max((one.buffer_bytes for one in self.groups), default=0)

    @property
    def macs(self) -> int:
        """MACs of all groups."""
        return sum(one.macs for one in self.groups)

    @property
    def resources(self) -> dict[str, int]:
        """Cycles of each resource's work, of all groups."""
        return dict(_added(one.resources for one in self.groups))

    @property
    def bound_by(self) -> str:
        """Name of the busiest resource."""
        return max(self.resources, key=lambda name: self.resources[name])

    @property
    def moved(self) -> dict[Level, int]:
        """Bytes by level and tensor."""
        total: Counter[Level] = Counter()
        for one in self.groups:
            total.update(one.moved)
        return dict(sorted(total.items()))

    @property
    def energy_pj(self) -> dict[str, float]:
        """Energy by level in pJ."""
        total: dict[str, float] = {}
        for group in self.groups:
            for level, energy in group.energy_pj.items():
                total[level] = total.get(level, 0.0) + energy
        return total


def predict(workload: Workload, mapping: MappingTree, accelerator: Accelerator) -> Prediction:
    """Predict a mapping of a whole workload.

    Raises:
        CountError: the counts would not fit 64-bit integers.

    """
    require_countable(workload)
    placed = [_evaluated(workload, accelerator, *one) for one in _placed(workload, mapping)]
    groups = tuple(map(_predicted, placed))
    if not accelerator.groups.overlap:
        return Prediction(groups, dict(_added(one.bound_terms for one in groups)))
    if len(placed) == 1 and placed[0].times == 1:
        return Prediction(groups, groups[0].bound_terms)
    work = _added(one.resources for one in groups)
    busiest = max(work, key=lambda name: work[name])
    path, bound = _longest_path(placed), Counter({busiest: work[busiest]})
    return Prediction(groups, path if _total(path) >= _total(bound) else bound)


@dataclass(frozen=True)
class _Placed:
    """A group in its place: its counts, and the bytes that are kept around it."""

    workload: Workload
    group: Group
    around: tuple[Keep, ...]
    totals: Totals
    kept_bytes: int
    times: int

    @property
    def stored(self) -> set[str]:
        """Tensors that the group stores in memory."""
        moved = self.totals.counts.moved
        return {name for (level, name), n in moved.items() if level == "dram_write" and int(n)}


def _placed(
    workload: Workload, mapping: MappingTree
) -> Iterator[tuple[Group, tuple[Keep, ...], list[Life]]]:
    """Yield each group with what is kept around it, and what of that lives then."""
    for one in mapping.body:
        if isinstance(one, Group):
            yield one, (), []
            continue
        living = lives(workload, one)
        for at, group in enumerate(one.groups):
            yield group, one.keeps, [life for life in living if life.first <= at <= life.last]


def _evaluated(
    workload: Workload,
    accelerator: Accelerator,
    group: Group,
    around: tuple[Keep, ...],
    living: Sequence[Life],
) -> _Placed:
    bits = {one.keep.tensor: one.bits for one in living}
    totals = evaluate(family_of(space_of(workload, group), group, around, bits), accelerator)
    kept = sum(one.n_bytes for one in living)
    return _Placed(workload, group, around, totals, kept, workload.times(group.operators[0]))


def _predicted(placed: _Placed) -> GroupPrediction:
    totals, times = placed.totals, placed.times
    counts = totals.counts
    return GroupPrediction(
        name=placed.group.name,
        bound_terms={name: n * times for name, n in totals.bound_terms().items()},
        macs=int(counts.macs) * times,
        elements=int(counts.elements) * times,
        moved={level: int(n) * times for level, n in counts.moved.items() if int(n)},
        buffer_bytes=int(totals.buffer_bytes()) + placed.kept_bytes,
        resources={name: int(n) * times for name, n in totals.resources.items()},
        energy_pj={
            level: float(n) * times for level, n in totals.energy_pj(totals.bound()).items()
        },
    )


def _added(some: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for terms in some:
        total.update(terms)
    return total


# -- where groups overlap -------------------------------------------------------------------------


def _total(terms: Counter[str] | None) -> float:
    """Return the sum of terms; nothing is before all that is something."""
    return -1.0 if terms is None else sum(terms.values())


def _latest(*ends: Counter[str] | None) -> Counter[str] | None:
    return max(ends, key=_total)


def _behind(end: Counter[str] | None, cycles: Counter[str] | None) -> Counter[str] | None:
    return None if end is None or cycles is None else end + cycles


@dataclass
class _Ends:
    """The earliest ends, by term, on the way through groups; None where none is known.

    ``units``: of the last command of array and SFU; ``last``: of the last group; ``before``: of the
    one before it. A group may begin while the one before it ends, never before that began, and each
    unit does one group after the other. What works on data that the one before makes waits for its
    end.
    """

    units: dict[str, Counter[str] | None] = field(default_factory=dict)
    last: Counter[str] | None = None
    before: Counter[str] | None = None

    def add(self, group: _Placed, previous: _Placed | None, *, again: bool = False) -> None:
        """Put a group behind; ``again``: the one before is of the layer before."""
        stay, unit, turns = _stay(group), _unit(group), _turns(group)
        known = self.units.get(unit)
        end = _latest(_behind(known, stay - turns.front), _behind(self.before, stay))
        of_unit = [known, _behind(known, stay - turns.all), _behind(self.before, stay - turns.rear)]
        if previous is not None:
            late = _late_work(group, _late(group, previous, again=again), stay)
            end = _latest(end, _behind(self.last, late.whole))
            of_unit.append(_behind(self.last, late.of_unit))
        self.units[unit] = _latest(*of_unit)
        stored = _behind(end, Counter({"drain": int(group.totals.path["drain"])}))
        self.last, self.before = _latest(self.last, stored), self.last


def _unit(group: _Placed) -> str:
    """Return the unit whose first and last command a group's stay is between."""
    return "array" if int(group.totals.path["array"]) else "sfu"


@dataclass(frozen=True)
class _Turns:
    """Cycles in which vector operators take turns with the array in its stay: all of them.

    ``front``: that may come before its first command; ``rear``: behind its last one.
    """

    all: Counter[str]
    front: Counter[str]
    rear: Counter[str]


def _turns(group: _Placed) -> _Turns:
    """Return the cycles of a group's only array operator and vector operators by turns."""
    zero: Counter[str] = Counter()
    units = [path.leaf.unit for path in group.totals.family.paths()]
    if _unit(group) == "sfu" or units.count("array") != 1:
        return _Turns(zero, zero, zero)
    some = Counter({"sfu": int(group.totals.path["sfu"])})
    is_first, is_last = units[0] == "array", units[-1] == "array"
    return _Turns(some, zero if is_first else some, zero if is_last else some)


def _longest_path(placed: Sequence[_Placed]) -> Counter[str]:
    """Return the cycles on the longest path through groups that overlap, by term."""
    zero: Counter[str] = Counter()
    fill = Counter({"fill": int(placed[0].totals.path["fill"])})
    ends = _Ends({"array": zero, "sfu": zero, _unit(placed[0]): fill}, zero, zero)
    previous: _Placed | None = None
    for times, run in groupby(placed, lambda one: one.times):
        layer = list(run)
        for group in layer:
            ends.add(group, previous)
            previous = group
        if times > 1:
            _repeat(ends, layer, times - 1)
    return ends.last or zero


def _repeat(ends: _Ends, layer: Sequence[_Placed], times: int) -> None:
    """Put a layer behind its last run ``times`` more: of each end, what comes of it alone."""
    zero: Counter[str] = Counter()
    found = [_behind(ends.last, _multiplied(_round(_Ends({}, zero), layer).last, times))]
    for unit in ("array", "sfu"):
        after = _round(_Ends({unit: zero}), layer).units.get(unit)
        ends.units[unit] = _behind(ends.units[unit], _multiplied(after, times))
        found.append(ends.units[unit])
    ends.last, ends.before = _latest(*found), zero


def _round(ends: _Ends, layer: Sequence[_Placed]) -> _Ends:
    previous = layer[-1]
    for at, group in enumerate(layer):
        ends.add(group, previous, again=not at)
        previous = group
    return ends


def _multiplied(terms: Counter[str] | None, times: int) -> Counter[str]:
    return Counter({name: n * times for name, n in (terms or {}).items()})


def _late(group: _Placed, before: _Placed, *, again: bool) -> set[str]:
    """Return the tensors that come to a group when the one before has ended.

    Those that it stores; ``again``: where that is of the layer before, all but weights.
    """
    if not again:
        return before.stored
    tensors = group.workload.tensors
    return {name for name in tensors if tensors[name].kind != WEIGHT}


@dataclass(frozen=True)
class _LateWork:
    """Cycles of what works on late tensors; None where nothing does.

    ``whole``: until the group's last command; ``of_unit``: until the last one of its unit.
    """

    whole: Counter[str] | None = None
    of_unit: Counter[str] | None = None


def _late_work(group: _Placed, late: set[str], stay: Counter[str]) -> _LateWork:
    """Return the cycles of what works on late tensors, or on tiles that are kept around groups."""
    made, found = set(late), set()
    for name in group.group.operators:
        *inputs, output = (one.tensor for _, one in operands_of(group.workload.operator(name)))
        if made.intersection(inputs) or _is_around(group, (*inputs, output)):
            found.add(name)
            made.add(output)
    if not found:
        return _LateWork()
    first = next(group.totals.family.paths()).leaf
    fill: Counter[str] = Counter()
    if first.operator in found:
        fill = Counter({"fill": int(group.totals.fill(late))})
    if found.issuperset(group.group.operators):
        return _LateWork(fill + stay, fill + stay - _turns(group).rear)
    work = {
        unit: Counter({unit: n}) + (fill if unit == first.unit else Counter())
        for unit, n in _work_by_unit(group, found).items()
    }
    longest = max(work.values(), key=_total, default=Counter[str]())
    return _LateWork(longest, work.get(_unit(group)))


def _is_around(group: _Placed, tensors: Sequence[str]) -> bool:
    """Return whether one of some tensors has its tile around the group: that is in use."""
    held = (holder(group.workload, group.group, one, group.around) for one in tensors)
    return any(one is not None for one in held)


def _stay(group: _Placed) -> Counter[str]:
    """Return the cycles from a group's first command to its last, by term.

    Tiles that come early are no more than their slots, which no term counts.
    """
    path = group.totals.path
    return Counter({name: int(n) for name, n in path.items() if name not in ("fill", "drain")})


def _work_by_unit(group: _Placed, operators: set[str]) -> Counter[str]:
    """Return the cycles of some operators of a group by the unit that runs them."""
    counts, leaves = group.totals.counts, group.totals.family.paths()
    unit_of = {path.leaf.operator: path.leaf.unit for path in leaves}
    work: Counter[str] = Counter()
    for name, cycles in counts.chains.items():
        if name in operators:
            work["sfu" if unit_of.get(name) == "sfu" else "array"] += int(cycles)
    return work
