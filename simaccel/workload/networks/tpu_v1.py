"""The six programs of TPU v1: Jouppi et al., ISCA 2017, tables 1 and 3.

Layer shapes are not printed. They are inferred here from what is: layers and weights (table 1),
MACs per weight byte and batch, and which part of the array's active MACs was useful (table 3: edges
of tiles, shallow layers). Each program is for the batch of table 1. Other shapes that fit the
counts as well are in `ALTERNATIVES`. As a whole (scope `model`) each layer reads what the one
before makes, whatever its size, and vector and pooling layers stand between (`chained`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from simaccel.workload.conv import Conv
from simaccel.workload.layers import Layers, Network, Product, Shape
from simaccel.workload.whole import IMAGE, Node, connected, conv, pooling, rectified

_SOURCE: Final = "Jouppi et al., TPU, ISCA 2017, tables 1 and 3; shapes inferred: "


def _fully_connected(m: int, *sides: tuple[int, int], b: int = 1) -> dict[str, Shape]:
    """Return layers of ``k`` inputs and ``n`` outputs for ``m`` rows, each ``b`` times."""
    return {f"fc{at}": Product(m=m, k=k, n=n, b=b) for at, (k, n) in enumerate(sides, 1)}


def mlp0() -> Layers:
    """5 layers, 20 M weights, 98% of the active MACs useful: 2048 x 2000, 64 tiles each."""
    return _fully_connected(200, *[(2048, 2000)] * 5)


def mlp0_square() -> Layers:
    """5 x 2000 x 2000: 20 M weights in 64 tiles a layer, 95% useful."""
    return _fully_connected(200, *[(2000, 2000)] * 5)


def mlp0_whole() -> Layers:
    """Whole tiles only: four layers of 2048 x 2048 and one of 2048 x 1536, 19.9 M weights."""
    return _fully_connected(200, *[(2048, 2048)] * 4, (2048, 1536))


def mlp1() -> Layers:
    """4 layers, 4.9 M weights, 89% of the active MACs useful, in 85 tiles."""
    return _fully_connected(168, *[(1200, 1200)] * 3, (1200, 512))


def mlp1_square() -> Layers:
    """4 x 1118 x 1118: 5 M weights in 25 tiles a layer, 76% useful."""
    return _fully_connected(168, *[(1118, 1118)] * 4)


def mlp1_whole() -> Layers:
    """4 x 1250 x 1000: 5 M weights in 20 tiles a layer, 95% useful."""
    return _fully_connected(168, *[(1250, 1000)] * 4)


def lstm0() -> Layers:
    """24 matrices, 52 M weights, all active MACs useful: 33 whole tiles each, 768 x 2816."""
    return _fully_connected(64, *[(768, 2816)] * 24)


def lstm0_gates() -> Layers:
    """24 gates of 1024 + 1024 inputs and 1024 outputs: 50.3 M weights, whole tiles."""
    return _fully_connected(64, *[(2048, 1024)] * 24)


def lstm1() -> Layers:
    """37 layers of two or three matrices of 600 x 600 (a size of section 7): 33.8 M weights."""
    found: dict[str, Shape] = {}
    for at in range(1, 38):
        found[f"fc{at}"] = Product(m=96, k=600, n=600, b=3 if at <= 20 else 2)  # noqa: PLR2004
    return found


def lstm1_gates() -> Layers:
    """The same weights with the matrices of a layer side by side: 600 x 1800 and 600 x 1200."""
    return _fully_connected(96, *[(600, 1800)] * 20, *[(600, 1200)] * 17)


def _convolutions(batch: int, *stages: tuple[int, Conv]) -> dict[str, Shape]:
    found: dict[str, Shape] = {}
    for count, sizes in stages:
        for _ in range(count):
            found[f"conv{len(found) + 1}"] = sizes
    return {
        name: Conv(n=batch, m=one.m, c=one.c, p=one.p, q=one.q, r=one.r, s=one.s)
        for name, one in found.items()
        if isinstance(one, Conv)
    }


def cnn0() -> Layers:
    """16 convolutions on boards of 19 x 19 (2888 = 8 x 361): 8.4 M weights of 256 channels.

    All active MACs are useful, so depths are multiples of 256, and the boards AlphaGo's (Silver et
    al., Nature 2016): fourteen convolutions of 3 x 3 and two of 1 x 1.
    """
    return _convolutions(
        8,
        (14, Conv(m=256, c=256, p=19, q=19, r=3, s=3)),
        (2, Conv(m=256, c=256, p=19, q=19, r=1, s=1)),
    )


def cnn0_planes() -> Layers:
    """As AlphaGo begins, 5 x 5 over 48 planes, then thirteen 3 x 3, two 1 x 1: 8.1 M weights."""
    return _convolutions(
        8,
        (1, Conv(m=256, c=48, p=19, q=19, r=5, s=5)),
        (13, Conv(m=256, c=256, p=19, q=19, r=3, s=3)),
        (2, Conv(m=256, c=256, p=19, q=19, r=1, s=1)),
    )


def cnn1() -> Layers:
    """72 convolutions and 4 other layers: 99.5 M weights, 5.47 G MACs an image (1750 / 32).

    Inception-like (Szegedy et al., CVPR 2016): 35 x 35, 17 x 17 and 8 x 8 positions, depths below
    256 so that half of the active MACs are useful; 80% of the weights in fully connected layers.
    """
    return {
        **_convolutions(
            32,
            (4, Conv(m=96, c=96, p=35, q=35, r=3, s=3)),
            (50, Conv(m=192, c=192, p=17, q=17, r=3, s=3)),
            (18, Conv(m=320, c=512, p=8, q=8, r=1, s=1)),
        ),
        **_fully_connected(32, (8192, 5632), (5632, 4096), (4096, 2048), (2048, 1000)),
    }


def cnn1_larger() -> Layers:
    """The same counts with larger layers behind the convolutions: 9.2 M weights and 92 M."""
    return {
        **_convolutions(
            32,
            (10, Conv(m=192, c=192, p=35, q=35, r=3, s=3)),
            (12, Conv(m=192, c=192, p=17, q=17, r=3, s=3)),
            (50, Conv(m=192, c=192, p=8, q=8, r=1, s=1)),
        ),
        **_fully_connected(32, (9216, 6144), (6144, 4096), (4096, 2048), (2048, 1000)),
    }


ALTERNATIVES: Final[Mapping[str, Mapping[str, Callable[[], Layers]]]] = {
    "tpu_v1_mlp0": {"square": mlp0_square, "whole tiles": mlp0_whole},
    "tpu_v1_mlp1": {"square": mlp1_square, "nearly whole tiles": mlp1_whole},
    "tpu_v1_lstm0": {"gates of 2048 x 1024": lstm0_gates},
    "tpu_v1_lstm1": {"matrices side by side": lstm1_gates},
    "tpu_v1_cnn0": {"48 planes first": cnn0_planes},
    "tpu_v1_cnn1": {"larger last layers": cnn1_larger},
}
"""Other shapes that fit the published counts, by program."""


BATCHES: Final[Mapping[str, int]] = {
    "tpu_v1_mlp0": 200,
    "tpu_v1_mlp1": 168,
    "tpu_v1_lstm0": 64,
    "tpu_v1_lstm1": 96,
    "tpu_v1_cnn0": 8,
    "tpu_v1_cnn1": 32,
}
"""Table 1."""
VECTORS: Final[Mapping[str, int]] = {"tpu_v1_lstm0": 34, "tpu_v1_lstm1": 19}
"""Vector layers (table 1)."""
POOLINGS: Final[Mapping[str, int]] = {"tpu_v1_cnn1": 13}
"""Pooling layers (table 1)."""


def chained(name: str, layers: Layers) -> list[Node]:
    """Return the layers of a program one behind the other, with its vector and pooling layers.

    Inferred: vector layers (element by element, over what the last matrix before makes) stand
    evenly behind the matrices; images become smaller by poolings of 3 x 3 with a stride of 2, or
    one over all positions before what is fully connected; the others (3 x 3, stride 1) stand
    evenly behind the convolutions of the middle size. Matrices of one layer read the same.
    """
    found: list[Node] = []
    given, size, channels = IMAGE, 0, 0
    vectors, done = VECTORS.get(name, 0), 0
    even = _even(layers, POOLINGS.get(name, 0))
    for at, (layer, shape) in enumerate(layers.items()):
        here = shape.p if isinstance(shape, Conv) else 1
        if here < size:
            found.append(_smaller(f"pool_{layer}", given, channels, size, here))
            given = found[-1].name
        found += _layer(layer, given, shape)
        given, size, channels = found[-1].name, here, found[-1].channels
        while done < vectors * (at + 1) // len(layers):
            done += 1
            found.append(rectified(f"vector{done}", given, channels, size))
            given = found[-1].name
        if layer in even:
            found.append(pooling(f"pool{at}", given, channels, size, reach=3, stride=1, padding=1))
            given = found[-1].name
    return found


def _layer(name: str, given: str, shape: Shape) -> list[Node]:
    if isinstance(shape, Conv):
        sizes = Conv(m=shape.m, c=shape.c, p=shape.p, q=shape.q, r=shape.r, s=shape.s)
        return [conv(name, given, sizes, padding=shape.r // 2)]
    names = [name] if shape.b == 1 else [f"{name}.{number}" for number in range(shape.b)]
    return [connected(one, given, shape.k, 1, shape.n) for one in names]


def _smaller(name: str, given: str, channels: int, size: int, to: int) -> Node:
    if to == 1:
        return pooling(name, given, channels, 1, reach=size, stride=1, kind="average_pooling")
    return pooling(name, given, channels, to, reach=3, stride=2)


def _even(layers: Layers, poolings: int) -> set[str]:
    """Return the convolutions behind which a pooling stands that makes nothing smaller."""
    sizes = {name: one.p for name, one in layers.items() if isinstance(one, Conv)}
    order = sorted(set(sizes.values()))
    if not poolings:
        return set()
    middle = [name for name, size in sizes.items() if size == order[len(order) // 2]]
    left = poolings - len(order)
    return {middle[(number + 1) * len(middle) // (left + 1)] for number in range(left)}


def _network(layers: Callable[[], Layers], text: str) -> Network:
    name = f"tpu_v1_{layers.__name__}"
    batch = BATCHES[name]
    return Network(
        name,
        (),
        layers,
        f"{_SOURCE}{text}, batch {batch}",
        kernels=True,
        whole=lambda: chained(name, layers()),
        samples=batch,
    )


NETWORKS: Final = (
    _network(mlp0, "5 x 2048 x 2000"),
    _network(mlp1, "3 x 1200 x 1200 and 1200 x 512"),
    _network(lstm0, "24 x 768 x 2816"),
    _network(lstm1, "94 x 600 x 600 in 37 layers"),
    _network(cnn0, "16 convolutions of 256 channels on 19 x 19"),
    _network(cnn1, "72 Inception-like convolutions and 4 fully connected layers"),
)
"""The programs."""
