import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from simaccel.hardware import DramSpec
from simaccel.hardware.dram.tile import TileRows
from simaccel.importers.accelerators import load_accelerator
from simaccel.study.documents import accelerator_document


def _dram(channels: int, interleave_bytes: int) -> DramSpec:
    return DramSpec.model_validate(
        {
            "bandwidth_bytes_per_second": "unlimited",
            "channels": channels,
            "interleave_bytes": interleave_bytes,
        }
    )


@given(st.integers(0, 2000), st.integers(1, 9), st.integers(1, 300))
def test_channel_bytes_deals_out_byte_by_byte(amount: int, channels: int, interleave: int) -> None:
    dealt = [0] * channels
    for byte in range(amount):
        dealt[byte // interleave % channels] += 1
    dram = _dram(channels, interleave)
    assert [dram.channel_bytes(amount, c) for c in range(channels)] == dealt


@given(st.integers(0, 2**50), st.integers(1, 64), st.integers(1, 2**20))
def test_channel_bytes_sum_to_the_request(amount: int, channels: int, interleave: int) -> None:
    dram = _dram(channels, interleave)
    parts = [dram.channel_bytes(amount, c) for c in range(channels)]
    assert sum(parts) == amount
    assert parts == sorted(parts, reverse=True)
    assert parts[0] - parts[-1] <= interleave


@given(st.lists(st.integers(0, 2**43), max_size=5), st.integers(1, 9), st.integers(1, 2**20))
def test_arrays_give_what_integers_give(amounts: list[int], channels: int, interleave: int) -> None:
    dram = _dram(channels, interleave)
    for c in range(channels):
        many = dram.channel_bytes(np.array(amounts, dtype=np.int64), c)
        assert many.tolist() == [dram.channel_bytes(amount, c) for amount in amounts]


@pytest.mark.parametrize("field", ["channels", "interleave_bytes", "batch_bytes"])
def test_zero_is_refused(field: str) -> None:
    with pytest.raises(ValidationError):
        DramSpec.model_validate({"bandwidth_bytes_per_second": 1, field: 0})


def test_a_spec_is_frozen() -> None:
    dram = _dram(1, 1)
    with pytest.raises(ValidationError, match="frozen"):
        dram.channels = 2  # type: ignore[misc]


def test_a_part_of_ones_own_is_a_section_with_the_fields_of_a_published_one() -> None:
    """Under another name, the same figures cost the same; it is written as it was given."""
    published = load_accelerator("edge_banked")
    part = published.dram.part
    assert part is not None
    own = {**part.model_dump(mode="json"), "name": "MINE"}
    document = accelerator_document(published)
    mine = type(published).model_validate(document | {"dram": document["dram"] | {"part": own}})
    assert mine.dram.part_name == "MINE"
    rows = TileRows(32, 64, 2048)
    assert [spec.dram.bank_clocks(64, rows, write=False) for spec in (mine, published)] == [
        published.dram.bank_clocks(64, rows, write=False)
    ] * 2
    again = accelerator_document(mine)["dram"]["part"]
    assert (again["name"], again["rfc"], document["dram"]["part"]) == ("MINE", part.rfc, part.name)
    with pytest.raises(ValidationError, match="rfc"):
        DramSpec.model_validate({"bandwidth_bytes_per_second": 1, "part": own | {"rfc": "long"}})
