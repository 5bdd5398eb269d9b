"""The GEMMs of JAX's Pallas guide on a TPU v5e chip, on ``hwconfigs/tpu_v5e``; a host's times.

A Pallas kernel says its blocks (``pallas 512x1024x1024``: rows, depth and columns); those of XLA
are not known, and are chosen as `streamed_gemm_cycles` does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from simaccel.importers.accelerators import load_accelerator
from validation.silicon.kernels import streamed_gemm_cycles


def predict(rows: Sequence[Mapping[str, str]]) -> list[float | None]:
    """Return the seconds of each GEMM: columns kernel, M, K, N; None for another kernel."""
    return [_seconds(row) for row in rows]


def _seconds(row: Mapping[str, str]) -> float | None:
    on = load_accelerator("tpu_v5e")
    says = re.fullmatch(r"pallas (\d+)x(\d+)x(\d+)", row["kernel"])
    if says is None and row["kernel"] != "xla":
        return None
    m, k, n = (int(row[name]) for name in ("M", "K", "N"))
    block = (int(says[1]), int(says[2]), int(says[3])) if says else None
    return on.seconds(streamed_gemm_cycles(on, (m, k, n), block=block))
