"""The convolutions of the networks that Coral measured, from their papers, for one image.

Poolings, sums, concatenations and resizes are no part of them. `Conv.g` is the channels of a
depthwise convolution; a fully connected layer is a convolution of one pixel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from simaccel.workload import Conv
from validation.silicon.networks import conv, resnet

Convs = Iterator[Conv]


def _oblong(side: int, channels: int, filters: int, high: int, wide: int) -> Conv:
    return Conv(m=filters, c=channels, p=side, q=side, r=high, s=wide)


def _depthwise(side: int, channels: int, kernel: int, stride: int) -> Conv:
    out = -(-side // stride)
    return Conv(m=1, c=1, g=channels, p=out, q=out, r=kernel, s=kernel, stride=(stride, stride))


def _chain(side: int, channels: int, *layers: tuple[int, int]) -> Convs:
    """Yield convolutions behind one another, each (filters, kernel)."""
    for filters, kernel in layers:
        yield conv(side, channels, filters, kernel)
        channels = filters


def _mobilenet_v1(side: int = 224) -> Convs:
    """Howard et al., arXiv:1704.04861, table 1, without the last layer."""
    yield conv(side, 3, 32, 3, 2)
    side, channels = -(-side // 2), 32
    filters = (64, 128, 128, 256, 256, *(512,) * 6, 1024, 1024)
    for at, wide in enumerate(filters):
        stride = 2 if at in (1, 3, 5, 11) else 1
        yield _depthwise(side, channels, 3, stride)
        side = -(-side // stride)
        yield conv(side, channels, wide)
        channels = wide


def _inverted(
    side: int, channels: int, times: int, out: int, stride: int, kernel: int = 3
) -> Convs:
    """Yield an inverted bottleneck: expansion, depthwise, projection."""
    if times > 1:
        yield conv(side, channels, times * channels)
    yield _depthwise(side, times * channels, kernel, stride)
    yield conv(-(-side // stride), times * channels, out)


_V2: Final = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def _mobilenet_v2(side: int = 224, *, coarsest: int = 32, last: bool = True) -> Convs:
    """Sandler et al., arXiv:1801.04381, table 2; ``coarsest``: a pixel of its last image."""
    yield conv(side, 3, 32, 3, 2)
    side, channels, reduced = -(-side // 2), 32, 2
    for times, filters, count, stride in _V2:
        for at in range(count):
            step = stride if at == 0 and reduced * stride <= coarsest else 1
            yield from _inverted(side, channels, times, filters, step)
            side, channels, reduced = -(-side // step), filters, reduced * step
    if last:
        yield conv(side, channels, 1280)


def _classes(channels: int, classes: int = 1001) -> Conv:
    return conv(1, channels, classes)


def _ssd(backbone: Convs, maps: tuple[tuple[int, int, int], ...], made: int) -> Convs:
    """Liu et al., arXiv:1512.02325, with heads of 1 x 1 (TensorFlow's model garden), 91 classes."""
    yield from backbone
    side, channels = 7, made
    for squeezed, filters in ((256, 512), (128, 256), (128, 256), (64, 128)):
        yield conv(side, channels, squeezed)
        yield conv(side, squeezed, filters, 3, 2)
        side, channels = -(-side // 2), filters
    for side, channels, anchors in maps:
        yield conv(side, channels, anchors * (4 + 91))


_EXTRA_MAPS: Final = ((4, 512, 6), (2, 256, 6), (1, 256, 6), (1, 128, 6))


def _vgg(counts: tuple[int, ...]) -> Convs:
    """Simonyan and Zisserman, arXiv:1409.1556, table 1."""
    side, channels = 224, 3
    for filters, count in zip((64, 128, 256, 512, 512), counts, strict=True):
        yield from _chain(side, channels, *((filters, 3),) * count)
        side, channels = side // 2, filters
    yield from _chain(1, 7 * 7 * 512, (4096, 1), (4096, 1), (1000, 1))


_GOOGLE: Final = (
    (28, 192, (64, 96, 128, 16, 32, 32)),
    (28, 256, (128, 128, 192, 32, 96, 64)),
    (14, 480, (192, 96, 208, 16, 48, 64)),
    (14, 512, (160, 112, 224, 24, 64, 64)),
    (14, 512, (128, 128, 256, 24, 64, 64)),
    (14, 512, (112, 144, 288, 32, 64, 64)),
    (14, 528, (256, 160, 320, 32, 128, 128)),
    (7, 832, (256, 160, 320, 32, 128, 128)),
    (7, 832, (384, 192, 384, 48, 128, 128)),
)


def _inception_v1() -> Convs:
    """Szegedy et al., arXiv:1409.4842, table 1."""
    yield conv(224, 3, 64, 7, 2)
    yield from _chain(56, 64, (64, 1), (192, 3))
    for side, channels, (one, three_in, three, five_in, five, pooled) in _GOOGLE:
        yield conv(side, channels, one)
        yield from _chain(side, channels, (three_in, 1), (three, 3))
        yield from _chain(side, channels, (five_in, 1), (five, 5))
        yield conv(side, channels, pooled)
    yield _classes(1024)


def _rows(side: int, channels: int, kernel: int, *filters: int) -> Convs:
    """Yield convolutions of 1 x kernel and kernel x 1 in turn."""
    for at, wide in enumerate(filters):
        high = kernel if at % 2 else 1
        yield _oblong(side, channels, wide, high, kernel // high)
        channels = wide


def _inception_v4() -> Convs:
    """Szegedy et al., arXiv:1602.07261, figures 3 to 9."""
    yield conv(299, 3, 32, 3, 2)
    yield from _chain(147, 32, (32, 3), (64, 3))
    yield conv(147, 64, 96, 3, 2)
    yield from (conv(73, 160, 64), conv(71, 64, 96, 3), conv(73, 160, 64))
    yield from _rows(73, 64, 7, 64, 64)
    yield from (conv(71, 64, 96, 3), conv(71, 192, 192, 3, 2))
    for _ in range(4):
        yield from (conv(35, 384, 96), conv(35, 384, 96))
        yield from _chain(35, 384, (64, 1), (96, 3))
        yield from _chain(35, 384, (64, 1), (96, 3), (96, 3))
    yield conv(34, 384, 384, 3, 2)
    yield from _chain(35, 384, (192, 1), (224, 3))
    yield conv(34, 224, 256, 3, 2)
    for _ in range(7):
        yield from (conv(17, 1024, 128), conv(17, 1024, 384), conv(17, 1024, 192))
        yield from _rows(17, 192, 7, 224, 256)
        yield conv(17, 1024, 192)
        yield from _rows(17, 192, 7, 192, 224, 224, 256)
    yield from (conv(17, 1024, 192), conv(16, 192, 192, 3, 2), conv(17, 1024, 256))
    yield from _rows(17, 256, 7, 256, 320)
    yield conv(16, 320, 320, 3, 2)
    for _ in range(3):
        yield from (conv(8, 1536, 256), conv(8, 1536, 256), conv(8, 1536, 384))
        yield from (_oblong(8, 384, 256, 1, 3), _oblong(8, 384, 256, 3, 1), conv(8, 1536, 384))
        yield from _rows(8, 384, 3, 448, 512)
        yield from (_oblong(8, 512, 256, 1, 3), _oblong(8, 512, 256, 3, 1))
    yield _classes(1536)


def _inception_resnet_v2() -> Convs:
    """Szegedy et al., arXiv:1602.07261, as in TensorFlow's slim."""
    yield conv(299, 3, 32, 3, 2)
    yield from _chain(147, 32, (32, 3), (64, 3))
    yield conv(73, 64, 80)
    yield conv(71, 80, 192, 3)
    yield from (conv(35, 192, 96), conv(35, 192, 64))
    yield from _chain(35, 192, (48, 1), (64, 5))
    yield from _chain(35, 192, (64, 1), (96, 3), (96, 3))
    for _ in range(10):
        yield conv(35, 320, 32)
        yield from _chain(35, 320, (32, 1), (32, 3))
        yield from _chain(35, 320, (32, 1), (48, 3), (64, 3))
        yield conv(35, 128, 320)
    yield conv(34, 320, 384, 3, 2)
    yield from _chain(35, 320, (256, 1), (256, 3))
    yield conv(34, 256, 384, 3, 2)
    for _ in range(20):
        yield from (conv(17, 1088, 192), conv(17, 1088, 128))
        yield from _rows(17, 128, 7, 160, 192)
        yield conv(17, 384, 1088)
    for filters in (384, 288):
        yield from (conv(17, 1088, 256), conv(16, 256, filters, 3, 2))
    yield from _chain(17, 1088, (256, 1), (288, 3))
    yield conv(16, 288, 320, 3, 2)
    for _ in range(10):
        yield from (conv(8, 2080, 192), conv(8, 2080, 192))
        yield from _rows(8, 192, 3, 224, 256)
        yield conv(8, 448, 2080)
    yield from (conv(8, 2080, 1536), _classes(1536))


def _densenet() -> Convs:
    """Huang et al., arXiv:1608.06993, table 1, DenseNet-121."""
    yield conv(224, 3, 64, 7, 2)
    side, channels = 56, 64
    for count in (6, 12, 24, 16):
        for _ in range(count):
            yield from _chain(side, channels, (128, 1), (32, 3))
            channels += 32
        if count != 16:
            yield conv(side, channels, channels // 2)
            side, channels = side // 2, channels // 2
    yield _classes(1024)


def _squeezenet() -> Convs:
    """Iandola et al., arXiv:1602.07360, table 1 (version 1.0)."""
    yield conv(224, 3, 96, 7, 2)
    channels = 96
    for side, squeezed in zip(
        (55, 55, 55, 27, 27, 27, 27, 13), (16, 16, 32, 32, 48, 48, 64, 64), strict=True
    ):
        yield conv(side, channels, squeezed)
        yield from (conv(side, squeezed, 4 * squeezed), conv(side, squeezed, 4 * squeezed, 3))
        channels = 8 * squeezed
    yield conv(13, 512, 1000)


_EDGE: Final = (
    (1, 3, 1, 4, 24, True),
    (2, 3, 2, 8, 32, True),
    (4, 3, 2, 8, 48, True),
    (5, 5, 2, 8, 96, False),
    (4, 5, 1, 8, 144, False),
    (2, 5, 2, 8, 192, False),
)
"""Repeats, kernel, stride, expansion, filters, fused (tensorflow/tpu, efficientnet_edgetpu)."""


def _efficientnet(side: int, deeper: float) -> Convs:
    """EfficientNet-EdgeTPU: first blocks fuse expansion and depthwise, strides in projections."""
    yield conv(side, 3, 24, 3, 2)
    side, channels = -(-side // 2), 24
    for repeats, kernel, stride, times, filters, fused in _EDGE:
        for at in range(math.ceil(repeats * deeper)):
            step = 1 if at else stride
            if fused:
                yield conv(side, channels, times * channels, kernel)
                yield conv(side, times * channels, filters, 1, step)
            else:
                yield from _inverted(side, channels, times, filters, step, kernel)
            side, channels = -(-side // step), filters
    yield from (conv(side, channels, 1280), _classes(1280))


def _unet() -> Convs:
    """TensorFlow's segmentation tutorial: transposed convolutions on the maps of a MobileNet v2."""
    yield from _mobilenet_v2(128, last=False)
    channels = 320
    for side, filters, skipped in ((4, 512, 576), (8, 256, 192), (16, 128, 144), (32, 64, 96)):
        yield conv(side, channels, filters, 3)
        channels = filters + skipped
    yield conv(64, channels, 3, 3)


def _deeplab() -> Convs:
    """Chen et al., arXiv:1706.05587, on a MobileNet v2, a pixel of 16 in its last image."""
    yield from _mobilenet_v2(513, coarsest=16, last=False)
    yield from (conv(33, 320, 256), conv(1, 320, 256), conv(33, 512, 256), conv(33, 256, 21))


def _and_classes(backbone: Convs, channels: int) -> Convs:
    yield from backbone
    yield _classes(channels)


NETWORKS: Final[Mapping[str, Callable[[], Convs]]] = {
    "UNet MobileNet v2": _unet,
    "DeepLab v3": _deeplab,
    "DenseNet": _densenet,
    "Inception v1": _inception_v1,
    "Inception v4": _inception_v4,
    "Inception-ResNet v2": _inception_resnet_v2,
    "MobileNet v1": lambda: _and_classes(_mobilenet_v1(), 1024),
    "MobileNet v2": lambda: _and_classes(_mobilenet_v2(), 1280),
    "MobileNet v1 SSD": lambda: _ssd(
        _mobilenet_v1(), ((14, 512, 3), (7, 1024, 6), *_EXTRA_MAPS), 1024
    ),
    "MobileNet v2 SSD": lambda: _ssd(
        _mobilenet_v2(), ((14, 576, 3), (7, 1280, 6), *_EXTRA_MAPS), 1280
    ),
    "ResNet-50 v1": lambda: _and_classes(resnet(50, 299), 2048),
    "ResNet-50 v2": lambda: _and_classes(resnet(50, 299), 2048),
    "ResNet-152 v2": lambda: _and_classes(resnet(152, 299), 2048),
    "SqueezeNet": _squeezenet,
    "VGG16": lambda: _vgg((2, 2, 3, 3, 3)),
    "VGG19": lambda: _vgg((2, 2, 4, 4, 4)),
    "EfficientNet-EdgeTPU-S": lambda: _efficientnet(224, 1.0),
    "EfficientNet-EdgeTPU-M": lambda: _efficientnet(240, 1.1),
}
