"""Networks against figures that others published about them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from simaccel.errors import InputError
from simaccel.workload import NETWORKS, Conv, Network, Product, find_network, network
from tests.refusals import refusal_of

# Sze et al., Efficient Processing of Deep Neural Networks, Proc. IEEE 2017, table II: weights and
# MACs of the convolutions and of the fully connected layers, to three digits; its ResNet-50 is v1.
SZE = {
    "alexnet": (2.3e6, 666e6, 58.6e6, 58.6e6),
    "vgg16": (14.7e6, 15.3e9, 124e6, 124e6),
    "resnet50-v1": (23.5e6, 3.86e9, 2e6, 2e6),
}


def _layers(name: str) -> dict[str, Conv | Product]:
    return dict(find_network(name).layers)


def _macs(shape: Conv | Product) -> int:
    """Count by hand: each output sums over channels and filter, or over k."""
    if isinstance(shape, Product):
        return shape.b * shape.m * shape.n * shape.k
    outputs = shape.n * shape.g * shape.m * shape.p * shape.q
    return outputs * shape.c * shape.r * shape.s


def _outputs(shape: Conv | Product) -> int:
    return shape.n if isinstance(shape, Product) else shape.g * shape.m


@pytest.mark.parametrize("name", SZE)
def test_convolutions_and_dense_layers_have_the_published_weights_and_macs(name: str) -> None:
    layers = _layers(name).values()
    convs = [shape for shape in layers if isinstance(shape, Conv)]
    dense = [shape for shape in layers if isinstance(shape, Product)]
    found = [
        total
        for part in (convs, dense)
        for total in (sum(s.weights for s in part), sum(map(_macs, part)))
    ]
    # Three digits at most: half a unit of the last is up to 2.5% of 2 M, here less.
    assert found == [pytest.approx(published, rel=0.025) for published in SZE[name]]


@pytest.mark.parametrize(
    ("name", "macs", "tolerance"),
    [
        # "MACs 724,406,816", "15,470,264,320": counts in several public layer-by-layer tables
        ("alexnet", 724_406_816, 0),
        ("vgg16", 15_470_264_320, 0),
        # torchvision, documentation of the weights: GFLOPS (multiply-adds) to two decimals
        ("vgg16", 15.47e9, 0.005e9),
        ("resnet50", 4.09e9, 0.005e9),
        ("mobilenet_v2", 0.30e9, 0.005e9),
        # He et al., table 1: 3.8e9 "FLOPs (multiply-adds)", not rounded but cut
        ("resnet50-v1", 3.8e9, 0.1e9),
        # Sandler et al., table 4: 300M multiply-adds
        ("mobilenet_v2", 300e6, 1e6),
    ],
)
def test_a_network_has_the_published_macs(name: str, macs: float, tolerance: float) -> None:
    assert abs(network(name).macs - macs) <= tolerance
    assert network(name).macs == sum(map(_macs, _layers(name).values()))


@pytest.mark.parametrize(
    ("name", "parameters", "per_convolution"),
    [
        # Parameters count biases, which a workload leaves out: one per output channel, or two
        # of a batch normalisation per channel of a convolution and biases of the last layer.
        ("alexnet", 60_965_224, 1),  # the Caffe model's, grouped
        ("vgg16", 138_357_544, 1),  # torchvision
        ("resnet50", 25_557_032, 2),  # torchvision
        ("resnet50-v1", 25_557_032, 2),
        ("mobilenet_v2", 3_504_872, 2),  # torchvision
    ],
)
def test_a_network_has_the_published_parameters(
    name: str, parameters: int, per_convolution: int
) -> None:
    layers = _layers(name).values()
    extra = sum(
        _outputs(shape) * (per_convolution if isinstance(shape, Conv) else 1) for shape in layers
    )
    assert sum(shape.weights for shape in layers) + extra == parameters


@pytest.mark.parametrize("name", ["vgg16", "mobilenet_v2"])
def test_a_layer_reads_the_channels_that_the_layer_before_writes(name: str) -> None:
    channels = 3
    for layer, shape in _layers(name).items():
        if isinstance(shape, Conv):
            assert shape.g * shape.c == channels, layer
            channels = shape.g * shape.m


def test_bottlenecks_of_resnet() -> None:
    late, early = _layers("resnet50"), _layers("resnet50-v1")
    assert list(late) == list(early)
    different = [name for name in late if late[name] != early[name]]
    halving = ("res3a", "res4a", "res5a")
    assert different == [f"{block}_branch2{part}" for block in halving for part in "ab"]
    # Authors' release: res3a_branch2a is 1 x 1, stride 2, 256 to 128 channels
    one, two = early["res3a_branch2a"], late["res3a_branch2a"]
    assert one == Conv(m=128, c=256, p=28, q=28, r=1, s=1, stride=(2, 2))
    assert two == Conv(m=128, c=256, p=56, q=56, r=1, s=1)
    assert late["res5c_branch2c"] == Conv(m=2048, c=512, p=7, q=7, r=1, s=1)
    assert late["fc1000"] == Product(m=1, k=2048, n=1000)


def test_groups_and_depthwise_layers() -> None:
    # Krizhevsky et al., section 3.5: "256 kernels of size 5 x 5 x 48" on two GPUs
    assert _layers("alexnet")["conv2"] == Conv(g=2, m=128, c=48, p=27, q=27, r=5, s=5)
    mobile = _layers("mobilenet_v2")
    depthwise = [s for s in mobile.values() if isinstance(s, Conv) and s.g > 1]
    assert len(depthwise) == 17
    assert all((s.m, s.c, s.r, s.s) == (1, 1, 3, 3) for s in depthwise)
    first = Conv(g=96, m=1, c=1, p=56, q=56, r=3, s=3, stride=(2, 2))
    assert mobile["block_1_depthwise"] == first


def _published() -> Iterator[tuple[str, list[str]]]:
    """Read the list: the set and kind of each kernel, and its fields."""
    heading = ""
    for line in (Path(__file__).parent / "data" / "deepbench.txt").read_text().splitlines():
        if not line.startswith("#"):
            yield heading, line.split()
        elif "gemm" in line or "conv" in line:
            heading = "_".join(line.removeprefix("# ").partition(":")[0].split())


def _output(size: str, padding: str, filter_size: str, stride: str) -> int:
    """Count the places of a filter in a padded row one by one."""
    whole = int(size) + 2 * int(padding)
    return len(range(0, whole - int(filter_size) + 1, int(stride)))


def test_deepbench_has_all_published_kernels_in_order() -> None:
    layers = list(_layers("deepbench").items())
    kernels = list(_published())
    assert len(layers) == len(kernels) == 160 + 75 + 13 + 94 + 107 + 17
    for (name, shape), (heading, fields) in zip(layers, kernels, strict=True):
        assert name.startswith(f"{heading}_{'x'.join(fields[:3])}")
        if isinstance(shape, Product):
            m, columns, depth = map(int, fields[:3])
            transposed = (fields[3] == "T", fields[4] == "T")
            assert shape == Product(m=m, n=columns, k=depth, transposed=transposed)
            assert (name.endswith("_ta"), name.endswith("_tb")) == transposed
        else:
            w, h, c, n, k, s, r, pad_w, pad_h, step_w, step_h = fields
            assert f"_n{n}_k{k}_{s}x{r}_s{step_w}" in name
            assert shape == Conv(
                n=int(n),
                m=int(k),
                c=int(c),
                p=_output(h, pad_h, r, step_h),
                q=_output(w, pad_w, s, step_w),
                r=int(r),
                s=int(s),
                stride=(int(step_h), int(step_w)),
            )


@pytest.mark.parametrize(
    ("layer", "milliseconds", "gigaflops"),
    [  # DeepBench's README, results: time and rate, whose product is two operations per MAC
        ("server_gemm_5124x700x2048", 0.46, 31940),
        ("server_gemm_3072x3000x1024", 0.49, 38360),
        ("device_gemm_5124x700x2048", 212.84, 69.03),
        ("device_gemm_3072x1500x1024", 136.63, 69.07),
        ("server_conv_341x79x32_n4_k32_10x5_s2", 0.29, 9030),
        ("server_conv_224x224x3_n1_k64_7x7_s2", 0.14, 1640),
        ("server_conv_56x56x256_n1_k128_1x1_s2", 0.015, 3430),
        ("server_conv_7x7x512_n2_k2048_1x1_s1", 0.018, 11420),
        ("device_conv_112x112x64_n1_k64_1x1_s1", 670.75, 0.15),
        ("device_conv_56x56x256_n1_k128_1x1_s2", 185.87, 0.28),
    ],
)
def test_kernels_of_deepbench_do_the_published_work(
    layer: str, milliseconds: float, gigaflops: float
) -> None:
    macs = network("deepbench", layer=layer).macs
    # Both figures are rounded to two digits or more: 0.15 stands for 0.145 to 0.155.
    assert macs == pytest.approx(milliseconds * gigaflops * 1e6 / 2, rel=0.04)


def test_padding_and_stride_of_deepbench_follow_the_list() -> None:
    layers = _layers("deepbench")
    # W 151, H 40, padding 8 in both, filter 20 x 5 (W x H), stride 8 x 2
    found = layers["device_conv_151x40x1_n1_k32_20x5_s8x2"]
    assert found == Conv(m=32, c=1, p=26, q=19, r=5, s=20, stride=(2, 8))


@pytest.mark.parametrize("one", NETWORKS.values(), ids=lambda one: one.name)
def test_a_network_is_whole_where_that_is_known(one: Network) -> None:
    known = "model" if one.nodes else "layers"
    assert network(one.name) == network(one.name, scope=known)
    assert network(one.name).parameters["scope"] == known
    assert "scope" not in network(one.name, layer=next(iter(one.layers))).parameters


def test_a_batch_and_names() -> None:
    assert network("ResNet-50", batch=3).macs == 3 * network("resnet50").macs
    assert all(one.source for one in NETWORKS.values())
    names = [name for one in NETWORKS.values() for name in (one.name, *one.aliases)]
    assert len(set(names)) == len(names)


def test_all_faults_are_reported() -> None:
    said = refusal_of(network, "alexnet", batch=0, layer="conv6", bytes_per_element=17)
    assert said.splitlines() == [
        "alexnet: batch: got 0; allowed: a whole number from 1 to 1073741824",
        (
            "alexnet: layer: got 'conv6'; did you mean 'conv5'? "
            "(allowed: conv1, conv2, conv3, conv4, conv5, fc6, fc7, fc8)"
        ),
        "alexnet: bytes_per_element: got 17; allowed: a whole number from 1 to 16",
    ]
    with pytest.raises(
        InputError, match="workload: model: got 'zzz'; allowed: one of alexnet, deepbench, "
    ):
        network("zzz")


# Operators of a whole network by hand. ResNet-50: 53 convolutions, 16 sums, 2 poolings, fc1000.
# AlexNet: 5 convolutions of which 3 in two groups, 3 poolings, 3 fully connected. VGG16: 13, 5, 3.
# MobileNetV2: 52 convolutions, 10 sums (blocks of stride 1 behind the first: 1 + 2 + 3 + 2 + 2), a
# pooling and Logits.
@pytest.mark.parametrize(
    ("name", "operators"),
    [("resnet50", 72), ("resnet50-v1", 72), ("alexnet", 14), ("vgg16", 21), ("mobilenet_v2", 64)],
)
def test_whole_networks_have_the_layers_and_what_is_between(name: str, operators: int) -> None:
    whole, layers = (network(name, scope=one, bytes_per_element=1) for one in ("model", "layers"))
    weights = [one for one in whole.tensors if whole.tensors[one].kind == "weight"]
    assert len(whole.operators) == operators
    assert whole.macs == layers.macs
    assert sum(map(whole.tensor_bytes, weights)) == sum(
        one.weights for one in _layers(name).values()
    )
    made = {one.output.tensor for one in whole.operators}
    assert {name for name in whole.tensors if name not in made} == {"image", *weights}
    assert [one.kind for one in whole.tensors.values()].count("output") == 1


def test_padding_is_a_border_that_nobody_writes() -> None:
    """A 3 x 3 filter with a padding of 1 reads 58 rows of 56; a stride of 2 none of the last."""
    whole = network("resnet50", scope="model", batch=2)
    assert whole.shapes["image"] == (2, 3, 229, 229)
    assert whole.shapes["conv1.O"] == (2, 64, 113, 113)
    assert whole.shapes["res2a_branch2a.O"] == (2, 64, 58, 58)
    assert whole.operator("res2a_branch2a").output.start == (0, 0, 1, 1)
    assert whole.shapes["res3a_branch2a.O"] == (2, 128, 57, 57)
    assert whole.shapes["res2c.O"] == (2, 256, 56, 56)
    assert str(whole.operator("res3a_branch1").inputs[0]) == "res2c.O[n+0,c+0,2*p+r+0,2*q+s+0]"
    grouped = network("alexnet", scope="model").operator("conv2.1")
    assert grouped.inputs[0].start == (0, 48, 0, 0)
    assert grouped.output.start == (0, 128, 0, 0)


def test_what_is_not_whole_is_refused() -> None:
    for asked, text in (
        ({"scope": "block"}, "alexnet: scope: got 'block'; allowed: one of layers, model"),
        ({"scope": "model", "layer": "conv1"}, "alexnet: layer: got 'conv1'; allowed: nothing"),
    ):
        with pytest.raises(InputError, match=text):
            network("alexnet", **asked)  # type: ignore[arg-type]
