"""Views of operators as matrices: an einsum as grouped GEMMs, a softmax as rows."""

import math
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from simaccel.errors import SimaccelError
from simaccel.later import np
from simaccel.workload.einsum import Affine, Einsum, Operand, Vector

if TYPE_CHECKING:
    import numpy.typing as npt

Array: TypeAlias = "npt.NDArray[Any]"
Ranks = tuple[str, ...]
Part = Literal["g", "m", "k", "n"]
"""What a rank plays in out[g,m,n] = sum over k of a[g,m,k] * b[g,k,n]."""
_PARTS: Final[dict[tuple[bool, ...], Part]] = {
    (True, True, True): "g",
    (True, False, True): "m",
    (True, True, False): "k",
    (False, True, True): "n",
}


class NotAMatmul(SimaccelError):  # noqa: N818 - says what is wrong
    """An einsum that is no grouped matrix multiplication, and why."""

    def __init__(self, einsum: str, reason: str) -> None:
        super().__init__(einsum, reason)
        self.einsum, self.reason = einsum, reason

    def __str__(self) -> str:
        return f"einsum {self.einsum!r} is not a matrix multiplication: {self.reason}"


@dataclass(frozen=True)
class Matmul:
    """out[g,m,n] = sum over k of a[g,m,k] * b[g,k,n]: an einsum with its ranks in four groups.

    `g`, `m`, `k`, `n` are the products of the sizes of `g_ranks` (in all three operands),
    `m_ranks` (first input and output), `k_ranks` (both inputs), `n_ranks` (second input and
    output), each in the order of the einsum's ranks; an empty group has the size 1. Ranks of
    size 1 may stand in any group: a convolution with a 1 x 1 filter is a product, too.
    """

    einsum: Einsum
    g: int
    m: int
    k: int
    n: int
    g_ranks: Ranks
    m_ranks: Ranks
    k_ranks: Ranks
    n_ranks: Ranks

    @property
    def a(self) -> str:
        """The name of the first input tensor."""
        return self.einsum.inputs[0].tensor

    @property
    def b(self) -> str:
        """The name of the second input tensor."""
        return self.einsum.inputs[1].tensor

    @property
    def out(self) -> str:
        """The name of the output tensor."""
        return self.einsum.output.tensor

    def a_matrix(self, array: Array) -> Array:
        """Return the first input, in its natural shape, as [g, m, k]."""
        groups = (self.g_ranks, self.m_ranks, self.k_ranks)
        return to_matrix(array, self._operand(self.einsum.inputs[0]), groups, self.einsum.ranks)

    def b_matrix(self, array: Array) -> Array:
        """Return the second input, in its natural shape, as [g, k, n]."""
        groups = (self.g_ranks, self.k_ranks, self.n_ranks)
        return to_matrix(array, self._operand(self.einsum.inputs[1]), groups, self.einsum.ranks)

    def out_matrix(self, array: Array) -> Array:
        """Return the output, in its natural shape, as [g, m, n]."""
        groups = (self.g_ranks, self.m_ranks, self.n_ranks)
        return to_matrix(array, self._operand(self.einsum.output), groups, self.einsum.ranks)

    def out_tensor(self, matrix: Array) -> Array:
        """Return the output [g, m, n] in its natural shape."""
        groups = (self.g_ranks, self.m_ranks, self.n_ranks)
        return from_matrix(matrix, self._operand(self.einsum.output), groups, self.einsum.ranks)

    def _operand(self, given: Operand) -> Operand:
        return _without_ones(given, self.einsum.ranks)


def part_of(rank: str, tensors: Iterable[Container[str]]) -> Part | None:
    """Return which part a rank plays; None where it is in one tensor only, or in none.

    ``tensors``: the ranks of the first input, the second and the output.
    """
    return _PARTS.get(tuple(rank in one for one in tensors))


def as_matmul(einsum: Einsum) -> Matmul:
    """Return the einsum as grouped GEMMs; NotAMatmul if it has another form."""
    if len(einsum.inputs) != 2:  # noqa: PLR2004 - a product has two factors
        raise NotAMatmul(einsum.name, f"it has {len(einsum.inputs)} inputs, not 2")
    operands = [_without_ones(given, einsum.ranks) for given in (*einsum.inputs, einsum.output)]
    for whole, given in zip((*einsum.inputs, einsum.output), operands, strict=True):
        if any(len(dim.terms) > 1 for dim in given.projection):
            raise NotAMatmul(einsum.name, f"it is a convolution, as {whole} has sums of ranks")
        if not given.is_unit:
            raise NotAMatmul(einsum.name, f"{whole} has a dimension that is not a rank of its own")
    tensors = [set(given.ranks) for given in operands]
    groups: dict[Part, list[str]] = {"g": [], "m": [], "k": [], "n": []}
    for rank in einsum.ranks:
        part = part_of(rank, tensors)
        if part is None and einsum.ranks[rank] == 1:
            part = "n" if rank in tensors[1] else "m"
        if part is None:
            raise NotAMatmul(einsum.name, f"rank {rank!r} is in one of its operands only")
        groups[part].append(rank)
    g, m, k, n = (tuple(group) for group in groups.values())
    return Matmul(
        einsum,
        g=_product(g, einsum.ranks),
        m=_product(m, einsum.ranks),
        k=_product(k, einsum.ranks),
        n=_product(n, einsum.ranks),
        g_ranks=g,
        m_ranks=m,
        k_ranks=k,
        n_ranks=n,
    )


@dataclass(frozen=True)
class Rows:
    """A softmax as `rows` rows of `cols` elements; `rows` = `g` * `m`.

    `m` is the size of the last row rank of the input and `g` the product of those before:
    S[b,h,q,c] over c is [g=(b,h), m=q, cols=c], as in the matmuls before and after it.
    """

    softmax: Vector
    g: int
    m: int
    cols: int
    g_ranks: Ranks
    m_ranks: Ranks

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.g * self.m

    def to_rows(self, array: Array) -> Array:
        """Return the input, in its natural shape, as [rows, cols]."""
        return to_matrix(array, self.softmax.input, self._groups, self.softmax.ranks)

    def from_rows(self, matrix: Array) -> Array:
        """Return the output [rows, cols] in its natural shape."""
        return from_matrix(matrix, self.softmax.output, self._groups, self.softmax.ranks)

    @property
    def _groups(self) -> tuple[Ranks, Ranks]:
        cols = tuple(rank for rank in self.softmax.ranks if rank == self.softmax.axis)
        return (*self.g_ranks, *self.m_ranks), cols


def as_rows(softmax: Vector) -> Rows:
    """Return the softmax as rows."""
    ranks = tuple(rank for rank in softmax.input.ranks if rank != softmax.axis)
    cols = softmax.elements // _product(ranks, softmax.ranks)
    g, m = _product(ranks[:-1], softmax.ranks), _product(ranks[-1:], softmax.ranks)
    return Rows(softmax, g, m, cols, ranks[:-1], ranks[-1:])


def to_matrix(
    array: Array, given: Operand, groups: tuple[Ranks, ...], ranks: Mapping[str, int]
) -> Array:
    """Return an array of the operand's natural shape with one dimension per group of ranks.

    A rank of a group that the operand lacks must have the size 1.
    """
    if array.shape != given.shape(ranks):
        message = f"{given} has the shape {given.shape(ranks)}, the array {array.shape}"
        raise ValueError(message)
    flat = [rank for group in groups for rank in group if rank in given.ranks]
    return array.transpose([given.ranks.index(rank) for rank in flat]).reshape(
        [_product(group, ranks) for group in groups]
    )


def from_matrix(
    matrix: Array, given: Operand, groups: tuple[Ranks, ...], ranks: Mapping[str, int]
) -> Array:
    """Return an array with one dimension per group in the operand's natural shape."""
    shape = tuple(_product(group, ranks) for group in groups)
    if matrix.shape != shape:
        message = f"{given} as a matrix has the shape {shape}, the array {matrix.shape}"
        raise ValueError(message)
    flat = [rank for group in groups for rank in group if rank in given.ranks]
    natural = matrix.reshape([ranks[rank] for rank in flat])
    return np.transpose(natural, [flat.index(rank) for rank in given.ranks])


def _without_ones(given: Operand, ranks: Mapping[str, int]) -> Operand:
    """Return the operand without the ranks of size 1 beside others: they stay at position 0."""
    projection = []
    for dim in given.projection:
        moving = tuple(term for term in dim.terms if ranks[term[0]] > 1)
        projection.append(Affine(moving or ((dim.terms[0][0], 1),)))
    return Operand(given.tensor, tuple(projection))


def _product(group: Ranks, ranks: Mapping[str, int]) -> int:
    return math.prod(ranks[rank] for rank in group)
