"""A workload as rows of a table."""

from dataclasses import dataclass

from simaccel.workload.einsum import Vector, operands_of
from simaccel.workload.workload import Workload


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
