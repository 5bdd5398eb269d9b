"""Figures keep three digits and change units where people do."""

import pytest

from simaccel.report.units import (
    bytes_text,
    energy_text,
    error_text,
    rounded_count,
    seconds_text,
    share_text,
    short_names,
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


def test_shortened_names_stay_apart() -> None:
    """The digits of the second and third are in the middle, where a long name is cut."""
    names = [
        "/Mul",
        *(f"/model/{half}coder/{at}/reparam_conv/Conv" for half in ("en", "de") for at in range(3)),
    ]
    shown = short_names(names)
    assert shown[0] == "/Mul"
    assert len(set(shown)) == len(names)
    assert max(map(len, shown)) <= 28
    assert all(f"/{at % 3}/" in text for at, text in enumerate(shown[1:]))
    assert (
        short_names(["a" * 40 + "1" + "b" * 40, "a" * 40 + "2" + "b" * 40])
        != ["a" * 15 + "…" + "b" * 12] * 2
    )
