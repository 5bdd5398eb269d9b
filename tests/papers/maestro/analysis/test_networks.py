"""ResNeXt50 and UNet as validation/maestro describes them, against what is published of them."""

from __future__ import annotations

from math import prod

from validation.maestro.described import NETWORKS, resnext50, unet
from validation.maestro.networks import DATAFLOWS, cases


def _macs(network: str) -> int:
    return sum(
        case.count * case.directed.layer.macs
        for case in cases(network)
        if case.dataflow == DATAFLOWS[0]
    )


def test_resnext50_has_its_published_parameters_and_macs() -> None:
    """25,028,904 parameters and 4.23 G MACs (torchvision's page of resnext50_32x4d)."""
    layers = list(resnext50())
    weights = sum(one.groups * one.k * one.c * one.filter**2 for one in layers)
    normed = sum(2 * one.groups * one.k for one in layers if one.name != "FC1000")
    biases = 1000
    assert weights + normed + biases == 25_028_904
    assert round(_macs("ResNeXt50") / 1e9, 2) == 4.23


def test_unet_has_the_rows_of_its_figure_1() -> None:
    """Input rows of Fig. 1 along the U; outputs of 388 x 388 with two classes."""
    down = [572, 570, 284, 282, 140, 138, 68, 66, 32, 30]
    up = [28, 56, 54, 52, 104, 102, 100, 200, 198, 196, 392, 390, 388]
    layers = list(unet())
    assert [one.rows for one in layers] == down + up
    assert [one.c for one in layers if one.kind == "TRCONV"] == [1024, 512, 256, 128]
    assert layers[-1].k == 2


def test_macs_are_those_of_the_layers_whatever_the_dataflow() -> None:
    for network, layers in NETWORKS.items():
        by_hand = sum(
            prod((one.groups, one.k, one.c, one.filter**2, outputs**2))
            for one in layers()
            for outputs in [(one.rows - one.filter) // one.stride + 1]
        )
        every = sum(case.count * case.directed.layer.macs for case in cases(network))
        assert every == len(DATAFLOWS) * by_hand


def test_no_two_layers_of_a_network_have_one_name() -> None:
    """The public model of MobileNetV2 has two that differ under the name Bottleneck5_2_3."""
    names = [case.directed.name for case in cases("MobileNetV2") if case.dataflow == "KC-P"]
    assert len({*names}) == len(names) == 37
    assert "Bottleneck5_2_3_2" in names
