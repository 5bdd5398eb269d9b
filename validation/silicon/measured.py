"""The sets of measured rows: where each stands, what of it was measured, what names a row."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from validation.silicon.tpu_v6e.layers import OUTSIDE

HERE: Final = Path(__file__).parent
Row = Mapping[str, str]


def _every(_: Row) -> bool:
    return True


@dataclass(frozen=True)
class Measured:
    """A set of measured rows: its file, the measured column, its unit and what names a row.

    ``part``: which of those that are predicted are held against; ``added``: rows of one name are
    added up.
    """

    name: str
    title: str
    file: str
    column: str
    unit: str
    labels: tuple[str, ...]
    rows: str
    set: str = ""
    part: Callable[[Row], bool] = _every
    added: bool = False

    def __post_init__(self) -> None:
        """Take the set of the same name where none is given."""
        object.__setattr__(self, "set", self.set or self.name)


def measured_rows(of: Measured) -> list[dict[str, str]]:
    """Return the rows of a set's file."""
    with (HERE / of.file).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _block(row: Row) -> bool:
    return row["layer"] not in OUTSIDE and row["tokens"] != "1"


def _head(row: Row) -> bool:
    return row["layer"] == "lm_head" and row["tokens"] != "1"


def _direct(row: Row) -> bool:
    return row["winograd"] == "False" and row["cycles"] != ""


def _winograd(row: Row) -> bool:
    return row["winograd"] == "True" and row["cycles"] != ""


MEASURED: Final = (
    Measured(
        "tpu_v3",
        "TPU v3, operators and networks",
        "tpu_v3/measured.csv",
        "tpu_v3_cycles",
        "cycles",
        ("workload",),
        "all, 3 of them calibrate",
    ),
    Measured(
        "tpu_v4_gemm",
        "TPU v4, GEMMs",
        "tpu_v4/tpu_v4_gemm_calibration.csv",
        "fusion_median_us",
        "us",
        ("M", "N", "K"),
        "calibration",
    ),
    Measured(
        "tpu_v4_vector",
        "TPU v4, vector operators",
        "tpu_v4/tpu_v4_vector_calibration.csv",
        "op_median_us",
        "us",
        ("operator", "shape"),
        "calibration",
    ),
    Measured(
        "tpu_v4_layernorm",
        "TPU v4, layer norms",
        "tpu_v4/tpu_v4_layernorm_calibration.csv",
        "module_median_us",
        "us",
        ("B", "S", "D"),
        "calibration",
    ),
    Measured(
        "tpu_v4_copy",
        "TPU v4, copies from HBM",
        "tpu_v4/copies.csv",
        "us",
        "us",
        ("rows", "cols", "gemm"),
        "all, the largest calibrate",
    ),
    Measured(
        "tpu_v5e_gemm",
        "TPU v5e, GEMMs, a host's times",
        "tpu_v5e/measured.csv",
        "time_s",
        "s",
        ("kernel", "M", "K", "N"),
        "all, 2 of them calibrate",
    ),
    Measured(
        "tpu_v6e_attention",
        "TPU v6e, attention of Llama-3.1-8B",
        "tpu_v6e/attention.csv",
        "p50_ns",
        "ns",
        ("phase", "chunk", "kv", "batch"),
        "every second of the source, 3 calibrate",
    ),
    Measured(
        "tpu_v6e_block",
        "TPU v6e, a block of Llama-3.1-8B without attention, as a sum",
        "tpu_v6e/layers.csv",
        "ns",
        "ns",
        ("tokens",),
        "lengths of the source, none calibrates",
        set="tpu_v6e_layers",
        part=_block,
        added=True,
    ),
    Measured(
        "tpu_v6e_head",
        "TPU v6e, lm_head of Llama-3.1-8B",
        "tpu_v6e/layers.csv",
        "ns",
        "ns",
        ("tokens",),
        "lengths of the source, none calibrates",
        set="tpu_v6e_layers",
        part=_head,
    ),
    Measured(
        "tpu_v6e_v7_gemm",
        "TPU v6e and v7, GEMMs",
        "tpu_v7/measured.csv",
        "time_us",
        "us",
        ("chip", "timing", "dtype", "M", "N", "K"),
        "every second of the source, 6 calibrate",
    ),
    Measured(
        "tpu_v7_google_gemm",
        "TPU v7, GEMMs of Google's microbenchmarks",
        "tpu_v7/google_gemm.csv",
        "time_us",
        "us",
        ("M", "N", "K"),
        "all, the smallest calibrates",
    ),
    Measured(
        "tpu_v7_google_copy",
        "TPU v7, copies in HBM",
        "tpu_v7/google_copy.csv",
        "gb_per_s",
        "GB/s",
        ("bytes",),
        "all, the largest calibrates",
    ),
    Measured(
        "coral",
        "Coral Edge TPU at USB 3, whole models",
        "coral/measured.csv",
        "usb3_desktop_ms",
        "ms",
        ("model", "input"),
        "all, 2 of them calibrate",
    ),
    Measured(
        "coral_board",
        "Coral dev board, whole models",
        "coral/measured.csv",
        "dev_board_ms",
        "ms",
        ("model", "input"),
        "all, 2 of them calibrate",
    ),
    Measured(
        "vta",
        "VTA's RTL, ResNets, GEMM unit pipelined",
        "vta/measured.csv",
        "cycles_pipelined_gemm",
        "cycles",
        ("network",),
        "all, none calibrates",
    ),
    Measured(
        "vta_unpipelined",
        "VTA's RTL, before that",
        "vta/measured.csv",
        "cycles_baseline_gemm",
        "cycles",
        ("network",),
        "all, none calibrates",
    ),
    Measured(
        "nvdla_direct",
        "NVDLA's closed form, layers without Winograd",
        "nvdla/layers.csv",
        "cycles",
        "cycles",
        ("network", "layer"),
        "all that have cycles",
        set="nvdla_layers",
        part=_direct,
    ),
    Measured(
        "nvdla_winograd",
        "NVDLA's closed form, layers with Winograd (ours direct)",
        "nvdla/layers.csv",
        "cycles",
        "cycles",
        ("network", "layer"),
        "all that have cycles",
        set="nvdla_layers",
        part=_winograd,
    ),
    Measured(
        "nvdla_networks",
        "NVDLA's estimates, ResNet-50 on 32 to 2,048 MACs",
        "nvdla/networks.csv",
        "resnet50_int8_fps",
        "images a second",
        ("macs",),
        "all, none calibrates",
    ),
)
