"""The workload on designs next to an accelerator: each differs in one thing, is mapped and run.

What is *infinitely fast* bounds what a change can gain; these are changes that one can build.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from simaccel.dataflows import DATAFLOWS, DEPLOYED
from simaccel.errors import InputError, SimaccelError
from simaccel.experiment.run import ExperimentResult, energy_pj, simulate
from simaccel.hardware import STATIONARITIES, Accelerator, Stationarity
from simaccel.hardware.area.parts import area_of
from simaccel.hardware.load import with_values
from simaccel.hardware.memory import DramSpec, dram_bytes
from simaccel.mapping.tree import Mapping as Tree
from simaccel.schedulers import Options, settle_options
from simaccel.workload import Workload

Fields = Mapping[str, object]
"""Values by ``path.to.field``."""
_TWICE: Final = 2


@dataclass(frozen=True)
class NeighbourDesign:
    """A change of one thing: fields of the accelerator, or what its array holds."""

    text: str
    fields: Fields = field(default_factory=dict)
    stationarity: Stationarity | None = None


@dataclass(frozen=True)
class NeighbourRun:
    """A design and the figures of its run; ``problem``: why there are none."""

    design: NeighbourDesign
    cycles: int = 0
    dram_bytes: int = 0
    energy_pj: float | None = None
    """Of a chip; None is unknown."""
    area_mm2: float | None = None
    problem: str = ""


def neighbour_designs(
    accelerator: Accelerator, dataflow: str | Tree, options: Options
) -> tuple[NeighbourDesign, ...]:
    """Return the designs next to an accelerator.

    Twice the buffer, twice the channels of each memory outside, twice the banks where they are
    modelled, arrays of as many PEs with half or twice the rows, and the other stationarities where
    one is fixed.
    """
    return (
        *_buffers(accelerator),
        *_memories(accelerator),
        *_arrays(accelerator),
        *_stationarities(accelerator, dataflow, options),
    )


def _buffers(accelerator: Accelerator) -> Iterator[NeighbourDesign]:
    if accelerator.buffer.capacity_bytes is not None:
        n_bytes = _TWICE * accelerator.buffer.capacity_bytes
        yield NeighbourDesign("twice the buffer", {"buffer.capacity_bytes": n_bytes})


def _memories(accelerator: Accelerator) -> Iterator[NeighbourDesign]:
    beside = {f"memories.{n}": one for n, one in accelerator.memories.by_class().items()}
    for section, memory in {"dram": accelerator.dram, **beside}.items():
        name = section.replace("dram", "DRAM")
        if memory.bandwidth_bytes_per_second is not None:
            yield NeighbourDesign(
                f"twice the channels of {name}", _twice_the_channels(section, memory)
            )
        if memory.part is not None and memory.model == "banked":
            part = memory.part.model_dump()
            part["banks_per_group"] *= _TWICE
            yield NeighbourDesign(f"twice the banks of {name}", {f"{section}.part": part})


def _twice_the_channels(section: str, memory: DramSpec) -> Fields:
    """Return the fields of twice as many channels: each has its bandwidth and its requests."""
    names = ("channels", "bandwidth_bytes_per_second", "in_flight_bytes", "requests_in_flight")
    given = {name: getattr(memory, name) for name in names}
    return {f"{section}.{name}": _TWICE * n for name, n in given.items() if n is not None}


def _arrays(accelerator: Accelerator) -> Iterator[NeighbourDesign]:
    rows, cols = accelerator.array.rows, accelerator.array.cols
    for one in ((rows // _TWICE, cols * _TWICE), (rows * _TWICE, cols // _TWICE)):
        if one[0] * one[1] == rows * cols:
            fields = {"array.rows": one[0], "array.cols": one[1]}
            yield NeighbourDesign(f"an array of {one[0]} x {one[1]}", fields)


def _stationarities(
    accelerator: Accelerator, dataflow: str | Tree, options: Options
) -> Iterator[NeighbourDesign]:
    """Yield those that are not held; none where a search is free to choose, or nothing is."""
    if isinstance(dataflow, Tree) or dataflow == DEPLOYED:
        return
    held = settle_options(options, accelerator).stationarity
    held = held or ("ws" if DATAFLOWS.get(dataflow) == "naive" else None)
    for one in STATIONARITIES if held else ():
        if one != held:
            yield NeighbourDesign(f"{one} stationarity", stationarity=one)


def run_designs(
    designs: Sequence[NeighbourDesign],
    inputs: tuple[Workload, Accelerator, str | Tree],
    options: Options,
    watch: Callable[[float, str], None] = lambda _done, _note: None,
) -> list[NeighbourRun]:
    """Map the workload to each design and run it; a mapping of one's own stays as it is."""
    found = []
    for at, design in enumerate(designs):
        watch(at / len(designs), design.text)
        found.append(_run(design, inputs, options))
    return found


def figures_of_design(design: NeighbourDesign, result: ExperimentResult) -> NeighbourRun:
    """Return the figures of a run on a design."""
    accelerator, run = result.accelerator, result.run
    known = not accelerator.unknown_energies
    energy = sum(energy_pj(run, accelerator).values()) if known else None
    area = area_of(accelerator).mm2
    return NeighbourRun(design, run.cycles, dram_bytes(run.moved), energy, area)


def _run(
    design: NeighbourDesign, inputs: tuple[Workload, Accelerator, str | Tree], options: Options
) -> NeighbourRun:
    workload, accelerator, dataflow = inputs
    asked = replace(options, stationarity=design.stationarity or options.stationarity)
    try:
        changed = with_values(accelerator, design.fields, "design")
        return figures_of_design(design, simulate(workload, changed, dataflow, options=asked))
    except InputError as error:
        return NeighbourRun(design, problem=error.faults[0].allowed)
    except SimaccelError as error:
        return NeighbourRun(design, problem=str(error).partition("\n")[0])
