"""Linked networks: convolutions, poolings and sums that read each other's outputs.

Layers of a document become nodes, each with its inputs, and nodes become operators. Tensors of
images have the dimensions n, c, h, w (samples, channels, rows, columns). A convolution
with padding reads a border of zeros, which is stored and moved like any other row (see `conv`): the
tensor has the border, and its writer fills the box inside. A grouped convolution is one operator
per group, over its box of the channels. A fully connected layer is a convolution with a filter as
large as its image. Batch norm is folded into the filters, a bias initialises the sums, and a
rectifier is applied as they leave: none of them costs cycles. A reader of more channels than were
written reads zeros for the others; a reader of fewer reads the first ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from simaccel.errors import Fault, require_none, suggest
from simaccel.workload.conv import Conv, pair, units
from simaccel.workload.einsum import AffineDimension, Einsum, Kind, Operand, Operator, Vector
from simaccel.workload.layers import Layers, LayerShape, Product

Window = Literal["pooling", "average_pooling"]
IMAGE = "image"
"""The input tensor of a network."""


@dataclass(frozen=True)
class NetworkNode:
    """A layer of a linked network; ``given``: the nodes whose outputs it reads, or the image.

    ``sizes``: a pooling has those of a depthwise convolution, a sum or rectifier those of its
    output. ``padding``: rows above and columns left of the image; below and right it is as wide as
    the filter needs.
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
            kinds |= dict.fromkeys((f"{name}.W" for name in _names(node)), "weight")
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


def _names(node: NetworkNode) -> list[str]:
    """Return the names of a node's operators: one, of a convolution one per group of several."""
    one = node.sizes
    if node.kind != "conv" or one.g == 1 or one.m == one.c == 1:
        return [node.name]
    return [f"{node.name}.{number}" for number in range(one.g)]


def _operators(node: NetworkNode, tensors: dict[str, _Image]) -> Iterator[Operator]:
    sizes = {**node.sizes.ranks, "n": tensors[node.name].samples}
    if node.kind in ("residual", "relu"):
        images = tuple(
            Operand(_tensor(name), units("ngpq"), _start(node, tensors[name], 0, node.channels))
            for name in node.given
        )
        ranks = {rank: sizes[rank] for rank in "ngpq"}
        yield Vector(node.name, node.kind, ranks, images, _output(node, tensors, "ngpq"))
        return
    dense = node.kind == "conv" and not node.sizes.m == node.sizes.c == 1
    made, read = (node.sizes.m, node.sizes.c) if dense else (node.channels, node.channels)
    ranks = {rank: sizes[rank] for rank in ("nmcpqrs" if dense else "ngpqrs")}
    for number, name in enumerate(_names(node)):
        image = _input(node, tensors, "c" if dense else "g", number * read, read)
        output = _output(node, tensors, "nmpq" if dense else "ngpq", number * made, made)
        if node.kind == "conv":
            weights = Operand(f"{name}.W", units("mcrs" if dense else "grs"))
            yield Einsum(name, ranks, (image, weights), output)
        else:
            yield Vector(name, node.kind, ranks, (image,), output)


def _input(
    node: NetworkNode, tensors: dict[str, _Image], rank: str, channel: int, channels: int
) -> Operand:
    """Return the operand that the windows of ``channels`` channels from ``channel`` on read."""
    (sh, sw), (dh, dw) = node.sizes.stride, node.sizes.dilation
    dims = (
        *units(f"n{rank}"),
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
    return Operand(_tensor(node.name), units(ranks), start)


Linked = Literal["loosely"] | bool
"""Whether layers read outputs of others; ``loosely``: of any number of channels and positions."""
LayerDocument = Mapping[str, Any]
"""A layer of a file: its kind and, by kind, its shape, stride, padding and inputs."""
_ALONE = "nothing without `linked: true`, as each layer has tensors of its own"


def read_shape(layer: LayerDocument) -> LayerShape | None:
    """Return the sizes of a layer with weights; None for poolings, sums and rectifiers."""
    sizes = {rank.lower(): size for rank, size in layer.get("shape", {}).items()}
    if layer["kind"] == "gemm":
        first, second = layer.get("transposed", (False, False))
        return Product(**sizes, transposed=(first, second))
    if layer["kind"] == "conv":
        stride, dilation = pair(layer.get("stride", 1)), pair(layer.get("dilation", 1))
        return Conv(**sizes, stride=stride, dilation=dilation)
    return None


def link_layers(
    network: str, documents: Mapping[str, LayerDocument], layers: Layers, linked: Linked
) -> list[NetworkNode]:
    """Return the nodes of a network in the order of its file; none if it is not linked.

    Raises:
        InputError: every layer that does not fit its inputs, or whose inputs do not exist.
    """
    if not linked:
        faults = [
            fault
            for name, layer in documents.items()
            for fault in _check_alone(network, name, layer)
        ]
        require_none(faults)
        return []
    linker = _Linker(network, is_exact=linked is True)
    for name, document in documents.items():
        linker.add(name, document, layers.get(name))
    require_none(linker.faults)
    return linker.nodes


def _check_alone(network: str, name: str, layer: LayerDocument) -> Iterator[Fault]:
    if layer["kind"] not in ("conv", "gemm"):
        yield Fault(network, f"layers.{name}.kind", layer["kind"], _ALONE)
    for field in ("reads", "padding"):
        if layer.get(field):
            yield Fault(network, f"layers.{name}.{field}", layer[field], _ALONE)


class _Linker:
    """The nodes linked so far; ``_outputs``: the node of a layer's output (None: unknown)."""

    def __init__(self, network: str, *, is_exact: bool) -> None:
        self.nodes: list[NetworkNode] = []
        self.faults: list[Fault] = []
        self._network = network
        self._is_exact = is_exact
        self._outputs: dict[str, NetworkNode | None] = {IMAGE: None}
        self._last = IMAGE
        self._samples: int | None = None

    def add(self, name: str, layer: LayerDocument, shape: LayerShape | None) -> None:
        """Add a layer of the document; it reads the one before unless it names others."""
        reads = layer.get("reads") or [self._last]
        sources = [reads] if isinstance(reads, str) else list(reads)
        count = len(self.faults)
        self._check_sources(name, layer, sources)
        if shape is not None:
            self._check_samples(name, shape)
        nodes: list[NetworkNode] = []
        if len(self.faults) == count:
            nodes = self._make(name, layer, shape, sources)
        self.nodes += nodes
        self._outputs[name] = nodes[-1] if nodes else None
        self._last = name

    def _fault(self, name: str, field: str, value: object, allowed: str) -> None:
        self.faults.append(Fault(self._network, f"layers.{name}.{field}", value, allowed))

    def _check_sources(self, name: str, layer: LayerDocument, sources: Sequence[str]) -> None:
        for source in sources:
            if source not in self._outputs:
                self._fault(
                    name, "reads", source, f"a layer above; {suggest(source, self._outputs)}"
                )
            elif {*sources} == {IMAGE} and layer["kind"] not in ("conv", "gemm"):
                self._fault(name, "reads", source, "a layer above, as the image has no sizes")
        count = 2 if layer["kind"] == "residual" else 1
        if len(sources) != count:
            self._fault(name, "reads", f"{len(sources)} layers", str(count))

    def _check_samples(self, name: str, shape: LayerShape) -> None:
        samples, rank = (shape.n, "N") if isinstance(shape, Conv) else (shape.m, "M")
        self._samples = self._samples or samples
        if samples != self._samples:
            allowed = f"{self._samples}, the samples of the first layer"
            self._fault(name, f"shape.{rank}", samples, allowed)
        if isinstance(shape, Product) and any(shape.transposed):
            self._fault(name, "transposed", list(shape.transposed), "nothing in a linked network")

    def _make(
        self, name: str, layer: LayerDocument, shape: LayerShape | None, sources: Sequence[str]
    ) -> list[NetworkNode]:
        """Return the node of a layer; several for a product of several matrices."""
        images = [self._outputs[source] for source in sources]
        made_by = [
            image.name if image else source for image, source in zip(images, sources, strict=True)
        ]
        padding = layer.get("padding", 0)
        if isinstance(shape, Product):
            return self._matrices(name, made_by[0], images[0], shape)
        if isinstance(shape, Conv):
            node = NetworkNode(name, "conv", (made_by[0],), replace(shape, n=1), padding)
            self._check_channels(name, shape, images[0])
            self._check_windows(node, images[0])
            return [node]
        image = next((made for made in images if made is not None), None)
        if image is None:  # whose fault is known
            return []
        channels = image.channels
        whole = Conv(g=channels, m=1, c=1, p=image.sizes.p, q=image.sizes.q, r=1, s=1)
        if layer["kind"] == "relu":
            return [NetworkNode(name, "relu", (made_by[0],), whole)]
        if layer["kind"] == "residual":
            self._check_sum(name, images)
            return [NetworkNode(name, "residual", (made_by[0], made_by[1]), whole)]
        ranks = {rank.lower(): size for rank, size in layer["shape"].items()}
        sizes = Conv(g=channels, m=1, c=1, **ranks, stride=pair(layer.get("stride", 1)))
        node = NetworkNode(name, cast("Window", layer["kind"]), (made_by[0],), sizes, padding)
        self._check_windows(node, image)
        return [node]

    def _matrices(
        self, name: str, source: str, image: NetworkNode | None, shape: Product
    ) -> list[NetworkNode]:
        """Return a node for each matrix of a product; all read the same input."""
        channels, rows, columns = shape.k, 1, 1
        if image is not None and shape.k == image.channels * image.sizes.p * image.sizes.q:
            channels, rows, columns = image.channels, image.sizes.p, image.sizes.q
        elif image is not None and self._is_exact:
            sizes = f"{image.channels} channels of {image.sizes.p} x {image.sizes.q}"
            self._fault(name, "shape.K", shape.k, f"what {image.name} makes: {sizes}")
        sizes_of = Conv(m=shape.n, c=channels, p=1, q=1, r=rows, s=columns)
        names = [name] if shape.b == 1 else [f"{name}.{number}" for number in range(shape.b)]
        return [conv(matrix, source, sizes_of) for matrix in names]

    def _check_channels(self, name: str, shape: Conv, image: NetworkNode | None) -> None:
        if image is not None and self._is_exact and shape.g * shape.c != image.channels:
            allowed = f"{image.channels} in all groups, which {image.name} makes"
            self._fault(name, "shape.C", shape.c, allowed)

    def _check_windows(self, node: NetworkNode, image: NetworkNode | None) -> None:
        """Refuse windows that leave a whole stride of their image unread, or lie outside of it."""
        if image is None or not self._is_exact:
            return
        sizes = node.sizes
        for at, rank in enumerate("PQ"):
            beyond = node.reach[at] - node.padding - (image.sizes.p, image.sizes.q)[at]
            wide = ((sizes.r, sizes.s)[at] - 1) * sizes.dilation[at]
            if not (-sizes.stride[at] < beyond <= wide and node.padding <= wide):
                count = (sizes.p, sizes.q)[at]
                extent = (image.sizes.p, image.sizes.q)[at]
                allowed = f"windows that cover the {extent} of {image.name}, with their padding"
                self._fault(node.name, f"shape.{rank}", count, allowed)

    def _check_sum(self, name: str, images: Sequence[NetworkNode | None]) -> None:
        sizes = {(one.channels, one.sizes.p, one.sizes.q) for one in images if one is not None}
        if len(sizes) > 1:
            text = ", ".join(" x ".join(map(str, one)) for one in sorted(sizes))
            self._fault(name, "reads", text, "layers of as many channels and positions")
