"""The judge of all searches: it runs each mapping on the machine once, and how it scores."""

from __future__ import annotations

from collections.abc import Mapping as Map
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import (
    Fork,
    Group,
    Keep,
    Loop,
    Mapping,
    Node,
    Part,
    ResidentScope,
    Spread,
    Tree,
    WorkloadReference,
    nodes,
)
from simaccel.search.effort import Objective
from simaccel.workload import VECTORS, Vector, Workload
from simaccel.workload.workload import canonical_text

Cost = tuple[float, float, float, float]
"""Cycles (0 if they are the objective), energy in pJ (0 if unknown), DRAM bytes, buffer bytes."""


@dataclass(frozen=True)
class ScoredTree:
    """A candidate that ran: its tree, objective, cycles, DRAM bytes and buffer bytes.

    ``energy_pj``: 0 if energies are unknown, or nothing depends on them.
    """

    tree: Tree
    value: float
    cycles: int
    dram_bytes: int
    buffer_bytes: int
    energy_pj: float = 0.0

    @property
    def rank(self) -> tuple[float, int, int, int]:
        """Sort key: the objective, then cycles, DRAM bytes and buffer bytes."""
        return self.value, self.cycles, self.dram_bytes, self.buffer_bytes

    def cost(self, objective: Objective) -> Cost:
        """Return the cost that decides between near-ties of an objective; less is better."""
        first = 0.0 if objective == "cycles" else float(self.cycles)
        return first, self.energy_pj, float(self.dram_bytes), float(self.buffer_bytes)


def main_cost(cost: Cost) -> float:
    """Return the first figure that counts: cycles unless the objective, else known pJ, else bytes.

    >>> main_cost((0.0, 0.0, 512.0, 64.0))
    512.0
    """
    cycles, energy, moved, _ = cost
    return cycles or energy or moved


Body = Sequence[Group | ResidentScope]
FOREVER = float("inf")
_MOST_KNOWN: Final = 4096
"""Runs of an accelerator that searches share, of 2 to 5 KB each; the oldest are forgotten."""


@dataclass(frozen=True)
class RunOutcome:
    """The cycles of a run; if it was aborted, a lower bound of them."""

    cycles: float
    is_exact: bool = True
    refused: SimaccelError | None = None

    def is_enough(self, below: float) -> bool:
        """Return whether the outcome decides if the cycles are below a limit."""
        return self.is_exact or self.cycles >= below

    def give_up_at(self, below: float) -> RunOutcome:
        """Return the outcome of the same run if it had been given up from ``below`` cycles on."""
        is_more = self.refused is None and self.cycles >= below
        return RunOutcome(below, is_exact=False) if is_more else self

    def cycles_below(self, limit: float) -> float:
        """Return the cycles; infinite if they are not below ``limit``."""
        return self.cycles if self.is_exact and self.cycles < limit else FOREVER


@dataclass
class Judge:
    """Runs of mappings on the machine of one accelerator.

    ``outcomes``: of all runs, by what decides them. ``shared``: of other searches, too; nothing
    runs again, and no search depends on what ran before it.
    """

    accelerator: Accelerator
    outcomes: dict[object, RunOutcome] = field(default_factory=dict)
    shared: dict[object, RunOutcome] = field(default_factory=dict)

    @classmethod
    def from_workload(cls, accelerator: Accelerator, workload: Workload) -> Judge:
        """Return a judge that shares its runs with other searches of this process.

        Not of operators of plug-ins, whose code may change.
        """
        kinds = (one.kind for one in workload.operators if isinstance(one, Vector))
        is_ours = all(kind in VECTORS.own for kind in kinds)
        return cls(accelerator, shared=shared_outcomes(accelerator) if is_ours else {})

    def __reduce__(self) -> tuple[type[Judge], tuple[Accelerator]]:
        """Go to another process without what has run, as it runs other mappings there."""
        return Judge, (self.accelerator,)

    def cycles(
        self, workload: Workload, bodies: Sequence[Body], below: float = FOREVER
    ) -> list[float]:
        """Return the cycles of bodies that each map the whole workload.

        Infinite if the machine refuses a body, or if it isn't ``below``.
        """
        return [one.cycles_below(below) for one in self.judge(workload, bodies, below)]

    def judge(self, workload: Workload, bodies: Sequence[Body], below: float) -> list[RunOutcome]:
        """Return the outcomes of bodies, running those that are not known."""
        plain = [
            [
                replace(part, groups=tuple(_plain_group(workload, group) for group in part.groups))
                if isinstance(part, ResidentScope)
                else _plain_group(workload, part)
                for part in body
            ]
            for body in bodies
        ]
        text = _text_of(workload)
        keys = [(text, key_of_body(body)) for body in plain]
        for key, body in zip(keys, bodies, strict=True):
            if key in self.outcomes and self.outcomes[key].is_enough(below):
                continue
            if key in self.shared and self.shared[key].is_enough(below):
                self.outcomes[key] = self.shared[key].give_up_at(below)
            else:
                outcome = self.run(workload, mapping_of(workload, "", body), below)
                self.outcomes[key] = self.shared[key] = outcome
        for oldest in list(self.shared)[: max(len(self.shared) - _MOST_KNOWN, 0)]:
            del self.shared[oldest]
        return [self.outcomes[key] for key in keys]

    def run(self, workload: Workload, mapping: Mapping, below: float) -> RunOutcome:
        """Return the outcome of a run, which is given up from ``below`` cycles on."""
        from simaccel.machine.machine import Machine  # noqa: PLC0415 - a dry run runs nothing
        from simaccel.program.lowering import lower  # noqa: PLC0415

        try:
            machine = Machine(self.accelerator, lower(workload, mapping), accounts=False)
            cycles = machine.cycles_below(below)
            machine.take_apart()
        except SimaccelError as error:
            return RunOutcome(FOREVER, refused=error)
        return RunOutcome(below, is_exact=False) if cycles is None else RunOutcome(cycles)

    @property
    def refusal(self) -> SimaccelError | None:
        """The fault of the last mapping that the machine refused, if any."""
        faults = [one.refused for one in self.outcomes.values() if one.refused is not None]
        return faults[-1] if faults else None


@lru_cache(maxsize=4)
def shared_outcomes(_accelerator: Accelerator) -> dict[object, RunOutcome]:
    """Return the outcomes that all searches of this process for an accelerator share."""
    return {}


@lru_cache(maxsize=64)
def _text_of(workload: Workload) -> str:
    """Return what decides runs of a workload: number formats, too, which fingerprints leave out."""
    return canonical_text(workload)


def mapping_of(workload: Workload, dataflow: str, body: Body) -> Mapping:
    """Return a body as a mapping."""
    reference = WorkloadReference(name=workload.name, fingerprint=workload.fingerprint)
    return Mapping(workload=reference, dataflow=dataflow, body=tuple(body))


def operators_of(body: Body) -> list[str]:
    """Return the operators of a body, in order."""
    return [name for one in body for group in one.groups for name in group.operators]


def _plain_group(workload: Workload, group: Group) -> Group:
    """Leave out loops of one piece, and slots of tiles that no loop moves: those have one."""
    if any(isinstance(node, Part | Spread) for node in nodes(group.tree)):
        return group
    space = space_of(workload, group)
    movers: dict[str, set[str]] = {}
    for op in space.operators:
        for use, view in op.uses:
            movers.setdefault(use, set()).update(space.moves(view))
    return replace(group, tree=_plain_tree(group.tree, dict(space.sizes), set(), movers))


def _plain_tree(
    tree: Tree, sizes: dict[str, int], cut: set[str], movers: Map[str, set[str]]
) -> Tree:
    """Return a tree, or a branch, inside of loops that leave ``sizes`` of ranks; some are ``cut``.

    ``movers``: the ranks that move each tensor.
    """
    kept: list[Node] = []
    for node in tree:
        plain: Node = node
        if isinstance(node, Loop):
            if sizes[node.rank] <= node.tile:
                continue
            sizes[node.rank] = node.tile
            cut.add(node.rank)
        elif isinstance(node, Keep) and not node.anew and cut.isdisjoint(movers[node.tensor]):
            plain = replace(node, slots=1)
        elif isinstance(node, Fork):
            branches = (_plain_tree(each, {**sizes}, {*cut}, movers) for each in node.branches)
            plain = replace(node, branches=tuple(branches))
        kept.append(plain)
    return tuple(kept)


def key_of_body(body: Body) -> tuple[object, ...]:
    """Return what decides the cycles of a body, among all bodies of one workload."""
    found: list[object] = []
    for one in body:
        if isinstance(one, ResidentScope):
            found.append((one.keeps, key_of_body(one.groups)))
        else:
            ranks = (tuple(sorted(some.items())) for some in (one.merged, one.padded))
            found.append((one.operators, one.tree, one.place, one.joined, *ranks))
    return tuple(found)
