"""A run from a mapping to its result: the page to read first.

Each stage is a package of its own, which knows only those before it. Formulas (`analytic`) and
machine know nothing of each other, so that the last stage means something.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from simaccel.analytic.floor.floor import ByteBound, floor_of, on_chip_bytes
from simaccel.analytic.memories import MemoryDemand, require_stored, share_buffer, stored_demands
from simaccel.analytic.native import ideal_cycles
from simaccel.analytic.prediction import GroupPrediction, Prediction, predict
from simaccel.hardware import Accelerator
from simaccel.machine.accounts import Listener
from simaccel.machine.machine import Machine, OperatorRun, Run
from simaccel.machine.walks import InstructionStreams, make_walks
from simaccel.mapping.checks import require_mapping
from simaccel.mapping.chips.exchanges import Exchange
from simaccel.mapping.chips.sharding import Pod, pod_of
from simaccel.mapping.files import require_same
from simaccel.mapping.tree import Mapping
from simaccel.program.cores import chip_count
from simaccel.program.exchanges import lower_pod
from simaccel.program.overlap import most_reserved_bytes
from simaccel.program.program import Program
from simaccel.run.conservation import require_run
from simaccel.workload import Workload

Progress = Callable[[int, float], None]
MakeListener = Callable[[Mapping, Program, InstructionStreams], Listener]


@dataclass(frozen=True)
class RunResult:
    """The result of a run; of several chips with equal pieces, of one of them.

    ``workload`` and ``mapping`` are what one chip does, ``whole`` is the mapping of all of them.
    """

    workload: Workload
    accelerator: Accelerator
    mapping: Mapping
    program: Program
    prediction: Prediction
    run: Run
    wall_seconds: float
    """Seconds of the run, without the search before it."""
    pod: Pod
    whole: Mapping

    @property
    def ideal_cycles(self) -> int:
        """MACs divided by peak MACs per cycle, rounded up."""
        return math.ceil(self._ideal)

    @property
    def _ideal(self) -> Fraction:
        return ideal_cycles(self.workload, self.accelerator) / chip_count(self.program)

    @property
    def utilisation(self) -> float:
        """Ideal cycles divided by cycles; MACs of padding do no good."""
        return float(self._ideal) / self.run.cycles

    @cached_property
    def footprint_bytes(self) -> int:
        """The most of the buffer that is reserved at once, in bytes."""
        return most_reserved_bytes(self.program, self.accelerator)

    @cached_property
    def memories(self) -> list[MemoryDemand]:
        """Bytes that a chip needs of each memory; of groups on some chips, those that need most."""
        return stored_demands(self.pod, self.accelerator, self.run.moved)

    @cached_property
    def floor(self) -> ByteBound:
        """The least bytes that any mapping with these groups moves with DRAM."""
        return floor_of(self.workload, self.mapping, on_chip_bytes(self.accelerator))

    def groups(self) -> list[tuple[OperatorRun, GroupPrediction]]:
        """Pair each group's run with its prediction."""
        return list(zip(self.run.operators, self.prediction.groups, strict=True))


def run_mapping(
    workload: Workload,
    accelerator: Accelerator,
    mapping: Mapping,
    *,
    listener: MakeListener | None = None,
    progress: Progress | None = None,
    fast_forward: bool = True,
    allow_overflow: bool = False,
) -> RunResult:
    """Run a workload, mapped, on an accelerator: how many cycles it takes, and why.

    ``listener`` is called before the run and returns what hears of each event, such as a
    ``TraceWriter``. What doesn't fit the memories is refused, unless ``allow_overflow``.

    Raises:
        SimaccelError: a mapping of another workload, or one that can't be executed or doesn't fit;
            a deadlock.
        ConservationError: formulas and machine differ, which is a mistake of simaccel.
    """
    # A mapping is a tree of loops for each group of operators: is it of this workload, and legal?
    require_same(workload, mapping)
    workload = share_buffer(workload, accelerator)
    require_mapping(workload, mapping, accelerator)
    return run_legal(
        workload,
        accelerator,
        mapping,
        listener=listener,
        progress=progress,
        fast_forward=fast_forward,
        allow_overflow=allow_overflow,
    )


def run_legal(
    workload: Workload,
    accelerator: Accelerator,
    mapping: Mapping,
    beside: Sequence[Exchange] = (),
    *,
    listener: MakeListener | None = None,
    progress: Progress | None = None,
    fast_forward: bool = True,
    allow_overflow: bool = False,
) -> RunResult:
    """Run a mapping that is known to be legal, as one of a search is; see ``run_mapping``.

    ``beside``: messages between stages of a pipeline, of which the mapping is one.
    """
    started = time.perf_counter()

    # Several chips: what each does, and what they send one another. One stands for all its like.
    pod = pod_of(workload, mapping, accelerator)
    if beside:
        pod = replace(pod, exchanges=(*pod.exchanges, *beside))

    # The prediction, from the tree alone: bytes, work of each unit, a lower bound of the cycles.
    predicted = predict(pod.workload, pod.mapping, accelerator, pod.exchanges, pod.parts)
    if not allow_overflow:
        require_stored(pod, accelerator, predicted.moved)

    # The program: loops of commands to engines, lowered from the tree.
    program = lower_pod(pod, accelerator)

    # The machine: engines that walk the program, and wait for tiles, slots and channels.
    walks = make_walks(program, accelerator) if listener else None
    heard = listener(mapping, program, walks) if listener and walks else None
    machine = Machine(accelerator, program, heard, fast_forward=fast_forward, walks=walks)
    run = machine.run(progress)

    # Formulas and machine have to agree on the work; no run is below its bounds.
    require_run(pod, accelerator, predicted, run)

    seconds = time.perf_counter() - started
    done = pod.workload, accelerator, pod.mapping, program, predicted, run, seconds
    return RunResult(*done, pod, mapping)
