"""VGG16: Simonyan and Zisserman, arXiv:1409.1556, table 1, configuration D."""

from simaccel.workload.conv import Conv
from simaccel.workload.layers import Layers, Network, Product, Shape

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


NETWORK = Network(
    "vgg16",
    ("vgg-16",),
    layers,
    "Simonyan and Zisserman, VGG, arXiv:1409.1556, table 1, configuration D; layer names of the "
    "authors' release",
)
