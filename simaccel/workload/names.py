"""Names that the texts of programs and traces can hold, and sizes, of every form of a workload.

``simaccel.files.limits`` has the limits of files.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from simaccel.errors import ABSENT, Fault, InputError, require_none, suggest, with_digits

MAX_NAME = 200
"""Characters of a name at most."""
_LONGEST = 150
"""Characters that are kept of another tool's name, so that suffixes have room."""
_STRUCTURE = "[]{}(),;=<>\"'&*|`\\"
_FORMULA = ("=", "+", "-", "@")
"""Beginnings that a spreadsheet would take for a formula when a CSV has the name."""
_FIRST = f"none of {' '.join(_FORMULA)} at its beginning"
_ALLOWED = f"1 to {MAX_NAME} visible characters, no blank, none of {_STRUCTURE}, {_FIRST}"
_NUMBERED = "#"
_SUMS = "_sums"
_ALSO = {"ranks": "+", "tensors": _NUMBERED}
"""Further refused signs: one separates ranks in a sum, one the number of a tensor's second use."""
_TITLE = f"1 to {MAX_NAME} visible characters or blanks, {_FIRST}"


def clean_name(text: str) -> str:
    """Return another tool's name with underscores for all that a name can't have.

    >>> clean_name("score_QxK' [1]"), clean_name("-1"), clean_name("conv#2")
    ('score_QxK___1_', '_1', 'conv_2')
    """
    kept = (one if one.isprintable() and one not in f" #{_STRUCTURE}" else "_" for one in text)
    name = "".join(kept)[:_LONGEST]
    return f"_{name[1:]}" if name.startswith(_FORMULA) else name


def use_name(tensor: str, number: int) -> str:
    """Return the name of a tensor's ``number``-th use by an operator that reads it several times.

    >>> use_name("X", 0), use_name("X", 1)
    ('X', 'X#1')
    """
    return f"{tensor}{_NUMBERED}{number}" if number else tensor


def tensor_of(use: str) -> str:
    """Return the name of the tensor of a use.

    >>> tensor_of("X#1")
    'X'
    """
    return use.partition(_NUMBERED)[0]


def renamed_use(use: str, tensor: str) -> str:
    """Return the use of another tensor with the same number."""
    return tensor + use.removeprefix(tensor_of(use))


def sums_name(use: str) -> str:
    """Return the name of the tiles of a use's partial sums, which go through DRAM."""
    return use + _SUMS


def is_sums(tile: str) -> bool:
    """Return whether a tile of this name holds partial sums that go through DRAM."""
    return tile.endswith(_SUMS)


def name_faults(file: str, section: str, names: Iterable[str]) -> list[Fault]:
    """Return a fault for each name that a program's text can't hold."""
    more = _ALSO.get(section, "")
    refused, allowed = f" {_STRUCTURE}{more}", _ALLOWED + more
    return [
        Fault(file, f"{section}.{name}", name, allowed)
        for name in names
        if not _visible(name) or any(one in refused for one in name)
    ]


def title_faults(file: str, name: str) -> list[Fault]:
    """Return a fault if the name of a workload is not one line of text."""
    return [] if _visible(name) else [Fault(file, "name", name, _TITLE)]


def _visible(name: str) -> bool:
    visible = isinstance(name, str) and 0 < len(name) <= MAX_NAME and name.isprintable()
    return visible and not name.startswith(_FORMULA)


MAX_SIZE = 2**40
"""The largest size of a rank: beyond published workloads, but soon exceeded by a typing error."""

MAX_LAYER_SIZE = 2**30
"""The largest size of a rank of a layer: 2,000 times the largest published (DeepBench)."""

ASSUMED_BYTES = 2
"""Bytes of an element if neither workload nor accelerator sets them."""
MAX_BYTES_PER_ELEMENT = 16
"""The widest element: complex128."""


def size_faults(
    file: str, sizes: Mapping[str, object], limit: int = MAX_SIZE, least: int = 1
) -> list[Fault]:
    """Return a fault for each value that is not a whole number from `least` to `limit`."""
    allowed = f"a whole number from {least} to {limit}"
    return [
        Fault(file, field, value, with_digits(value, allowed))
        for field, value in sizes.items()
        if type(value) is not int or not least <= value <= limit  # a bool is an int, but no size
    ]


def parse_sizes(
    text: str,
    source: str,
    *,
    needed: Sequence[str],
    optional: Sequence[str],
    example: str,
    limit: int = MAX_SIZE,
) -> dict[str, int]:
    """Return the sizes in a text such as `M=512,K=64,N=512` by their keys.

    Raises:
        InputError: all unknown, missing and repeated keys, and all values that are no sizes.
    """
    if re.search(r"=[^,=]+=", text):
        form = ",".join(re.split(r"[\s;,]+", text.strip()))
        raise InputError([Fault(source, "shape", text, f"commas between sizes, as in {form}")])
    if text.strip() and "=" not in text:  # one mistake, not one for each key
        numbers = re.findall(r"[0-9]{1,12}", text)
        pairs = zip(needed, numbers, strict=False)
        meant = ",".join(f"{key}={size}" for key, size in pairs)
        form = meant if len(numbers) == len(needed) else example
        raise InputError([Fault(source, "shape", text, f"KEY=SIZE, as in {form}")])
    sizes: dict[str, object] = {}
    faults, keys, misspelt = [], [*needed, *optional], set[str]()
    for part in filter(None, map(str.strip, text.split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            faults.append(Fault(source, "shape", part, f"KEY=SIZE, as in {example}"))
        elif key not in keys:
            meant = key.upper() if len(key) == 1 else key
            misspelt.add(meant)
            faults.append(Fault(source, key, value, suggest(meant, keys)))
        elif key in sizes:
            faults.append(Fault(source, key, value, "each key once"))
        else:
            short = re.fullmatch(r"-?[0-9]{1,20}", value)  # int() would take 1_000 and "٣", too
            sizes[key] = int(value) if short else value
    faults += size_faults(source, sizes, limit)
    allowed = f"a whole number from 1 to {limit}"
    faults += [
        Fault(source, key, ABSENT, allowed) for key in needed if key not in {*sizes, *misspelt}
    ]
    require_none(faults)
    return {key: size for key, size in sizes.items() if isinstance(size, int)}
