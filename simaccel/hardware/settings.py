"""Settings: values for an accelerator's fields, by path or as texts of the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches

from simaccel.errors import ABSENT, Fault, InputError, suggest_field
from simaccel.hardware.presets import PRESET

Settings = Mapping[str, object] | Sequence[str]
"""Values for fields of an accelerator: by path, or texts ``path.to.field=value``."""


def unknown_field(field: str, leaves: Sequence[str]) -> str:
    """Return a suggestion for an unknown field, from its own section if one is similar."""
    name, rest = field.partition(".")[::2]
    sections = dict.fromkeys(leaf.partition(".")[0] for leaf in leaves)
    if own := [leaf for leaf in leaves if leaf.startswith(f"{field}.")]:
        return f"its fields, {', '.join(leaf for leaf in own if not leaf.endswith('source'))}"
    near = get_close_matches(name, sections, n=1, cutoff=0.7)
    section = f"{near[0]}." if near and rest else ""
    inside = [leaf.removeprefix(section) for leaf in leaves if leaf.startswith(section)]
    fields = inside if section else [*sections]
    if not rest:  # the name of a field without its section
        fields += [leaf for leaf in leaves if leaf.endswith(f".{name}")][:1]
        name = fields[-1] if fields[-1].endswith(f".{name}") else name
    hint = suggest_field(rest if section else name, fields)
    if hint.startswith("did"):
        return hint.replace("mean '", f"mean '{section}")
    known = ", ".join(leaf for leaf in fields if not leaf.endswith("source"))
    return f"nothing, as it isn't modelled; {near[0] if section else 'an accelerator'} has {known}"


def each_setting(overrides: Settings) -> Iterator[tuple[str, object, str]]:
    """Yield path, value and source of each override; a text without `=` has the value ABSENT."""
    if isinstance(overrides, Mapping):
        yield from ((field, value, "settings") for field, value in _leaves(overrides, ""))
        return
    listed = isinstance(overrides, Sequence) and not isinstance(overrides, str)
    if not (listed and all(isinstance(override, str) for override in overrides)):
        allowed = "{'path.to.field': value}, or a list of texts path.to.field=value"
        raise InputError([Fault("settings", "overrides", overrides, allowed)])
    for override in overrides:
        field, equals, text = override.partition("=")
        field = field.strip()
        source = "--chips" if field == "chips" else f"--set {field}"
        yield (field, text, source) if equals else (override, ABSENT, "--set")


def _leaves(settings: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    """Yield the path and value of each field, also inside sections that name no preset."""
    for name, value in settings.items():
        if isinstance(value, Mapping) and PRESET not in value:
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
