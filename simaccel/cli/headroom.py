"""The command that runs what a chip's compiler leaves: its kernels beside the best mapping."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from simaccel.cli.settings import SettingOption, is_of_experiment
from simaccel.dataflows import DEPLOYED

if TYPE_CHECKING:
    from simaccel.verbs.running import Result


def headroom_lines(result: Result) -> list[str]:
    """Return a line with the comparison that shows the headroom of a run of a compiler's kernels.

    It has the options that choose the experiment, as they were given. Nothing is run for it.
    """
    ctx = click.get_current_context()
    if result.mapping.dataflow != DEPLOYED or ctx.params["mapping"] is not None:
        return []
    from simaccel.cli.compare import compare

    names = {param.name for param in compare.params} - {"dataflow"}
    params = [param for param in ctx.command.params if param.name in names]
    words = [word for param in params for word in _words(ctx, param)]
    command = ["simaccel", "compare", *words, "--dataflow", f"{DEPLOYED},best"]
    return [f"headroom that the chip's compiler leaves: {shlex.join(command)}"]


def _words(ctx: click.Context, param: click.Parameter) -> Iterator[str]:
    """Yield an option of the experiment as the command line had it."""
    name = str(param.name)
    is_typed = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    if not is_typed or not is_of_experiment(param):
        return
    arguments: Any = ctx.params[name]
    for argument in arguments if isinstance(arguments, tuple) else (arguments,):
        if isinstance(param, SettingOption) and param.hidden:
            value = ("no", "yes")[argument] if param.is_flag else argument
            yield from ("--set", f"{param.long_name}={value}")
        else:
            yield from (max(param.opts, key=len), str(argument))
