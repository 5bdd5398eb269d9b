"""Nodes of whole networks as tests write them: square images and windows."""

from simaccel.workload import Conv, Tensor, Workload
from simaccel.workload.linking import NetworkNode, Window, conv, link_nodes


def connected(name: str, given: str, channels: int, size: int, outputs: int) -> NetworkNode:
    """Return a fully connected layer over all of an image of so many rows and columns."""
    return conv(name, given, Conv(m=outputs, c=channels, p=1, q=1, r=size, s=size))


def pooling(
    name: str,
    source: str,
    channels: int,
    size: int,
    *,
    reach: int,
    stride: int,
    padding: int = 0,
    kind: Window = "pooling",
) -> NetworkNode:
    """Return a pooling that makes an image of ``size`` rows and columns."""
    sizes = Conv(g=channels, m=1, c=1, p=size, q=size, r=reach, s=reach, stride=(stride, stride))
    return NetworkNode(name, kind, (source,), sizes, padding)


def residual(name: str, given: str, shortcut: str, channels: int, size: int) -> NetworkNode:
    """Return the sum of two images."""
    return NetworkNode(
        name, "residual", (given, shortcut), Conv(g=channels, m=1, c=1, p=size, q=size, r=1, s=1)
    )


def rectified(name: str, given: str, channels: int, size: int) -> NetworkNode:
    """Return a rectifier that is a layer of its own."""
    return NetworkNode(name, "relu", (given,), Conv(g=channels, m=1, c=1, p=size, q=size, r=1, s=1))


def linked(*nodes: NetworkNode, batch: int = 1) -> Workload:
    """Return a network of a byte an element."""
    operators, kinds = link_nodes(nodes, batch)
    tensors = {name: Tensor(name, 1, kind) for name, kind in kinds.items()}
    return Workload("drawn", tuple(operators), tensors)
