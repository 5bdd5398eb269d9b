"""Operators of a workload from shapes: layers and vector operators with tensors of their own.

As in `layers`, operators share no tensor and run in the file's order; but L, softmax and A of an
attention do, so that they can be fused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from simaccel.workload.conv import Conv
from simaccel.workload.einsum import (
    Affine,
    Einsum,
    Kind,
    Operand,
    Operator,
    Tensor,
    Vector,
    operand,
)
from simaccel.workload.layers import Product

Shape = tuple[int, ...]


@dataclass
class Building:
    """A workload in the making; ``width``: bytes per element."""

    width: int
    operators: list[Operator] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def layer(self, name: str, shape: Conv | Product, second: Kind = "weight") -> None:
        """Add a convolution or matrix product."""
        names = (f"{name}.I", f"{name}.W", f"{name}.O")
        self.operators.append(shape.einsum(name, names))
        kinds: tuple[Kind, ...] = ("input", second, "output")
        for one, kind in zip(names, kinds, strict=True):
            self._tensor(one, kind)

    def vector(
        self,
        name: str,
        kind: str,
        shape: Shape,
        others: Sequence[Shape] = (),
        axis: int | None = None,
    ) -> None:
        """Add a vector operator over elements of a shape; ``others`` may be broadcast to it."""
        sizes, others, axis = _fewer(shape, others, axis)
        ranks = {f"i{at}": size for at, size in enumerate(sizes)}
        given = [operand(f"{name}.I {' '.join(ranks)}")]
        for number, other in enumerate(others):
            own = [rank for rank, one in zip(ranks, other, strict=True) if one > 1]
            given.append(operand(f"{name}.{'BCD'[number]} {' '.join(own or list(ranks)[:0])}"))
        made = operand(f"{name}.O {' '.join(ranks)}")
        along = None if axis is None else f"i{axis}"
        self.operators.append(Vector(name, kind, ranks, tuple(given), made, along))
        for one in given:
            self._tensor(one.tensor, "input")
        self._tensor(made.tensor, "output")

    def pooling(self, name: str, kind: str, conv: Conv) -> None:
        """Add a pooling whose windows are those of a convolution with one channel in a group."""
        (sh, sw), (dh, dw) = conv.stride, conv.dilation
        ranks = {"n": conv.n, "g": conv.g, "p": conv.p, "q": conv.q, "r": conv.r, "s": conv.s}
        rows, columns = Affine((("p", sh), ("r", dh))), Affine((("q", sw), ("s", dw)))
        units = tuple(Affine(((rank, 1),)) for rank in "ng")
        given = Operand(f"{name}.I", (*units, rows, columns))
        made = operand(f"{name}.O n g p q")
        self.operators.append(Vector(name, kind, ranks, (given,), made))
        self._tensor(given.tensor, "input")
        self._tensor(made.tensor, "output")

    def reduction(self, name: str, rows: int, window: int) -> None:
        """Add the mean of windows that have nothing in common."""
        ranks = {"i": rows, "w": window}
        given, made = operand(f"{name}.I i w"), operand(f"{name}.O i")
        self.operators.append(Vector(name, "average_pooling", ranks, (given,), made))
        self._tensor(given.tensor, "input")
        self._tensor(made.tensor, "output")

    def attention(self, names: tuple[str, str, str], sizes: tuple[int, int, int, int, int]) -> None:
        """Add L, softmax and A of (heads, rows, head size, keys, size of V)."""
        known = dict(zip("bmkcd", sizes, strict=True))
        logit, softmax, attend = names
        s, p = f"{logit}.S", f"{softmax}.P"
        logits = (operand(f"{logit}.Q b m k"), operand(f"{logit}.K b k c"))
        values = (operand(f"{p} b m c"), operand(f"{attend}.V b c d"))
        out = operand(f"{attend}.O b m d")
        scores, weights = operand(f"{s} b m c"), operand(f"{p} b m c")
        pick = {name: {rank: known[rank] for rank in name} for name in ("bmkc", "bmc", "bmcd")}
        self.operators += [
            Einsum(logit, pick["bmkc"], logits, scores),
            Vector(softmax, "softmax", pick["bmc"], (scores,), weights, "c"),
            Einsum(attend, pick["bmcd"], values, out),
        ]
        for given in (*logits, values[1]):
            self._tensor(given.tensor, "input")
        for between in (s, p):
            self._tensor(between, "intermediate")
        self._tensor(out.tensor, "output")

    def _tensor(self, name: str, kind: Kind) -> None:
        self.tensors[name] = Tensor(name, self.width, kind)


def _fewer(
    shape: Shape, others: Sequence[Shape], axis: int | None
) -> tuple[Shape, list[Shape], int | None]:
    """Join neighbouring dimensions that all operands have, or that the same ones lack."""
    wide = [(1,) * (len(shape) - len(one)) + one for one in others]
    groups: list[list[int]] = []
    kinds: list[object] = []
    for at, size in enumerate(shape):
        if size == 1 and at != axis:
            continue
        kind = (at == axis, *(one[at] > 1 for one in wide))
        if groups and kinds[-1] == kind and at != axis:
            groups[-1].append(at)
        else:
            groups.append([at])
            kinds.append(kind)
    groups = groups or [[0] if shape else []]
    sizes = tuple(math.prod(shape[at] for at in group) for group in groups)
    joined = [tuple(math.prod(one[at] for at in group) for group in groups) for one in wide]
    place = None if axis is None else next(n for n, group in enumerate(groups) if axis in group)
    return sizes, joined, place
