"""Names of what may limit a run; this loads nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ARRAY: Final = "array"
LOADING: Final = "array_loading"
UNFILLED: Final = "array_unfilled"
LIMITS: Final[Mapping[str, str]] = {
    ARRAY: "MACs of the array",
    LOADING: "loading the array",
    UNFILLED: "part-filled array",
    "sfu": "SFU",
    "dram_bandwidth": "DRAM bandwidth",
    "dram_latency": "DRAM latency",
    "dram_banks": "DRAM banks",
    "dram_queue": "requests in flight",
    "buffer_port": "buffer ports",
    "noc": "NoC",
    "link": "links between chips",
    "start": "starts of operators",
    "drain": "drain",
    "idle": "nothing",
}
"""Limits as data has them, and as people read them."""
