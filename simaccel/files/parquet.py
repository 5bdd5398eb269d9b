"""Parquet files, which pyarrow writes where it is installed."""

from __future__ import annotations

from simaccel.errors import Fault, InputError


def require_parquet(option: str, otherwise: str) -> None:
    """Refuse Parquet where nothing writes it; ``otherwise``: the option that needs nothing.

    Raises:
        InputError: says what to install.

    """
    try:
        import pyarrow.parquet  # noqa: F401, PLC0415 - optional
    except ImportError:
        allowed = f"pip install 'simaccel[parquet]', which writes it, or {otherwise}"
        raise InputError([Fault("command line", option, "no pyarrow", allowed)]) from None
