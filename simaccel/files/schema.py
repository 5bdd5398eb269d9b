"""Input files: reading YAML, and pydantic's errors as faults with the allowed values."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import yaml
from pydantic import BaseModel, BeforeValidator, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, core_schema

from simaccel.errors import (
    ABSENT,
    Fault,
    InputError,
    nearest_field,
    suggest,
    suggest_field,
    with_digits,
)
from simaccel.files.documents import compose, read_text

_FEW = 6
"""The most numbers of a list that a message shows."""
_LONGEST_INT = 2**64
_MOST_KEYS = 9
"""The most keys of a section that a message shows."""
_MOST_FAULTS = 1000
"""The most faults of a file that are reported separately."""
_COMMENT = re.compile(r"(?m)(^|\s)#.*$")
_JINJA = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|<<<\s*:.*|[$!]include\w*\b.*")
_PARSED = (
    "plain YAML: this is a template (Jinja, an include, or the merge key <<<) that Timeloop's "
    "front end fills in; give the file that it writes then, parsed-processed-input.yaml"
)
"""The message for templates: files of Timeloop that only its own front end can read."""


def read_yaml(path: Path, expected: str) -> tuple[dict[str, Any], list[Fault]]:
    """Read a YAML file whose top level is a mapping; return it, and faults of duplicate keys.

    ``expected``: description of a right file, such as ``a mapping of sections``.

    Raises:
        InputError: the file cannot be read, is not YAML, or is not a mapping.
    """
    file = str(path)
    text = read_text(path, "YAML")
    if match := _JINJA.search(_COMMENT.sub("", text)):
        where = f"line {text.count(chr(10), 0, text.find(match[0])) + 1}"
        raise InputError([Fault(file, where, match[0], _PARSED)])
    try:
        root, raw = compose(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}" if mark else "file"
        problem = _short(getattr(error, "problem", None) or getattr(error, "reason", "not YAML"))
        raise InputError([Fault(file, line, problem, "YAML")]) from None
    except ValueError as error:  # too large, too deep, or an integer of 5,000 digits
        raise InputError([Fault(file, "file", _short(str(error)), "YAML")]) from None
    if not isinstance(raw, dict):
        raise InputError([Fault(file, "file", _short(raw), expected)])
    return raw, [Fault(file, field, value, "each key once") for field, value in _duplicates(root)]


def _duplicates(root: yaml.Node | None) -> Iterator[tuple[str, object]]:
    """Yield duplicate keys (path, key) of a node tree, which aliases can make a cyclic graph."""
    todo: list[tuple[tuple[str | int, ...], yaml.Node]] = [((), root)] if root else []
    seen: set[int] = set()
    while todo:
        path, node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            todo += [((*path, i), child) for i, child in enumerate(node.value)]
        if not isinstance(node, yaml.MappingNode):
            continue
        keys: set[str] = set()
        for key, child in node.value:
            name = str(key.value)
            if name in keys and name != "<<":
                yield (
                    _dot_location((*path, name)),
                    _Words(f"again on line {key.start_mark.line + 1}"),
                )
            keys.add(name)
            todo.append(((*path, name), child))


def faults_of(
    error: ValidationError, file: str, raw: object, model: type[BaseModel] | None = None
) -> list[Fault]:
    """Return pydantic's errors about ``raw`` as faults, one per field.

    With ``model`` an unknown key gets a suggestion, and a missing one its allowed values, unless it
    is what a suggestion names.
    """
    values: dict[str, object] = {}
    allowed: dict[str, list[str]] = {}
    meant = set[str]()
    for detail in error.errors(include_url=False)[:_MOST_FAULTS]:
        loc, value = _wrong_value(detail, raw)
        field = _dot_location(loc)
        values.setdefault(field, value)
        text, nearest = _allowed_text(detail, loc, model)
        allowed.setdefault(field, []).append(text)
        meant |= {_dot_location((*loc[:-1], nearest))} if nearest else set()
    faults = [
        Fault(file, field, value, " or ".join(dict.fromkeys(allowed[field])))
        for field, value in values.items()
        if value is not ABSENT or field not in meant
    ]
    if error.error_count() > _MOST_FAULTS:
        count = _Words(f"{error.error_count()} faults")
        faults.append(Fault(file, "file", count, f"none; here are the first {_MOST_FAULTS}"))
    return faults


def _wrong_value(detail: ErrorDetails, raw: object) -> tuple[tuple[str | int, ...], object]:
    """Return the location of a value in a file, and the value; of a wrong kind those of its tag."""
    kept: list[str | int] = []  # without the tags of a union's branches, which no file has
    node: Any = raw
    last = len(detail["loc"]) - 1
    for i, part in enumerate(detail["loc"]):
        if isinstance(node, Mapping):
            inside = part in node
        else:
            inside = isinstance(node, list) and isinstance(part, int) and part < len(node)
        absent = i == last and isinstance(node, Mapping)
        absent &= detail["type"] in _MISSING or detail["input"] is not node
        if inside or absent:
            kept.append(part)
            node = node[part] if inside else None
    loc, value = tuple(kept), detail["input"]
    if detail["type"] == "union_tag_invalid" and isinstance(value, Mapping):
        key = detail["ctx"]["discriminator"].strip("'")
        loc, value = (*loc, key), value[key]
    return loc, ABSENT if detail["type"] in _MISSING else _short(value)


class _Words(str):
    """A description in place of a value; prints without quotation marks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _short(value: object) -> object:
    """Return a value, or a description if it is absent, too large, or of several lines."""
    if value is None:
        return ABSENT
    if isinstance(value, Mapping):
        if not value:
            return _Words("an empty mapping")
        return _Words(f"a mapping of {', '.join(str(_short(key)) for key in list(value)[:9])}")
    if isinstance(value, list | tuple | set):
        few = 0 < len(value) <= _FEW and all(isinstance(number, int) for number in value)
        numbers = f"[{', '.join(str(_short(number)) for number in value)}]" if few else ""
        return _Words(numbers or f"a list of {len(value)} values")
    if isinstance(value, int) and abs(value) > _LONGEST_INT:
        return _Words(f"an integer of {value.bit_length()} bits")
    return value


def _dot_location(loc: Sequence[str | int]) -> str:
    """Return a location as ``path.to.field[3]``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return text.removeprefix(".") or "file"


def _models(annotation: object) -> list[type[BaseModel]]:
    """Return the models in an annotation such as ``Annotated[A | B, ...]`` or ``list[A]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]


def _models_at(model: type[BaseModel], loc: Sequence[str | int]) -> list[type[BaseModel]]:
    found: list[object] = [model]
    for part in loc:
        found = [below for annotation in found for below in _annotations_below(annotation, part)]
    return [sub for annotation in found for sub in _models(annotation)]


def _annotations_below(annotation: object, part: str | int) -> list[object]:
    """Return the annotations of a model's field, a mapping's value or a list's item."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        field = annotation.model_fields.get(str(part))
        return [field.annotation] if field else []
    origin, args = get_origin(annotation), get_args(annotation)
    if isinstance(origin, type) and issubclass(origin, Collection):
        return list(args)
    return [below for branch in args for below in _annotations_below(branch, part)]


@cache
def leaf_fields(model: type[BaseModel], prefix: str = "") -> tuple[str, ...]:
    """Return the dotted paths of all fields that hold a value, in the order of the model.

    A section that may also be a name (it has a validator before it) counts as one value.
    """
    leaves = []
    for name, field in model.model_fields.items():
        sections = _models(field.annotation)
        below = [leaf for sub in sections for leaf in leaf_fields(sub, f"{prefix}{name}.")]
        may_be_name = any(isinstance(one, BeforeValidator) for one in field.metadata)
        leaves += below if below and not may_be_name else [f"{prefix}{name}"]
    return tuple(dict.fromkeys(leaves))  # the branches of a union share fields


def refusal(model: type[BaseModel], leaf: str, value: object) -> str:
    """Return what a leaf field allows, if it refuses a value whatever the other fields; else empty.

    In a union of sections it is enough that one of them accepts the value.
    """
    *above, name = leaf.split(".")
    having = [one for one in _models_at(model, above) if name in one.model_fields]
    found = [_refusal(one, name, value) for one in having]
    return " or ".join(dict.fromkeys(found)) if all(found) else ""


@cache
def replaced_fields(model: type[BaseModel], prefix: str = "") -> dict[str, str]:
    """Return the replacement of each former field, by its dotted path."""
    old: Mapping[str, str] = getattr(model, "REPLACED", {})
    found = {f"{prefix}{name}": text for name, text in old.items()}
    for name, field in model.model_fields.items():
        for section in _models(field.annotation):
            found |= replaced_fields(section, f"{prefix}{name}.")
    return found


def _allowed_text(
    detail: ErrorDetails, loc: tuple[str | int, ...], model: type[BaseModel] | None
) -> tuple[str, str]:
    """Return what is allowed, and the field beside ``loc`` that was probably meant, or nothing."""
    kind, around = detail["type"], _models_at(model, loc[:-1]) if model and loc else []
    name = str(loc[-1]) if loc else ""
    if kind in _MISSING:
        probes = [
            _refusal(m, name, object()) or "any value" for m in around if name in m.model_fields
        ]
        return probes[0] if probes else "a value; this key is required", ""
    if kind in _UNKNOWN:
        replaced = {old: text for m in around for old, text in replaced_fields(m).items()}
        if name in replaced:
            return replaced[name], ""
        branch = [m for m in around if name not in m.model_fields] or around
        known = list(dict.fromkeys(field for m in branch for field in m.model_fields))
        text = suggest_field(name, known) if known else "only known keys"
        return text, nearest_field(name, known)
    text = _text_of(detail)
    if kind == "model_type" and model is not None and loc:
        keys = dict.fromkeys(field for m in _models_at(model, loc) for field in m.model_fields)
        text += f" of {', '.join([*keys][:_MOST_KEYS])}" if keys else ""
    return text, ""


def _validate_field(field: FieldInfo, value: object) -> object:
    """Return a field's value from a document; pydantic's error if it is wrong by itself."""
    annotation: Any = field.annotation
    for metadata in field.metadata:
        annotation = Annotated[annotation, metadata]
    return TypeAdapter(annotation).validate_python(value)


def valid_fields(model: type[BaseModel], raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a document with valid values; defaults for fields that it lacks."""
    found = {}
    for name, field in model.model_fields.items():
        if name in raw:
            with suppress(ValidationError):
                found[name] = _validate_field(field, raw[name])
        elif not field.is_required():
            found[name] = field.get_default(call_default_factory=True)
    return found


def _refusal(model: type[BaseModel], name: str, value: object) -> str:
    """Return what a field allows instead of a value; empty if it accepts the value."""
    try:
        _validate_field(model.model_fields[name], value)
    except ValidationError as error:
        texts = [_text_of(detail) for detail in error.errors(include_url=False)]
        return " or ".join(dict.fromkeys(texts))
    return ""


def _text_of(detail: ErrorDetails) -> str:
    context: dict[str, Any] = detail.get("ctx", {})
    known = _ALLOWED.get(detail["type"])
    if known == _INTEGER:
        return with_digits(detail["input"], _INTEGER)
    if known is not None:
        return known.format_map(context) if isinstance(known, str) else known(context)
    if detail["type"] not in _PYDANTIC:  # a PydanticCustomError, whose text is ours
        return detail["msg"]
    return _REASON.sub("", _PREAMBLE.sub("", detail["msg"]))


def _bound(sign: str, key: str) -> Callable[[dict[str, Any]], str]:
    def text(context: dict[str, Any]) -> str:
        bound = context[key]
        return f"{'an integer' if isinstance(bound, int) else 'a number'} {sign} {bound}"

    return text


def _choices_text(context: dict[str, Any]) -> str:
    expected = str(context["expected"]).replace(" or ", ", ")
    return f"one of {expected}" if ", " in expected else expected


def _tags_text(context: dict[str, Any]) -> str:
    return suggest(context["tag"], re.findall(r"'([^']*)'", context["expected_tags"]))


def _error(context: dict[str, Any]) -> str:
    return str(context["error"])


_MISSING: frozenset[Hashable] = frozenset({"missing", "missing_argument"})
_UNKNOWN: frozenset[Hashable] = frozenset({"extra_forbidden", "unexpected_keyword_argument"})
_PYDANTIC: frozenset[Hashable] = frozenset(get_args(core_schema.ErrorType))
_INTEGER, A_MAPPING = "an integer", "a mapping"
_PREAMBLE = re.compile(r"^(\w+ )?[Ii]nput should be (a valid |valid )?|^Value error, ")
_REASON = re.compile(r", (unable to|got a|error:).*$|, *$")
_ALLOWED: dict[str, str | Callable[[dict[str, Any]], str]] = {
    "value_error": _error,
    "assertion_error": _error,
    "invalid_key": "keys that are text",
    "recursion_loop": "a value that does not contain itself",
    "recursion_depth_exceeded": "fewer levels of nesting",
    "none_required": "nothing",
    "literal_error": _choices_text,
    "enum": _choices_text,
    "greater_than": _bound(">", "gt"),
    "greater_than_equal": _bound(">=", "ge"),
    "less_than": _bound("<", "lt"),
    "less_than_equal": _bound("<=", "le"),
    "multiple_of": "a multiple of {multiple_of}",
    "finite_number": "a finite number",
    "too_short": "at least {min_length} items",
    "too_long": "at most {max_length} items",
    "string_too_short": "text of at least {min_length} characters",
    "string_too_long": "text of at most {max_length} characters",
    "string_not_ascii": "text of ASCII characters",
    "string_pattern_mismatch": "text that matches {pattern}",
    "union_tag_invalid": _tags_text,
    "union_tag_not_found": "a mapping with {discriminator}",
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("int_type", "int_parsing", "int_parsing_size", "int_from_float"), _INTEGER),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("string_type", "string_unicode"), "text"),
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "iterable_type"), "a list"),
    **dict.fromkeys(
        ("model_type", "model_attributes_type", "dataclass_type", "dict_type", "mapping_type"),
        A_MAPPING,
    ),
}
