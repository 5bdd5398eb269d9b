"""Operators as a chip's compiler runs them: one kernel after the other, whole tensors on chip.

A kernel of a product brings its operands, works, and takes its results away, with nothing beside
it: no tile has a second slot. Where the buffer is too small for all of an operator, it is cut along
its rows. A kernel of vector work goes through its operands block by block.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise

from simaccel.experiment.run import simulate
from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator
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
from simaccel.schedulers import default_dataflow
from simaccel.workload import Einsum, Vector, Workload, operand
from simaccel.workload import gemm as build_gemm
from simaccel.workload.einsum import Tensor
from simaccel.workload.precision import with_precision
from validation.silicon.booked import book, remembered

BUFFER = "buffer"
HEADS_AT_ONCE = 4
"""Products of a batch that a kernel takes at once: while it works on them, the next come."""
BLOCK = 2**18
"""Elements that a kernel of vector work takes at once."""
NUMBERS = {
    **dict.fromkeys(("bfloat16", "bf16"), (2, "")),
    **dict.fromkeys(("float32", "f32"), (4, "")),
    **dict.fromkeys(("int8", "s8"), (1, "")),
    **dict.fromkeys(("fp8", "float8_e4m3fn", "float8_e5m2"), (1, "fp8")),
}
"""Numbers of GEMMs: bytes, and the number where an array may tell it from others of as many."""
NUMBER_OF = {
    **dict.fromkeys(("bfloat16", "bf16"), "bf16"),
    **dict.fromkeys(("float32", "f32"), "fp32"),
    **dict.fromkeys(("int8", "s8"), "int8"),
    **dict.fromkeys(("fp8", "float8_e4m3fn", "float8_e5m2"), "fp8"),
}
"""The same by the names of ``--precision``."""
COPIES = (
    f"sfu.lanes={BLOCK}",
    "sfu.latency_cycles=0",
    "buffer.read_bytes_per_second=unlimited",
    "buffer.write_bytes_per_second=unlimited",
    "memories.cache.bandwidth_bytes_per_second=unlimited",
)
"""Settings of an accelerator on which a vector operator is a copy: nothing but DRAM takes time."""
ALONE = ("groups.overlap=false",)
"""Settings where a kernel is timed alone, with nothing beside it."""
ON_CHIP = ("dram.bandwidth_bytes_per_second=unlimited", "dram.latency_cycles=0")
"""Settings where all that a kernel reads is on the chip before and what it makes stays there."""


@remembered
def run_cycles(on: Accelerator, m: int, k: int, n: int, number: str) -> int:
    """Return the cycles of a GEMM as ``simaccel run`` has it with its defaults."""
    gemm = build_gemm(m=m, k=k, n=n)
    return workload_cycles(on, with_precision(gemm, {"weights": number, "activations": number}))


def workload_cycles(on: Accelerator, workload: Workload) -> int:
    """Return the cycles of a workload as ``simaccel run`` has it with its defaults."""
    result = simulate(workload, on, default_dataflow(on, workload))
    book(result.limit.name, result.run.cycles)
    return result.run.cycles


def cycles_of(workload: Workload, on: Accelerator, *groups: Group) -> int:
    """Return the cycles of a workload's groups on the machine."""
    reference = WorkloadReference(workload.name, workload.fingerprint)
    mapping = Mapping(workload=reference, dataflow="kernels", body=groups)
    result = simulate(workload, on, mapping)
    book(result.limit.name, result.run.cycles)
    return result.run.cycles


@cache
def loaded(name: str, *settings: str) -> Accelerator:
    """Return a shipped accelerator with settings."""
    return load_accelerator(name, list(settings))


@remembered
def gemm_cycles(
    on: Accelerator,
    m: int,
    k: int,
    n: int,
    *,
    n_bytes: int = 2,
    batch: int = 1,
    kept: str = "",
) -> int:
    """Return the cycles of C[b,m,n] = A[b,m,k] B[b,k,n] as one kernel.

    ``kept``: a tensor that is on the chip before or stays there (its class is ``cache``).
    """
    rows, cols = m, n
    workload = _gemm(batch, m, k, n, n_bytes, kept=kept)
    if batch > HEADS_AT_ONCE:
        return cycles_of(workload, on, _heads_group(on, (m, k, n), n_bytes))
    while _too_large(on, batch * n_bytes * (rows * k + k * cols + rows * cols)):
        # the largest operand is halved
        if (rows >= cols and rows > 1) or cols == 1:
            rows = -(-rows // 2)
        else:
            cols = -(-cols // 2)
    return cycles_of(workload, on, _gemm_group(workload, (rows, cols)))


def _heads_group(on: Accelerator, sizes: tuple[int, int, int], n_bytes: int) -> Group:
    """Return products of a batch, some at once: fewer where they don't fit, at last some rows."""
    (m, k, n), heads = sizes, HEADS_AT_ONCE
    rows = m
    while rows > 1 and _too_large(on, 2 * heads * n_bytes * (rows * k + k * n + rows * n)):
        if heads > 1:
            heads //= 2
        else:
            rows = -(-rows // 2)
    a, b, c = (Keep(name, BUFFER, 2) for name in "ABC")
    kept: tuple[Node, ...] = (a, b, c) if rows == m else (b, Loop("m", rows), a, c)
    tree: Tree = (Loop("b", heads), *kept, Do("gemm", "array", "ws"))
    return Group(operators=("gemm",), tree=tree, merged={})


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


def _gemm_group(workload: Workload, tiles: tuple[int, int]) -> Group:
    sizes = workload.operator("gemm").ranks
    cut: tuple[Node, ...] = (Loop("m", tiles[0]),) if tiles[0] < sizes["m"] else ()
    across: tuple[Node, ...] = (Loop("n", tiles[1]),) if tiles[1] < sizes["n"] else ()
    held = (*across, _keep("B"), *cut, _keep("A"), _keep("C"))
    tree = (*held, Do("gemm", "array", "ws"))
    return Group(operators=("gemm",), tree=tree, merged=mergeable(workload, ("gemm",)))


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


@remembered
def copy_cycles(on: Accelerator, elements: int, *, n_bytes: int) -> int:
    """Return the cycles of a copy from DRAM to a memory of the chip; ``on``: with `COPIES`."""
    copy = _cast("copy", {"e": elements}, "x", "y")
    return _vector_cycles(on, [copy], {"x": "input", "y": "cache"}, n_bytes)


@remembered
def reduction_cycles(on: Accelerator, rows: int, columns: int, *, n_bytes: int) -> int:
    """Return the cycles of a kernel that makes one number of each row, in one pass."""
    mean = Vector(
        "mean",
        "average_pooling",
        {"e": rows, "d": columns},
        (operand("x e d"),),
        operand("y e"),
    )
    return _vector_cycles(on, [mean], {"x": "input", "y": "output"}, n_bytes)


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


def padded(shape: Sequence[int], sublanes: int = 8, lanes: int = 128) -> int:
    """Return the elements of an array laid out in tiles of ``sublanes`` x ``lanes`` numbers.

    Which dimensions lie along the lanes and sublanes is chosen so that least is padded.

    >>> padded((8, 128, 8)), padded((320, 320)), padded((100,))
    (8192, 122880, 128)
    """
    if len(shape) == 1:
        return _whole(shape[0], lanes)
    return min(_in_tiles(shape, sublanes, lanes))


def _in_tiles(shape: Sequence[int], sublanes: int, lanes: int) -> Iterator[int]:
    for along in range(len(shape)):
        for down in range(len(shape)):
            if along != down:
                rest = math.prod(size for at, size in enumerate(shape) if at not in (along, down))
                yield rest * _whole(shape[along], lanes) * _whole(shape[down], sublanes)


def _whole(size: int, part: int) -> int:
    return -(-size // part) * part
