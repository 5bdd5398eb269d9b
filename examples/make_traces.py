"""Write the reference traces that tests read: `python -m examples.make_traces`.

Run it when a change of the machine or of the schema is meant to change them (`make golden` does).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from unittest.mock import patch

from simaccel import load_accelerator
from simaccel.study.recording import record
from simaccel.workload import ModelDimensions, Workload, attention, build, gemm

FOLDER: Final = Path(__file__).parents[1] / "traces"


@dataclass(frozen=True)
class Reference:
    """One reference trace: what runs, on what, and what it is there to show."""

    name: str
    hw: str
    dataflow: str
    workload: Callable[[], Workload]

    @property
    def path(self) -> Path:
        """Where the trace lies."""
        return FOLDER / f"{self.name}.h5"


def _small_attention() -> Workload:
    """Two heads of 13 tokens, a prime, so that no tile divides anything."""
    sizes = ModelDimensions(hidden=8, heads=2, head_size=4, ff_size=16)
    return attention(sizes, batch=1, seq_len=13, scope="la")


REFERENCES: Final = (
    # partial sums cross the DRAM for every step of the reduction: reads and writes alternate
    Reference("toy_gemm_naive", "toy", "naive", lambda: gemm(m=21, k=11, n=6)),
    # fused, the intermediate stays on chip, remainders everywhere
    Reference("toy_attention_flat", "toy", "flat", _small_attention),
    # 768 heads, of which fast-forward tells a few and repeats the rest: segments
    Reference(
        "edge_bert_flat",
        "edge",
        "flat",
        lambda: build("bert", batch=64, seq_len=500, scope="la"),
    ),
)


def write(reference: Reference, path: Path) -> None:
    """Run a reference and write its trace to ``path``.

    It doesn't tell the code that ran, which would be another one with each change of a line.
    """
    workload, accelerator = reference.workload(), load_accelerator(reference.hw)
    with patch("simaccel.study.recording.code_digest", return_value=""):
        record(path, workload, accelerator, reference.dataflow, force=True)


def main() -> None:
    """Write all of them."""
    for reference in REFERENCES:
        write(reference, reference.path)


if __name__ == "__main__":
    main()
