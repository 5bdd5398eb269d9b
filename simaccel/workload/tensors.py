"""Tensors from their kinds, a default element size and exceptions to it."""

from collections.abc import Mapping

from simaccel.errors import Fault, suggest
from simaccel.workload.einsum import Kind, Tensor
from simaccel.workload.sizes import MAX_BYTES_PER_ELEMENT, size_faults


def make_tensors(
    file: str,
    kinds: Mapping[str, Kind],
    bytes_per_element: int,
    bytes_by_tensor: Mapping[str, int] | None,
) -> tuple[dict[str, Tensor], list[Fault]]:
    """Return the tensors by name, or none and the faults of the element sizes (in bytes)."""
    special = bytes_by_tensor or {}
    sizes = {f"bytes_by_tensor.{name}": size for name, size in special.items()}
    sizes["bytes_per_element"] = bytes_per_element
    faults = size_faults(file, sizes, MAX_BYTES_PER_ELEMENT)
    faults += [
        Fault(file, f"bytes_by_tensor.{name}", size, suggest(name, kinds))
        for name, size in special.items()
        if name not in kinds
    ]
    if faults:
        return {}, faults
    return {
        name: Tensor(name, special.get(name, bytes_per_element), kind)
        for name, kind in kinds.items()
    }, []
