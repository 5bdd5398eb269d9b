"""AlexNet: Krizhevsky, Sutskever and Hinton, NeurIPS 2012, section 3.5 and figure 2.

Layers 2, 4 and 5 are split over two GPUs, so they are convolutions of two groups. The paper's
image has 224 x 224 pixels, which doesn't fit its 55 x 55 outputs; an input of 227 rows does.
Ruby (section IV-B) maps another layer 2: one group, 27 x 27 x 48 inputs and 96 filters of 5 x 5.
"""

from simaccel.workload.conv import Conv
from simaccel.workload.layers import Layers, Network, Product
from simaccel.workload.whole import IMAGE, Node, connected, conv, pooling


def layers() -> Layers:
    """Return the five convolutions and three fully connected layers for one image."""
    return {
        "conv1": Conv(m=96, c=3, p=55, q=55, r=11, s=11, stride=(4, 4)),
        "conv2": Conv(g=2, m=128, c=48, p=27, q=27, r=5, s=5),
        "conv3": Conv(m=384, c=256, p=13, q=13, r=3, s=3),
        "conv4": Conv(g=2, m=192, c=192, p=13, q=13, r=3, s=3),
        "conv5": Conv(g=2, m=128, c=192, p=13, q=13, r=3, s=3),
        "fc6": Product(m=1, k=256 * 6 * 6, n=4096),
        "fc7": Product(m=1, k=4096, n=4096),
        "fc8": Product(m=1, k=4096, n=1000),
    }


def whole() -> list[Node]:
    """Return all that runs for one image, poolings too (3 x 3, stride 2); no response norms."""
    found: list[Node] = []
    last, paddings = IMAGE, {"conv2": 2, "conv3": 1, "conv4": 1, "conv5": 1}
    for name, sizes in layers().items():
        if not isinstance(sizes, Conv):
            continue
        found.append(conv(name, last, sizes, paddings.get(name, 0)))
        last = name
        if name in ("conv1", "conv2", "conv5"):
            last = f"pool{name[-1]}"
            found.append(pooling(last, name, found[-1].channels, sizes.p // 2, reach=3, stride=2))
    found.append(connected("fc6", last, 256, 6, 4096))
    found.append(connected("fc7", "fc6", 4096, 1, 4096))
    return [*found, connected("fc8", "fc7", 4096, 1, 1000)]


NETWORK = Network(
    "alexnet",
    (),
    layers,
    "Krizhevsky et al., ImageNet Classification with Deep Convolutional Neural Networks, NeurIPS "
    "2012, section 3.5 and figure 2; conv2, conv4 and conv5 in two groups",
    whole=whole,
)
