"""The prediction of a whole mapping, from the tree alone: counts, work, and a lower bound.

Counts are the machine's: MACs, passes, bytes by tensor and level. No run is shorter than the bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

from simaccel.analytic.evaluation import Totals, evaluate, require_countable
from simaccel.analytic.family import family_of
from simaccel.analytic.link_work import LinkWork, loaded_from
from simaccel.analytic.totals import Level
from simaccel.hardware import Accelerator
from simaccel.mapping.around import Life, holder, lives
from simaccel.mapping.chips.exchanges import Exchange
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


def predict(
    workload: Workload,
    mapping: MappingTree,
    accelerator: Accelerator,
    exchanges: Sequence[Exchange] = (),
    parts: Mapping[str, str] | None = None,
) -> Prediction:
    """Predict a mapping of a whole workload.

    Of one of several chips with its ``exchanges``, and ``parts`` of tensors that it has.

    Raises:
        CountError: the counts would not fit 64-bit integers.

    """
    require_countable(workload)
    placed: list[_Placed | LinkWork] = []
    for one in _placed(workload, mapping):
        group = _evaluated(workload, accelerator, *one)
        placed.append(group)
        placed += [
            LinkWork(exchange, accelerator, group.times)
            for exchange in exchanges
            if exchange.after in group.group.operators
        ]
    told = (_sent(one) if isinstance(one, LinkWork) else _predicted(one) for one in placed)
    groups = tuple(replace(one, moved=loaded_from(one.moved, parts or {})) for one in told)
    if not accelerator.groups.overlap:
        return Prediction(groups, dict(_added(one.bound_terms for one in groups)))
    if len(groups) == 1 and placed[0].times == 1:
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


def _sent(work: LinkWork) -> GroupPrediction:
    moved = {level: n * work.times for level, n in work.moved.items()}
    energy = work.accelerator.energy_by_level(0, 0, moved, work.cycles * work.times)
    return GroupPrediction(
        name=work.exchange.name,
        bound_terms={name: n * work.times for name, n in work.path.items()},
        macs=0,
        elements=0,
        moved=moved,
        buffer_bytes=work.buffer_bytes,
        resources={name: n * work.times for name, n in work.resources.items()},
        energy_pj={level: float(n) for level, n in energy.items()},
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


def _behind(end: Counter[str] | None, cycles: Counter[str]) -> Counter[str] | None:
    return None if end is None else end + cycles


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

    def add(
        self, group: _Placed | LinkWork, previous: _Placed | LinkWork | None, *, again: bool = False
    ) -> None:
        """Put a group behind; ``again``: the one before is of the layer before.

        An exchange takes what the one before it stores, or an exchange of that.
        """
        if isinstance(group, LinkWork):
            end = _behind(self.last, Counter(group.path))
            self.last, self.before = _latest(self.last, end), self.last
            return
        stay = _stay(group)
        unit = _unit(group)
        end = _behind(_latest(self.units.get(unit), self.before), stay)
        if previous is not None:
            work = _late_work(group, _late(group, previous, again=again), stay)
            end = _latest(end, None if work is None else _behind(self.last, work))
        self.units[unit] = _latest(self.units.get(unit), end)
        stored = _behind(end, Counter({"drain": int(group.totals.path["drain"])}))
        self.last, self.before = _latest(self.last, stored), self.last


def _unit(group: _Placed) -> str:
    """Return the unit whose first and last command a group's stay is between."""
    return "array" if int(group.totals.path["array"]) else "sfu"


def _longest_path(placed: Sequence[_Placed | LinkWork]) -> Counter[str]:
    """Return the cycles on the longest path through groups that overlap, by term."""
    zero: Counter[str] = Counter()
    first = next(one for one in placed if isinstance(one, _Placed))
    fill = Counter({"fill": int(first.totals.path["fill"])})
    ends = _Ends({"array": zero, "sfu": zero, _unit(first): fill}, zero, zero)
    previous: _Placed | LinkWork | None = None
    for times, run in groupby(placed, lambda one: one.times):
        layer = list(run)
        for group in layer:
            ends.add(group, previous)
            previous = group
        if times > 1:
            _repeat(ends, layer, times - 1)
    return ends.last or zero


def _repeat(ends: _Ends, layer: Sequence[_Placed | LinkWork], times: int) -> None:
    """Put a layer behind its last run ``times`` more: of each end, what comes of it alone."""
    zero: Counter[str] = Counter()
    found = [_behind(ends.last, _multiplied(_round(_Ends({}, zero), layer).last, times))]
    for unit in ("array", "sfu"):
        after = _round(_Ends({unit: zero}), layer).units.get(unit)
        ends.units[unit] = _behind(ends.units[unit], _multiplied(after, times))
        found.append(ends.units[unit])
    ends.last, ends.before = _latest(*found), zero


def _round(ends: _Ends, layer: Sequence[_Placed | LinkWork]) -> _Ends:
    previous = layer[-1]
    for at, group in enumerate(layer):
        ends.add(group, previous, again=not at)
        previous = group
    return ends


def _multiplied(terms: Counter[str] | None, times: int) -> Counter[str]:
    return Counter({name: n * times for name, n in (terms or {}).items()})


def _late(group: _Placed, before: _Placed | LinkWork, *, again: bool) -> set[str]:
    """Return the tensors that come to a group when the one before has ended.

    Those that it stores; ``again``: where that is of the layer before, all but weights.
    """
    if not again:
        return before.stored
    tensors = group.workload.tensors
    return {name for name in tensors if tensors[name].kind != WEIGHT}


def _late_work(group: _Placed, late: set[str], stay: Counter[str]) -> Counter[str] | None:
    """Return the cycles of what works on late tensors, or on tiles that are kept around groups.

    None where nothing does.
    """
    made, found = set(late), set()
    first = next(group.totals.family.paths()).leaf.operator
    for name in group.group.operators:
        *inputs, output = (one.tensor for _, one in operands_of(group.workload.operator(name)))
        if made.intersection(inputs) or _is_around(group, (*inputs, output)):
            found.add(name)
            made.add(output)
    if not found:
        return None
    fill: Counter[str] = Counter()
    if first in found:
        fill = Counter({"fill": int(group.totals.fill(late))})
    return fill + _own_work(group, found, stay)


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


def _own_work(group: _Placed, operators: set[str], stay: Counter[str]) -> Counter[str]:
    """Return the cycles of some operators of a group: its ``stay`` where those are all."""
    if operators.issuperset(group.group.operators):
        return stay
    counts, leaves = group.totals.counts, group.totals.family.paths()
    unit_of = {path.leaf.operator: path.leaf.unit for path in leaves}
    work: Counter[str] = Counter()
    for name, cycles in counts.chains.items():
        if name in operators:
            work["sfu" if unit_of.get(name) == "sfu" else "array"] += int(cycles)
    if not work:
        return work
    unit = max(work, key=lambda name: work[name])
    return Counter({unit: work[unit]})
