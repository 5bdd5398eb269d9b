"""Kinds of engines: those that a program runs on, and which of them runs a command."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from simaccel.hardware import Accelerator
from simaccel.hardware.cores import CHIP, PIPELINE
from simaccel.program.fit import operators_with_tiles
from simaccel.program.program import (
    Command,
    Load,
    Program,
    Reserve,
    Sfu,
    Store,
    UnitCommand,
    between_tiles,
    commands,
)
from simaccel.units import ARRAY, LINK, SFU, UNITS

STORES = "dma_out"
"""The engine that stores to memories."""
LEAST_QUEUES = 3
"""The least number of DMA-in queues (with a queue per tensor) and of NoC queues into PEs: one per
operand of a command; a program may name more."""


class EngineKind(Enum):
    """A kind of engine."""

    DMA_IN = auto()
    NOC_IN = auto()
    ARRAY = auto()
    UNIT = auto()
    LINK = auto()
    NOC_OUT = auto()
    DMA_OUT = auto()


def engine_kinds(accelerator: Accelerator, program: Program) -> dict[str, EngineKind]:
    """Return the engines that a program runs on by name, in the order that breaks ties.

    Engines of the NoC are included if tiles are moved to memories in PEs.
    """
    queues = {False: LEAST_QUEUES, True: LEAST_QUEUES}
    has_noc = False
    for command in commands(program.body):
        noc = between_tiles(command)
        has_noc |= noc
        if isinstance(command, Load | Reserve):
            queues[noc] = max(queues[noc], command.queue + 1)
    single = accelerator.dma.in_queues == "single"
    names = ["dma_in"] if single else [f"dma_in{i}" for i in range(queues[False])]
    kinds = dict.fromkeys(names, EngineKind.DMA_IN)
    if has_noc:
        kinds |= dict.fromkeys([f"noc_in{i}" for i in range(queues[True])], EngineKind.NOC_IN)
    kinds |= {ARRAY: EngineKind.ARRAY, SFU: EngineKind.UNIT}
    own = {node.unit for node in commands(program.body) if isinstance(node, UnitCommand)}
    kinds |= {
        name: EngineKind.LINK if name == LINK else EngineKind.UNIT for name in UNITS if name in own
    }
    if has_noc:
        kinds["noc_out"] = EngineKind.NOC_OUT
    return kinds | {STORES: EngineKind.DMA_OUT}


def engine_of(command: Command, accelerator: Accelerator) -> str:
    """Return the name of the engine that runs a command."""
    if isinstance(command, Load | Reserve):
        if between_tiles(command):
            return f"noc_in{command.queue}"
        single = accelerator.dma.in_queues == "single"
        return "dma_in" if single else f"dma_in{command.queue}"
    if isinstance(command, Store):
        return "noc_out" if between_tiles(command) else STORES
    if isinstance(command, UnitCommand):
        return command.unit
    return SFU if isinstance(command, Sfu) else ARRAY


def engines_of_core(
    core: int, program: Program, accelerator: Accelerator, engines: Mapping[str, EngineKind]
) -> Mapping[str, EngineKind]:
    """Return the engines of a core: all, or beside cores those that messages need."""
    if core % CHIP < PIPELINE:
        return engines
    nodes = (node for node, _ in operators_with_tiles(program.body) if core in (node.cores or ()))
    needed = {engine_of(one, accelerator) for node in nodes for one in commands(node.body)}
    return {name: kind for name, kind in engines.items() if name in needed | {STORES}}
