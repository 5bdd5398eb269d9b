"""Areas, against sums made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from simaccel.errors import InputError
from simaccel.experiment.recording import accelerator_document
from simaccel.hardware import BufferSpec
from simaccel.hardware.area import AreaSpec, NoAreaError, area_um2, pe_um2
from simaccel.hardware.load import accelerator_rows, load_accelerator
from simaccel.hardware.spatial import SpatialArraySpec

AREA = AreaSpec(mac_um2=100, pe_memory_um2_per_byte=2, buffer_um2_per_byte=0.5)


def _array(**given: object) -> SpatialArraySpec:
    memory = {"read_pj_per_byte": 0, "write_pj_per_byte": 0}
    memories = {
        "input": memory | {"capacity_bytes": "24 B"},
        "weight": memory | {"capacity_bytes": "400 B"},
        "output": memory | {"capacity_bytes": "32 B"},
    }
    return SpatialArraySpec.model_validate(
        {"kind": "spatial", "rows": 3, "cols": 2, "memories": memories} | given
    )


def _buffer(capacity: str) -> BufferSpec:
    return BufferSpec.model_validate(
        {
            "capacity_bytes": capacity,
            "read_bytes_per_second": "unlimited",
            "write_bytes_per_second": "unlimited",
        }
    )


def test_a_pe_is_its_macs_and_memories() -> None:
    assert pe_um2(AREA, _array()) == 100 + 2 * (24 + 400 + 32)
    assert pe_um2(AREA, _array(vectors=2, lanes=3)) == 6 * 100 + 2 * (24 + 400 + 32)


def test_an_accelerator_is_its_pes_and_its_buffer() -> None:
    pe = 100 + 2 * 456
    assert area_um2(AREA, _array(), _buffer("1 KiB"), 6) == 512 + 6 * pe
    found = area_um2(AREA, _array(), _buffer("1 KiB"), np.array([0, 1, 168]))
    assert np.asarray(found).tolist() == [512, 512 + pe, 512 + 168 * pe]


def test_a_buffer_that_nobody_uses_has_no_area() -> None:
    array = _array(bypass_buffer=["input", "weight", "output"])
    assert area_um2(AREA, array, _buffer("unlimited"), 1) == 100 + 2 * 456


def test_a_memory_without_a_limit_has_no_area() -> None:
    with pytest.raises(NoAreaError, match=r"buffer.capacity_bytes: got unlimited; allowed: a cap"):
        area_um2(AREA, _array(), _buffer("unlimited"), 1)
    memory = {"capacity_bytes": "unlimited", "read_pj_per_byte": 0, "write_pj_per_byte": 0}
    with pytest.raises(NoAreaError, match=r"array.memories.input/output/weight.capacity_bytes"):
        pe_um2(AREA, _array(memories={"shared": memory}))


def test_eyeriss_is_as_large_as_in_accelergy_s_output() -> None:
    """Its 192 words of weights, as printed there; ours has 224, which is 32 x 2 x 10.07 more."""
    found = load_accelerator("eyeriss_like", ["array.memories.weight.capacity_bytes=384 B"])
    assert found.area is not None
    assert isinstance(found.array, SpatialArraySpec)
    assert pe_um2(found.area, found.array) == pytest.approx(
        1239.5 + 379.68 + 3634.68 + 414.68, rel=1e-3
    )
    assert area_um2(found.area, found.array, found.buffer, 0) == pytest.approx(1162549, rel=1e-3)


def test_an_area_is_a_section_that_may_be_absent() -> None:
    with_one, without = load_accelerator("eyeriss_like"), load_accelerator("simba_like")
    assert accelerator_document(with_one)["area"]["mac_um2"] == 1239.5
    assert "area" not in accelerator_document(without)
    assert dict(accelerator_rows(with_one))["area.buffer_um2_per_byte"] == "8.87 um2/B"
    assert not any(name.startswith("area") for name, _ in accelerator_rows(without))


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("area.mac_um2=-1", "area.mac_um2: got -1; allowed: a number of um2 >= 0"),
        ("area.mac_mm2=1", "area.mac_mm2: got '1'; allowed: did you mean"),
    ],
)
def test_a_wrong_area_is_told(override: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        load_accelerator("eyeriss_like", [override])
    assert said in str(caught.value)
