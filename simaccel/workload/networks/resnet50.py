"""ResNet-50: He, Zhang, Ren and Sun, arXiv:1512.03385, table 1.

Table 1 says that the first block of a stage halves the image, but not which convolution. In the
authors' release it is the first, 1 x 1 (`resnet50-v1`); most frameworks and benchmarks since halve
in the 3 x 3 (`resnet50`, known as v1.5), which has the same weights and 6% more MACs.
"""

from simaccel.workload.conv import Conv
from simaccel.workload.layers import Layers, Network, Product, Shape
from simaccel.workload.whole import IMAGE, Node, connected, conv, pooling, residual

# stage, blocks, channels inside a block, output rows and columns
_STAGES = ((2, 3, 64, 56), (3, 4, 128, 28), (4, 6, 256, 14), (5, 3, 512, 7))
_EXPANSION = 4


def layers(*, early: bool = False) -> Layers:
    """Return the 53 convolutions and the fully connected layer for one image.

    `early`: the 1 x 1 convolution before the 3 x 3 halves the image.
    """
    found: dict[str, Shape] = {
        "conv1": Conv(m=64, c=3, p=112, q=112, r=7, s=7, stride=(2, 2)),
    }
    channels = 64
    for stage, blocks, inner, size in _STAGES:
        for block in "abcdef"[:blocks]:
            step = 2 if block == "a" and stage > _STAGES[0][0] else 1
            found |= _block(f"res{stage}{block}", channels, inner, size, step, early=early)
            channels = inner * _EXPANSION
    found["fc1000"] = Product(m=1, k=channels, n=1000)
    return found


def _block(
    name: str, channels: int, inner: int, size: int, step: int, *, early: bool
) -> dict[str, Shape]:
    """Return a bottleneck; where the channels change, with the projection of the shortcut."""
    outer = inner * _EXPANSION
    before, first, second = (size, step, 1) if early else (size * step, 1, step)
    found: dict[str, Shape] = {}
    if channels != outer:
        found[f"{name}_branch1"] = _conv(outer, channels, size, 1, step)
    found[f"{name}_branch2a"] = _conv(inner, channels, before, 1, first)
    found[f"{name}_branch2b"] = _conv(inner, inner, size, 3, second)
    found[f"{name}_branch2c"] = _conv(outer, inner, size, 1, 1)
    return found


def _conv(m: int, c: int, size: int, filter_size: int, step: int) -> Conv:
    return Conv(m=m, c=c, p=size, q=size, r=filter_size, s=filter_size, stride=(step, step))


def whole(*, early: bool = False) -> list[Node]:
    """Return all that runs for one image: poolings and the sums of the shortcuts, too."""
    sizes = layers(early=early)
    found = [
        conv("conv1", IMAGE, _sizes(sizes, "conv1"), 3),
        pooling("pool1", "conv1", 64, 56, reach=3, stride=2, padding=1),
    ]
    last, size = "pool1", 56
    for stage, blocks, inner, size in _STAGES:
        for block in "abcdef"[:blocks]:
            name, shortcut = f"res{stage}{block}", last
            if f"{name}_branch1" in sizes:
                shortcut = f"{name}_branch1"
                found.append(conv(shortcut, last, _sizes(sizes, shortcut)))
            for branch, padding in (("2a", 0), ("2b", 1), ("2c", 0)):
                layer = f"{name}_branch{branch}"
                found.append(conv(layer, last, _sizes(sizes, layer), padding))
                last = layer
            found.append(residual(name, last, shortcut, inner * _EXPANSION, size))
            last = name
    channels = inner * _EXPANSION
    found.append(pooling("pool5", last, channels, 1, reach=size, stride=1, kind="average_pooling"))
    return [*found, connected("fc1000", "pool5", channels, 1, 1000)]


def _sizes(sizes: Layers, name: str) -> Conv:
    found = sizes[name]
    assert isinstance(found, Conv)  # noqa: S101 - narrows the type
    return found


NETWORK = Network(
    "resnet50",
    ("resnet-50", "resnet50-v1.5"),
    layers,
    "He et al., Deep Residual Learning, arXiv:1512.03385, table 1; stride in the 3 x 3 convolution "
    "(v1.5, as in torchvision and MLPerf); layer names of the authors' release "
    "(github.com/KaimingHe/deep-residual-networks)",
    whole=whole,
)
NETWORK_V1 = Network(
    "resnet50-v1",
    ("resnet-50-v1",),
    lambda: layers(early=True),
    "He et al., Deep Residual Learning, arXiv:1512.03385, table 1; stride in the first 1 x 1 "
    "convolution, as in the authors' release (github.com/KaimingHe/deep-residual-networks)",
    whole=lambda: whole(early=True),
)
