"""Steps of engines at loops whose tiles go from core to core, or from chip to chip."""

from __future__ import annotations

from collections.abc import Iterator

from simaccel.hardware import Accelerator
from simaccel.machine.engine_kinds import STORES, engine_of
from simaccel.machine.instructions import Action, Instruction, Item, PlacedInstruction
from simaccel.program.program import (
    Command,
    Load,
    ProgramLoop,
    between_tiles,
    commands,
    transfer_of,
)
from simaccel.program.unit_commands import Link
from simaccel.units import LINK


def await_steps(
    loop: ProgramLoop, operator: str, accelerator: Accelerator, sites: Iterator[int]
) -> Iterator[Item]:
    """Yield the waits for tiles of others at the beginning of an iteration."""
    for tiles in loop.awaits:
        what = Action.AWAIT, next(sites)
        step = Instruction(*what, operator=operator, tensor=tiles.tensor, awaited=tiles)
        takers = (one for one in commands(loop.body) if _takes(one, tiles.tensor))
        for engine in dict.fromkeys(engine_of(one, accelerator) for one in takers):
            yield PlacedInstruction(engine, step)


def _takes(command: Command, tensor: str) -> bool:
    """Return whether a command loads tiles of a tensor, or receives them from another chip."""
    if isinstance(command, Link):
        return command.kind == "receive"
    if not isinstance(command, Load) or between_tiles(command):
        return False
    return transfer_of(command)[0].name == tensor


def hand_on_steps(
    loop: ProgramLoop, operator: str, accelerator: Accelerator, sites: Iterator[int]
) -> Iterator[Item]:
    """Yield what tells others, at the end of an iteration, that a tile is made, or sent."""
    links = (one for one in commands(loop.body) if isinstance(one, Link))
    lags = [one.lag_cycles(accelerator) for one in links if one.kind == "send"]
    engine, lag = (LINK, max(lags)) if lags else (STORES, 0)
    for tensor in loop.hands_on:
        what = Action.HAND_ON, next(sites)
        step = Instruction(*what, operator=operator, tensor=tensor, latency_cycles=lag)
        yield PlacedInstruction(engine, step, behind=bool(loop.ahead))
