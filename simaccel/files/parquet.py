"""Parquet files, which need pyarrow, an optional dependency."""

from __future__ import annotations

from simaccel.errors import Fault, InputError


def require_parquet(option: str, otherwise: str) -> None:
    """Refuse Parquet without pyarrow; ``otherwise``: the option to use instead.

    Raises:
        InputError: pyarrow is not installed; the message says how to install it.

    """
    try:
        import pyarrow.parquet  # noqa: F401, PLC0415 - optional
    except ImportError:
        allowed = f"pip install 'simaccel[parquet]', which writes it, or {otherwise}"
        raise InputError([Fault("command line", option, "no pyarrow", allowed)]) from None
