"""What is picked and searched: accelerators, workloads, and the dataflow that is asked."""

from __future__ import annotations

from dataclasses import dataclass

from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.workload import Workload, build, conv2d, gemm
from validation import PLAIN

LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
GEMMS = ((197, 768, 768), (128, 1024, 4096), (1000, 1000, 1000), (1, 4096, 4096))
CONVOLUTIONS = {
    "3x3": {"m": 64, "c": 64, "p": 56, "q": 56, "r": 3, "s": 3},
    "7x7 stride 2": {"m": 64, "c": 3, "p": 112, "q": 112, "r": 7, "s": 7, "stride": 2},
    "1x1": {"m": 512, "c": 2048, "p": 7, "q": 7, "r": 1, "s": 1},
    "3x3 of 28": {"m": 128, "c": 128, "p": 28, "q": 28, "r": 3, "s": 3},
    "3x3 stride 2": {"m": 256, "c": 128, "p": 14, "q": 14, "r": 3, "s": 3, "stride": 2},
    "5x5 of 27": {"m": 256, "c": 96, "p": 27, "q": 27, "r": 5, "s": 5},
}
_FIRST = ("3x3", "7x7 stride 2", "1x1")
_FURTHER = (
    ("attention", "edge", (1021,), "flat"),
    ("attention", "edge", (3001,), "flat"),
    ("attention", "edge", (11000,), "flat"),
    ("attention", "edge_tpu", (1537,), "flat"),
    ("attention", "mxu_128", (8191,), "flat"),
    ("attention", "cloud", (30011,), "flat"),
    ("attention", "cloud", (2039,), "flash"),
    ("gemm", "edge_tpu", (331, 509, 1021), "flex"),
    ("gemm", "mxu_128", (331, 509, 1021), "flex"),
    ("gemm", "edge_tpu", (3000, 128, 700), "flex"),
    ("gemm", "cloud", (2053, 640, 1531), "flex"),
    ("conv", "edge", "3x3 of 28", "flex"),
    ("conv", "cloud", "3x3 of 28", "flex"),
    ("conv", "mxu_128", "3x3 stride 2", "flex"),
    ("conv", "edge_tpu", "3x3 stride 2", "flex"),
    ("conv", "cloud", "5x5 of 27", "flex"),
    ("conv", "edge_tpu", "5x5 of 27", "flex"),
)
"""Drawn when the search had been mended for the others: primes, and sizes of no round number."""


@dataclass(frozen=True)
class Setting:
    """A workload on an accelerator, and who maps it.

    ``kind``: attention, feed-forward, gemm or conv; ``shape``: tokens, sizes, or a name.
    """

    kind: str
    hw: str
    shape: tuple[int, ...] | str
    dataflow: str
    pipeline: bool = False

    @property
    def name(self) -> str:
        """What the setting is called; no two have one name."""
        shape = self.shape if isinstance(self.shape, str) else "x".join(map(str, self.shape))
        pipelined = " pipelined" if self.pipeline else ""
        return f"{self.kind} {shape} on {self.hw}: {self.dataflow}{pipelined}"

    @property
    def accelerator(self) -> Accelerator:
        """The accelerator."""
        return load_accelerator(self.hw, PLAIN if self.hw in ("edge", "cloud") else ())

    @property
    def workload(self) -> Workload:
        """The operators."""
        if isinstance(self.shape, str):
            return conv2d(**CONVOLUTIONS[self.shape], bytes_per_element=2)  # type: ignore[arg-type]
        if self.kind == "gemm":
            m, k, n = self.shape
            return gemm(m=m, k=k, n=n, bytes_per_element=2)
        if self.kind == "attention":
            return build("bert", batch=64, seq_len=self.shape[0], scope="la", bytes_per_element=2)
        block = build("bert", batch=1, seq_len=self.shape[0], bytes_per_element=2)
        return block.select_operators(["FF1", "FF2"])


def settings() -> list[Setting]:
    """Return all settings."""
    chosen = [
        Setting("attention", "edge", (length,), "flat", pipeline)
        for length in LENGTHS
        for pipeline in (False, True)
    ]
    chosen += [Setting("attention", "edge", (length,), "flash") for length in (2048, 8192)]
    chosen += [Setting("attention", "edge", (4096,), "flash", pipeline=True)]
    chosen += [Setting("attention", hw, (4096,), "flat") for hw in ("cloud", "mxu_128", "edge_tpu")]
    chosen += [Setting("attention", "cloud", (16384,), "flat", pipeline=True)]
    chosen += [Setting("attention", "cloud", (4096,), "flash")]
    chosen += [
        Setting("gemm", hw, shape, "flex")
        for hw in ("edge", "cloud", "mxu_128", "edge_tpu")
        for shape in GEMMS
    ]
    chosen += [Setting("feed-forward", hw, (512,), "best") for hw in ("edge", "cloud", "mxu_128")]
    chosen += [
        Setting("conv", hw, shape, "flex")
        for hw in ("edge", "cloud", "edge_tpu")
        for shape in _FIRST
        if (hw, shape) != ("edge_tpu", "1x1")
    ]
    return chosen + [Setting(*fields) for fields in _FURTHER]
