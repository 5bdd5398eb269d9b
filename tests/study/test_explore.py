"""Explorations: figures are those of single runs, and the store changes nothing of them."""

from collections.abc import Callable, Sequence
from functools import cache
from operator import le
from pathlib import Path
from typing import Any

import pytest

from simaccel.analytic.prediction import predict
from simaccel.errors import WorkerDiedError
from simaccel.importers.accelerators import load_accelerator
from simaccel.report.exploration import counted_lines, exploration_json, rows
from simaccel.report.tables import csv_text
from simaccel.schedulers import make_mapping
from simaccel.study.experiment import result_json, simulate
from simaccel.study.explore import ExplorationObjective, ExploredDesigns, explore
from simaccel.study.figure_table import read_limit
from simaccel.study.parallel import DIED, Numbered, Outcome, TaskWorkers, open_workers
from simaccel.study.points import Axis, Setting, WeightedWorkload
from simaccel.study.space import DesignSpace, Settings
from simaccel.study.store import ResultStore, open_store, store_in
from simaccel.workload import gemm
from tests.draws import some

BUFFERS = (1024, 4096)


def _axis(name: str, column: str, fields: dict[int | str, dict[str, Any]]) -> Settings:
    axis = Axis(name, column, name)
    return tuple(Setting(axis, value, str(value), each) for value, each in fields.items())


AXES = (
    _axis("array", "array", {f"{n}x{n}": {"array.rows": n, "array.cols": n} for n in (2, 4, 8)}),
    _axis("buffer", "buffer_bytes", {n: {"buffer.capacity_bytes": n} for n in BUFFERS}),
    _axis("latency", "latency", {n: {"dram.latency_cycles": n} for n in (0, 9)}),
)
WORK = (gemm(m=30, k=20, n=10), gemm(m=7, k=9, n=64))
SPACE = DesignSpace(
    (load_accelerator("toy"),),
    (WeightedWorkload(WORK[0], 3), WeightedWorkload(WORK[1])),
    AXES,
    ("naive",),
)


def explored(*limits: str, store: ResultStore | None = None) -> ExploredDesigns:
    plan = ExplorationObjective(tuple(map(read_limit, limits)), "edp")
    with open_workers(1) as team:
        designs = SPACE.designs(range(SPACE.size))
        return explore(SPACE.dimensions, designs, plan, team, store=store)


@cache
def free() -> ExploredDesigns:
    """Explore the space without limits, once."""
    return explored()


def test_figures_are_those_of_single_runs() -> None:
    for one in free().rows:
        array, buffer, latency = (setting.value for setting in one.settings)
        size = str(array).partition("x")[0]
        options = [f"array.rows={size}", f"array.cols={size}", f"buffer.capacity_bytes={buffer}"]
        options.append(f"dram.latency_cycles={latency}")
        hardware = load_accelerator("toy", options)
        first, second = (simulate(work, hardware, one.dataflow) for work in WORK)
        assert one.figures is not None
        assert one.figures["cycles"] == 3 * first.run.cycles + second.run.cycles
        energy = [sum(result_json(each)["energy_pj"].values()) for each in (first, second)]
        assert one.figures["energy_pj"] == pytest.approx(3 * energy[0] + energy[1])
        assert one.figures["area_mm2"] == result_json(first)["area_mm2"]
        needed = [each.prediction.buffer_bytes for each in (first, second)]
        assert one.figures["footprint_bytes"] == max(needed)


def test_the_bound_of_a_design_is_that_of_the_mappings_that_run() -> None:
    designs = SPACE.designs(range(SPACE.size))
    for one, design in zip(free().rows, designs, strict=True):
        hardware, flow = design.accelerator, one.dataflow
        mappings = [make_mapping(work, hardware, flow) for work in WORK]
        bounds = [
            predict(work, mapping, hardware).bound_cycles
            for work, mapping in zip(WORK, mappings, strict=True)
        ]
        assert one.figures is not None
        assert one.figures["bound_cycles"] == 3 * bounds[0] + bounds[1]
        assert 3 * bounds[0] + bounds[1] <= (one.figures["cycles"] or 0)


def test_no_design_is_better_than_one_of_the_frontier() -> None:
    points = free().rows
    names = ("seconds", "energy_pj", "area_mm2", "footprint_bytes")
    rows = [tuple((one.figures or {})[name] or 0 for name in names) for one in points]
    for one, row in zip(points, rows, strict=True):
        worse = any(all(map(le, other, row)) and other != row for other in rows)
        assert one.frontier == (not worse and rows.index(row) == points.index(one))
    (best,) = (one for one in points if one.best)
    assert best.frontier
    edps = [(one.figures or {})["edp_js"] or 0 for one in points]
    assert (best.figures or {})["edp_js"] == min(edps)


def test_limits_leave_designs_out_before_and_after_they_run() -> None:
    areas = sorted({one.figures["area_mm2"] or 0 for one in free().rows if one.figures})
    powers = sorted(one.figures["power_mw"] or 0 for one in free().rows if one.figures)
    limits = (f"area_mm2<={areas[-2]}", f"power_mw<={powers[len(powers) // 2]}")
    found = explored(*limits)
    assert found.ran < free().ran
    for one, full in zip(found.rows, free().rows, strict=True):
        figures: dict[str, Any] = full.figures or {}
        small = figures["area_mm2"] <= areas[-2]
        assert one.within == (small and figures["power_mw"] <= powers[len(powers) // 2])
        assert (one.figures is not None) == small
        assert one.within >= one.frontier


def _bytes(found: ExploredDesigns) -> str:
    return csv_text(rows(found)) + str(exploration_json(found))


class _Stopping(TaskWorkers):
    """A team that is interrupted after some results."""

    def __init__(self, after: int) -> None:
        self.left = after

    def outcomes(
        self, work: Callable[[Any], Any], tasks: Sequence[Any], numbers: Sequence[int]
    ) -> Numbered[Outcome]:
        for number in numbers:
            if self.left == 0:
                raise KeyboardInterrupt
            self.left -= 1
            yield number, (None, work(tasks[number]))


@pytest.mark.parametrize("after", some([5, 0, 1, 20, 23], 5))
def test_an_interrupted_exploration_goes_on_where_it_was(tmp_path: Path, after: int) -> None:
    first = store_in(tmp_path / "s")
    open_store(first, "explore", 0)
    team = _Stopping(after)
    designs = SPACE.designs(range(SPACE.size))
    with pytest.raises(KeyboardInterrupt):
        explore(SPACE.dimensions, designs, ExplorationObjective(), team, store=first)
    again = explored(store=store_in(tmp_path / "s"))
    assert again.reused == after
    assert again.ran == free().ran - after
    assert _bytes(again) == _bytes(free())
    assert explored(store=store_in(tmp_path / "s")).ran == 0


def test_a_lost_run_is_told_and_not_kept(tmp_path: Path) -> None:
    class Losing(_Stopping):
        def outcomes(
            self, work: Callable[[Any], Any], tasks: Sequence[Any], numbers: Sequence[int]
        ) -> Numbered[Outcome]:
            for number in numbers:
                died = WorkerDiedError(DIED) if number == 1 else None
                yield number, (died, None if died else work(tasks[number]))

    store = store_in(tmp_path / "s")
    open_store(store, "explore", 0)
    team = Losing(0)
    designs = SPACE.designs(range(SPACE.size))
    found = explore(SPACE.dimensions, designs, ExplorationObjective(), team, store=store)
    lost = [one for one in found.rows if one.lost]
    assert [one.problem for one in lost] == ["its process died; is there enough memory?"]
    settings = lost[0].settings
    named = " ".join(f"{one.axis.name}={one.text}" for one in settings)
    assert counted_lines(found)[-1] == f"{named}: its process died; is there enough memory?"
    assert "array=" in named
    again = explored(store=store_in(tmp_path / "s"))
    assert again.ran == 1
    assert not any(one.problem for one in again.rows)
