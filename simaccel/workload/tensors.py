"""Tensors made from their kinds, a default element size, and exceptions."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from simaccel.errors import Fault, suggest
from simaccel.workload.einsum import Kind, Tensor
from simaccel.workload.names import ASSUMED_BYTES, MAX_BYTES_PER_ELEMENT, size_faults

CLASSES = ("weights", "activations", "cache")
"""Classes of tensors with a precision, and DRAM bytes, of their own."""


def class_of(kind: Kind) -> str:
    """Return the class of a tensor: weights, cache, or activations."""
    return {"weight": "weights", "cache": "cache"}.get(kind, "activations")


_BITS: Final = "; other numbers of bits are those of a precision, such as weights=int4"


def make_tensors(
    file: str,
    kinds: Mapping[str, Kind],
    bytes_per_element: int | None,
    bytes_by_tensor: Mapping[str, int] | None,
) -> tuple[dict[str, Tensor], list[Fault]]:
    """Return the tensors by name and no faults, or none and the faults of element sizes (bytes).

    Without ``bytes_per_element`` the sizes of tensors without an exception are assumed.
    """
    if bytes_by_tensor is not None and not isinstance(bytes_by_tensor, Mapping):
        allowed = f"bytes by names of tensors, such as {{'{next(iter(kinds))}': 2}}"
        return {}, [Fault(file, "bytes_by_tensor", bytes_by_tensor, allowed)]
    special, default = bytes_by_tensor or {}, said_bytes(bytes_per_element)
    sizes = {f"bytes_by_tensor.{name}": size for name, size in special.items()}
    sizes["bytes_per_element"] = default
    faults = [
        replace(fault, allowed=f"{fault.allowed}{'' if type(fault.value) is int else _BITS}")
        for fault in size_faults(file, sizes, MAX_BYTES_PER_ELEMENT)
    ]
    faults += [
        Fault(file, f"bytes_by_tensor.{name}", size, suggest(name, kinds))
        for name, size in special.items()
        if name not in kinds
    ]
    if faults:
        return {}, faults
    return {
        name: Tensor(
            name,
            special.get(name, default),
            kind,
            assumed=bytes_per_element is None and name not in special,
        )
        for name, kind in kinds.items()
    }, []


def said_bytes(bytes_per_element: int | None) -> int:
    """Return the given bytes of an element, or the assumed ones."""
    return ASSUMED_BYTES if bytes_per_element is None else bytes_per_element


def bytes_document(
    bytes_per_element: int | None, bytes_by_tensor: Mapping[str, int] | None
) -> dict[str, Any]:
    """Return the fields of a document with the given element sizes; assumed ones are left out."""
    said = {} if bytes_per_element is None else {"bytes_per_element": bytes_per_element}
    return {**said, "bytes_by_tensor": dict(bytes_by_tensor or {})}
