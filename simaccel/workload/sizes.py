"""What a size may be: the checks that every way to write a workload shares."""

from collections.abc import Mapping

from simaccel.errors import Fault

MAX_SIZE = 2**40
"""The largest size of a rank: beyond any published workload, and a typing error is soon beyond."""

MAX_LAYER_SIZE = 2**30
"""The largest size of a rank of a layer: 2,000 times the largest published (DeepBench)."""

MAX_BYTES_PER_ELEMENT = 16
"""The widest element: complex128."""


def size_faults(file: str, sizes: Mapping[str, object], limit: int = MAX_SIZE) -> list[Fault]:
    """Return a fault for each value that is not a whole number from 1 to `limit`."""
    allowed = f"a whole number from 1 to {limit}"
    return [
        Fault(file, field, value, allowed)
        for field, value in sizes.items()
        if type(value) is not int or not 1 <= value <= limit  # a bool is an int, but no size
    ]
