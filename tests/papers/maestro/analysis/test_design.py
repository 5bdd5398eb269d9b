"""The design space: each point is what the analysis and the prices say of it alone."""

from dataclasses import replace

import pytest

from simaccel.papers.maestro.analysis.analysis import analyse
from simaccel.papers.maestro.analysis.design import (
    FIRST_STEP,
    DesignLimits,
    DirectiveSpace,
    NoDesignError,
    sweep,
)
from simaccel.papers.maestro.analysis.hardware import DirectiveHardware
from simaccel.papers.maestro.analysis.prices import PAPER_ERA, PRESENT
from simaccel.papers.maestro.dataflows.reading import DirectedLayer, parse_directives

LARGE = DesignLimits(area_um2=1e12, power_mw=1e9)


@pytest.fixture(scope="module")
def layer() -> DirectedLayer:
    text = """Network n { Layer l { Type: CONV Dimensions { K: 20, C: 13, R: 3, S: 3, Y: 14, X: 14 }
      Dataflow { SpatialMap(1,1) K; TemporalMap(4,4) C; TemporalMap(3,1) Y; TemporalMap(3,1) X;
        Cluster(4, P); SpatialMap(1,1) C; } } }"""
    return parse_directives(text).layers[0]


def test_each_point_is_an_analysis(layer: DirectedLayer) -> None:
    space = DirectiveSpace(pes=(2, 8, 15, 64), bandwidths=(1, 3, 16))
    found = sweep(layer.layer, layer.dataflow, space, PAPER_ERA, LARGE)
    assert found.pes.tolist() == [8, 15, 64]  # 2 PEs are less than a cluster
    for row, pes in enumerate(found.pes.tolist()):
        for column, bandwidth in enumerate(space.bandwidths):
            hardware = DirectiveHardware(pes=pes, noc_bandwidth=(bandwidth,))
            alone = analyse([layer], [hardware], FIRST_STEP)[0].figures()
            design = found.design((row, column, 0, 0))
            assert design.cycles == alone["runtime_cycles"]
            assert design.energy_xmac == alone["energy_total_xmac"]
            assert design.l2_bytes == alone["l2_size_req_total"]
            assert design.l1_bytes == alone["l1_size_req_total"]


def test_the_best_is_the_best_of_the_valid(layer: DirectedLayer) -> None:
    space = DirectiveSpace(pes=range(4, 65, 4), bandwidths=range(1, 9))
    found = sweep(layer.layer, layer.dataflow, space, PAPER_ERA, LARGE)
    limits = DesignLimits(
        area_um2=float(found.area_um2.mean()), power_mw=float(found.power_mw.mean())
    )
    found = sweep(layer.layer, layer.dataflow, space, PAPER_ERA, limits)
    some = [
        found.design((row, column, 0, 0))
        for row in range(len(found.pes))
        for column in range(len(found.bandwidths))
    ]
    valid = [
        one for one in some if one.area_um2 <= limits.area_um2 and one.power_mw <= limits.power_mw
    ]
    assert 0 < len(valid) < len(some)
    assert found.best("throughput").cycles == min(one.cycles for one in valid)
    assert found.best("energy").energy_xmac == min(one.energy_xmac for one in valid)
    products = (one.energy_xmac * one.cycles for one in valid)
    best = found.best("edp")
    assert best.energy_xmac * best.cycles == min(products)


def test_buffers_that_are_too_small_do_not_run(layer: DirectedLayer) -> None:
    exact = sweep(
        layer.layer, layer.dataflow, DirectiveSpace(pes=(8,), bandwidths=(4,)), PRESENT, LARGE
    )
    l1, l2 = int(exact.l1_demand[0]), int(exact.l2_demand[0])
    space = DirectiveSpace(
        pes=(8,), bandwidths=(4,), l1_bytes=(l1 - 1, l1), l2_bytes=(l2 - 1, l2, l2 + 9)
    )
    found = sweep(layer.layer, layer.dataflow, space, PRESENT, LARGE)
    assert found.count == 6
    assert found.is_valid[0, 0].tolist() == [[False, False, False], [False, True, True]]
    assert found.best("throughput").l2_bytes == l2
    wide = sweep(layer.layer, layer.dataflow, replace(space, element_bytes=2), PRESENT, LARGE)
    assert not wide.is_valid.any()


def test_nothing_within_the_limits(layer: DirectedLayer) -> None:
    space = DirectiveSpace(pes=(8,), bandwidths=(4,))
    none = DesignLimits(area_um2=1, power_mw=1)
    with pytest.raises(NoDesignError, match="no design within the limits"):
        sweep(layer.layer, layer.dataflow, space, PRESENT, none).best("energy")
    with pytest.raises(NoDesignError, match="a cluster has 4 PEs, more than any design"):
        sweep(
            layer.layer, layer.dataflow, DirectiveSpace(pes=(3,), bandwidths=(4,)), PRESENT, LARGE
        )


def test_prices_of_both_eras() -> None:
    """By hand, from the formulas of the tool: 56 PEs, 40 elements per cycle, 64 B and 32 KiB."""
    wires = 101.7938 * (14.662 * 56 + 28.895) * 40
    arbiter = 395.473 * (1.2886 * 56**2 + 5.5814 * 56 - 23.711)
    area = PAPER_ERA.area_um2(56, 1, 40, 64, 32 * 1024)
    assert float(area) == pytest.approx(56 * (4470.9014 + 4505.1889) + 4161.536 + wires + arbiter)
    started = PAPER_ERA.area_um2(56, 1, 40, 65, 32 * 1024 + 1)
    assert float(started - area) == pytest.approx(56 * 4505.1889 + 4161.536)
    now = PRESENT.area_um2(56, 2, 40, 64, 1000)
    assert float(now) == pytest.approx(56 * (2 * 283 + 0.104 * 64) + 104 + wires + arbiter)
