"""Matrix products as workloads of one einsum.

    gemm: C[b,m,n] = A[b,m,k] B[b,k,n]
    bmm:  C[h,m,n] = A[h,m,k] B[h,k,n]          (multi-head attention)
    gbmm: C[h,m,n] = A[h,m,k] B[g,k,n]          (G groups; each serves H / G heads)

With one group the last is multi-query attention (Shazeer 2019), with several grouped-query
attention (Ainslie et al. 2023). Heads are written as ``g`` groups of ``e`` heads.
"""

from __future__ import annotations

from collections.abc import Mapping

from simaccel.errors import Fault, name_arguments, require_none
from simaccel.workload.documents import einsums_document
from simaccel.workload.einsum import Einsum, operand
from simaccel.workload.names import size_faults
from simaccel.workload.tensors import bytes_document, make_tensors
from simaccel.workload.workload import Workload


@name_arguments(M="m", K="k", N="n", B="batch")
def gemm(
    m: int,
    k: int,
    n: int,
    *,
    batch: int = 1,
    bytes_per_element: int | None = None,
    bytes_by_tensor: Mapping[str, int] | None = None,
) -> Workload:
    """Return C[b,m,n] = A[b,m,k] B[b,k,n] as a workload of one einsum named `gemm`.

    Sizes may be named in capitals, as on the command line.

    >>> gemm(128, 64, 32) == gemm(M=128, K=64, N=32) == gemm(m=128, k=64, n=32)
    True
    """
    operands = ("A b m k", "B b k n", "C b m n")
    shape = {"M": m, "K": k, "N": n, "B": batch}
    widths = bytes_per_element, bytes_by_tensor
    ranks = {"b": batch, "m": m, "k": k, "n": n}
    return _product("gemm", operands, ranks, size_faults("gemm", shape), widths, shape)


@name_arguments(**{rank.upper(): rank for rank in "hmkn"})
def bmm(
    *,
    h: int,
    m: int,
    k: int,
    n: int,
    bytes_per_element: int | None = None,
    bytes_by_tensor: Mapping[str, int] | None = None,
) -> Workload:
    """Return C[h,m,n] = A[h,m,k] B[h,k,n] as a workload of one einsum named `bmm`.

    Raises:
        InputError: all sizes that are none.
    """
    operands = ("A h m k", "B h k n", "C h m n")
    faults = size_faults("bmm", {"H": h, "M": m, "K": k, "N": n})
    ranks = {"h": h, "m": m, "k": k, "n": n}
    return _product("bmm", operands, ranks, faults, (bytes_per_element, bytes_by_tensor))


@name_arguments(**{rank.upper(): rank for rank in "ghmkn"})
def gbmm(
    *,
    g: int,
    h: int,
    m: int,
    k: int,
    n: int,
    bytes_per_element: int | None = None,
    bytes_by_tensor: Mapping[str, int] | None = None,
) -> Workload:
    """Return the product with a second factor per h / g heads, as one einsum named `gbmm`.

    Raises:
        InputError: all sizes that are none, and a `g` that doesn't divide `h`.
    """
    operands = ("A g e m k", "B g k n", "C g e m n")
    faults = size_faults("gbmm", {"G": g, "H": h})
    if not faults and h % g:
        faults = [Fault("gbmm", "G", g, f"a number that divides H={h}")]
    faults += size_faults("gbmm", {"M": m, "K": k, "N": n})
    ranks = {"g": g, "e": 1 if faults else h // g, "m": m, "k": k, "n": n}
    return _product("gbmm", operands, ranks, faults, (bytes_per_element, bytes_by_tensor))


def _product(
    name: str,
    operands: tuple[str, str, str],
    ranks: Mapping[str, int],
    faults: list[Fault],
    widths: tuple[int | None, Mapping[str, int] | None],
    shape: Mapping[str, int] | None = None,
) -> Workload:
    """Return a product over A, B and C; its document is of its ``shape``, or without of einsums."""
    tensors, byte_faults = make_tensors(name, {"A": "input", "B": "weight", "C": "output"}, *widths)
    require_none([*faults, *byte_faults])
    first, second, output = map(operand, operands)
    einsum = Einsum(name, ranks, (first, second), output)
    if shape is None:
        parameters = einsums_document(name, (einsum,), tensors.values())
    else:
        parameters = {"kind": name, "shape": shape, **bytes_document(*widths)}
    return Workload(name, (einsum,), tensors, parameters=parameters)
