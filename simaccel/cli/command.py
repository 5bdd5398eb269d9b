"""Commands by name, and the reading of their options, none of which is repeated or empty."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from inspect import cleandoc
from pathlib import Path
from typing import Any, Final

import click

from simaccel.cli.progress import ProgressBar
from simaccel.cli.rules import require_rules
from simaccel.cli.settings import (
    LISTED_ONLY,
    SettingOption,
    as_click_arguments,
    fault,
    sections,
    settings_by_topic,
    spell_settings,
)
from simaccel.errors import Fault, InputError, list_or_range, require_none
from simaccel.plugins import Plugin, PluginError, Registry, plugins


class Commands(click.Group):
    """A group of commands, each imported when it is used, as most take long to load.

    ``places``: the `module:function` of each command. ``plugged``: the group of entry points of
    further ones, if there are any.
    """

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 - of click
        places: Mapping[str, str],
        plugged: str = "",
        **kwargs: Any,  # noqa: ANN401 - of click
    ) -> None:
        super().__init__(*args, **kwargs)
        self.places = places
        self.others = Registry[str | click.Command](plugged, places, _accept_command)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - of click
        """Return the names of all commands."""
        return sorted(self.others)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - of click
        """Import a command."""
        found = self.others.get(cmd_name)
        if isinstance(found, str):
            module, _, name = found.partition(":")
            command: click.Command = getattr(import_module(module), name)
            return command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help of each command, without importing it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.help_of(name)) for name in self.list_commands(ctx)])

    def help_of(self, command: str) -> str:
        """Return the first paragraph of a command's help, from its source, without importing it."""
        if command in self.places:
            return _read_help(self.places[command])
        first, text = plugins(self.others.group)[command][0], ""
        with suppress(PluginError), first.running("loading"):
            text = _read_help(first.target)
        return text or f"A command of the plug-in {first.package}."


def _read_help(target: str) -> str:
    module, _, name = target.partition(":")
    source = Path(str(getattr(find_spec(module), "origin", ""))).read_text(encoding="utf-8")
    found = re.search(rf'^def {name}\(.*?"""(.*?)(?:\n\n|""")', source, re.DOTALL | re.MULTILINE)
    return " ".join(found[1].split()) if found else ""


def _accept_command(plugin: Plugin, loaded: object) -> click.Command:
    """Name the plug-in in whatever its command, or group of them, raises as it is read or run."""
    if not isinstance(loaded, click.Command):
        raise plugin.error(f"is a {type(loaded).__name__}, not a command of click")
    for method in ("make_context", "invoke"):
        setattr(loaded, method, name_failures(plugin, getattr(loaded, method)))
    return loaded


def name_failures(plugin: Plugin, run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of a plug-in that is named in whatever it raises, but for ends of commands.

    These are what click raises, and the ends of any other command: its pipe closed, no memory.
    """
    click_ends = click.ClickException, click.Abort, click.exceptions.Exit
    ends = *click_ends, SystemExit, MemoryError, BrokenPipeError

    def run_named(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - of click
        with plugin.running("running", *ends):
            return run(*args, **kwargs)

    return run_named


Values = Mapping[str, object]
_OLD: Final = "simaccel.old_spellings"
_WHOLE: Final = "simaccel.whole_help"
_KEYED: Final = ("--set", "--dim", "--bytes-per-element")
"""Options NAME=VALUE, which may be repeated for different names."""
ONCE_OR_LIST: Final = "one; several as a list, A,B, where `compare` takes one"
"""How often an option of `compare` may be given."""


class Command(click.Command):
    """A command with settings that refuses repeated and empty options.

    ``shown``: settings that it has as options of their own. ``examples``: command lines for its
    help.
    """

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 - of click
        shown: Sequence[str] = (),
        examples: Sequence[str] = (),
        **kwargs: Any,  # noqa: ANN401 - of click
    ) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples
        settings = [param for param in self.params if isinstance(param, SettingOption)]
        for setting in settings:
            setting.hidden = setting.long_name not in shown
        self.params.append(_help_option("all", _write_all))
        if any(setting.hidden for setting in settings):
            self.params.append(_help_option("settings", _write_settings))

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the description of the command; the short help has only the first paragraph."""
        first, *rest = cleandoc(self.help or "").split("\n\n")
        for paragraph in (first, *(rest if ctx.meta.get(_WHOLE) else ())):
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(paragraph)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write all options by section; the short help has a line for each of the most common."""
        whole, later = ctx.meta.get(_WHOLE), list[str]()
        for title, options in sections(self.get_params(ctx)):
            first = [option for option in options if whole or option.opts[-1] not in LISTED_ONLY]
            later += [option.opts[-1] for option in options if option not in first]
            rows = [row for option in first if (row := option.get_help_record(ctx))]
            if not whole:
                rows = [(name, f"{text.partition('. ')[0].rstrip('.')}.") for name, text in rows]
                is_last = any("--help" in option.opts for option in first)
                rows += _pages(self.params, later) if is_last else ()
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows, col_max=28)
        if whole:
            _write_settings(self, formatter)
        if self.examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"  simaccel {line}\n" for line in self.examples))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments."""
        args, old = as_click_arguments(self.get_params(ctx), args)
        ctx.meta[_OLD] = [*dict.fromkeys(old)]
        values, _, order = self.make_parser(ctx).parse_args(args=list(args))
        params, lists = self.get_params(ctx), self.name == "compare"
        faults = [
            *_find_repeated(order, params, values, ONCE_OR_LIST if lists else "one"),
            *_empty(params, values),
        ]
        if not ctx.resilient_parsing:
            require_none(faults)
        rest = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            require_rules(ctx)
        return rest

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:  # noqa: ANN401 - of click
        """Parse the arguments; errors name settings as the user writes them."""
        with self._respelling():
            return super().make_context(*args, **kwargs)

    @contextmanager
    def _respelling(self) -> Iterator[None]:
        try:
            yield
        except InputError as error:
            if type(error) is not InputError:
                raise
            faults: Sequence[Fault] = error.faults
            if any(list_or_range(each.value) for each in faults):
                from simaccel.cli.sweep import name_sweep  # loads the hardware

                options = {name for param in self.params for name in param.opts}
                faults = [name_sweep(each, options) for each in faults]
            raise InputError(spell_settings(faults, self.params)) from None

    def invoke(self, ctx: click.Context) -> object:
        """Run the command, with a progress bar wherever no other bar is shown."""
        with (
            self._respelling(),
            ProgressBar(ctx.info_name or "", quiet=bool(ctx.params.get("quiet")), waits=True),
        ):
            try:
                result = super().invoke(ctx)
            except click.exceptions.Exit:
                _tell_old_spellings(ctx)
                raise
            _tell_old_spellings(ctx)
            return result


def _tell_old_spellings(ctx: click.Context) -> None:
    if old := ctx.meta[_OLD]:
        click.echo(f"note: {'; '.join(old)} now", err=True)


def _find_repeated(
    order: list[click.Parameter], params: list[click.Parameter], values: Values, allowed: str
) -> Iterator[Fault]:
    """Find options that have one value and are given several times, and names with two values."""
    for param, times in Counter(order).items():
        single = isinstance(param, click.Option) and not param.multiple
        switch = getattr(param, "is_flag", False) and not param.secondary_opts
        if times > 1 and single and not switch:
            yield fault(_name(param), f"{times} values", allowed)
    for param in params:
        if param.opts[0] in _KEYED:
            texts = [text for text in _texts(param, values) if "=" in text]
            names = Counter(text.partition("=")[0].strip() for text in texts)
            for name in (name for name, count in names.items() if count > 1):
                yield fault(f"{_name(param)} {name}".strip(), f"{names[name]} values", "one")


def _empty(params: list[click.Parameter], values: Values) -> Iterator[Fault]:
    """Find values that are empty text, or "not a number", which no range refuses."""
    for param in params:
        for value in _texts(param, values):
            if not value.strip():
                yield fault(_name(param), value, "a value that is not empty")
            if isinstance(param.type, click.types.FloatParamType) and _is_nan(value):
                yield fault(_name(param), value, "a number")


def _texts(param: click.Parameter, values: Values) -> Iterator[str]:
    given = values.get(param.name or "")
    for value in given if isinstance(given, list | tuple) else [given]:
        if isinstance(value, str):
            yield value


def _is_nan(text: str) -> bool:
    try:
        return math.isnan(float(text))
    except ValueError:
        return False


def _help_option(
    topic: str, write: Callable[[click.Command, click.HelpFormatter], None]
) -> click.Option:
    """Return ``--help-TOPIC``, which writes more of the help than ``--help``."""

    def show(ctx: click.Context, _param: click.Parameter, is_wanted: bool) -> None:
        if not is_wanted or ctx.resilient_parsing:
            return
        formatter = ctx.make_formatter()
        write(ctx.command, formatter)
        click.echo(formatter.getvalue().rstrip())
        ctx.exit()

    return click.Option(
        [f"--help-{topic}"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        hidden=True,
        callback=show,
    )


def _write_all(command: click.Command, formatter: click.HelpFormatter) -> None:
    ctx = click.get_current_context()
    ctx.meta[_WHOLE] = True
    command.format_help(ctx, formatter)


def _write_settings(command: click.Command, formatter: click.HelpFormatter) -> None:
    for topic, settings in settings_by_topic(command.params).items():
        with formatter.section(f"Settings {topic}, --set NAME=VALUE"):
            formatter.write_dl([setting.record() for setting in settings])


def _pages(params: Sequence[click.Parameter], later: Sequence[str]) -> list[tuple[str, str]]:
    pages = [("--help-all", f"Explain all: also {', '.join(later)}.")] if later else []
    if topics := settings_by_topic(params):
        pages += [("--help-settings", f"Explain settings, --set NAME=VALUE, {', '.join(topics)}.")]
    return pages


def _name(param: click.Parameter) -> str:
    """Name a parameter as the help does: an option by its long name, an argument in capitals."""
    if isinstance(param, SettingOption):
        return param.spelling
    if isinstance(param, click.Option):
        return max(param.opts, key=len)
    return param.human_readable_name
