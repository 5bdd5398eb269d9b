"""Measured operators as workloads, and their cycles as ``simaccel run`` has them by default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from simaccel import simulate
from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.workload import Conv, Einsum, Vector, Workload, layers_workload, operand, softmax
from simaccel.workload import gemm as build_gemm
from simaccel.workload.einsum import Kind, Tensor
from simaccel.workload.layers import Product
from simaccel.workload.precision import with_precision
from simaccel.workload.vectors import VECTORS
from validation.silicon.booked import START, book, remembered

NUMBERS: Final = {
    **dict.fromkeys(("float16", "f16"), "fp16"),
    **dict.fromkeys(("bfloat16", "bf16"), "bf16"),
    **dict.fromkeys(("float32", "f32"), "fp32"),
    **dict.fromkeys(("int8", "s8"), "int8"),
    **dict.fromkeys(("fp8", "float8_e4m3fn", "float8_e5m2"), "fp8"),
}
"""Numbers of rows by the names of ``--precision``."""


@cache
def loaded(name: str) -> Accelerator:
    """Return an accelerator by its name or the path of its file."""
    return load_accelerator(name)


@remembered
def gemm(on: Accelerator, m: int, k: int, n: int, number: str, mapping: Path | None = None) -> int:
    """Return the cycles of C[m,n] = A[m,k] B[k,n]; ``mapping``: the file of a measured program."""
    return run(in_numbers(build_gemm(m=m, k=k, n=n), number), on, mapping)


@remembered
def vector(on: Accelerator, kind: str, shape: tuple[int, ...], number: str) -> int:
    """Return the cycles of a vector operator on arrays of a shape; rows lie along its last side."""
    return run(in_numbers(vector_workload(kind, shape), number), on)


@remembered
def layers(on: Accelerator, name: str, shapes: tuple[Conv | Product, ...]) -> int:
    """Return the cycles of convolutions and products one after the other."""
    each = {f"layer{at}": shape for at, shape in enumerate(shapes)}
    return run(layers_workload(name, each), on)


def attention_workload(heads: int, tokens: int, width: int) -> Workload:
    """Return the attention of some heads, each of whose tokens sees all."""
    seen = {"h": heads, "n": tokens, "c": tokens}
    sizes = {**seen, "d": width}
    operators = (
        Einsum("L", sizes, (operand("Q h n d"), operand("K h c d")), operand("S h n c")),
        softmax("softmax", seen, operand("S h n c"), operand("P h n c"), "c"),
        Einsum("A", sizes, (operand("P h n c"), operand("V h c d")), operand("Z h n d")),
    )
    kinds: dict[str, Kind] = {**dict.fromkeys("QKV", "input"), "Z": "output"}
    kinds |= dict.fromkeys("SP", "intermediate")
    tensors = {name: Tensor(name, 2, of) for name, of in kinds.items()}
    return Workload("attention", operators, tensors)


def vector_workload(kind: str, shape: Sequence[int]) -> Workload:
    """Return a vector operator on arrays of a shape; rows lie along its last side."""
    ranks = {f"r{at}": size for at, size in enumerate(shape)}
    last = [*ranks][-1] if VECTORS[kind].needs_axis else None
    names = [f"x{at}" for at in range(VECTORS[kind].inputs)]
    given, made = (
        (operand(" ".join((name, *ranks))) for name in names),
        operand(" ".join(("y", *ranks))),
    )
    kinds: Mapping[str, Kind] = {**dict.fromkeys(names, "input"), "y": "output"}
    tensors = {name: Tensor(name, 2, of) for name, of in kinds.items()}
    return Workload(kind, (Vector(kind, kind, ranks, tuple(given), made, last),), tensors)


def in_numbers(workload: Workload, number: str) -> Workload:
    """Return a workload all of whose tensors are of a number."""
    return with_precision(workload, dict.fromkeys(("weights", "activations", "cache"), number))


def run(workload: Workload, on: Accelerator, mapping: Path | None = None) -> int:
    """Return the cycles of a default run, or of a mapping; what limits its rows is booked."""
    result = simulate(workload, on, mapping)
    for row in result.rows:
        book(row.limit.name, row.run.cycles)
    return result.cycles


def host_cycles(on: Accelerator) -> int:
    """Book and return the cycles of an accelerator that a host's clock adds to a timed call."""
    cycles = 0 if on.measuring is None else on.measuring.start_cycles
    book(START, cycles)
    return cycles
