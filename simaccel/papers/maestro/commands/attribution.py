"""Assumptions by which the directives' cycles differ from a run, measured by changing each.

One assumption after the other is changed: the machine runs the program again with what the
directives leave out freed, or they are evaluated without what the machine lacks. Each has its share
of the difference; what is left between the two is not explained. Shares depend on the order, which
is that of the steps here, and add up with the rest to the whole difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from simaccel.diagnosis.limits import FreeArray
from simaccel.diagnosis.what_if import free, takes_time
from simaccel.hardware import Accelerator, ArraySpec
from simaccel.hardware.spec import copy_spec
from simaccel.machine.machine import Machine
from simaccel.papers.maestro.commands.disagreement import AssumptionShare
from simaccel.papers.maestro.commands.explanation import GroupExplanation
from simaccel.study.experiment import ExperimentResult

_LATENCY: Final = ("dram_latency",)
_TURNS: Final = (*_LATENCY, "dram_turnaround")
_SLOTS: Final = (*_TURNS, "slots")
_PIPED: Final = (*_SLOTS, "noc", "buffer_ports")
_PASSED: Final = (*_PIPED, "sfu_latency")

MOST_RUNS: Final = 7
"""Runs at most: one for each case."""
Case = tuple[str, ...]
Progress = Callable[[int], None]


def attribute(
    result: ExperimentResult,
    explained: Sequence[GroupExplanation],
    progress: Progress | None = None,
) -> tuple[GroupExplanation, ...]:
    """Return explanations with shares of their differences in cycles; ``progress``: by run."""
    runs = _Runs(result, progress or (lambda _: None))
    return tuple(
        replace(
            group,
            disagreements=tuple(
                replace(pair, shares=tuple(s for s in _of_directives(runs, group) if s.amount))
                if (pair.analysis, pair.unit) == ("directives", "cycles")
                else pair
                for pair in group.disagreements
            ),
        )
        for group in explained
    )


def streaming(accelerator: Accelerator) -> Accelerator:
    """Return an accelerator with a systolic array whose folds take as long as they stream."""
    array = copy_spec(accelerator.systolic, FreeArray, timed="streaming")
    return copy_spec(accelerator, Accelerator, array=array)


@dataclass
class _Runs:
    """Runs of one experiment with freed resources, each done once."""

    result: ExperimentResult
    progress: Progress
    machine: dict[tuple[Case, bool], dict[str, int]] = field(default_factory=dict)

    def cycles(self, case: Case, name: str, *, streams: bool = False) -> int:
        """Return a group's cycles on the machine; ``streams``: folds take only their streaming."""
        key = (case, streams)
        if key == ((), False):
            return next(one.cycles for one in self.result.run.operators if one.name == name)
        if key not in self.machine:
            accelerator, program = free(self.result.accelerator, self.result.program, case)
            accelerator = streaming(accelerator) if streams else accelerator
            run = Machine(accelerator, program).run()
            self.machine[key] = {one.name: one.cycles for one in run.operators}
            self.progress(len(self.machine))
        return self.machine[key][name]


def _of_directives(runs: _Runs, explained: GroupExplanation) -> Iterator[AssumptionShare]:
    """Yield each assumption's share: of what the directives leave out, and of what they add."""
    steps = [
        ("no DRAM latency", _LATENCY, False),
        ("no turnaround", _TURNS, False),
        ("slots without limit", _SLOTS, False),
        ("NoC and ports free", _PIPED, False),
        ("no latency of vector passes", _PASSED, False),
    ]
    streams = isinstance(runs.result.accelerator.array, ArraySpec)
    if streams:
        steps.append(("no skew or preload of folds", _PASSED, True))
    name, said = explained.run.name, explained.directives
    before = runs.cycles((), name)
    for text, case, is_streaming in steps:
        after = runs.cycles(case, name, streams=is_streaming)
        yield AssumptionShare(text, after - before)
        before = after
    if said.cycles is None or said.ideal_cycles is None:
        return
    yield AssumptionShare("first fills through the NoC", said.cycles - said.ideal_cycles)
    if said.at_once_cycles is None or said.computing_cycles is None:
        return
    yield AssumptionShare("one operator after the other", said.ideal_cycles - said.at_once_cycles)
    free_dram = (*_PASSED, "dram_bandwidth")
    if takes_time(runs.result.accelerator, free_dram):
        hidden = runs.cycles(free_dram, name, streams=streams)
        exposed = hidden - runs.cycles(_PASSED, name, streams=streams)
        own = said.at_once_cycles - said.computing_cycles
        yield AssumptionShare("all DRAM transfers hidden", exposed + own)
