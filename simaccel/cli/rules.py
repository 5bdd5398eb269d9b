"""Rules on which options exclude or require others: a table, checked before a command begins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import click
from click.core import ParameterSource

from simaccel.cli.choices import DESIGN_AXES, DIRECTIVES, FUSIONS, UNFUSED
from simaccel.cli.settings import fault
from simaccel.errors import Fault, require_none


class OptionRule(NamedTuple):
    """A rule on ``options`` of ``commands`` (all if empty); lists are separated by blanks.

    Each of ``options`` is refused if one of ``beside`` is given (``NAME=VALUE``: with this value);
    with ``needs``, if none is; with empty ``beside``, always. ``options`` of ``*``: all of the
    command except ``taken``. ``unless``: an option beside which the rule doesn't hold. ``reason``:
    appended to the allowed values in the message.
    """

    commands: str
    options: str
    beside: str = ""
    reason: str = ""
    needs: bool = False
    taken: str = ""
    unless: str = ""


_SEARCH: Final = (
    "mapspace objective within stationarity constrain patience budget-seconds seed tensor-parallel "
    "data-parallel expert-parallel sequence-parallel shard-weights spread"
)
_SHOWN: Final = "top detail"
_BEYOND: Final = "estimate designs explain"
_OF_ONE_RUN: Final = f"mapping trace csv plot jobs dask check {_SHOWN} {_BEYOND}"
_SINGLE: Final = "run estimate explain map"
RULES: Final = (
    OptionRule(
        _SINGLE, f"dataflow pipeline {_SEARCH} jobs dask explain", "mapping", "which sets it"
    ),
    OptionRule(
        _SINGLE, f"pipeline {_SEARCH} jobs dask explain", f"dataflow={DIRECTIVES}", "which sets it"
    ),
    OptionRule("map", "plot", f"dataflow={DIRECTIVES}", "which sets it"),
    OptionRule(
        *("compare", f"pipeline {_SEARCH}", f"dataflow={DIRECTIVES}", "which sets it"),
        unless="mapspace",
    ),
    OptionRule("run", _OF_ONE_RUN, "pipeline-parallel generate", "which runs several workloads"),
    OptionRule("run", "phase", "generate", "which has both"),
    OptionRule("generate", "phase", reason="as a generation has both"),
    OptionRule("run", "lengths", "generate", needs=True),
    OptionRule("run generate", "micro-batches", "pipeline-parallel", needs=True),
    OptionRule("run map", f"{_SHOWN} {_BEYOND}", "dry-run"),
    OptionRule("run", f"{_SHOWN} {_BEYOND}", "quiet csv=-"),
    OptionRule("run", _SHOWN, "json"),
    OptionRule("run compare bound", "json", "csv=-", "as both go to standard output"),
    OptionRule(
        "bound map explain export", "json", "output=- -o=-", "as both go to standard output"
    ),
    OptionRule("map", "explain", "output=-", "as both go to standard output"),
    OptionRule(
        "compare",
        "exhibit sweep each mapping metric objective dry-run store no-fast-forward "
        "pipeline-parallel",
        "pareto",
    ),
    OptionRule("compare", "each mapping metric pipeline-parallel", "exhibit"),
    OptionRule("compare", "each", "sweep"),
    OptionRule("", "jobs", "dask", "whose processes are used"),
    OptionRule(
        "bound",
        "bypass",
        " ".join(("uneven", "unit", *(f"fuse={name}" for name in FUSIONS if name != UNFUSED))),
    ),
    OptionRule("bound", "output", "buffer", needs=True),
    OptionRule("bound", "set chips", "hw", needs=True),
    OptionRule("show", "mapping", "plot", needs=True),
    OptionRule("show", "allow-unmodelled", reason="as nothing runs"),
    OptionRule("explore", "top", "json dry-run csv=-"),
    OptionRule("explore", "prices", " ".join(f"axis={name}" for name in DESIGN_AXES), needs=True),
    OptionRule(
        "explore",
        "*",
        " ".join(f"axis={name}" for name in DESIGN_AXES),
        taken="hw set chips workload axis dataflow objective where layer bytes-per-element "
        "precision prices csv plot-frontier force json",
    ),
)


def require_rules(ctx: click.Context) -> None:
    """Refuse options that exclude one another, or lack one that they require."""
    options: dict[str, object] = {}
    for param in ctx.command.params:
        source = ctx.get_parameter_source(param.name or "")
        if isinstance(param, click.Option) and source is ParameterSource.COMMANDLINE:
            value = ctx.params.get(param.name or "")
            longest_first = sorted(param.opts, key=len)[::-1]
            name = (param.secondary_opts if value is False else longest_first)[0]
            options[name.removeprefix("--")] = value
    rules = (rule for rule in RULES if not rule.commands or ctx.info_name in rule.commands.split())
    require_none(dict.fromkeys(wrong for rule in rules for wrong in _faults(rule, options)))


def _faults(rule: OptionRule, options: Mapping[str, object]) -> Iterator[Fault]:
    names = rule.beside.split()
    present = next((text for name in names if (text := _spell(name, options))), "")
    if (names and bool(present) is rule.needs) or rule.unless in options:
        return
    allowed = f"nothing with {present}" if names else "nothing"
    if rule.needs:
        allowed = f"nothing without {' or '.join(f'--{name}'.replace('=', ' ') for name in names)}"
    allowed += f", {rule.reason}" * bool(rule.reason)
    for name in options if rule.options == "*" else rule.options.split():
        if name in options and name not in rule.taken.split():
            yield fault(f"--{name}", _text(options[name]), allowed)


def _spell(name: str, options: Mapping[str, object]) -> str:
    """Return an option as given on the command line; "" if it isn't, or has another value."""
    option, _, wanted = name.partition("=")
    value = options.get(option)
    texts = [str(text) for text in (value if isinstance(value, tuple) else [value])]
    if option not in options or (wanted and not any(_is(text, wanted) for text in texts)):
        return ""
    return f"{option if option[0] == '-' else f'--{option}'} {wanted}".strip()


def _is(text: str, wanted: str) -> bool:
    return text == wanted or text.partition("=")[0].strip() == wanted


def _text(value: object) -> object:
    if isinstance(value, bool):
        return "given"
    if value is None:  # of rows
        return "all"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else value
