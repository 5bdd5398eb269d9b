"""A batched GEMM as a workload, and its shape as text."""

from collections.abc import Mapping
from typing import TypedDict

from simaccel.errors import name_arguments, require_none
from simaccel.workload.einsum import Einsum, operand
from simaccel.workload.sizes import parse_sizes, size_faults
from simaccel.workload.tensors import bytes_document, make_tensors
from simaccel.workload.workload import Workload


class GemmShape(TypedDict):
    """The sizes that `gemm` takes."""

    m: int
    k: int
    n: int
    batch: int


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
    sizes = {"M": m, "K": k, "N": n, "B": batch}
    tensors, faults = make_tensors(
        "gemm", {"A": "input", "B": "weight", "C": "output"}, bytes_per_element, bytes_by_tensor
    )
    faults = size_faults("gemm", sizes) + faults
    require_none(faults)
    ranks = {"b": batch, "m": m, "k": k, "n": n}
    einsum = Einsum("gemm", ranks, (operand("A b m k"), operand("B b k n")), operand("C b m n"))
    parameters = {
        "kind": "gemm",
        "shape": sizes,
        **bytes_document(bytes_per_element, bytes_by_tensor),
    }
    return Workload("gemm", (einsum,), tensors, parameters=parameters)


def parse_shape(text: str, source: str = "--shape") -> GemmShape:
    """Return the sizes in a text such as `M=512,K=64,N=512` or, with a batch, `...,B=4`.

    >>> parse_shape("M=512,K=64,N=512")
    {'m': 512, 'k': 64, 'n': 512, 'batch': 1}
    """
    found = parse_sizes(text, source, needed="MKN", optional="B", example="M=512,K=64,N=512")
    return GemmShape(m=found["M"], k=found["K"], n=found["N"], batch=found.get("B", 1))
