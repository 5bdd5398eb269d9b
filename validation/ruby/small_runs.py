"""Figures 4, 5, 8 and 9 on the machine: what was found takes what the closed form says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from simaccel.machine.machine import Machine, Run
from simaccel.program.lowering import lower
from simaccel.program.program import Compute, Node, Operator, Program, ProgramLoop, Steps
from simaccel.search.judge import mapping_of
from simaccel.search.mapspace.nests import NestResult

_SLACK = 1e-9
"""Energies are sums of floats in another order."""


def program(mapped: NestResult) -> Program:
    """Give the program of what was found."""
    workload = mapped.target.workload
    return lower(workload, mapping_of(workload, mapped.target.strategy, [mapped.group]))


def run(mapped: NestResult) -> Run:
    """Run what was found."""
    return Machine(mapped.target.accelerator, program(mapped)).run()


def differs(mapped: NestResult) -> str:
    """Say how the machine differs from the closed form; empty if it doesn't."""
    found, accelerator = run(mapped), mapped.target.accelerator
    by_level = accelerator.energy_by_level(found.macs, found.elements, found.moved)
    energy = float(sum(by_level.values()))
    if found.cycles == mapped.cycles and abs(energy / mapped.energy_pj - 1) < _SLACK:
        return ""
    return (
        f"{mapped.target.einsum.name} {mapped.target.strategy}: {found.cycles} cycles and "
        f"{energy:.6g} pJ on the machine, {mapped.cycles} and {mapped.energy_pj:.6g} in the "
        f"closed form"
    )


@dataclass(frozen=True)
class Work:
    """One element of a rank on one PE in one cycle."""

    cycle: int
    pe: int
    element: int


def work(mapped: NestResult) -> list[Work]:
    """Say which PE has which element when, for a problem of one rank, from the program's passes."""
    einsum = mapped.target.einsum
    (rank,) = (name for name, size in einsum.ranks.items() if size > 1)
    works: list[Work] = []
    cycle = 0
    for start, command in _computes(program(mapped).body, rank, 0):
        size = dict(zip(command.ranks, command.shape, strict=True))[rank]
        assert isinstance(command.on, Steps)
        steps = command.on.steps
        works += [Work(cycle + at % steps, at // steps, start + at) for at in range(size)]
        cycle += steps
    return works


def _computes(body: tuple[Node, ...], rank: str, at: int) -> Iterator[tuple[int, Compute]]:
    for node in body:
        if isinstance(node, Operator):
            yield from _computes(node.body, rank, at)
        elif isinstance(node, ProgramLoop):
            for trip in range(node.trips):
                moved = (node.start + trip * node.step) * (node.rank == rank)
                yield from _computes(node.body, rank, at + moved)
        elif isinstance(node, Compute):
            yield at, node
