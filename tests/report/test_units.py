"""Figures keep three digits and change units where people do."""

import pytest

from simaccel.report.units import (
    bytes_text,
    energy_text,
    error_text,
    rounded_count,
    seconds_text,
    share_text,
)


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1536, "1.50 KiB"),
        (1024**2, "1.00 MiB"),
        (47815066, "45.6 MiB"),
        (1024**5, "1.00 PiB"),
        (1024**6, "1024 PiB"),
        (None, "unlimited"),
    ],
)
def test_bytes(n_bytes: int | None, text: str) -> None:
    assert bytes_text(n_bytes) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (1e-09, "1 ns"),
        (8.7e-08, "87 ns"),
        (0.00123, "1.23 ms"),
        (1, "1.00 s"),
        (119, "119 s"),
        (180, "3.00 min"),
        (7200, "2.00 h"),
    ],
)
def test_seconds(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


def test_energy_shares_errors_and_counts() -> None:
    assert energy_text(0) == "0 pJ"
    assert energy_text(1.23e10) == "12.3 mJ"
    assert share_text(1) == "100.0%"
    assert error_text(0) == "0%"
    assert error_text(-0.0123456) == "-1.23%"
    assert rounded_count(12_345_678_901) == "12.3 billion"
