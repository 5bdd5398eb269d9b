"""The judge of all searches: cycles of mappings on the machine, each of which runs once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from simaccel.errors import SimaccelError
from simaccel.hardware import Accelerator
from simaccel.mapping.tree import Group, Mapping, ResidentScope, WorkloadReference
from simaccel.search.effort import Each
from simaccel.workload import Workload

Body = Sequence[Group | ResidentScope]
FOREVER = float("inf")


@dataclass(frozen=True)
class RunOutcome:
    """The cycles of a run; one that was given up takes at least so many."""

    cycles: float
    is_exact: bool = True
    refused: SimaccelError | None = None


@dataclass
class Judge:
    """Runs mappings on the machine of one accelerator; ``each`` may do so in other processes.

    ``outcomes``: of all that ran, by what decides them.
    """

    accelerator: Accelerator
    each: Each = map
    outcomes: dict[object, RunOutcome] = field(default_factory=dict)

    def cycles(
        self, workload: Workload, bodies: Sequence[Body], below: float = FOREVER
    ) -> list[float]:
        """Return the cycles of groups that are a whole workload.

        Infinite where the machine refuses them, or takes no less than ``below``.
        """
        return [
            one.cycles if one.is_exact and one.cycles < below else FOREVER
            for one in self.judge(workload, bodies, below)
        ]

    def judge(self, workload: Workload, bodies: Sequence[Body], below: float) -> list[RunOutcome]:
        """Return the outcomes of groups; what isn't known of them is run."""
        keys = [(workload.fingerprint, key_of_body(body)) for body in bodies]
        new = {
            key: _Task(self.accelerator, workload, mapping_of(workload, "", body), below)
            for key, body in zip(keys, bodies, strict=True)
            if not self._is_known(key, below)
        }
        self.outcomes.update(zip(new, self.each(_run, list(new.values())), strict=True))
        return [self.outcomes[key] for key in keys]

    @property
    def refusal(self) -> SimaccelError | None:
        """The last mapping's fault that the machine refused, if it refused any."""
        faults = [one.refused for one in self.outcomes.values() if one.refused is not None]
        return faults[-1] if faults else None

    def _is_known(self, key: object, below: float) -> bool:
        known = self.outcomes.get(key)
        return known is not None and (known.is_exact or known.cycles >= below)


@dataclass(frozen=True)
class _Task:
    """A run as it is sent to a process."""

    accelerator: Accelerator
    workload: Workload
    mapping: Mapping
    below: float


def _run(task: _Task) -> RunOutcome:
    from simaccel.machine.machine import Machine  # noqa: PLC0415 - a dry run runs nothing
    from simaccel.program.lowering import lower  # noqa: PLC0415

    try:
        machine = Machine(task.accelerator, lower(task.workload, task.mapping), accounts=False)
        cycles = machine.cycles_below(task.below)
    except SimaccelError as error:
        return RunOutcome(FOREVER, refused=error)
    return RunOutcome(task.below, is_exact=False) if cycles is None else RunOutcome(cycles)


def mapping_of(workload: Workload, dataflow: str, body: Body) -> Mapping:
    """Put a mapping together."""
    reference = WorkloadReference(name=workload.name, fingerprint=workload.fingerprint)
    return Mapping(workload=reference, dataflow=dataflow, body=tuple(body))


def operators_of(body: Body) -> list[str]:
    """Return the operators of some groups, in order."""
    found: list[str] = []
    for one in body:
        found += operators_of(one.groups) if isinstance(one, ResidentScope) else one.operators
    return found


def key_of_body(body: Body) -> tuple[object, ...]:
    """Return what decides the cycles of some groups of one workload."""
    found: list[object] = []
    for one in body:
        if isinstance(one, ResidentScope):
            found.append((one.keeps, key_of_body(one.groups)))
        else:
            ranks = (tuple(sorted(some.items())) for some in (one.merged, one.padded))
            found.append((one.operators, one.tree, one.place, *ranks))
    return tuple(found)
