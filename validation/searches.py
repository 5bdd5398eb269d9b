"""How validations search where it is not the picks that they look at."""

from typing import Final

from simaccel.schedulers import Options

QUICK: Final = Options(objective="dram-bytes", patience=1, tolerance=0.0)
"""Fewest bytes, by counts: fuses and holds most, in seconds instead of minutes."""
