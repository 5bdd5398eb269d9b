"""The prediction of a whole mapping from its trees alone: counts, work, and a lower bound.

Counts (MACs, passes, bytes by tensor and level) equal the machine's; no run is below the bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from simaccel.analytic.core_totals import core_totals
from simaccel.analytic.evaluation import require_countable
from simaccel.analytic.family_counts import Level
from simaccel.analytic.link_work import LinkWork, link_works, merge_parts
from simaccel.analytic.overlap import (
    PlacedGroup,
    is_joined,
    longest_path,
    one_after_the_other,
    total_of,
)
from simaccel.hardware import Accelerator
from simaccel.mapping.chips.exchanges import Exchange
from simaccel.mapping.lifetimes import lifetimes
from simaccel.mapping.tile_streams import tile_streams
from simaccel.mapping.tree import Mapping as MappingTree
from simaccel.mapping.tree import ResidentScope
from simaccel.workload import Workload

Terms = Mapping[str, int]
"""Cycles by term; a bound is their sum."""


@dataclass(frozen=True)
class GroupPrediction:
    """The prediction of one group over all repetitions.

    ``bound_terms``: the lower bound of the group alone, by term; ``resources``: the work of each
    resource in cycles, with the core in the name (`on_core`). ``overlaps``: whether it may share
    its cycles with others, or with its next repetition.
    """

    name: str
    bound_terms: Terms
    macs: int
    elements: int
    moved: dict[Level, int]
    buffer_bytes: int
    resources: dict[str, int]
    energy_pj: dict[str, float]
    overlaps: bool = False

    @property
    def bound_cycles(self) -> int:
        """The lower bound in cycles of the group alone."""
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
    """The prediction of a mapping, whose groups run one after another or overlap.

    ``bound_terms``: the lower bound of the whole, by term. Energy includes the leakage of the
    bound's cycles.
    """

    groups: tuple[GroupPrediction, ...]
    bound_terms: Terms

    @property
    def bound_cycles(self) -> int:
        """The lower bound in cycles."""
        return sum(self.bound_terms.values())

    @property
    def buffer_bytes(self) -> int:
        """The most bytes of the buffer that a group needs, with the keeps around it."""
        return max((one.buffer_bytes for one in self.groups), default=0)

    @property
    def macs(self) -> int:
        """MACs of all groups."""
        return sum(one.macs for one in self.groups)

    @property
    def resources(self) -> dict[str, int]:
        """Work of each resource in cycles, of all groups."""
        return dict(_add_terms(one.resources for one in self.groups))

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
    """Return the prediction of a mapping of a whole workload.

    For one of several chips with its ``exchanges``, and the tensors that its ``parts`` belong to.

    Raises:
        CountError: the counts may not fit 64-bit integers.
    """
    require_countable(workload)
    beside = [
        work
        for exchange in exchanges
        if not exchange.after
        for work in link_works(exchange, accelerator, 1)
    ]
    placed: list[PlacedGroup | LinkWork] = []
    streamed: dict[str, set[str]] = {}
    streams = (exchange.streamed.stream for exchange in exchanges if exchange.streamed is not None)
    for stream in (*tile_streams(workload, mapping), *streams):
        streamed.setdefault(stream.reader, set()).add(stream.tensor)
    for group in _place_groups(workload, mapping, accelerator, streamed):
        works = [
            work
            for exchange in exchanges
            if exchange.after in group.group.operators
            for work in link_works(exchange, accelerator, group.times)
        ]
        ahead = [work for work in works if work.exchange.is_ahead]
        placed += [*ahead, group, *(work for work in works if not work.exchange.is_ahead)]
    overlap, kernels = accelerator.compiler.overlap, _kernels(placed)
    is_one = len(placed) == 1 and placed[0].times == 1
    predictions: list[GroupPrediction] = []
    for kernel in kernels:
        overlaps = len(kernel) > 1 or (bool(overlap) and not is_one)
        predictions += [_predict_part(part, parts or {}, overlaps=overlaps) for part in kernel]
    predictions += [_predict_part(part, {}, overlaps=True) for part in beside]
    if is_one:
        terms = predictions[0].bound_terms
    elif overlap:
        terms = _bound_together(placed)
    elif all(part.place is None for part in placed):
        terms = dict(_add_terms(map(_bound_of_kernel, kernels)))
    else:
        path = one_after_the_other([(part, Counter(_bound_of(part))) for part in placed])
        terms = _longer(path, _busiest(placed))
    for work in beside:
        own = _longer(Counter(work.path), _busiest([*placed, *beside]))
        terms = _longer(Counter(terms), own)
    return Prediction(tuple(predictions), terms)


def _kernels(placed: Sequence[PlacedGroup | LinkWork]) -> list[list[PlacedGroup | LinkWork]]:
    """Return the groups of each kernel; an exchange is alone, and ends the kernel before."""
    kernels: list[list[PlacedGroup | LinkWork]] = []
    for part in placed:
        before = kernels[-1][-1] if kernels else None
        if is_joined(part) and isinstance(before, PlacedGroup):
            kernels[-1].append(part)
        else:
            kernels.append([part])
    return kernels


def _bound_of_kernel(kernel: Sequence[PlacedGroup | LinkWork]) -> Terms:
    """Return the lower bound of a kernel over all its repetitions, by term."""
    first, *others = kernel
    terms = _bound_of(first)
    if others:
        together = _bound_together([replace(part, times=1) for part in kernel])
        terms = Counter(start=terms.get("start", 0)) + together
    return {name: n * first.times for name, n in terms.items()}


def _bound_together(placed: Sequence[PlacedGroup | LinkWork]) -> Counter[str]:
    """Return the bound of groups that overlap: their longest path, or the busiest resource."""
    return _longer(longest_path(placed), _busiest(placed))


def _longer(path: Counter[str], work: Counter[str]) -> Counter[str]:
    return path if total_of(path) >= total_of(work) else work


def _busiest(placed: Sequence[PlacedGroup | LinkWork]) -> Counter[str]:
    """Return the work of the busiest resource in cycles, by its name."""
    work: Counter[str] = Counter()
    for part in placed:
        work.update({name: n * part.times for name, n in _resources(part).items()})
    busiest = max(work, key=lambda name: work[name])
    return Counter({busiest: work[busiest]})


def _place_groups(
    workload: Workload,
    mapping: MappingTree,
    accelerator: Accelerator,
    streamed: Mapping[str, Collection[str]],
) -> Iterator[PlacedGroup]:
    """Yield each group, evaluated with the keeps around it that live while it runs.

    ``streamed``: by group, the tensors that others hand to it tile by tile.
    """
    for part in mapping.body:
        lives = lifetimes(workload, part) if isinstance(part, ResidentScope) else ()
        for at, group in enumerate(part.groups):
            living = [life for life in lives if life.first <= at <= life.last]
            bits = {life.keep.tensor: life.bits for life in living}
            cores = core_totals(workload, accelerator, group, part.keeps, bits)
            kept, times = sum(life.n_bytes for life in living), workload.times(group.operators[0])
            handed = frozenset(streamed.get(group.name, ()))
            yield PlacedGroup(workload, group, part.keeps, cores, kept, times, handed)


def _predict_part(
    placed: PlacedGroup | LinkWork, parts: Mapping[str, str], *, overlaps: bool
) -> GroupPrediction:
    times, macs, elements = placed.times, 0, 0
    if isinstance(placed, LinkWork):
        name, moved, room = placed.name, placed.moved, placed.buffer_bytes
        whole = {level: n * times for level, n in moved.items()}
        by_level = placed.accelerator.energy_by_level(0, 0, whole, placed.cycles * times)
        energy = {level: float(n) for level, n in by_level.items()}
    else:
        name, sums = placed.group.name, placed.sums
        macs, elements = int(sums.macs) * times, int(sums.elements) * times
        moved = {level: int(n) for level, n in sums.moved.items()}
        moved = merge_parts(moved, parts, sums.received) if parts else moved
        room = int(sums.buffer_bytes()) + placed.kept_bytes
        energy = {level: n * times for level, n in sums.energy_pj.items()}
    return GroupPrediction(
        name=name,
        bound_terms={term: n * times for term, n in _bound_of(placed).items()},
        macs=macs,
        elements=elements,
        moved={level: n * times for level, n in moved.items() if n},
        buffer_bytes=room,
        resources={unit: n * times for unit, n in _resources(placed).items()},
        energy_pj=energy,
        overlaps=overlaps,
    )


def _resources(part: PlacedGroup | LinkWork) -> Mapping[str, int]:
    return part.resources if isinstance(part, LinkWork) else part.sums.resources


def _bound_of(part: PlacedGroup | LinkWork) -> Terms:
    """Return the lower bound of one run of a group alone, by term; a joined one has no start."""
    if isinstance(part, LinkWork):
        return part.path
    terms = part.sums.bound_terms
    return {name: n for name, n in terms.items() if name != "start"} if is_joined(part) else terms


def _add_terms(some: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for terms in some:
        total.update(terms)
    return total
