"""Operators and tensors as a document of kind `einsums`, which parses back; operators as rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from simaccel.workload.einsum import Operand, Operator, Tensor, Vector, operands_of
from simaccel.workload.vectors import VECTORS
from simaccel.workload.workload import Workload


def einsums_document(
    name: str, operators: Iterable[Operator], tensors: Iterable[Tensor]
) -> dict[str, Any]:
    """Return operators that run once as a document."""
    return {
        "kind": "einsums",
        "name": name,
        "tensors": {tensor.name: _tensor(tensor) for tensor in tensors},
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


@dataclass(frozen=True)
class OperatorRow:
    """One operator: its kind, rank sizes, MACs, operands, and the bytes of its distinct tensors."""

    operator: str
    kind: str
    ranks: str
    macs: int
    tensors: str
    bytes: int


def describe(workload: Workload) -> list[OperatorRow]:
    """Return a row for each operator of one repetition, in topological order."""
    rows = []
    for operator in workload.operators:
        operands = [operand for _, operand in operands_of(operator)]
        distinct = dict.fromkeys(operand.tensor for operand in operands)
        rows.append(
            OperatorRow(
                operator=operator.name,
                kind=operator.kind if isinstance(operator, Vector) else "einsum",
                ranks=" ".join(f"{rank}={size}" for rank, size in operator.ranks.items()),
                macs=operator.macs,
                tensors=" ".join(map(str, operands)),
                bytes=sum(workload.tensor_bytes(name) for name in distinct),
            )
        )
    return rows
