"""Sites: which command of a program the ``site`` number of an event stands for."""

from __future__ import annotations

from simaccel.hardware import Accelerator
from simaccel.machine.steps import Act
from simaccel.machine.walks import make_walks
from simaccel.program.program import Command, Program
from simaccel.program.text import program_text
from simaccel.trace.schema import Site


def program_sites(program: Program, accelerator: Accelerator) -> dict[int, Site]:
    """Number the commands, and the ends of operators (no command), as the machine does."""
    sites: dict[int, Site] = {}
    for steps in make_walks(program, accelerator).steps.values():
        for step in steps:
            if step.act is Act.COMMAND and step.command is not None:
                sites[step.site] = Site(step.operator, _command_text(step.command))
            elif step.act is Act.MEET:
                sites[step.site] = Site(step.operator, "")
    return dict(sorted(sites.items()))


def _command_text(command: Command) -> str:
    return program_text(Program(name="", body=(command,))).splitlines()[1].strip()
