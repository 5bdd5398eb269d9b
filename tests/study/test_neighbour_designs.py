"""Designs next to an accelerator: their fields, and cycles by the formula of SCALE-Sim."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from simaccel.hardware import Accelerator, Stationarity
from simaccel.importers.accelerators import load_accelerator
from simaccel.importers.workloads import load_workload
from simaccel.schedulers import Options
from simaccel.study.neighbour_designs import DESIGN, design_points, neighbour_designs
from simaccel.study.parallel import open_workers
from simaccel.study.points import Setting, StudyRow
from simaccel.study.runs import run_rows
from simaccel.workload import Workload, gemm

_CONFIGURATION = """[general]
run_name = small
[architecture_presets]
ArrayHeight: 16
ArrayWidth: 16
IfmapSramSzkB: 64
FilterSramSzkB: 64
OfmapSramSzkB: 64
IfmapOffset: 0
FilterOffset: 10000000
OfmapOffset: 20000000
Bandwidth: 10
Dataflow: ws
MemoryBanks: 1
[run_presets]
InterfaceBandwidth: CALC
"""
_LAYERS = """Layer,H,W,R,S,Channels,Filters,Stride
conv1, 30, 30, 3, 3, 8, 32, 1,
fc, 1, 1, 1, 1, 1024, 128, 1,
"""
_SIZES = ((784, 72, 32), (1, 1024, 128))
"""Outputs, sums and filters of each layer."""


def _scalesim_cycles(rows: int, cols: int) -> int:
    """Return the cycles of weights that stay: folds times (2 rows + cols + outputs - 2)."""
    return sum(-(-k // rows) * -(-m // cols) * (2 * rows + cols + n - 2) for n, k, m in _SIZES)


def _cycles(row: StudyRow) -> float | None:
    return None if row.figures is None else row.figures["cycles"]


def _run(designs: Sequence[Setting], inputs: tuple[Workload, Accelerator, str]) -> list[StudyRow]:
    with open_workers(1) as alone:
        points = design_points(designs, inputs, Options())
        return run_rows(points, alone, lambda _done, _note: None)[0]


@pytest.fixture
def small_runs(tmp_path: Path) -> dict[str, StudyRow]:
    (tmp_path / "small.cfg").write_text(_CONFIGURATION, encoding="utf-8")
    (tmp_path / "small.csv").write_text(_LAYERS, encoding="utf-8")
    accelerator = load_accelerator(str(tmp_path / "small.cfg"))
    workload = load_workload(str(tmp_path / "small.csv"))
    designs = neighbour_designs(accelerator, "flex", Options())
    runs = _run(designs, (workload, accelerator, "flex"))
    return {one.settings[0].text: one for one in runs}


def test_arrays_of_other_shapes_follow_the_formula(small_runs: dict[str, StudyRow]) -> None:
    assert _cycles(small_runs["an array of 8 x 32"]) == _scalesim_cycles(8, 32) == 7470 + 24064
    assert _cycles(small_runs["an array of 32 x 8"]) == _scalesim_cycles(32, 8)


def test_the_fixed_stationarity_gives_way_to_the_others(small_runs: dict[str, StudyRow]) -> None:
    """A fold of 16 x 16 sums takes k products, and 16 + 16 - 2 cycles to the last PE."""
    outputs = sum(-(-n // 16) * -(-m // 16) * (k + 30) for n, k, m in _SIZES)
    assert _cycles(small_runs["os stationarity"]) == outputs
    assert "ws stationarity" not in small_runs


def test_each_design_changes_one_thing() -> None:
    edge = load_accelerator("edge", ["dram.channels=2"])
    designs = neighbour_designs(edge, "flex", Options())
    assert [(one.text, dict(one.fields)) for one in designs] == [
        ("twice the buffer", {"buffer.capacity_bytes": 2**20}),
        (
            "twice the channels of DRAM",
            {
                "dram.channels": 4,
                "dram.bandwidth_bytes_per_second": 100 * 10**9,
                "dram.in_flight_bytes": 16 * 2**10,
            },
        ),
        ("an array of 16 x 64", {"array.rows": 16, "array.cols": 64}),
        ("an array of 64 x 16", {"array.rows": 64, "array.cols": 16}),
    ]


def test_banks_are_doubled_where_they_take_time() -> None:
    accelerator = load_accelerator("edge", ["dram.model=banked", "dram.part=LPDDR4-3200x32"])
    designs = neighbour_designs(accelerator, "flex", Options())
    banks = next(one for one in designs if "banks" in one.text)
    (run,) = _run([banks], (gemm(9, 7, 5), accelerator, "naive"))
    assert accelerator.dram.part is not None
    part: Any = banks.fields["dram.part"]
    assert isinstance(part, dict)
    assert part["banks_per_group"] == 2 * accelerator.dram.part.banks_per_group
    assert (_cycles(run) or 0) > 0


def test_what_can_t_be_built_says_why() -> None:
    edge = load_accelerator("edge")
    small = Setting(DESIGN, "small", "a small buffer", {"buffer.capacity_bytes": 16})
    (run,) = _run([small], (gemm(9, 7, 5), edge, "naive"))
    assert run.problem.startswith("at least 2 KiB, one 2-byte operand of a 32 x 32 fold")
    assert run.figures is None


@pytest.mark.parametrize(
    ("dataflow", "held"),
    [("naive", ["os", "is"]), ("naive-m", ["os", "is"]), ("flex", []), ("deployed", [])],
)
def test_a_dataflow_that_holds_weights_has_designs_that_hold_others(
    dataflow: str, held: list[str]
) -> None:
    designs = neighbour_designs(load_accelerator("toy"), dataflow, Options())
    shown = [design.text for design in designs if design.text.endswith(" stationarity")]
    assert shown == [f"{operand} stationarity" for operand in held]


@pytest.mark.parametrize("given", [None, "ws"])
def test_another_array_holds_what_a_fixed_one_does_not(given: Stationarity | None) -> None:
    accelerator, options = load_accelerator("tpu_v3"), Options(stationarity=given)
    designs = neighbour_designs(accelerator, "naive", options)
    arrays = [design.fields for design in designs if design.text.endswith(" stationarity")]
    assert arrays == [{"array.stationarity": "os"}, {"array.stationarity": "is"}]
    with open_workers(1) as alone:
        points = design_points(designs[-2:], (gemm(9, 7, 5), accelerator, "naive"), options)
        rows = run_rows(points, alone, lambda _done, _note: None)[0]
    assert [row.problem for row in rows] == ["", ""]
