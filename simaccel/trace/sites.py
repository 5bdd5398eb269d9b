"""Sites: which command of a program the ``site`` number of an event stands for."""

from __future__ import annotations

from itertools import chain

from simaccel.hardware import Accelerator
from simaccel.machine.accounts import early_site
from simaccel.machine.instructions import Action
from simaccel.machine.walks import InstructionStreams, make_walks
from simaccel.program.program import Command, Program
from simaccel.program.text import program_text
from simaccel.trace.schema import CommandSite


def program_sites(
    program: Program, accelerator: Accelerator, walks: InstructionStreams | None = None
) -> dict[int, CommandSite]:
    """Number the commands, and the ends of operators (no command), as the machine does.

    A command that may run early has another number for each operator that may not have ended then,
    under which its cycles are (`simaccel.machine.accounts.early_site`). ``walks`` are those of the
    program, if they are known.
    """
    walks = walks or make_walks(program, accelerator)
    sites: dict[int, CommandSite] = {}
    every = (steps for core in walks.distinct for steps in core.steps.values())
    for step in chain.from_iterable(every):
        if step.act is Action.COMMAND and step.command is not None:
            sites[step.site] = CommandSite(step.operator, _command_text(step.command))
        elif step.act is Action.MEET:
            sites[step.site] = CommandSite(step.operator, "")
    places = {name: at for at, name in enumerate(dict.fromkeys(walks.operators))}
    early = {
        early_site(number, places[before]): CommandSite(before, site.command)
        for number, site in sites.items()
        if site.command
        for before in walks.overlaps[site.operator].beside
    }
    return dict(sorted((sites | early).items()))


def _command_text(command: Command) -> str:
    return program_text(Program(name="", body=(command,))).splitlines()[1].strip()
