"""Every run does the work of its workload: tree, program, counts and machine agree on it.

A difference is a mistake of simaccel and no figure: it is refused, with the mapping.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

from simaccel.analytic.floor.floor import floors_of, on_chip_bytes
from simaccel.analytic.prediction import GroupPrediction, Prediction
from simaccel.errors import MistakeError
from simaccel.hardware import Accelerator
from simaccel.hardware.core_noc import hop_bytes
from simaccel.hardware.memory import dram_bytes, shared_bytes
from simaccel.machine.machine import OperatorRun, Run
from simaccel.mapping.chips.exchanges import Exchange
from simaccel.mapping.coverage import work_of
from simaccel.mapping.space import BoundOperator, IterationSpace, holding_tensor, space_of
from simaccel.mapping.text import tree_text
from simaccel.mapping.tree import Group, Keep, Mapping
from simaccel.program.accounting import Box, leaves_out, points_of
from simaccel.program.operators import operators_with_tiles
from simaccel.program.program import Operator, Program
from simaccel.workload import Einsum, Workload

Moved = dict[tuple[str, str], int]


class ConservationError(MistakeError):
    """A run that does something else than its workload; the message has the mapping."""


@dataclass(frozen=True)
class RequiredWork:
    """The work of a mapping, which its program and its run have to do."""

    workload: Workload
    mapping: Mapping
    exchanges: Sequence[Exchange] = ()

    @cached_property
    def _sent(self) -> frozenset[str]:
        """Names of the operators of a program that are exchanges."""
        return frozenset(name for one in self.exchanges for name in one.operators)

    @cached_property
    def planned(self) -> dict[str, int]:
        """The points that the tree goes over by operator, once: MACs, or elements."""
        return work_of(self.workload, self.mapping)

    def require_program(self, program: Program) -> None:
        """Require that a program goes over these points, and stores all that leaves a group.

        Raises:
            ConservationError: says what is missing, or too much.

        """
        own = (
            place for place in operators_with_tiles(program.body) if place[0].name not in self._sent
        )
        pairs = zip(self.mapping.groups_with_keeps(), own, strict=True)
        for (group, around), (operator, _) in pairs:
            space = space_of(self.workload, group)
            self._require_points(group, space, operator)
            for seen in space.operators:
                held = _held_boxes(self.workload, space, seen, around)
                left = held is not None and leaves_out(operator, seen.output, held)
                if left:
                    self._fail(f"{seen.name}: of {seen.output.name} {left}")

    def _require_points(self, group: Group, space: IterationSpace, operator: Operator) -> None:
        points = points_of(operator)
        for seen in space.operators:
            made = seen.output.name
            key = ("MACs", made) if isinstance(seen.operator, Einsum) else ("elements", seen.name)
            work, done, least = self.planned[seen.name], points[key], _point_count(seen)
            if work != done:
                self._fail(f"{seen.name}: {done} {key[0]} in its program, {work} in its tree")
            once = made in space.escapes and not group.padded
            if work < least or (once and work > least):
                self._fail(f"{seen.name}: {work} {key[0]} in its tree, {least} in the workload")

    def require_run(self, accelerator: Accelerator, predicted: Prediction, run: Run) -> None:
        """Require that counts and machine have this work, and a run no less than its bounds.

        Raises:
            ConservationError: says in which group they differ, and by what.

        """
        both = list(zip(predicted.groups, run.operators, strict=True))
        self._require_sent([pair for pair in both if pair[0].name in self._sent])
        pairs = [pair for pair in both if pair[0].name not in self._sent]
        for group, (counted, ran) in zip(self.mapping.groups, pairs, strict=True):
            moved, shared = dram_bytes(counted.moved), shared_bytes(counted.moved)
            hops = hop_bytes(counted.moved)
            for kind, expected, counts, machine in (
                ("MACs", self._macs(group), counted.macs, ran.macs),
                ("elements", counted.elements, counted.elements, ran.elements),
                ("bytes with DRAM", moved, moved, dram_bytes(ran.moved)),
                ("bytes with a shared buffer", shared, shared, shared_bytes(ran.moved)),
                ("bytes times links of cores", hops, hops, hop_bytes(ran.moved)),
            ):
                if not expected == counts == machine:
                    text = f"{expected} expected, {counts} counted, {machine} on the machine"
                    self._fail(f"{group.name}: {kind}: {text}")
        if run.cycles < predicted.bound_cycles:
            self._fail(f"{run.cycles} cycles, at least {_bound_text(predicted)}")
        by_group = {operator.name: dram_bytes(operator.moved) for operator in run.operators}
        for names, floor in floors_of(self.workload, self.mapping, on_chip_bytes(accelerator)):
            n_bytes, least = sum(by_group[name] for name in names), floor.least_bytes
            if n_bytes < least:
                self._fail(f"{', '.join(names)}: {n_bytes} bytes with DRAM, at least {least}")

    def _require_sent(self, pairs: Sequence[tuple[GroupPrediction, OperatorRun]]) -> None:
        for counted, ran in pairs:
            if counted.moved != ran.moved:
                self._fail(f"{counted.name}: {counted.moved} bytes counted, {ran.moved} moved")

    def _macs(self, group: Group) -> int:
        einsums = (n for n in group.operators if isinstance(self.workload.operator(n), Einsum))
        return sum(self.workload.times(name) * self.planned[name] for name in einsums)

    def _fail(self, what: str) -> NoReturn:
        raise ConservationError(f"{what}; the mapping:\n{tree_text(self.mapping)}")


def _bound_text(predicted: Prediction) -> str:
    """Return a bound, its terms, and where their formulas are."""
    terms = ", ".join(f"{name} {n}" for name, n in predicted.bound_terms.items() if n)
    formulas = "lower_bound.py, with the times of units.py (simaccel/analytic)"
    return f"{predicted.bound_cycles} ({terms}) by {formulas}"


def _point_count(seen: BoundOperator) -> int:
    """Return the points that the workload has of an operator, once."""
    operator = seen.operator
    return operator.macs if isinstance(operator, Einsum) else operator.elements


def _held_boxes(
    workload: Workload, space: IterationSpace, seen: BoundOperator, around: Sequence[Keep]
) -> list[Box] | None:
    """Return what is kept around a group of a tensor that leaves it; None if none need leave."""
    name = seen.output.name
    if name not in space.escapes:
        return None
    holder = holding_tensor(workload, name, around)
    keeps = [keep for keep in around if keep.tensor == holder]
    if any(not keep.region for keep in keeps):
        return None
    return [tuple(((span.start, span.stop),) for span in keep.region) for keep in keeps]
