"""Areas and prices of actions, against sums by hand and publications."""

import math
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from simaccel.hardware import Accelerator
from simaccel.hardware.area.parts import area_of, power_mw
from simaccel.hardware.energy.tables import NODES, dram_pj_per_byte, mac_pj, sram_pj_per_byte
from simaccel.hardware.load import with_values
from simaccel.hardware.presets import list_accelerators
from simaccel.importers.accelerators import load_accelerator
from simaccel.report.accelerators import accelerator_rows
from simaccel.study.documents import accelerator_document
from simaccel.study.experiment import simulate
from simaccel.workload import gemm
from tests.refusals import refusal_of

SMALL = (
    *("area.mac_um2=100", "area.pe_memory_um2_per_byte=2", "area.buffer_um2_per_byte=0.5"),
    *("area.sfu_um2_per_lane=3", "sfu.lanes=7", "array.rows=3", "array.cols=2"),
    *("array.memories.input.capacity_bytes=24 B", "array.memories.output.capacity_bytes=32 B"),
    *("array.memories.weight.capacity_bytes=400 B", "buffer.capacity_bytes=1 KiB"),
)


def _by_part(*more: str) -> Mapping[str, float]:
    return area_of(load_accelerator("eyeriss_like", [*SMALL, *more])).by_part


def test_a_pe_is_its_macs_and_memories() -> None:
    expected = {"mac": 6 * 100, "sfu": 7 * 3, "pe": 6 * 2 * (24 + 400 + 32), "buffer": 512}
    assert _by_part() == expected
    lanes = _by_part("array.vectors=2", "array.lanes=3")
    assert lanes == expected | {"mac": 6 * 6 * 100}


def test_a_buffer_that_nobody_uses_and_memories_without_a_limit_have_no_area() -> None:
    assert "buffer" not in _by_part("array.bypass_buffer=[input, weight, output]")
    options = ["buffer.capacity_bytes=unlimited", "array.memories.input.capacity_bytes=unlimited"]
    found = area_of(load_accelerator("eyeriss_like", options))
    assert (found.unlimited, found.mm2) == (("array.memories.input", "buffer"), None)


def test_eyeriss_is_as_large_as_in_accelergy_s_output() -> None:
    """Its 192 words of weights, as printed there; ours has 224, which is 32 x 2 x 10.07 more."""
    found = load_accelerator("eyeriss_like", ["array.memories.weight.capacity_bytes=384 B"])
    um2 = area_of(found).by_part
    pe = (um2["mac"] + um2["pe"]) / 168
    assert pe == pytest.approx(1239.5 + 379.68 + 3634.68 + 414.68, rel=1e-3)
    assert um2["buffer"] == pytest.approx(1162549, rel=1e-3)


def test_an_area_is_a_section_that_may_be_absent() -> None:
    with_one, without = load_accelerator("eyeriss_like"), load_accelerator("toy")
    assert accelerator_document(with_one)["area"]["mac_um2"] == 1239.5
    assert "number" not in accelerator_document(with_one)["area"]
    assert "area" not in accelerator_document(without)
    assert dict(accelerator_rows(with_one))["area.buffer_um2_per_byte"] == "8.87 um2/B"


@pytest.mark.parametrize("name", list_accelerators())
def test_every_accelerator_has_an_area_or_says_why_not(name: str) -> None:
    accelerator = load_accelerator(name)
    found, rows = area_of(accelerator), dict(accelerator_rows(accelerator))
    assert found.by_part["mac"] > 0
    if found.unlimited:
        assert found.mm2 is None
        assert rows["derived.area"] == f"unknown: {' and '.join(found.unlimited)} unlimited"
    else:
        assert found.mm2 is not None
        assert rows["derived.area"] == f"{found.mm2:.4g} mm2"


def test_a_systolic_array_by_hand() -> None:
    """1,024 fp16 MACs, 512 KiB, 512 lanes of fp32; and its node from the energies."""
    edge = load_accelerator("edge")
    expected = {
        "mac": 1024 * (1640 + 4184),
        "buffer": 512 * 1024 * 8.87,
        "sfu": 512 * (7700 + 4184),
    }
    assert area_of(edge).by_part == pytest.approx(expected)
    assert area_of(edge).mm2 == pytest.approx(sum(expected.values()) * 1e-6)
    small = load_accelerator("edge", ["energy.node=7nm"])
    ratio = 0.027 / 0.242
    assert area_of(small).mm2 == pytest.approx(ratio * sum(expected.values()) * 1e-6)
    own = load_accelerator("edge", ["energy.node=7nm", "area.node=45nm", "area.mac_um2=1"])
    assert area_of(own).by_part == pytest.approx(expected | {"mac": 1024})


def test_accumulators_are_memory_and_power_is_energy_over_time() -> None:
    """1 mJ in 2 ms is 500 mW."""
    options = ["array.accumulator.capacity_bytes=4 KiB"]
    assert area_of(load_accelerator("toy", options)).by_part["accumulator"] == 4096 * 8.87
    assert power_mw({"mac": 1e9}, 0.002) == {"mac": pytest.approx(500)}


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("area.mac_um2=-1", "area.mac_um2: got -1; allowed: a number of um2 >= 0"),
        ("area.mac_mm2=1", "area.mac_mm2: got '1'; did you mean"),
    ],
)
def test_a_wrong_area_is_told(override: str, said: str) -> None:
    assert said in refusal_of(load_accelerator, "eyeriss_like", [override])


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
    found = refusal_of(_with_energy, error=ValidationError, **energy).replace("\n", ".")
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
