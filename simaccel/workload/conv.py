"""A convolution as an einsum with affine projections.

    O[n,g,m,p,q] = I[n,g,c, sh*p+dh*r, sw*q+dw*s] W[g,m,c,r,s]

Ranks: n samples, g groups, m output channels and c input channels of a group, p and q output rows
and columns, r and s filter rows and columns; (sh, sw) is the stride and (dh, dw) the dilation. A
depth-wise convolution has a group for each channel and one channel in each group (m = c = 1).

The input tensor has the rows that the filter reaches: (p-1)*sh + (r-1)*dh + 1, padding included.
So padding is stored and moved like any other row, as in Timeloop and SCALE-Sim. A tile needs as
many rows of the input as the same formula gives for the tile's sizes, halo included
(`Operand.shape`): a bounding box, also over rows that a stride skips.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simaccel.errors import Fault, name_arguments, require_none
from simaccel.workload.einsum import AffineDimension, Einsum, Kind, Operand
from simaccel.workload.names import MAX_LAYER_SIZE, size_faults
from simaccel.workload.tensors import bytes_document, make_tensors
from simaccel.workload.workload import Workload

Pair = tuple[int, int]
"""(height, width)."""

KINDS: Mapping[str, Kind] = {"I": "input", "W": "weight", "O": "output"}
"""The kinds of a layer's tensors: input, filters and output."""


@dataclass(frozen=True, kw_only=True)
class Conv:
    """The sizes of a convolution: ranks, and (height, width) of stride and dilation."""

    m: int
    c: int
    p: int
    q: int
    r: int
    s: int
    g: int = 1
    n: int = 1
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)

    @property
    def ranks(self) -> dict[str, int]:
        """The sizes of the ranks by name, from the outermost of the output."""
        return {rank: getattr(self, rank) for rank in "ngmcpqrs"}

    @property
    def weights(self) -> int:
        """Elements of the filters, without biases."""
        return self.g * self.m * self.c * self.r * self.s

    def document(self) -> dict[str, object]:
        """Return the sizes in the form of a workload file."""
        shape = {rank.upper(): size for rank, size in self.ranks.items()}
        steps = {"stride": list(self.stride), "dilation": list(self.dilation)}
        return {"kind": "conv", "shape": shape, **steps}

    def einsum(self, name: str, tensors: tuple[str, str, str] = ("I", "W", "O")) -> Einsum:
        """Return the einsum over tensors with these names: input, filters, output."""
        (sh, sw), (dh, dw) = self.stride, self.dilation
        rows = AffineDimension((("p", sh), ("r", dh)))
        columns = AffineDimension((("q", sw), ("s", dw)))
        image, filters, result = tensors
        inputs = Operand(image, (*units("ngc"), rows, columns)), Operand(filters, units("gmcrs"))
        return Einsum(name, self.ranks, inputs, Operand(result, units("ngmpq")))


def conv_faults(file: str, conv: Conv, path: str = "") -> list[Fault]:
    """Return a fault for each size, stride or dilation that is no positive integer in range."""
    sizes: dict[str, object] = {f"{path}{r.upper()}": n for r, n in conv.ranks.items()}
    for field in ("stride", "dilation"):
        height, width = getattr(conv, field)
        sizes |= {f"{path}{field}.height": height, f"{path}{field}.width": width}
    return size_faults(file, sizes, MAX_LAYER_SIZE)


@name_arguments(**{rank.upper(): rank for rank in "ngmcpqrs"})
def conv2d(  # noqa: PLR0913 - a convolution has that many sizes
    *,
    m: int,
    c: int,
    p: int,
    q: int,
    r: int,
    s: int,
    g: int = 1,
    n: int = 1,
    stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
    bytes_per_element: int | None = None,
    bytes_by_tensor: Mapping[str, int] | None = None,
) -> Workload:
    """Return a convolution as a workload of one einsum named `conv` over I, W and O.

    `m` and `c` count the channels of one of the `g` groups; one number for stride or dilation
    stands for both directions; element sizes are in bytes.

    Raises:
        InputError: all sizes that are none.
    """
    conv = Conv(
        m=m, c=c, p=p, q=q, r=r, s=s, g=g, n=n, stride=pair(stride), dilation=pair(dilation)
    )
    tensors, faults = make_tensors("conv", KINDS, bytes_per_element, bytes_by_tensor)
    require_none(conv_faults("conv", conv) + faults)
    parameters = {**conv.document(), **bytes_document(bytes_per_element, bytes_by_tensor)}
    return Workload("conv", (conv.einsum("conv"),), tensors, parameters=parameters)


def pair(given: int | Sequence[int]) -> Pair:
    """Return (height, width) from two numbers, or from one for both."""
    is_pair = isinstance(given, tuple | list) and len(given) == 2  # noqa: PLR2004 - both
    both: Any = given if is_pair else (given, given)  # what is no size is refused with the others
    height, width = both
    return height, width


def positions(size: int, reach: int, stride: int, padding: int = 0) -> int:
    """Return the number of positions of a filter over `reach` rows in an input with padding.

    As in machine-learning frameworks: rows at the end that are too few for a step don't count.

    >>> positions(224, 7, 2, padding=3)
    112
    """
    return (size + 2 * padding - reach) // stride + 1


def units(ranks: str) -> tuple[AffineDimension, ...]:
    """Return a dimension for each rank."""
    return tuple(AffineDimension(((rank, 1),)) for rank in ranks)
