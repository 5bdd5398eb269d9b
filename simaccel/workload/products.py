"""Batched products as workloads: with a second factor per head, or per group of heads.

    bmm:  C[h,m,n] = A[h,m,k] B[h,k,n]          (multi-head attention)
    gbmm: C[h,m,n] = A[h,m,k] B[g,k,n]          (G groups; each serves H / G heads)

With one group this is multi-query attention (Shazeer 2019), with several grouped-query attention
(Ainslie et al. 2023). Heads are written as ``g`` groups of ``e`` heads.
"""

from __future__ import annotations

from collections.abc import Mapping

from simaccel.errors import Fault, InputError
from simaccel.workload.einsum import Einsum, Kind, operand
from simaccel.workload.sizes import parse_sizes, size_faults
from simaccel.workload.tensors import make_tensors
from simaccel.workload.workload import Workload

_EXAMPLE = "H=32,M=4096,K=128,N=4096"
_KINDS: Mapping[str, Kind] = {"A": "input", "B": "weight", "C": "output"}


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
    sizes = {"h": h, "m": m, "k": k, "n": n}
    return _product("bmm", operands, sizes, [], bytes_per_element, bytes_by_tensor)


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
    heads = 1 if faults else h // g
    sizes = {"g": g, "e": heads, "m": m, "k": k, "n": n}
    return _product("gbmm", operands, sizes, faults, bytes_per_element, bytes_by_tensor)


def parse_product(text: str, *, grouped: bool, source: str = "--shape") -> dict[str, int]:
    """Return the sizes in a text by the parameter names of `bmm` or `gbmm`.

    >>> parse_product("H=8,M=4,K=2,N=4,G=2", grouped=True)
    {'h': 8, 'm': 4, 'k': 2, 'n': 4, 'g': 2}
    """
    needed = "GHMKN" if grouped else "HMKN"
    example = f"G=8,{_EXAMPLE}" if grouped else _EXAMPLE
    found = parse_sizes(text, source, needed=needed, optional="", example=example)
    return {rank.lower(): size for rank, size in found.items()}


def _product(
    name: str,
    operands: tuple[str, str, str],
    sizes: dict[str, int],
    faults: list[Fault],
    bytes_per_element: int | None,
    bytes_by_tensor: Mapping[str, int] | None,
) -> Workload:
    tensors, byte_faults = make_tensors(name, _KINDS, bytes_per_element, bytes_by_tensor)
    ranks = {rank.upper(): size for rank, size in sizes.items() if rank != "e"}
    faults = [*faults, *size_faults(name, ranks), *byte_faults]
    if faults:
        raise InputError(list(dict.fromkeys(faults)))
    first, second, out = map(operand, operands)
    einsum = Einsum(name, sizes, (first, second), out)
    uses = [
        {"tensor": operand.tensor, "projection": [*operand.ranks]}
        for operand in (first, second, out)
    ]
    parameters = {
        "kind": "einsums",
        "name": name,
        "tensors": {
            tensor.name: {"kind": tensor.kind}
            | ({} if tensor.assumed else {"bytes_per_element": tensor.bytes_per_element})
            for tensor in tensors.values()
        },
        "operators": {name: {"ranks": sizes, "inputs": uses[:2], "output": uses[2]}},
    }
    return Workload(name, (einsum,), tensors, parameters=parameters)
