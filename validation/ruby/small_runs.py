"""Figures 4, 5, 8 and 9 on the machine: what was found runs, and takes what the closed form says.

The problems have hierarchies of their own, with the reference's energies; here their levels get
the names that an accelerator's have: an outer fan-out is the rows of PEs, an inner one the columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from simaccel.experiment.run import Result, energy_pj, simulate
from simaccel.hardware import Accelerator
from simaccel.hardware.levels import Spatial
from simaccel.hardware.load import load_accelerator
from simaccel.mapping.choices import NestGroup, NestLevel, NestMapping
from simaccel.mapspace.nests import Mapped
from simaccel.program.program import Compute, Loop, Node, Operator, Steps
from simaccel.schedulers.problems import mapping_of
from simaccel.workload import Einsum, Tensor, Workload

_SLACK = 1e-9
"""Energies are sums of floats in another order."""


def run(mapped: Mapped) -> Result:
    """Run what was found on `toy_linear` or `eyeriss_like` with the fan-outs of its problem."""
    einsum = mapped.target.einsum
    workload = Workload(einsum.name.replace(" ", "-"), (einsum,), dict(_tensors(mapped)))
    nest = NestMapping(levels=tuple(_levels(mapped)), padded=mapped.mapping.padded)
    group = NestGroup(operator=einsum.name, mapping=nest)
    mapping = mapping_of(workload, mapped.target.strategy, [group])
    return simulate(workload, _accelerator(mapped), mapping)


def differs(mapped: Mapped) -> str:
    """Say how the machine differs from the closed form; empty if it doesn't."""
    result = run(mapped)
    energy = sum(energy_pj(result.run, result.accelerator).values())
    cycles, expected = int(mapped.costs.cycles[0]), float(mapped.costs.energy_pj[0])
    if result.run.cycles == cycles and abs(energy / expected - 1) < _SLACK:
        return ""
    return (
        f"{mapped.target.einsum.name} {mapped.target.strategy}: {result.run.cycles} cycles and "
        f"{energy:.6g} pJ on the machine, {cycles} and {expected:.6g} in the closed form"
    )


def _tensors(mapped: Mapped) -> Iterator[tuple[str, Tensor]]:
    einsum, given = mapped.target.einsum, mapped.target.tensors
    kinds = dict(zip((one.tensor for one in einsum.inputs), ("input", "weight"), strict=False))
    for name, tensor in given.items():
        kind = kinds.get(name, "output")
        yield name, Tensor(name, tensor.bytes_per_element, kind)  # type: ignore[arg-type]


def _fans(mapped: Mapped) -> list[Spatial]:
    return [one for one in mapped.target.hierarchy.levels if isinstance(one, Spatial)]


def _accelerator(mapped: Mapped) -> Accelerator:
    fans = _fans(mapped)
    if len(fans) == 1:
        return load_accelerator("toy_linear", [f"array.cols={fans[0].fanout}"])
    rows, cols = fans
    reduces = [name for name, fan in zip(("rows", "cols"), fans, strict=True) if fan.reduces]
    settings = [f"array.rows={rows.fanout}", f"array.cols={cols.fanout}"]
    return load_accelerator(
        "eyeriss_like", [*settings, f"array.reduces=[{', '.join(reduces)}]", "array.dataflow=[]"]
    )


def _levels(mapped: Mapped) -> Iterator[NestLevel]:
    fans = [fan.name for fan in _fans(mapped)]
    names = dict(zip(fans, ("cols",) if len(fans) == 1 else ("rows", "cols"), strict=True))
    for level in mapped.mapping.levels:
        name = names.get(level.level, level.level)
        if name == "cols" and len(fans) == 1:
            yield NestLevel(level="rows")
        yield level.model_copy(update={"level": "pe" if name == "pad" else name})


@dataclass(frozen=True)
class Work:
    """One element of a rank on one PE in one cycle."""

    cycle: int
    pe: int
    element: int


def work(result: Result) -> list[Work]:
    """Say which PE has which element when, for a problem of one rank, from the program's passes."""
    einsum = result.workload.operators[0]
    assert isinstance(einsum, Einsum)
    (rank,) = (name for name, size in einsum.ranks.items() if size > 1)
    found: list[Work] = []
    cycle = 0
    for start, one in _computes(result.program.body, rank, 0):
        size = dict(zip(one.ranks, one.shape, strict=True))[rank]
        assert isinstance(one.on, Steps)
        steps = one.on.steps
        found += [Work(cycle + at % steps, at // steps, start + at) for at in range(size)]
        cycle += steps
    return found


def _computes(body: tuple[Node, ...], rank: str, at: int) -> Iterator[tuple[int, Compute]]:
    for node in body:
        if isinstance(node, Operator):
            yield from _computes(node.body, rank, at)
        elif isinstance(node, Loop):
            for trip in range(node.trips):
                moved = (node.start + trip * node.step) * (node.rank == rank)
                yield from _computes(node.body, rank, at + moved)
        elif isinstance(node, Compute):
            yield at, node
