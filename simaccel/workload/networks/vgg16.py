"""VGG16: Simonyan and Zisserman, arXiv:1409.1556, table 1, configuration D."""

from simaccel.workload.conv import Conv
from simaccel.workload.layers import Layers, Network, Product, Shape
from simaccel.workload.whole import IMAGE, Node, connected, conv, pooling

# output rows and columns, output channels, convolutions; between the stages lies a pooling by 2
_STAGES = ((224, 64, 2), (112, 128, 2), (56, 256, 3), (28, 512, 3), (14, 512, 3))


def layers() -> Layers:
    """Return the 13 convolutions and three fully connected layers for one image."""
    found: dict[str, Shape] = {}
    channels = 3
    for stage, (size, width, count) in enumerate(_STAGES, 1):
        for index in range(1, count + 1):
            conv = Conv(m=width, c=channels, p=size, q=size, r=3, s=3)
            found[f"conv{stage}_{index}"] = conv
            channels = width
    found["fc6"] = Product(m=1, k=512 * 7 * 7, n=4096)
    found["fc7"] = Product(m=1, k=4096, n=4096)
    found["fc8"] = Product(m=1, k=4096, n=1000)
    return found


def whole() -> list[Node]:
    """Return all that runs for one image, poolings too."""
    sizes, found, last = layers(), [], IMAGE
    for stage, (size, width, count) in enumerate(_STAGES, 1):
        for index in range(1, count + 1):
            name = f"conv{stage}_{index}"
            layer = sizes[name]
            assert isinstance(layer, Conv)  # noqa: S101 - narrows the type
            found.append(conv(name, last, layer, 1))
            last = name
        found.append(pooling(f"pool{stage}", last, width, size // 2, reach=2, stride=2))
        last = f"pool{stage}"
    found.append(connected("fc6", last, 512, 7, 4096))
    found.append(connected("fc7", "fc6", 4096, 1, 4096))
    return [*found, connected("fc8", "fc7", 4096, 1, 1000)]


NETWORK = Network(
    "vgg16",
    ("vgg-16",),
    layers,
    "Simonyan and Zisserman, VGG, arXiv:1409.1556, table 1, configuration D; layer names of the "
    "authors' release",
    whole=whole,
)
