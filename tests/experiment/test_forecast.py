"""A forecast bounds what the run then costs."""

from functools import cache
from itertools import product

import pytest

from simaccel.experiment.forecast import forecast
from simaccel.experiment.run import simulate
from simaccel.experiment.scheduling import schedule_workload
from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.tree import Mapping
from simaccel.workload import ModelDimensions, attention, gemm
from tests.draws import some
from tests.program.programs import gemm_case

SMALL = ModelDimensions(hidden=6, heads=3, head_size=5, ff_size=7)
WORKLOAD = attention(SMALL, batch=2, seq_len=11)


@cache
def _mapping(dataflow: str) -> Mapping:
    """Map the workload; the mapping runs whatever the rates are."""
    return schedule_workload(WORKLOAD, load_accelerator("toy"), dataflow)


_SETTINGS: list[list[str]] = [
    [],
    ["dram.channels=2", "dram.bandwidth_bytes_per_second=1 GB/s", "dram.in_flight_bytes=1"],
    ["buffer.read_bytes_per_second=1 GB/s", "buffer.write_bytes_per_second=1 GB/s"],
    ["dma.in_queues=single", "noc.distribution.link_bytes_per_cycle=1"],
]


@pytest.mark.parametrize(
    ("settings", "dataflow"),
    some(
        product(
            _SETTINGS,
            ["naive-m", "flat-r", "flash"],
        ),
        6,
    ),
)
def test_events_are_bounded(settings: list[str], dataflow: str) -> None:
    accelerator = load_accelerator("toy", settings)
    result = simulate(WORKLOAD, accelerator, _mapping(dataflow), fast_forward=False)
    expected = forecast(WORKLOAD, accelerator, result.mapping, result.program)
    assert result.run.events <= expected.most_events


def test_commands_and_folds_are_counted() -> None:
    workload = gemm(m=8, k=8, n=8)
    accelerator = load_accelerator("toy", ["buffer.capacity_bytes=64 KiB"])
    one = gemm_case(workload, m=4, order="mkn", stationarity="os")
    expected = forecast(workload, accelerator, one.mapping, one.program)
    assert expected.folds == 2 * 2
    assert expected.commands == 1 + 2 * 3  # B stays; A, the GEMM and C are for each block of rows
    assert expected.calibration.done == 1
    assert expected.trace_bytes > 0
