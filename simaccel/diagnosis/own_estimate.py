"""Comparison of a user's own estimate of cycles with a run: which terms it has and which it lacks.

A run takes the terms of its bound, and waits by cause. The first term is the work of the busiest
resource; it is split at the MACs divided by the PEs, or at the work of another resource if the
number is that alone. A number is taken to have the first terms of a run, or some of its bound:
those whose sum is nearest to it. What is left is not explained.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

from simaccel.analytic.prediction import GroupPrediction, Prediction
from simaccel.diagnosis.limits import waiting_by_cause
from simaccel.machine.machine import OperatorRun, Run

TOTAL: Final = "total"
MACS: Final = "MACs / PEs"
_MOST_CHOSEN: Final = 6
"""Terms of a bound beside the first of which every choice is tried."""


@dataclass(frozen=True)
class CycleTerm:
    """A term of a run's cycles; ``kind``: a term of its bound, or a wait beyond it, by cause."""

    name: str
    cycles: int
    kind: str = "bound"
    is_lacking: bool = False


@dataclass(frozen=True)
class OwnEstimate:
    """A user's estimate for a row of a run or all of it; ``terms`` add up to the ``cycles`` there.

    ``cycles``: simulated, or of the bound where nothing ran.
    """

    name: str
    estimate_cycles: int
    cycles: int
    terms: tuple[CycleTerm, ...]

    @property
    def unexplained_cycles(self) -> int:
        """The part of the estimate that no term of the run explains."""
        return self.estimate_cycles - sum(term.cycles for term in self.terms if not term.is_lacking)


def own_estimate(
    name: str,
    estimate_cycles: int,
    predicted: GroupPrediction | Prediction,
    ideal_cycles: int,
    run: OperatorRun | Run | None = None,
) -> OwnEstimate:
    """Return which terms of a run, or of its bound without one, an estimate has and lacks.

    ``ideal_cycles``: MACs divided by the MACs per cycle of all PEs.
    """
    bound, resources = predicted.bound_terms, predicted.resources
    waits = _waits(run, bound)
    order = sorted(bound, key=lambda term: (term not in resources, -bound[term]))
    lead, *others = [CycleTerm(term, bound.get(term, 0)) for term in order or [predicted.bound_by]]
    plain = _split(lead, MACS, ideal_cycles)
    choices = list(_choices(plain, others, waits))
    for resource, work in resources.items():
        terms = (*_split(lead, f"work of {resource}", work), *others, *waits)
        choices += [_lacking(terms, (0,))] * (0 < work < lead.cycles)
    outcome = min(choices, key=lambda terms: _distance(terms, estimate_cycles))
    cycles = sum(term.cycles for term in outcome)
    return OwnEstimate(name, estimate_cycles, cycles, outcome)


def _waits(run: OperatorRun | Run | None, terms: Mapping[str, int]) -> list[CycleTerm]:
    """Return the cycles beyond a bound by cause, less what a group overlaps with others."""
    if run is None:
        return []
    found = waiting_by_cause(run, terms)
    waits = [CycleTerm(cause, n, "wait") for cause, n in found.items()]
    rest = run.cycles - sum(terms.values()) - sum(found.values())
    return [*waits, CycleTerm("overlap with other groups", rest, "wait")] if rest else waits


def _split(lead: CycleTerm, name: str, cycles: int) -> tuple[CycleTerm, ...]:
    """Return a term split in two at a known figure, if that is smaller."""
    if cycles == lead.cycles:
        return (replace(lead, name=f"{name}, all of {lead.name}"),)
    if not 0 < cycles < lead.cycles:
        return (lead,)
    return CycleTerm(name, cycles), CycleTerm(f"{lead.name} beyond that", lead.cycles - cycles)


def _choices(
    lead: Sequence[CycleTerm], others: Sequence[CycleTerm], waits: Sequence[CycleTerm]
) -> Iterator[tuple[CycleTerm, ...]]:
    """Yield the terms with each selection of those that an estimate may lack."""
    terms = (*lead, *others, *waits)
    first, bound = len(lead), len(lead) + len(others)
    for end in range(1, len(terms) + 1):
        yield _lacking(terms, range(end))
    for n in range(1, len(others)) if len(others) <= _MOST_CHOSEN else ():
        for chosen in combinations(range(first, bound), n):
            yield _lacking(terms, (*range(first), *chosen))


def _lacking(terms: Sequence[CycleTerm], has: Collection[int]) -> tuple[CycleTerm, ...]:
    return tuple(replace(term, is_lacking=at not in has) for at, term in enumerate(terms))


def _distance(terms: Sequence[CycleTerm], estimate: int) -> tuple[int, int]:
    """Return (distance of an estimate from the terms it has, number of terms it lacks)."""
    has = sum(term.cycles for term in terms if not term.is_lacking)
    return abs(estimate - has), sum(term.is_lacking for term in terms)
