"""Operators as a chip's compiler runs them: one kernel after the other, whole tensors on chip.

A kernel of a product brings its operands, works, and takes its results away, with nothing beside
it: no tile has a second slot. Where the buffer is too small for all of an operator, it is cut along
its rows. A kernel of vector work goes through its operands block by block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from simaccel.experiment.run import simulate
from simaccel.hardware import Accelerator
from simaccel.mapping.space import mergeable
from simaccel.mapping.tree import (
    Do,
    Fork,
    Group,
    Keep,
    Loop,
    Mapping,
    Node,
    Tree,
    WorkloadReference,
)
from simaccel.workload import Einsum, Vector, Workload, operand
from simaccel.workload.einsum import Tensor
from validation.silicon.booked import book, remembered

BUFFER = "buffer"
BLOCK = 2**18
"""Elements that a kernel of vector work takes at once."""
ALONE = ("compiler.overlap=false",)
"""Settings where a kernel is timed alone, with nothing beside it."""
ON_CHIP = ("dram.bandwidth_bytes_per_second=unlimited", "dram.latency_cycles=0")
"""Settings where all that a kernel reads is on the chip before and what it makes stays there."""


def cycles_of(workload: Workload, on: Accelerator, *groups: Group) -> int:
    """Return the cycles of a workload's groups on the machine."""
    reference = WorkloadReference(workload.name, workload.fingerprint)
    mapping = Mapping(workload=reference, dataflow="kernels", body=groups)
    result = simulate(workload, on, mapping)
    book(result.limit.name, result.run.cycles)
    return result.run.cycles


def _too_large(on: Accelerator, n_bytes: int) -> bool:
    capacity = on.buffer.capacity_bytes
    return capacity is not None and n_bytes > capacity


def _gemm(
    batch: int, m: int, k: int, n: int, n_bytes: int, *, kept: str = "", number: str = ""
) -> Workload:
    sizes = {"b": batch, "m": m, "k": k, "n": n}
    if batch == 1:
        del sizes["b"]

    def of(name: str, *ranks: str) -> str:
        return " ".join((name, *(rank for rank in ranks if rank in sizes)))

    kinds = {"A": "input", "B": "weight", "C": "output"} | ({kept: "cache"} if kept else {})
    gemm = Einsum(
        "gemm",
        sizes,
        (operand(of("A", "b", "m", "k")), operand(of("B", "b", "k", "n"))),
        operand(of("C", "b", "m", "n")),
    )
    tensors = {
        name: Tensor(name, n_bytes, kind, number=number)  # type: ignore[arg-type]
        for name, kind in kinds.items()
    }
    return Workload("kernel", (gemm,), tensors)


def _cast(name: str, ranks: dict[str, int], given: str, made: str) -> Vector:
    """Return an operator that goes over each element once."""
    return Vector(
        name,
        "scale",
        ranks,
        (operand(" ".join((given, *ranks))),),
        operand(" ".join((made, *ranks))),
    )


def _keep(name: str) -> Keep:
    return Keep(name, BUFFER, 1)


@remembered
def streamed_gemm_cycles(
    on: Accelerator,
    sizes: tuple[int, int, int],
    *,
    n_bytes: int = 2,
    number: str = "",
    block: tuple[int, int, int] | None = None,
) -> int:
    """Return the cycles of C[m,n] = A[m,k] B[k,n], ``sizes`` m, k, n, as one kernel that streams.

    It goes through columns of B as wide as all arrays are; while it works on some the next come,
    and results leave. A stays; where it doesn't fit, the longest side is halved until all does.
    ``block``: m, k and n of a piece, where a program says them. ``number``: as in `NUMBERS`.
    """
    m, k, n = sizes
    rows, depth, columns = block or (m, k, min(n, on.array.cols * on.systolic.count))

    def too_large() -> bool:
        in_a = (1 + (rows < m or depth < k)) * rows * depth
        return _too_large(on, n_bytes * (in_a + 2 * columns * (depth + rows)))

    while block is None and too_large():
        longest = max(rows, depth, columns)
        if rows == longest:
            rows = -(-rows // 2)
        elif depth == longest:
            depth = -(-depth // 2)
        else:
            columns = -(-columns // 2)
    workload = _gemm(1, m, k, n, n_bytes, number=number)
    down = (Loop("m", rows),) if rows < m else ()
    across = (Loop("n", columns),) if columns < n else ()
    b, c = Keep("B", BUFFER, 2), Keep("C", BUFFER, 2)
    gemm = Do("gemm", "array", "ws")
    if depth < k:
        tree: Tree = (*down, *across, c, Loop("k", depth), Keep("A", BUFFER, 2), b, gemm)
    else:
        tree = (*down, Keep("A", BUFFER, 1 + bool(down)), *across, b, c, gemm)
    return cycles_of(workload, on, Group(operators=("gemm",), tree=tree, merged={}))


@remembered
def vector_cycles(on: Accelerator, elements: int, *, reads: int, passes: int, n_bytes: int) -> int:
    """Return the cycles of a kernel that makes as many elements as it reads of each operand.

    It has one or two operands (``reads``) and goes over them in ``passes`` of the vector unit, in
    blocks of `BLOCK`: while it works on one, the next comes.
    """
    names = [f"x{at}" for at in range(passes)]
    operators = [
        _cast(f"pass{at}", {"e": elements}, before, made)
        for at, (before, made) in enumerate(pairwise(names))
    ]
    last = (names[-1], "other") if reads > 1 else (names[-1],)
    kind = "residual" if reads > 1 else "scale"
    operators.append(
        Vector(
            "last", kind, {"e": elements}, tuple(operand(f"{x} e") for x in last), operand("y e")
        )
    )
    kinds = dict.fromkeys(names, "intermediate") | {"x0": "input", "y": "output"}
    return _vector_cycles(on, operators, kinds | dict.fromkeys(last[1:], "input"), n_bytes)


def _vector_cycles(
    on: Accelerator, operators: Sequence[Vector], kinds: dict[str, str], n_bytes: int
) -> int:
    """Return the cycles of vector operators as one kernel, block by block."""
    tensors = {name: Tensor(name, n_bytes, kind) for name, kind in kinds.items()}  # type: ignore[arg-type]
    workload = Workload("kernel", tuple(operators), tensors)
    names = tuple(operator.name for operator in operators)
    ranks = operators[0].ranks
    keeps = tuple(Keep(name, BUFFER, 1 + (kind != "intermediate")) for name, kind in kinds.items())
    room = on.buffer.capacity_bytes
    most = BLOCK if room is None else room // (n_bytes * sum(keep.slots for keep in keeps))
    block = max(1, min(BLOCK, most) // (math.prod(ranks.values()) // ranks["e"]))
    leaves: tuple[Node, ...] = (Do(names[0], "sfu"),)
    if len(names) > 1:
        leaves = (Fork(tuple((Do(name, "sfu"),) for name in names)),)
    tree = (Loop("e", block), *keeps, *leaves) if block < ranks["e"] else (*keeps, *leaves)
    return cycles_of(
        workload, on, Group(operators=names, tree=tree, merged=mergeable(workload, names))
    )
