from contextlib import suppress
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simaccel.hardware.quantity import Rate, format_quantity, parse_quantity, rate

KINDS = ("B", "B/s", "Hz")


@pytest.mark.parametrize(
    ("text", "kind", "amount"),
    [
        ("512 KiB", "B", 512 * 1024),
        ("32MiB", "B", 32 * 1024**2),
        ("1 GiB", "B", 1024**3),
        ("0.5 KiB", "B", 512),
        ("50 GB/s", "B/s", 50 * 10**9),
        ("1925.12 GB/s", "B/s", 1_925_120_000_000),
        ("1 TB/s", "B/s", 10**12),
        (" 720 MHz ", "Hz", 720 * 10**6),
        ("3 kHz", "Hz", 3000),
        (7, "B", 7),
        (7.0, "B", 7),
        (2**50, "B", 2**50),
    ],
)
def test_an_amount_is_read_with_its_unit(text: object, kind: str, amount: int) -> None:
    assert parse_quantity(text, kind) == amount


@pytest.mark.parametrize(
    "value",
    [
        "512 KB",  # sizes have binary units
        "512 kib",
        "1 GB/s",
        "5 MHz",
        "five",
        "",
        "-1 B",
        "1e3",
        "0 B",
        "0.1 B",  # not whole
        "1.2.3 B",
        pytest.param("9" * 5000, id="text of 5000 digits"),
        0,
        -3,
        0.5,
        2**50 + 1,
        pytest.param(10**5000, id="5000 digits"),
        pytest.param(-(10**5000), id="minus 5000 digits"),
        float("nan"),
        float("inf"),
        True,
        None,
        [512],
        {"KiB": 512},
    ],
)
def test_anything_else_is_refused_with_what_is_allowed(value: object) -> None:
    with pytest.raises(ValueError, match=r"a positive amount with a unit \(B, KiB, MiB, GiB\)"):
        parse_quantity(value, "B")


@given(st.sampled_from(KINDS), st.integers(1, 2**50))
def test_a_written_amount_reads_back(kind: str, amount: int) -> None:
    assert parse_quantity(format_quantity(amount, kind), kind) == amount


@given(st.text(), st.sampled_from(KINDS))
def test_no_text_crashes(text: str, kind: str) -> None:
    with suppress(ValueError):
        assert 0 < parse_quantity(text, kind) <= 2**50


@given(st.integers(1, 2**50), st.integers(1, 2**40), st.integers(1, 64), st.integers(0, 2**43))
def test_a_request_is_worth_the_exact_ceiling(
    bandwidth: int, clock: int, parts: int, amount: int
) -> None:
    exact = Fraction(amount * clock * parts, bandwidth)
    expected = -(-exact.numerator // exact.denominator)
    assert rate(bandwidth, clock, parts).cycles(amount) == expected


@given(st.integers(1, 2**50), st.integers(1, 2**20), st.lists(st.integers(0, 2**43), max_size=5))
@example(n_bytes=2**50 - 1, cycles_per_byte=2**20, amounts=[2**40])
def test_arrays_give_what_integers_give(
    n_bytes: int, cycles_per_byte: int, amounts: list[int]
) -> None:
    slow = Rate(n_bytes, n_bytes * cycles_per_byte - cycles_per_byte // 2)
    cycles = slow.cycles(np.array(amounts, dtype=np.int64))
    assert cycles.dtype == np.int64
    assert cycles.tolist() == [slow.cycles(amount) for amount in amounts]


def test_a_cycle_more_is_charged_for_the_first_byte_too_many() -> None:
    assert [Rate(625, 9).cycles(n_bytes) for n_bytes in (0, 625, 626)] == [0, 9, 10]
    unlimited = rate(None, 10**9)
    assert unlimited.unlimited
    assert unlimited.cycles(2**50) == 0
    assert not rate(1, 1).unlimited


@pytest.mark.parametrize("axes", [(), (1,), (1, 1)])
def test_cycles_of_an_array_stay_one_beyond_64_bits(axes: tuple[int, ...]) -> None:
    amount = np.full(axes, 2**60, dtype=np.int64)
    cycles = Rate(10**9, 10**3).cycles(amount)
    assert cycles.shape == axes
    assert cycles.dtype == np.int64
    assert int(cycles.flat[0]) == -(-(2**60) // 10**6)
    assert int(Rate(10**9, 10**3).cycles(amount.max())) == -(-(2**60) // 10**6)


def test_a_clock_without_its_unit_is_asked_for_it() -> None:
    """720 is 720 MHz to whom writes it; 720,000,000 and 720 Hz are what they say."""
    with pytest.raises(ValueError, match=r"from 1000000 on, or one with its unit, such as 720 MHz"):
        parse_quantity(720, "Hz")
    assert parse_quantity("720 Hz", "Hz") == 720
    assert parse_quantity(1_000_000, "Hz") == 1_000_000
    assert parse_quantity(512, "B") == 512
