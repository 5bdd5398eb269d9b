"""Sites: the commands of a program that the ``site`` numbers of events stand for."""

from __future__ import annotations

from itertools import chain

from simaccel.hardware import Accelerator
from simaccel.machine.accounts import outer_site
from simaccel.machine.instructions import Action
from simaccel.machine.walks import InstructionStreams, make_walks
from simaccel.program.program import Command, Program
from simaccel.program.text import program_text
from simaccel.trace.schema import CommandSite


def program_sites(
    program: Program, accelerator: Accelerator, walks: InstructionStreams | None = None
) -> dict[int, CommandSite]:
    """Return the sites by number, as the machine numbers them: commands, and ends of operators.

    A command that may run during the operator before or after its own has a number for each of
    these (see `simaccel.machine.totals`). ``walks``: the program's instruction streams, if
    they are at hand.
    """
    walks = walks or make_walks(program, accelerator)
    sites: dict[int, CommandSite] = {}
    every = (steps for core in walks.distinct for steps in core.steps.values())
    for step in chain.from_iterable(every):
        if step.act is Action.COMMAND and step.command is not None:
            sites[step.site] = CommandSite(step.operator, command_text(step.command))
        elif step.act is Action.MEET:
            sites[step.site] = CommandSite(step.operator, "")
    after: dict[str, list[str]] = {name: [] for name in walks.overlaps}
    for name, overlap in walks.overlaps.items():
        for other in overlap.beside if overlap.free else ():
            after[other].append(name)
    places = {name: at for at, name in enumerate(dict.fromkeys(walks.operators))}
    outer: dict[int, CommandSite] = {}
    for number, site in sites.items():
        before = walks.overlaps[site.operator].beside if site.command else ()
        for other in (*before, *after[site.operator]):
            outer[outer_site(number, places[other])] = CommandSite(other, site.command)
    return dict(sorted((sites | outer).items()))


def command_text(command: Command) -> str:
    """Return the text of a command alone, without the loops and tiles around it."""
    return program_text(Program(name="", body=(command,))).splitlines()[1].strip()
