"""Linked networks: convolutions, poolings and sums that read each other's outputs.

Tensors of images have the dimensions n, c, h, w (samples, channels, rows, columns). A convolution
with padding reads a border of zeros, which is stored and moved like any other row (see `conv`): the
tensor has the border, and its writer fills the box inside. A grouped convolution is one operator
per group, over its box of the channels. A fully connected layer is a convolution with a filter as
large as its image. Batch norm is folded into the filters, a bias initialises the sums, and a
rectifier is applied as they leave: none of them costs cycles. A reader of more channels than were
written reads zeros for the others; a reader of fewer reads the first ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from simaccel.workload.conv import Conv
from simaccel.workload.einsum import AffineDimension, Einsum, Kind, Operand, Operator, Vector

Window = Literal["pooling", "average_pooling"]
IMAGE = "image"
"""The input tensor of a network."""


@dataclass(frozen=True)
class NetworkNode:
    """A layer of a linked network; ``given``: the nodes whose outputs it reads, or the image.

    ``sizes``: of a pooling those of a depth-wise convolution, of a sum or rectifier those of its
    output. ``padding``: rows and columns before the image; behind it, what the filter reaches.
    """

    name: str
    kind: Literal["conv", "pooling", "average_pooling", "residual", "relu"]
    given: tuple[str, ...]
    sizes: Conv
    padding: int = 0

    @property
    def channels(self) -> int:
        """Output channels of all groups."""
        return self.sizes.g * self.sizes.m

    @property
    def reach(self) -> tuple[int, int]:
        """Rows and columns of the input that the windows reach together, padding included."""
        one = self.sizes
        sizes = zip((one.p, one.q), (one.r, one.s), one.stride, one.dilation, strict=True)
        height, width = ((p - 1) * step + (r - 1) * apart + 1 for p, r, step, apart in sizes)
        return height, width


def conv(name: str, given: str, sizes: Conv, padding: int = 0) -> NetworkNode:
    """Return a convolution."""
    return NetworkNode(name, "conv", (given,), sizes, padding)


def link_nodes(nodes: Sequence[NetworkNode], batch: int) -> tuple[list[Operator], dict[str, Kind]]:
    """Return the operators of a network for a batch of samples, and the kinds of their tensors."""
    tensors = {
        node.name: _Image(batch, node.channels, node.sizes.p, node.sizes.q) for node in nodes
    }
    readers: dict[str, list[NetworkNode]] = {}
    for node in nodes:
        for name in node.given:
            readers.setdefault(name, []).append(node)
    first = readers[IMAGE][0]
    tensors[IMAGE] = _Image(batch, first.sizes.g * first.sizes.c, *first.reach, made=False)
    for name, reading in readers.items():
        tensors[name].read_by(reading)
    operators = [made for node in nodes for made in _operators(node, tensors)]
    kinds: dict[str, Kind] = {_tensor(IMAGE): "input"}
    for node in nodes:
        kinds[_tensor(node.name)] = "intermediate" if node.name in readers else "output"
        if node.kind == "conv":
            kinds |= dict.fromkeys(_weights(node), "weight")
    return operators, kinds


@dataclass
class _Image:
    """The tensor of an image: its written channels, rows and columns, behind a ``border``."""

    samples: int
    channels: int
    rows: int
    columns: int
    border: int = 0
    made: bool = True

    def read_by(self, readers: Iterable[NetworkNode]) -> None:
        """Enlarge it to the padding and the channels of all readers."""
        readers = list(readers)
        self.channels = max(self.channels, *(reader.sizes.g * reader.sizes.c for reader in readers))
        before = max(reader.padding for reader in readers)
        if self.made:
            self.border = before
            self.rows, self.columns = self.rows + before, self.columns + before
        for reader in readers:
            height, width = reader.reach
            apart = before - reader.padding
            self.rows, self.columns = (
                max(self.rows, apart + height),
                max(self.columns, apart + width),
            )
        if not self.made:
            self.border = before

    def box(
        self, start: tuple[int, int], size: tuple[int, int, int]
    ) -> tuple[int, int, int, int] | tuple[()]:
        """Return the start of a box of (channels, rows, columns); empty if it is the whole tensor.

        ``start``: its first channel, and its first row and column.
        """
        if size == (self.channels, self.rows, self.columns):
            return ()
        return (0, start[0], start[1], start[1])


def _tensor(name: str) -> str:
    return name if name == IMAGE else f"{name}.O"


def _weights(node: NetworkNode) -> list[str]:
    return [f"{name}.W" for name in _names(node)]


def _names(node: NetworkNode) -> list[str]:
    """Return the operator names of a convolution: one per group, or one if it is depth-wise."""
    one = node.sizes
    if one.g == 1 or one.m == one.c == 1:
        return [node.name]
    return [f"{node.name}.{number}" for number in range(one.g)]


def _operators(node: NetworkNode, tensors: dict[str, _Image]) -> Iterator[Operator]:
    if node.kind in ("residual", "relu"):
        ranks = {"n": tensors[node.name].samples, **_ranks(node.sizes, "gpq")}
        given = tuple(
            Operand(_tensor(name), _units("ngpq"), _start(node, tensors[name], 0, node.channels))
            for name in node.given
        )
        yield Vector(node.name, node.kind, ranks, given, _output(node, tensors, "ngpq"))
    elif node.kind == "conv" and not node.sizes.m == node.sizes.c == 1:
        yield from _dense(node, tensors)
    else:
        yield _by_channel(node, tensors)


def _by_channel(node: NetworkNode, tensors: dict[str, _Image]) -> Operator:
    """Return the operator of a pooling or of a depth-wise convolution."""
    ranks = {"n": tensors[node.name].samples, **_ranks(node.sizes, "gpqrs")}
    given = _input(node, tensors, "g", 0, node.channels)
    output = _output(node, tensors, "ngpq")
    if node.kind == "conv":
        (weights,) = _weights(node)
        return Einsum(node.name, ranks, (given, Operand(weights, _units("grs"))), output)
    return Vector(node.name, node.kind, ranks, (given,), output)


def _dense(node: NetworkNode, tensors: dict[str, _Image]) -> Iterator[Operator]:
    ranks = {"n": tensors[node.name].samples, **_ranks(node.sizes, "mcpqrs")}
    for number, (name, weights) in enumerate(zip(_names(node), _weights(node), strict=True)):
        given = _input(node, tensors, "c", number * node.sizes.c, node.sizes.c)
        output = _output(node, tensors, "nmpq", number * node.sizes.m, node.sizes.m)
        yield Einsum(name, ranks, (given, Operand(weights, _units("mcrs"))), output)


def _ranks(sizes: Conv, names: str) -> dict[str, int]:
    return {name: sizes.ranks[name] for name in names}


def _units(ranks: str) -> tuple[AffineDimension, ...]:
    return tuple(AffineDimension(((rank, 1),)) for rank in ranks)


def _input(
    node: NetworkNode, tensors: dict[str, _Image], rank: str, channel: int, channels: int
) -> Operand:
    """Return the operand that the windows of ``channels`` channels from ``channel`` on read."""
    (sh, sw), (dh, dw) = node.sizes.stride, node.sizes.dilation
    dims = (
        *_units(f"n{rank}"),
        AffineDimension((("p", sh), ("r", dh))),
        AffineDimension((("q", sw), ("s", dw))),
    )
    start = _start(node, tensors[node.given[0]], channel, channels)
    return Operand(_tensor(node.given[0]), dims, start)


def _start(node: NetworkNode, image: _Image, channel: int, channels: int) -> tuple[int, ...]:
    return image.box((channel, image.border - node.padding), (channels, *node.reach))


def _output(
    node: NetworkNode,
    tensors: dict[str, _Image],
    ranks: str,
    channel: int = 0,
    channels: int | None = None,
) -> Operand:
    image, size = tensors[node.name], (node.sizes.p, node.sizes.q)
    start = image.box((channel, image.border), (channels or node.channels, *size))
    return Operand(_tensor(node.name), _units(ranks), start)
