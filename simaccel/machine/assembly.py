"""The assembly of a machine: engines of each core with their instructions, and their links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simaccel.hardware import Accelerator
from simaccel.hardware.cores import on_core
from simaccel.machine.accounts import StallAccount
from simaccel.machine.array import Array, NocEngine
from simaccel.machine.clock import Clock
from simaccel.machine.dma_engines import DmaEngine, DmaInEngine, DmaOutEngine, Multicast
from simaccel.machine.engine_kinds import EngineKind
from simaccel.machine.engines import Engine, UnitEngine
from simaccel.machine.instructions import Action
from simaccel.machine.operator_barrier import Closes, Ends, OperatorBarrier
from simaccel.machine.plan import find_waiters, make_plan
from simaccel.machine.shared_resources import SharedResources, delay_of, make_resources
from simaccel.machine.tile_counts import Reader, TileCounts
from simaccel.machine.tokens import Tokens
from simaccel.machine.walks import InstructionStreams
from simaccel.program.awaited_tiles import AwaitedTiles
from simaccel.program.overlap import overlapping_operators
from simaccel.program.program import ProgramError
from simaccel.units import ARRAY

_ENGINES: dict[EngineKind, type[Engine]] = {
    EngineKind.DMA_IN: DmaInEngine,
    EngineKind.NOC_IN: NocEngine,
    EngineKind.ARRAY: Array,
    EngineKind.UNIT: UnitEngine,
    EngineKind.LINK: UnitEngine,
    EngineKind.NOC_OUT: NocEngine,
    EngineKind.DMA_OUT: DmaOutEngine,
}


def assemble(
    clock: Clock,
    accelerator: Accelerator,
    walks: InstructionStreams,
    enclosing: Mapping[str, Mapping[str, int]],
    account: type[StallAccount],
) -> tuple[list[SharedResources], list[Engine]]:
    """Return the shared resources of each core, and all engines, core by core.

    Cores with the same instruction streams share their plans. ``enclosing``: as in
    ``make_resources``; ``account``: the type of the engines' stall accounts.
    """
    plans = {
        id(core_walks): {
            name: make_plan(steps, accelerator) for name, steps in core_walks.steps.items()
        }
        for core_walks in walks.distinct
    }
    all_plans = [plan for by_name in plans.values() for plan in by_name.items()]
    overlapping = overlapping_operators(walks.overlaps)
    cores = make_resources(
        clock, accelerator, walks.numbers, all_plans, walks.kinds, overlapping, enclosing
    )
    engines: list[Engine] = []
    for resources, core_walks in zip(cores, walks.cores, strict=True):
        resources.account = account
        engines += [
            _ENGINES[walks.kinds[name]](on_core(resources.core, name), plan, resources)
            for name, plan in plans[id(core_walks)].items()
        ]
    return cores, engines


def make_barrier(
    walks: InstructionStreams,
    by_core: Sequence[Sequence[Engine]],
    close: Closes,
    end: Ends,
    *,
    overlap: bool,
) -> OperatorBarrier:
    """Return the barrier at the ends of operators, and give engines references to it.

    ``close`` and ``end``: as in `OperatorBarrier`. With ``overlap`` the load engines of a core pass
    the barrier together.
    """
    loaders = [
        [engine.name for engine in engines if isinstance(engine, DmaInEngine)]
        for engines in (by_core if overlap else ())
    ]
    members = {
        name: {core: [engine.name for engine in by_core[core]] for core in place}
        for name, place in walks.places.items()
    }
    all_engines = [engine for engines in by_core for engine in engines]
    barrier = OperatorBarrier(
        by_core[0][0].clock,
        members,
        loaders,
        [engine.name for engine in all_engines if isinstance(engine, DmaOutEngine)],
        [name for name, other in walks.overlaps.items() if other.free],
        walks.dependences,
        close,
        end,
    )
    storers = {name: by_core[place.start][-1].account for name, place in walks.places.items()}
    for engine in all_engines:
        engine.barrier, engine.storers = barrier, storers
    return barrier


def connect(
    walks: InstructionStreams, cores: Sequence[SharedResources], engines: Sequence[Engine]
) -> list[Tokens]:
    """Return all tokens, and give engines references to theirs, so that a run looks none up."""
    tokens: list[Tokens] = []
    for resources, core_walks in zip(cores, walks.cores, strict=True):
        own = (engine for engine in engines if engine.resources is resources)
        by_name = dict(zip(core_walks.steps, own, strict=True))
        array = by_name.get(ARRAY)
        array_memory_cycles = array.memory if isinstance(array, Array) else 0
        tokens_of = {
            handover: Tokens(
                resources.clock,
                handover,
                n,
                by_name[handover.source].account,
                by_name[handover.target].account,
                delay_of(handover, walks.kinds, resources.accelerator, resources.core),
                array_memory_cycles * (handover.kind == "ready" and handover.target == ARRAY),
            )
            for handover, n in core_walks.tokens.items()
        }
        tokens += tokens_of.values()
        for engine in by_name.values():
            ops = engine.plan.ops
            waits = [tokens_of[op.tokens] if op.tokens else None for op in ops]
            engine.tokens += waits
            engine.needed += [
                [(awaited, ops[n]) for n in numbers if (awaited := waits[n]) is not None]
                if numbers
                else ()
                for numbers in find_waiters(ops)
            ]
    return tokens


def share_loads(
    walks: InstructionStreams, cores: Sequence[SharedResources], engines: Sequence[Engine]
) -> list[Multicast]:
    """Return the multicast loads of several cores, and give engines references to theirs."""
    members: dict[object, list[tuple[DmaEngine, int]]] = {}
    for resources, digits in zip(cores, walks.digits, strict=True):
        own = [e for e in engines if e.resources is resources and isinstance(e, DmaEngine)]
        loads = [(engine, at, op) for engine in own for at, op in enumerate(engine.plan.ops)]
        for engine, at, op in loads:
            if op.alike:  # equal loads have equal keys
                pairs = zip(digits[op.operator], op.alike, strict=True)
                key = op.site, tuple(digit for digit, alike in pairs if not alike)
                members.setdefault(key, []).append((engine, at))
    shared: list[Multicast] = []
    for places in members.values():
        if len(places) > 1:
            shared.append(Multicast([engine for engine, _ in places]))
            all_parts = dict.fromkeys(part for engine, at in places for part in engine.parts[at])
            for engine, at in places:
                engine.multicasts[at], engine.parts[at] = shared[-1], tuple(all_parts)
    return shared


def count_tiles(engines: Sequence[Engine]) -> list[TileCounts]:
    """Return the counts of tiles that cores pass to one another, and give engines references.

    Raises:
        ProgramError: a tile is awaited that no engine hands on.
    """
    makers: dict[str, list[tuple[str, StallAccount]]] = {}
    readers: dict[str, dict[Reader, AwaitedTiles]] = {}
    for engine in engines:
        passed_on = [op.tensor for op in engine.plan.ops if op.act is Action.HAND_ON]
        for tensor in dict.fromkeys(passed_on):
            makers.setdefault(tensor, []).append((engine.name, engine.account))
        for op in engine.plan.ops:
            if op.awaited is not None:
                readers.setdefault(op.tensor, {})[engine.name, op.operator] = op.awaited
    for tensor in readers.keys() - makers.keys():
        raise ProgramError(f"a loop awaits tiles of {tensor}, which no loop hands on")
    counts = {
        tensor: TileCounts(engines[0].clock, sources, readers.get(tensor, {}))
        for tensor, sources in makers.items()
    }
    for engine in engines if counts else ():
        engine.streams = counts
    return list(counts.values())
