"""The GEMMs of JAX's Pallas guide on a TPU v5e chip, on ``hwconfigs/tpu_v5e``; a host's times.

Those of XLA are default runs. A Pallas kernel says its own blocks: they are the measured program,
and so is the file ``pallas_<rows>x<depth>x<columns>.yaml``, as ``simaccel run --mapping`` takes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from validation.silicon.runs import NUMBERS, gemm, host_cycles, loaded

_FILES: Final = {
    path.stem.replace("_", " "): path for path in Path(__file__).parent.glob("pallas_*.yaml")
}
KERNELS: Final = ("xla", *sorted(_FILES))


def predict(rows: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the seconds of each GEMM: columns kernel, M, K, N, and dtype (bf16 without)."""
    return [_seconds(row) for row in rows]


def _seconds(row: Mapping[str, str]) -> float:
    on = loaded("tpu_v5e")
    sizes = int(row["M"]), int(row["K"]), int(row["N"])
    number = NUMBERS[row.get("dtype", "bf16")]
    return on.seconds(host_cycles(on) + gemm(on, *sizes, number, _FILES.get(row["kernel"])))
