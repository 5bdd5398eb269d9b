"""Settings: rarely changed options spelled ``--set NAME=VALUE``, and the sections of the help."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final, TypeVar

import click

from simaccel.errors import MEANT, Fault, InputError, require_none, suggest
from simaccel.plugins import plugins

SOURCE: Final = "command line"
"""The source of a fault that is in no file."""

OF_WORKLOAD: Final = "of the workload"
OF_SEARCH: Final = "of the mapping and its search"
OF_CHIPS: Final = "of several chips and cores"
OF_RUNS: Final = "of how runs are made and shown"
_TOPICS: Final = (OF_WORKLOAD, OF_SEARCH, OF_CHIPS, OF_RUNS)
_SECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "What runs": (
        *("hw", "workload", "set", "chips", "shape", "batch", "seq-len", "phase", "prompt"),
        *("kv-len", "scope", "precision"),
    ),
    "Which mapping": (
        *("dataflow", "mapping", "mapspace", "objective", "stationarity", "constrain"),
        *("patience", "within"),
    ),
    "What is written and printed": (
        *("trace", "csv", "plot", "output", "force"),
        *("top", "detail", "metric", "format"),
    ),
}
"""Options by section of the help; all others are in the last section."""
LISTED_ONLY: Final = frozenset(
    f"--{name}"
    for name in (
        *("prompt", "kv-len", "precision", "force", "estimate", "designs", "check", "mapping"),
        *("within", "patience", "constrain", "halo", "unit", "bypass", "metric", "each"),
    )
)
"""Options that the short help only lists by name."""
_OTHERS: Final = "What is done"
_FORMATS: Final[Mapping[str, Sequence[str]]] = {
    "table": (),
    "json": ("--json",),
    "csv": ("--csv", "-"),
    "line": ("--quiet",),
}
_OPTION: Final = re.compile(r"(?<!\w)(?<!--set )--[a-z][a-z-]*")
_NEAR: Final = 0.75
"""Least similarity to a setting at which a name counts as misspelt."""
_YES, _NO = ("yes", "true", "on", "1"), ("no", "false", "off", "0")


def fault(option: str, value: object, allowed: str) -> Fault:
    """Return the fault of an option."""
    return Fault(SOURCE, option, value, allowed)


def listed_values(
    option: str,
    text: str | Sequence[str],
    known: Collection[str] | None = None,
    hints: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """Return the values of a comma-separated list, or of one that was split.

    ``hints``: what is allowed instead of a value, if not the nearest one.

    Raises:
        InputError: a value that isn't ``known``, or one that is given twice.
    """
    values = [value.strip() for value in (text.split(",") if isinstance(text, str) else text)]
    meant = [str(int(value)) if value.isdecimal() else value for value in values]
    faults = []
    for at, value in enumerate(values):
        if known is not None and value not in known:
            faults.append(fault(option, value, hints.get(value) or suggest(value, known)))
        elif meant[:at].count(meant[at]) == 1:  # the first repetition
            faults.append(fault(option, value, "each value once"))
    require_none(faults)
    return values


class NamedValues(click.Choice[str]):
    """An option type for one of several names, which suggests the nearest name."""

    def convert(self, value: Any, param: Any, ctx: Any) -> str:  # noqa: ANN401 - as click's own
        """Return the name; click reports a wrong one."""
        if value not in self.choices:
            self.fail(f"got {value!r}; {suggest(value, self.choices)}", param, ctx)
        return str(value)


class PluggedName(click.ParamType):  # type: ignore[type-arg]  # generic in its stubs only
    """An option type for the name of a guest or plug-in of a group of entry points."""

    name = "name"

    def __init__(self, group: str) -> None:
        self.group = group

    def convert(self, value: Any, param: Any, ctx: Any) -> str:  # noqa: ANN401 - as click's own
        """Return the name; click reports a wrong one."""
        if value not in (known := plugins(self.group)):
            self.fail(f"got {value!r}; {suggest(value, known)}", param, ctx)
        return str(value)


class RowCount(click.ParamType):  # type: ignore[type-arg]  # generic in its stubs only
    """An option type for a number of rows; ``all`` is None."""

    name = "rows"

    def convert(self, value: object, param: Any, ctx: Any) -> int | None:  # noqa: ANN401 - as click's own
        """Return the number; click reports a wrong one."""
        text = str(value)
        if text == "all":
            return None
        if not text.isascii() or not text.isdecimal() or int(text) < 1:
            self.fail(f"got {text!r}; allowed: a whole number from 1 on, or all", param, ctx)
        return int(text)


_Taken = TypeVar("_Taken")


def take_fields(kind: type[_Taken], given: dict[str, Any]) -> _Taken:
    """Remove the options that are fields of a dataclass from ``given``; return them as such.

    ``given``: click's values by name.
    """
    names = [field.name for field in fields(kind) if field.name in given]  # type: ignore[arg-type]
    return kind(**{name: given.pop(name) for name in names})


class SettingOption(click.Option):
    """An option spelled ``--set NAME=VALUE``; ``--NAME VALUE`` works for one more release.

    A command that shows it (`Command.shown`) accepts both spellings.
    """

    def __init__(self, *args: Any, topic: str, **attributes: Any) -> None:  # noqa: ANN401 - of click
        super().__init__(*args, **{**attributes, "hidden": True})
        self.topic = topic
        self.long_name = max(self.opts, key=len).removeprefix("--")

    @property
    def spelling(self) -> str:
        """The spelling that messages use."""
        return f"--set {self.long_name}" if self.hidden else f"--{self.long_name}"

    def record(self) -> tuple[str, str]:
        """Return its name with its argument, and its help."""
        taken = "yes|no" if self.is_flag else self.metavar or "VALUE"
        return f"{self.long_name}={taken}", self.help or ""

    def get_error_hint(self, ctx: click.Context | None) -> str:  # noqa: ARG002 - of click
        """Return its name in a message of click."""
        return f"'{self.spelling}'"


class MovedOption(click.Option):
    """An option that moved to another command; it works here for one more release."""

    def __init__(self, *args: Any, now: str, **attributes: Any) -> None:  # noqa: ANN401 - of click
        super().__init__(*args, **{**attributes, "hidden": True})
        self.spelling = now


class FormatOption(click.Option):
    """The option for the format of a command's result; `as_click_arguments` reads it."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return its help with the formats that the command has."""
        names = _formats(name for param in ctx.command.params for name in param.opts)
        return f"--format {'|'.join(names)}", "What is printed; --json is short for json."


def option(
    spec: str,
    text: str,
    topic: str = "",
    *,
    to: str = "",
    **how: Any,  # noqa: ANN401 - of click
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a click option ``--NAME VALUE`` with a help text; a flag if it takes no value.

    ``topic``: the topic of a setting. ``to``: the name of the command's parameter, if another.
    """
    words = spec.split(" ")
    names = [word for word in words if word.startswith("-")]
    metavar = " ".join(words[len(names) :])
    if metavar:
        how["metavar"] = metavar
    elif "type" not in how and "/" not in spec:
        how["is_flag"] = True
    if topic:
        how |= {"cls": SettingOption, "topic": topic}
    return click.option(*names, *([to] if to else []), help=text, **how)


def spell_settings(faults: Iterable[Fault], params: Sequence[click.Parameter]) -> list[Fault]:
    """Return faults that name settings as the command has them: ``--set patience``."""
    names = {name: p.spelling for p in params if isinstance(p, SettingOption) for name in p.opts}

    def spell(text: str) -> str:
        return _OPTION.sub(lambda found: names.get(found[0], found[0]), text)

    named = [(each, spell(each.file), spell(each.field)) for each in faults]
    return [
        replace(each, file=file, field=field, allowed=spell(_allowed_text(each)))
        for each, file, field in named
    ]


def _allowed_text(wrong: Fault) -> str:
    """Return what a fault allows; if the setting is unknown, also how to list the settings."""
    unknown = wrong.allowed.startswith("nothing, as it isn't modelled")
    is_name = wrong.file == f"--set {wrong.field}" and "." not in wrong.field
    return wrong.allowed + "; settings: --help-settings" * (unknown and is_name)


def as_click_arguments(
    params: Sequence[click.Parameter], args: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the arguments with settings and formats as click options, and old spellings used."""
    settings = {param.long_name: param for param in params if isinstance(param, SettingOption)}
    old = {
        name: param.spelling + no
        for param in params
        if isinstance(param, SettingOption | MovedOption) and param.hidden
        for names, no in ((param.opts, ""), (param.secondary_opts, "=no"))
        for name in names
    }
    known = {name for param in params for name in param.opts}
    takes = {"--format": any(isinstance(param, FormatOption) for param in params)}
    takes["--set"] = "--set" in known
    made, used, formats, rest = list[str](), list[str](), list[str](), iter(args)
    for text in rest:
        if text == "--":
            chosen = _format_arguments(formats, known) if formats else ()
            return [*made, *chosen, text, *rest], used
        option, equals, value = text.partition("=")
        if (meant := _SHORT.get(option.removeprefix("--"))) in settings and option[:2] == "--":
            value = value or next(rest, "")
            raise InputError([fault(option, value, f"{MEANT} '--set {meant}={value}'?")])
        if option in old:
            used.append(f"{option} is {old[option]}")
        if not takes.get(option):
            made.append(text)
            continue
        value = value if equals else next(rest, "")
        if option == "--format":
            formats.append(value)
        else:
            made += _setting_arguments(value, settings, known)
    return [*made, *(_format_arguments(formats, known) if formats else ())], used


def _setting_arguments(
    text: str, settings: Mapping[str, SettingOption], known: Collection[str]
) -> list[str]:
    """Return a setting as click's option; a field of the accelerator stays as it is."""
    name, equals, value = text.partition("=")
    long_name = name.strip().replace("_", "-")
    param = settings.get(long_name)
    if param is None:
        if f"--{long_name}" in known and not _is_section(name.strip()):
            raise InputError([fault("--set", text, f"--{long_name} {value}".strip())])
        if name in _SHAPE_SIZES and "--shape" in known:
            raise InputError([fault("--set", text, f"one more size: --shape ...,{text}")])
        wanted = _SHORT.get(name.strip().lower(), long_name)
        near = get_close_matches(wanted, settings, n=1, cutoff=_NEAR)
        if near and "." not in name and not _is_section(name.strip()):
            raise InputError([fault("--set", text, f"{MEANT} '{near[0]}={value}'?")])
        return ["--set", text]
    if not param.is_flag:
        return [f"--{param.long_name}={value}"] if equals else ["--set", text]
    word = value.strip().lower() if equals else _YES[0]
    if word not in (*_YES, *_NO):
        raise InputError([fault(param.spelling, value, "yes or no")])
    if word in _YES:
        return [f"--{param.long_name}"]
    return [*param.secondary_opts]


_SHORT: Final = {
    f"{name[0]}p": f"{name}-parallel" for name in ("tensor", "data", "expert", "pipeline")
}
"""Settings of parallelism, by what they are called for short."""
_SHAPE_SIZES: Final = ("stride", "dilation")
"""Sizes of a convolution, which --shape takes; a message says so."""


def _is_section(name: str) -> bool:
    from simaccel.hardware import Accelerator

    return name in Accelerator.model_fields


def _format_arguments(names: Sequence[str], known: Iterable[str]) -> Sequence[str]:
    """Return the options that a format stands for; refuse several formats, and unknown ones."""
    formats = _formats(known)
    allowed = "one" if len(names) > 1 else f"one of {', '.join(formats)}"
    allowed = allowed if names[0].strip() else "a value that is not empty"
    if len(names) > 1 or names[0] not in formats:
        value = names[0] if len(names) == 1 else f"{len(names)} values"
        raise InputError([fault("--format", value, allowed)])
    return _FORMATS[names[0]]


def _formats(known: Iterable[str]) -> list[str]:
    """Return the formats that a command with these options prints."""
    options = {*known}
    return [name for name, needed in _FORMATS.items() if options.issuperset(needed[:1])]


def unknown_setting(params: Sequence[click.Parameter], text: str) -> Fault:
    """Return the fault of a ``--set`` that a command without accelerator doesn't know."""
    names = [param.long_name for param in params if isinstance(param, SettingOption)]
    return fault("--set", text, f"NAME=VALUE; {suggest(text.partition('=')[0].strip(), names)}")


def sections(params: Sequence[click.Parameter]) -> Iterator[tuple[str, list[click.Option]]]:
    """Yield the options that a command shows, by section."""
    shown = {
        max(param.opts, key=len).removeprefix("--"): param
        for param in params
        if isinstance(param, click.Option) and not param.hidden
    }
    for title, names in _SECTIONS.items():
        if options := [shown.pop(name) for name in names if name in shown]:
            yield title, options
    if shown:
        yield _OTHERS, list(shown.values())


def settings_by_topic(params: Sequence[click.Parameter]) -> dict[str, list[SettingOption]]:
    """Return the settings that are not options of a command, by topic."""
    settings = [param for param in params if isinstance(param, SettingOption) and param.hidden]
    by_topic = {
        topic: [setting for setting in settings if setting.topic == topic] for topic in _TOPICS
    }
    return {topic: listed for topic, listed in by_topic.items() if listed}
