"""The default reading against loops over sets; networks against what is published of them."""

from dataclasses import replace
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simaccel.papers.maestro.analysis.analysis import analyse
from simaccel.papers.maestro.analysis.hardware import DirectiveHardware
from simaccel.papers.maestro.analysis.paper import PAPER
from simaccel.papers.maestro.dataflows.reading import parse_directives
from tests.draws import DRAWS
from tests.papers.maestro.analysis.oracle import Loop, Machine, count
from validation.maestro.described import NETWORKS, resnext50, unet
from validation.maestro.networks import DATAFLOWS, cases

_DIMS = "KCPQRS"
_ROWS = {"P": ("Y", "R"), "Q": ("X", "S")}


@st.composite
def machines(draw: st.DrawFn) -> tuple[Machine, dict[str, int]]:
    """Layers with one or two cluster levels, every dimension mapped at each."""
    sizes = {dim: draw(st.integers(1, 5 if dim in "KCPQ" else 3), label=dim) for dim in _DIMS}
    # A stride beyond the filter leaves rows out that nothing reads.
    stride = draw(st.integers(1, min(2, sizes["R"], sizes["S"])), label="stride")
    levels, units = [], []
    inside = dict(sizes)
    for depth in range(draw(st.integers(1, 2))):
        order = draw(st.permutations(_DIMS))
        spatial = draw(st.sampled_from("KCPQRS"))
        loops = []
        for dim in order:
            whole = dim in "RS" and dim != spatial
            size = inside[dim] if whole else draw(st.integers(1, inside[dim]))
            loops.append(Loop(dim, size, dim == spatial))
        levels.append(loops)
        units.append(draw(st.integers(1, 4)))
        inside = {loop.dim: loop.size for loop in loops}
        if depth == 0 and spatial in "RS" and inside[spatial] != sizes[spatial]:
            break  # below, a temporal map of R would not be whole, which the language refuses
    bandwidth, latency = draw(st.integers(1, 8)), draw(st.integers(0, 3))
    return Machine(levels, units, stride, bandwidth, latency), sizes


def _text(machine: Machine, sizes: dict[str, int]) -> str:
    stride = machine.stride
    rows = {y: (sizes[p] - 1) * stride + sizes[r] for p, (y, r) in _ROWS.items()}
    dims = {dim: sizes[dim] for dim in "KCRS"} | rows
    lines = []
    for depth, loops in enumerate(machine.levels):
        if depth:
            lines.append(f"Cluster({machine.units[depth]}, P);")
        for loop in loops:
            kind = "SpatialMap" if loop.spatial else "TemporalMap"
            dim, size, offset = loop.dim, loop.size, loop.size
            if dim in _ROWS:
                dim, reach = _ROWS[dim]
                size, offset = (loop.size - 1) * stride + sizes[reach], loop.size * stride
            lines.append(f"{kind}({size},{offset}) {dim};")
    declared = ", ".join(f"{dim}: {size}" for dim, size in dims.items())
    return (
        f"Network n {{ Layer l {{ Type: CONV Stride {{ X: {stride}, Y: {stride} }}\n"
        f"Dimensions {{ {declared} }}\nDataflow {{ {' '.join(lines)} }} }} }}"
    )


def _hardware(machine: Machine) -> DirectiveHardware:
    pes = machine.units[0] * (machine.units[1] if len(machine.units) > 1 else 1)
    return DirectiveHardware(
        pes=pes, noc_bandwidth=(machine.bandwidth,), noc_latency=(machine.latency,)
    )


@settings(max_examples=40 * DRAWS, deadline=None)
@given(machines(), st.booleans())
def test_it_counts_what_the_steps_do(
    drawn: tuple[Machine, dict[str, int]],
    multicast: bool,  # noqa: FBT001 - drawn
) -> None:
    machine, sizes = drawn
    machine = replace(machine, multicast=multicast)
    directives = parse_directives(_text(machine, sizes))
    reading = PAPER if multicast else replace(PAPER, no_multicast=frozenset({0}))
    (analysed,) = analyse(directives.layers, [_hardware(machine)], reading)
    found, wanted = analysed.figures(), count(machine, sizes)
    outputs = sizes["K"] * sizes["P"] * sizes["Q"]
    assert found["macs_counted"] == found["macs_true"] == wanted.macs
    assert found["input_l2_read"] == wanted.fetched["input"]
    assert found["filter_l2_read"] == wanted.fetched["filter"]
    assert found["output_l2_write"] == wanted.leaving
    assert found["output_l2_read"] == wanted.returning + outputs
    assert found["runtime_cycles"] == wanted.cycles
    if len(machine.levels) == 1:
        assert found["input_l1_write"] == wanted.delivered["input"]
        assert found["filter_l1_write"] == wanted.delivered["filter"]


@pytest.mark.parametrize(("level", "factor"), [(0, 4), (1, 1)])
def test_multicast_is_switched_off_by_level(level: int, factor: int) -> None:
    """Four clusters split K, so each needs all inputs: four times without multicast."""
    text = """Network n { Layer l { Type: CONV
      Dimensions { K: 4, C: 8, R: 1, S: 1, Y: 5, X: 6 }
      Dataflow { SpatialMap(1,1) K; TemporalMap(1,1) Y; TemporalMap(1,1) X;
        Cluster(8, P); SpatialMap(1,1) C; } } }"""
    layers = parse_directives(text).layers
    hardware = [DirectiveHardware(pes=32)]
    with_it = analyse(layers, hardware)[0].figures()
    without = replace(PAPER, no_multicast=frozenset({level}))
    found = analyse(layers, hardware, without)[0].figures()
    assert with_it["input_l2_read"] == 8 * 5 * 6
    assert found["input_l2_read"] == factor * 8 * 5 * 6


def test_without_reduction_each_pe_sends_its_sum() -> None:
    """Eight PEs split C: eight sums of each output go up, and seven are added to another."""
    text = """Network n { Layer l { Type: CONV
      Dimensions { K: 3, C: 8, R: 1, S: 1, Y: 5, X: 6 }
      Dataflow { TemporalMap(1,1) K; TemporalMap(1,1) Y; TemporalMap(1,1) X;
        SpatialMap(1,1) C; } } }"""
    layers = parse_directives(text).layers
    found = analyse(
        layers, [DirectiveHardware(pes=8)], replace(PAPER, no_reduction=frozenset({0}))
    )[0].figures()
    inside = text.replace(
        "SpatialMap(1,1) C;", "SpatialMap(8,8) C; Cluster(8, P); SpatialMap(1,1) C;"
    )
    clustered = analyse(
        parse_directives(inside).layers,
        [DirectiveHardware(pes=8)],
        replace(PAPER, no_reduction=frozenset({1})),
    )[0].figures()
    outputs = 3 * 5 * 6
    assert clustered["output_l2_write"] == 8 * outputs
    assert found["output_l2_write"] == 8 * outputs
    assert found["output_l2_read"] == 7 * outputs + outputs


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
