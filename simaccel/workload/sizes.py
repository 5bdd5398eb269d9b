"""Limits of sizes, checked for every form of a workload.

``simaccel.files.limits`` has the limits of files.
"""

import re
from collections.abc import Mapping, Sequence

from simaccel.errors import ABSENT, Fault, InputError, require_none, suggest, with_digits

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
    if text.strip() and "=" not in text:  # one mistake, not one for each key
        numbers = re.findall(r"[0-9]{1,12}", text)
        pairs = zip(needed, numbers, strict=False)
        meant = ",".join(f"{key}={size}" for key, size in pairs)
        form = meant if len(numbers) == len(needed) else example
        raise InputError([Fault(source, "shape", text, f"KEY=SIZE, as in {form}")])
    sizes: dict[str, object] = {}
    faults, keys = [], [*needed, *optional]
    for part in filter(None, map(str.strip, text.split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            faults.append(Fault(source, "shape", part, f"KEY=SIZE, as in {example}"))
        elif key not in keys:
            meant = key.upper() if len(key) == 1 else key
            faults.append(Fault(source, key, value, suggest(meant, keys)))
        elif key in sizes:
            faults.append(Fault(source, key, value, "each key once"))
        else:
            short = re.fullmatch(r"-?[0-9]{1,20}", value)  # int() would take 1_000 and "٣", too
            sizes[key] = int(value) if short else value
    faults += size_faults(source, sizes, limit)
    allowed = f"a whole number from 1 to {limit}"
    faults += [Fault(source, key, ABSENT, allowed) for key in needed if key not in sizes]
    require_none(faults)
    return {key: size for key, size in sizes.items() if isinstance(size, int)}
