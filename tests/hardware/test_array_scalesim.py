"""ArraySpec against SCALE-Sim 3.0.0; provenance in `validation/scalesim/README.md`."""

import csv
from pathlib import Path
from typing import Literal, cast

import pytest

from simaccel.hardware import ArraySpec

DATA = Path(__file__).parents[2] / "validation" / "scalesim" / "scalesim_v3_calc.csv"


def _ok_runs() -> list[dict[str, str]]:
    with DATA.open(newline="") as file:
        return [run for run in csv.DictReader(file) if run["status"] == "ok"]


RUNS = _ok_runs()


def _name(run: dict[str, str]) -> str:
    return f"{run['layer']}-{run['array']}-{run['dataflow']}-{run['sram_kB_if_fil_of']}"


def test_every_finished_run_is_compared() -> None:
    assert len(RUNS) == 126
    assert {run["dataflow"] for run in RUNS} == {"ws", "os", "is"}


@pytest.mark.parametrize("run", RUNS, ids=_name)
def test_gemm_cycles_equal_scalesim(run: dict[str, str]) -> None:
    rows, cols = map(int, run["array"].split("x"))
    array = ArraySpec(rows=rows, cols=cols, overlap="none", edge_folds="full")
    stationarity = cast("Literal['ws', 'os', 'is']", run["dataflow"])
    cycles = array.gemm_cycles(
        m=int(run["M"]), k=int(run["K"]), n=int(run["N"]), stationarity=stationarity
    )
    # SCALE-Sim reports the index of the last cycle.
    assert cycles == int(run["total_cycles_reported"]) + 1
