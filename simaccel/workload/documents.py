"""Operators and tensors as a document of kind `einsums`, which parses back to them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from simaccel.workload.einsum import Operand, Operator, Tensor, Vector
from simaccel.workload.vectors import VECTORS


def einsums_document(
    name: str, operators: Iterable[Operator], tensors: Iterable[Tensor]
) -> dict[str, Any]:
    """Return operators that run once as a document."""
    return {
        "kind": "einsums",
        "name": name,
        "tensors": {one.name: _tensor(one) for one in tensors},
        "operators": {one.name: _operator(one) for one in operators},
    }


def _tensor(one: Tensor) -> dict[str, Any]:
    packed = {"packed": True} if one.packed else {}
    inside = {"inside": [list(span) for span in one.inside]} if one.inside else {}
    distinct = {"distinct": one.distinct} if one.distinct is not None else {}
    if one.assumed:
        return {"kind": one.kind, **inside, **distinct}
    width = {"bytes_per_element": one.bytes_per_element}
    number = {"number": one.number} if one.number else {}
    return {"kind": one.kind, **width, **packed, **number, **inside, **distinct}


def _operator(one: Operator) -> dict[str, Any]:
    found: dict[str, Any] = {
        "ranks": dict(one.ranks),
        "inputs": [_operand(each) for each in one.inputs],
        "output": _operand(one.output),
    }
    if isinstance(one, Vector):
        found["kind"] = one.kind
        found |= {"scale": one.scale} if VECTORS[one.kind].scaled else {}
        found |= {} if one.axis is None else {"axis": one.axis}
        found |= {} if one.visible is None else {"visible": vars(one.visible)}
    return found


def _operand(one: Operand) -> dict[str, Any]:
    projection = [dict(dim.terms) for dim in one.projection]
    start = {"start": list(one.start)} if one.start else {}
    return {"tensor": one.tensor, "projection": projection, **start}
