"""Prices of actions: from publications, by hand, and with single figures put in their place."""

import math
from typing import Any

import pytest
from pydantic import ValidationError

from simaccel.experiment.run import simulate
from simaccel.hardware import Accelerator
from simaccel.hardware.energy.tables import NODES, dram_pj_per_byte, mac_pj, sram_pj_per_byte
from simaccel.hardware.load import with_values
from simaccel.importers.accelerators import load_accelerator
from simaccel.workload import gemm


def _with_energy(**energy: object) -> Accelerator:
    raw: dict[str, Any] = load_accelerator("edge").model_dump()
    raw["energy"] = {name: value for name, value in energy.items() if value is not None}
    return Accelerator.model_validate(raw)


def test_macs_are_a_product_and_a_sum_of_32_bits() -> None:
    assert mac_pj("45nm", "int8") == pytest.approx(0.2 + 0.1)
    assert mac_pj("45nm", "fp32") == pytest.approx(3.7 + 0.9)
    assert mac_pj("7nm", "bf16") == pytest.approx(0.21 + 0.38)


def test_what_is_interpolated_lies_between_and_says_so() -> None:
    for number in ("int8", "fp16", "fp32"):
        assert mac_pj("45nm", number) > mac_pj("28nm", number) > mac_pj("7nm", number)
    assert "interpolated" in NODES["28nm"].source
    # 16 KiB at 45 nm: half way from 10 to 20 pJ on a logarithmic scale
    assert sram_pj_per_byte("45nm", 2**14) == pytest.approx(math.sqrt(10 * 20) / 8)


def test_sram_costs_more_the_larger_it_is_up_to_the_largest_published() -> None:
    sizes = [1, 2**13, 3 * 2**12, 2**15, 2**18, 2**20, 2**24, None]
    found = [sram_pj_per_byte("7nm", size) for size in sizes]
    assert found == sorted(found)
    assert found[0] == 7.5 / 8
    assert found[-1] == 14 / 8


def test_a_node_prices_all_but_dram() -> None:
    on = _with_energy(node="45nm", number="int8", dram_pj_per_byte=10).prices
    assert (on.mac_pj, on.sfu_pj_per_element) == pytest.approx((0.3, 4.6))
    # 512 KiB: four fifths of the way from 32 KiB to 1 MiB
    assert on.buffer_pj_per_byte == pytest.approx(20 * 5 ** (4 / 5) / 8)
    assert on.noc_pj_per_byte == pytest.approx(2 * 0.3)
    assert on.dram_pj_per_byte == 10


def test_a_figure_of_the_file_stands_before_the_table() -> None:
    on = _with_energy(node="7nm", mac_pj=5, dram_pj_per_byte=1)
    assert on.prices.mac_pj == 5
    assert with_values(on, {"energy.buffer_pj_per_byte": 2}, "test").prices.buffer_pj_per_byte == 2


@pytest.mark.parametrize(
    ("energy", "complaint"),
    [
        ({"mac_pj": 1}, "energy.buffer_pj_per_byte"),
        ({"node": "7nm"}, "dram.part"),
        ({"node": "45nm", "number": "bf16", "dram_pj_per_byte": 1}, "int8 or fp16 or fp32 at 45nm"),
        ({"node": "5nm", "dram_pj_per_byte": 1}, "45nm"),
    ],
)
def test_what_has_no_figure_is_refused(energy: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValidationError) as refused:
        _with_energy(**energy)
    found = str(refused.value).replace("\n", ".")
    assert complaint in found or complaint in found.replace("energy..", "energy.")


def test_dram_has_a_price_only_where_one_is_published() -> None:
    assert dram_pj_per_byte("HBM2") == pytest.approx(3.92 * 8)
    assert dram_pj_per_byte("LPDDR5-6400x16") is None


def test_levels_and_tensors_add_up_to_what_moved() -> None:
    """Toy, 9 x 7 x 5: leakage of 3 pJ in every cycle, and each byte once."""
    on = with_values(load_accelerator("toy"), {"energy.leakage_pj_per_cycle": 3}, "test")
    result = simulate(gemm(m=9, k=7, n=5), on)
    run = result.run
    levels = on.energy_by_level(run.macs, run.elements, run.moved, run.cycles)
    assert levels["leakage"] == 3 * run.cycles
    assert levels["mac"] == 9 * 7 * 5
    tensors = on.energy_by_tensor(run.moved)
    for place in ("dram", "buffer", "noc"):
        assert sum(by.get(place, 0) for by in tensors.values()) == pytest.approx(levels[place])
    # A and B are read once, C written once, two bytes an element, 100 pJ a byte
    assert tensors["C"]["dram"] == 2 * 9 * 5 * 100
    predicted = result.prediction.groups[0].energy_pj
    assert {n: levels[n] for n in ("mac", "dram", "buffer", "noc")} == pytest.approx(
        {n: predicted[n] for n in ("mac", "dram", "buffer", "noc")}
    )
