"""A small transformer and a large one; a few chips of TPU v3 on links of 10 bytes a cycle."""

from dataclasses import replace
from typing import Any

from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.study.pipeline import PipelineRun, run_pipeline
from simaccel.study.points import base_point
from simaccel.workload import Workload, parse_workload
from simaccel.workload.language.model import Transformer

SMALL = Transformer(
    name="small",
    source="sizes for sums by hand",
    hidden=32,
    layers=4,
    heads=4,
    kv_heads=2,
    head_size=8,
    ff_size=64,
    vocabulary=64,
    gated=False,
    rotary=False,
)
LITTLE = replace(SMALL, name="little", layers=2, gated=True, rotary=None)
LARGE = Transformer(
    name="large",
    source="Llama 3.1 405B: Grattafiori et al., The Llama 3 Herd of Models, 2024, table 3",
    hidden=16384,
    layers=126,
    heads=128,
    kv_heads=8,
    head_size=128,
    ff_size=53248,
    vocabulary=128256,
)
LINKS = ("bytes_per_second=9.4 GB/s", "hop_cycles=700", "pj_per_bit=1")  # at 940 MHz


def linked_layers(**layers: object) -> Workload:
    """Return a network whose layers read one another."""
    return parse_workload({"kind": "layers", "name": "net", "linked": True, "layers": layers})


def small_pod(count: int, *more: str) -> Accelerator:
    """Return so many chips, 700 cycles from one another."""
    return load_accelerator(
        "mxu_128", [f"chips={count}", *(f"links.{one}" for one in (*LINKS, *more))]
    )


def run_stages(
    whole: Workload,
    pod: Accelerator,
    dataflow: str,
    **cut: Any,  # noqa: ANN401 - fields of a point
) -> PipelineRun:
    """Return the run of a model in stages on chips."""
    return run_pipeline(replace(base_point(whole, pod), dataflow=dataflow, **cut))
