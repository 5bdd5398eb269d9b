"""MobileNetV2: Sandler, Howard, Zhu, Zhmoginov and Chen, arXiv:1801.04381, table 2.

A bottleneck expands the channels (1 x 1, left out where the factor is 1), filters each channel
(3 x 3, depth-wise) and projects (1 x 1). The image has 224 x 224 pixels, the width is 1.
"""

from simaccel.workload.conv import Conv
from simaccel.workload.layers import Layers, Network, Product, Shape
from simaccel.workload.whole import IMAGE, Node, connected, conv, pooling, residual

# expansion factor t, output channels c, repetitions n, stride s of the first: columns of table 2
_BOTTLENECKS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def layers() -> Layers:
    """Return the 52 convolutions and the fully connected layer for one image."""
    size, channels = 112, 32
    found: dict[str, Shape] = {
        "Conv1": Conv(m=channels, c=3, p=size, q=size, r=3, s=3, stride=(2, 2))
    }
    blocks = 0
    for factor, width, count, stride in _BOTTLENECKS:
        for index in range(count):
            name = f"block_{blocks}" if blocks else "expanded_conv"
            step = 1 if index else stride
            found |= _bottleneck(name, channels, factor * channels, width, size, step)
            size, channels, blocks = size // step, width, blocks + 1
    found["Conv_1"] = _pointwise(1280, channels, size)
    found["Logits"] = Product(m=1, k=1280, n=1000)
    return found


def _bottleneck(
    name: str, channels: int, inner: int, width: int, size: int, step: int
) -> dict[str, Shape]:
    found: dict[str, Shape] = {}
    if inner != channels:
        found[f"{name}_expand"] = _pointwise(inner, channels, size)
    size //= step
    depthwise = Conv(g=inner, m=1, c=1, p=size, q=size, r=3, s=3, stride=(step, step))
    found[f"{name}_depthwise"] = depthwise
    found[f"{name}_project"] = _pointwise(width, inner, size)
    return found


def _pointwise(m: int, c: int, size: int) -> Conv:
    return Conv(m=m, c=c, p=size, q=size, r=1, s=1)


def whole() -> list[Node]:
    """Return all that runs for one image: the sums around bottlenecks and the pooling, too."""
    sizes = {name: one for name, one in layers().items() if isinstance(one, Conv)}
    found, last = [conv("Conv1", IMAGE, sizes["Conv1"], 1)], "Conv1"
    blocks = [name.removesuffix("_project") for name in sizes if name.endswith("_project")]
    for block in blocks:
        before = last
        for part, padding in (("expand", 0), ("depthwise", 1), ("project", 0)):
            name = f"{block}_{part}"
            if name in sizes:
                found.append(conv(name, last, sizes[name], padding))
                last = name
        given, made = sizes.get(f"{block}_expand"), sizes[f"{block}_project"]
        if given and (given.c, given.p) == (made.m, made.p):
            found.append(residual(f"{block}_add", last, before, made.m, made.p))
            last = f"{block}_add"
    found.append(conv("Conv_1", last, sizes["Conv_1"]))
    size = sizes["Conv_1"].p
    found.append(pooling("pool", "Conv_1", 1280, 1, reach=size, stride=1, kind="average_pooling"))
    return [*found, connected("Logits", "pool", 1280, 1, 1000)]


NETWORK = Network(
    "mobilenet_v2",
    ("mobilenetv2", "mobilenet-v2"),
    layers,
    "Sandler et al., MobileNetV2, arXiv:1801.04381, table 2, width 1 at 224 x 224; layer names of "
    "Keras (the paper names none)",
    whole=whole,
)
