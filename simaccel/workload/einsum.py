"""Operators and their operands: einsums with affine projections, and vector operators.

A rank is a named dimension of an operator with a size; a tensor's dimension is an
affine combination of ranks. Rank names belong to one operator: `n` of the operator
that writes a tensor may be `q` of the one that reads it; only the sizes must agree.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from simaccel.errors import ABSENT, Fault, InputError, require_none, suggest
from simaccel.lazy import np
from simaccel.numbers import BYTE, PACKED_BITS, SHARED
from simaccel.workload.frozen import FrozenDict
from simaccel.workload.names import ASSUMED_BYTES, MAX_BYTES_PER_ELEMENT, MAX_SIZE, size_faults
from simaccel.workload.vectors import VECTORS, VectorKind

if TYPE_CHECKING:
    import numpy.typing as npt

Kind = Literal["input", "weight", "intermediate", "output", "cache"]
"""A ``cache`` stays in DRAM from one run to the next; operators may write parts of it."""

Terms = tuple[tuple[str, int], ...]
"""The (rank, coefficient) terms of a sum of ranks."""
Array: TypeAlias = "npt.NDArray[Any]"
Booleans: TypeAlias = "npt.NDArray[np.bool_]"
_FILE = "workload"


@dataclass(frozen=True)
class AffineDimension:
    """A tensor dimension: the sum of coefficient * rank over its terms (rank, coefficient).

    >>> window = AffineDimension((("p", 2), ("r", 1)))
    >>> str(window), window.size({"p": 4, "r": 3})
    ('2*p+r', 9)
    """

    terms: Terms

    def __post_init__(self) -> None:
        """Refuse an empty sum, a rank that occurs twice, and coefficients below 1."""
        fit = all(type(coefficient) is int and coefficient >= 1 for _, coefficient in self.terms)
        if not (self.terms and fit and len(dict(self.terms)) == len(self.terms)):
            allowed = "at least one term, distinct ranks, whole coefficients from 1"
            raise InputError([Fault(_FILE, "projection", self.terms, allowed)])

    @property
    def is_unit(self) -> bool:
        """Whether it is a single rank with coefficient 1."""
        return len(self.terms) == 1 and self.terms[0][1] == 1

    def outermost(self, ranks: Mapping[str, int]) -> str | None:
        """Return the rank whose pieces are contiguous pieces of the dimension, or None.

        >>> AffineDimension((("s", 1), ("u", 4))).outermost({"u": 8, "s": 4})
        'u'
        >>> AffineDimension((("p", 2), ("r", 1))).outermost({"p": 4, "r": 3}) is None
        True
        """
        digits, inner = sorted((n, ranks[rank], rank) for rank, n in self.terms), 1
        for coefficient, size, _ in digits:
            if coefficient != inner:
                return None
            inner *= size
        return digits[-1][-1]

    def size(self, ranks: Mapping[str, int]) -> int:
        """Return the positions that the sum spans for these rank sizes."""
        return 1 + sum(coefficient * (ranks[rank] - 1) for rank, coefficient in self.terms)

    def __str__(self) -> str:
        return "+".join(rank if factor == 1 else f"{factor}*{rank}" for rank, factor in self.terms)


@dataclass(frozen=True)
class Tensor:
    """A tensor's element size in bytes and its role in the workload; operands give its shape.

    ``packed``: elements of 4 bits, two in a byte. ``assumed``: the element size is a default, which
    an accelerator's precision may replace. ``inside``: per dimension, the first element inside a
    border of zeros and the one after the last. ``distinct``: elements that are no copies of other
    elements, or that leave the chip. ``stored``: elements in memory, if operators read only a part.
    ``table``: name of the table that it has copied rows of; ``stored`` are then all of the table's.
    ``whole``: name of the unsharded tensor. ``shared``: in the buffer that cores share. ``number``:
    the number format, if it is one of `TOLD_APART`.
    """

    name: str
    bytes_per_element: int = 2
    kind: Kind = "input"
    packed: bool = False
    assumed: bool = field(default=False, compare=False, repr=False)
    inside: tuple[tuple[int, int], ...] = field(default=(), compare=False)
    distinct: int | None = field(default=None, compare=False)
    stored: int | None = field(default=None, compare=False)
    table: str = field(default="", compare=False)
    whole: str = field(default="", compare=False)
    shared: bool = False
    number: str = ""

    def __post_init__(self) -> None:
        """Refuse element sizes outside of 1 to 16 bytes; only a default size stays assumed."""
        if self.bytes_per_element != ASSUMED_BYTES or self.packed:
            object.__setattr__(self, "assumed", False)
        sizes = {f"tensors.{self.name}.bytes_per_element": self.bytes_per_element}
        require_none(size_faults(_FILE, sizes, 1 if self.packed else MAX_BYTES_PER_ELEMENT))

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return PACKED_BITS if self.packed else BYTE * self.bytes_per_element

    @property
    def lives(self) -> str:
        """The class that decides in which memory it lives: ``shared``, or its kind."""
        return SHARED if self.shared else self.kind


@dataclass(frozen=True)
class Operand:
    """A tensor as an operator reads or writes it: one affine combination per dimension.

    A ``start`` (a position per dimension) makes it a box of the tensor that begins there.
    """

    tensor: str
    projection: tuple[AffineDimension, ...]
    start: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a start without exactly one position for each dimension."""
        fit = all(type(one) is int and one >= 0 for one in self.start)
        if self.start and not (fit and len(self.start) == len(self.projection)):
            allowed = f"{len(self.projection)} whole numbers from 0, or nothing"
            raise InputError([Fault(_FILE, f"{self.tensor}.start", self.start, allowed)])

    @property
    def ranks(self) -> tuple[str, ...]:
        """Distinct ranks, in the order of the tensor's dimensions."""
        return tuple(dict.fromkeys(rank for dim in self.projection for rank, _ in dim.terms))

    @property
    def is_unit(self) -> bool:
        """Whether each dimension is a single rank with coefficient 1, and all ranks differ."""
        return all(d.is_unit for d in self.projection) and len(self.ranks) == len(self.projection)

    def shape(self, ranks: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape (elements per dimension) of the box for these rank sizes."""
        return tuple(dim.size(ranks) for dim in self.projection)

    def box(self, ranks: Mapping[str, int]) -> tuple[slice, ...]:
        """Return the positions of the tensor that it covers for these rank sizes, as slices."""
        starts = self.start or (0,) * len(self.projection)
        pairs = zip(starts, self.shape(ranks), strict=True)
        return tuple(slice(start, start + size) for start, size in pairs)

    def __str__(self) -> str:
        dims = [str(dim) for dim in self.projection]
        if self.start:
            dims = [f"{dim}+{start}" for dim, start in zip(dims, self.start, strict=True)]
        return f"{self.tensor}[{','.join(dims)}]"


def operand(text: str) -> Operand:
    """Return an operand with one rank per dimension, from the names of tensor and ranks.

    >>> str(operand("Q b h n d"))
    'Q[b,h,n,d]'
    """
    tensor, *ranks = text.split()
    return Operand(tensor, tuple(AffineDimension(((rank, 1),)) for rank in ranks))


@dataclass(frozen=True)
class Einsum:
    """An einsum: the product of its inputs, summed over the ranks that the output lacks."""

    name: str
    ranks: Mapping[str, int]
    inputs: tuple[Operand, ...]
    output: Operand

    def __post_init__(self) -> None:
        """Refuse wrong sizes, unknown ranks, and ranks that no operand uses."""
        object.__setattr__(self, "ranks", FrozenDict(self.ranks))
        faults = _rank_faults(self)
        if not self.inputs:
            faults.append(Fault(_FILE, f"operators.{self.name}.inputs", (), "at least one operand"))
        require_none(faults)

    @property
    def macs(self) -> int:
        """Multiply-accumulates: the product of all rank sizes."""
        return math.prod(self.ranks.values())

    @property
    def elementwise(self) -> bool:
        """Whether it is an elementwise product: each tensor has all ranks of a size above 1.

        No element is reused and nothing is summed, so a systolic array can't fold it.
        """
        large, operands = {r for r, n in self.ranks.items() if n > 1}, (*self.inputs, self.output)
        return len(self.inputs) > 1 and bool(large) and all(large <= {*x.ranks} for x in operands)

    def __str__(self) -> str:
        return f"{self.name}: {self.output} = {' '.join(map(str, self.inputs))}"


@dataclass(frozen=True)
class VisibleSpan:
    """A causal or sliding-window mask, computed from positions, so that none is stored or moved.

    Position p of the rank ``row`` sees the axis up to position p + ``before``; with a ``window``
    only the last ``window`` of these.
    """

    row: str
    before: int = 0
    window: int | None = None

    def mask(self, rows: Array, axis: Array) -> Booleans:
        """Return which axis positions are visible from which rows; the arrays broadcast."""
        last = rows + self.before
        seen = axis <= last
        return np.asarray(seen if self.window is None else seen & (axis > last - self.window))

    def hide(self, values: Array, names: Sequence[str], axis: str, at: Mapping[str, int]) -> Array:
        """Return a block of logits with minus infinity at positions that a row does not see.

        ``names``: ranks of the block's dimensions; ``at``: where the block begins in each.
        """
        where = {}
        for name in (self.row, axis):
            shape = [1] * len(names)
            number = names.index(name)
            shape[number] = values.shape[number]
            where[name] = (at.get(name, 0) + np.arange(values.shape[number])).reshape(shape)
        return np.where(self.mask(where[self.row], where[axis]), values, -np.inf)

    def __str__(self) -> str:
        window = "" if self.window is None else f", window {self.window}"
        return f"{self.row}+{self.before}{window}"


@dataclass(frozen=True)
class Vector:
    """A vector operator of a kind of `VECTORS`: passes over its elements, no MACs.

    `axis`: the rank of softmax, norms and rotary embeddings; a row is one whole axis. `scale`:
    factor of the input, if the kind has one. `visible`: the mask, if the kind takes one.
    """

    name: str
    kind: str
    ranks: Mapping[str, int]
    inputs: tuple[Operand, ...]
    output: Operand
    axis: str | None = None
    scale: float = 1.0
    visible: VisibleSpan | None = None

    def __post_init__(self) -> None:
        """Refuse the faults of an einsum, unknown kinds, and fields that the kind does not have."""
        object.__setattr__(self, "ranks", FrozenDict(self.ranks))
        faults = _rank_faults(self)
        kind = VECTORS.get(self.kind)
        if kind is None:
            allowed = suggest(self.kind, VECTORS)
            faults.append(Fault(_FILE, f"operators.{self.name}.kind", self.kind, allowed))
        else:
            faults += [*_operand_faults(self, kind), *_axis_faults(self, kind)]
            faults += [*_scale_faults(self, kind), *_visible_faults(self, kind)]
        require_none(faults)

    @property
    def input(self) -> Operand:
        """The first input; it has all ranks, unless the kind repeats it."""
        return self.inputs[0]

    @property
    def elements(self) -> int:
        """Elements that a pass goes over: the product of all rank sizes."""
        return math.prod(self.ranks.values())

    @property
    def macs(self) -> int:
        """Multiply-accumulates: 0, as a vector operator does not run on the PE array."""
        return 0

    def __str__(self) -> str:
        how = self.kind if self.axis is None else f"{self.kind} over {self.axis}"
        how += f", scale {self.scale!r}" if VECTORS[self.kind].scaled else ""
        how += "" if self.visible is None else f", visible {self.visible}"
        return f"{self.name}: {self.output} = {' '.join(map(str, self.inputs))} ({how})"


def softmax(
    name: str,
    ranks: Mapping[str, int],
    given: Operand,
    output: Operand,
    axis: str,
    scale: float = 1.0,
    visible: VisibleSpan | None = None,
) -> Vector:
    """Return the softmax of `scale` times an operand along the rank `axis`."""
    return Vector(name, "softmax", ranks, (given,), output, axis, scale, visible)


Operator = Einsum | Vector


def operands_of(operator: Operator) -> Iterator[tuple[str, Operand]]:
    """Yield each operand with its label: `inputs.0`, `inputs.1`, ..., `output`."""
    for index, given in enumerate(operator.inputs):
        yield f"inputs.{index}", given
    yield "output", operator.output


def _rank_faults(operator: Operator) -> list[Fault]:
    path, ranks = f"operators.{operator.name}", operator.ranks
    faults = size_faults(_FILE, {f"{path}.ranks.{rank}": size for rank, size in ranks.items()})
    used: set[str] = set()
    for label, operand in operands_of(operator):
        used.update(operand.ranks)
        faults += [
            Fault(_FILE, f"{path}.{label}.projection", rank, suggest(rank, ranks))
            for rank in operand.ranks
            if rank not in ranks
        ]
    faults += [
        Fault(_FILE, f"{path}.ranks.{rank}", size, "only ranks that an operand uses")
        for rank, size in ranks.items()
        if rank not in used
    ]
    return faults


def _operand_faults(vector: Vector, kind: VectorKind) -> Iterator[Fault]:
    path, count = f"operators.{vector.name}", len(vector.inputs)
    least, most = kind.inputs, kind.inputs + kind.optional
    if not least <= count <= most:
        several = f"{most} inputs" if least == most else f"{least} to {most} inputs"
        allowed = "one input" if most == 1 else several
        yield Fault(_FILE, f"{path}.inputs", f"{count} inputs", allowed)
    known = ", ".join(vector.ranks)
    for label, operand in operands_of(vector):
        first, all_ranks = label == "inputs.0", set(operand.ranks) == set(vector.ranks)
        first = first and not kind.repeats
        if first and kind.windows:
            fits, allowed = all_ranks, f"all ranks: {known}"
        elif first or (label == "output" and not kind.windows):
            fits, allowed = operand.is_unit and all_ranks, f"each rank once: {known}"
        else:
            fits, allowed = operand.is_unit, f"some of the ranks, each once: {known}"
        if not fits:
            yield Fault(_FILE, f"{path}.{label}", str(operand), allowed)


def _axis_faults(vector: Vector, kind: VectorKind) -> Iterator[Fault]:
    path, axis, ranks = f"operators.{vector.name}", vector.axis, vector.ranks
    if not kind.needs_axis:
        if axis is not None:
            yield Fault(_FILE, f"{path}.axis", axis, f"nothing, as {kind.name} has none")
    elif axis is None:
        yield Fault(_FILE, f"{path}.axis", ABSENT, suggest("", ranks))
    elif axis not in ranks:
        yield Fault(_FILE, f"{path}.axis", axis, suggest(axis, ranks))
    elif isinstance(ranks[axis], int) and ranks[axis] % kind.axis_multiple:
        allowed = f"a multiple of {kind.axis_multiple}, as {kind.name} goes along it"
        yield Fault(_FILE, f"{path}.ranks.{axis}", ranks[axis], allowed)


def _scale_faults(vector: Vector, kind: VectorKind) -> Iterator[Fault]:
    where = f"operators.{vector.name}.scale"
    if not (math.isfinite(vector.scale) and vector.scale > 0):
        yield Fault(_FILE, where, vector.scale, "a finite number above 0")
    elif vector.scale != 1.0 and not kind.scaled:
        yield Fault(_FILE, where, vector.scale, f"nothing, as {kind.name} has none")


def _visible_faults(vector: Vector, kind: VectorKind) -> Iterator[Fault]:
    path, visible = f"operators.{vector.name}.visible", vector.visible
    if visible is None:
        return
    if not kind.masked:
        yield Fault(_FILE, path, str(visible), f"nothing, as {kind.name} has none")
        return
    rows = [rank for rank in vector.ranks if rank != vector.axis]
    if visible.row not in rows:
        yield Fault(_FILE, f"{path}.row", visible.row, suggest(visible.row, rows))
    if type(visible.before) is not int or not 0 <= visible.before <= MAX_SIZE:
        yield Fault(_FILE, f"{path}.before", visible.before, f"a whole number from 0 to {MAX_SIZE}")
    if visible.window is not None:
        yield from size_faults(_FILE, {f"{path}.window": visible.window})
