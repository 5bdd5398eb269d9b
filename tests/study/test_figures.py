"""Figures, limits, frontiers and rows of studies, against sums and comparisons by hand."""

import gc
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.importers.accelerators import load_accelerator
from simaccel.report.comparison import area_lines, comparison_table, fits_text, shows_fits
from simaccel.report.tables import study_columns
from simaccel.schedulers import Options
from simaccel.study.experiment import simulate
from simaccel.study.figure_table import read_limit
from simaccel.study.figures import (
    FRONTIER,
    figures_of,
    frontier,
    limit_of,
    record_of,
    run_figures,
    static_figures,
)
from simaccel.study.points import (
    Figures,
    Point,
    StudyRow,
    WeightedWorkload,
    base_point,
    chips_alike,
)
from simaccel.study.runs import make_record
from simaccel.study.space import DesignSpace
from simaccel.workload import gemm
from simaccel.workload.language.build import transformer
from tests.data_files import data_beside
from tests.refusals import refusal_of
from tests.rows import row_with_run
from tests.small_pods import SMALL, small_pod

DATA = data_beside(__file__)

NUMBERS = st.one_of(st.none(), st.integers(0, 3))
POINTS = st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS), max_size=12)


def _record(cycles: int, dram: float, mac: float, buffer: int) -> dict[str, Any]:
    energy = {"dram": dram, "mac": mac}
    return {
        "cycles": cycles,
        "bound_cycles": cycles - 1,
        "ideal_cycles": 10 * cycles / 16,
        "energy_pj": energy,
        "dram_bytes": 3 * cycles,
        "dram_read_bytes": 2 * cycles,
        "dram_write_bytes": cycles,
        "dram_weights_bytes": cycles,
        "dram_activations_bytes": 2 * cycles,
        "dram_cache_bytes": 0,
        "dram_bound_bytes": 2 * cycles,
        "dram_compulsory_bytes": cycles,
        "footprint_bytes": buffer,
        "resident_bytes": 7 * cycles,
        "memory_share": cycles / 200,
        "limit": "array" if cycles > 60 else "sfu",
    }


def test_workloads_count_as_often_as_they_weigh() -> None:
    """At 1 GHz: 2 x 100 + 3 x 50 cycles; toy has 16 MACs a cycle."""
    work = gemm(m=9, k=7, n=5)
    space = DesignSpace(
        (load_accelerator("toy"),), (WeightedWorkload(work, 2), WeightedWorkload(work, 3))
    )
    (design,) = space.designs([0])
    found = figures_of(design, [_record(100, 40, 60, 512), _record(50, 20, 30, 700)])
    assert found["cycles"] == 350
    assert found["bound_cycles"] == 350 - 2 - 3
    assert found["seconds"] == 350e-9
    assert found["energy_pj"] == 2 * 100 + 3 * 50
    assert found["edp_js"] == pytest.approx(350e-12 * 350e-9)
    assert found["power_mw"] == pytest.approx(1.0)  # 350 pJ in 350 ns
    assert found["chip_power_mw"] == pytest.approx(0.6)
    assert found["footprint_bytes"] == 700
    assert found["memory_share"] == 0.5  # of the fuller run
    assert found["dram_bytes"] == 3 * 350
    assert (found["dram_read_bytes"], found["dram_write_bytes"]) == (2 * 350, 350)
    assert (found["dram_bound_bytes"], found["dram_compulsory_bytes"]) == (2 * 350, 350)
    assert limit_of([_record(50, 20, 30, 700), _record(100, 40, 60, 512)]) == "array"
    assert found["utilisation"] == pytest.approx(10 / 16)
    assert found["area_mm2"] == pytest.approx((16 * 1239.5 + 1024 * 8.87 + 4 * 11884) * 1e-6)


def test_energy_and_what_follows_from_it_are_unknown_where_nothing_has_a_price() -> None:
    space = DesignSpace((load_accelerator("toy"),), (WeightedWorkload(gemm(m=9, k=7, n=5)),))
    (design,) = space.designs([0])
    for dram in (0.0, float("nan")):
        found = figures_of(design, [_record(100, dram, 0, 512)])
        names = ("energy_pj", "edp_js", "power_mw", "chip_power_mw", "energy_per_token_pj")
        assert {name: found[name] for name in names} == dict.fromkeys(names)


def _better(one: tuple[int | None, ...], other: tuple[int | None, ...]) -> bool:
    a, b = ([10**9 if v is None else v for v in each] for each in (one, other))
    return all(x <= y for x, y in zip(a, b, strict=True)) and a != b


@given(points=POINTS)
def test_the_frontier_is_what_nothing_is_better_than(points: list[tuple[int | None, ...]]) -> None:
    figures: list[Figures] = [dict(zip(FRONTIER, one, strict=True)) for one in points]
    expected = [not any(_better(other, one) for other in points) for one in points]
    assert frontier(figures) == expected


@pytest.mark.parametrize(
    ("text", "holding", "failing"),
    [
        ("area_mm2<=16", 16.0, 16.1),
        ("power_mw < 450", 449.9, 450.0),
        ("footprint_bytes<=1MiB", 2**20, 2**20 + 1),
        ("utilisation>=0.5", 0.5, 0.49),
        ("cycles>1e3", 1001, 1000),
    ],
)
def test_a_limit_holds_from_one_side(text: str, holding: float, failing: float) -> None:
    limit = read_limit(text)
    assert limit.holds({limit.figure: holding})
    assert not limit.holds({limit.figure: failing})
    assert not limit.holds({limit.figure: None})


@pytest.mark.parametrize(("text", "said"), DATA["limits"])
def test_what_is_no_limit_is_refused(text: str, said: str) -> None:
    assert refusal_of(read_limit, text).startswith(f"command line: --where: {said}")


def test_all_signs_are_read() -> None:
    for sign, space in product(("<=", ">=", "<", ">"), ("", " ")):
        assert str(read_limit(f"cycles{space}{sign}{space}5")) == f"cycles{sign}5"


def _stored_record(cycles: int, *memories: dict[str, int | None]) -> dict[str, Any]:
    """Return what is stored of a run on 4 chips that are alike."""
    run = {
        "cycles": cycles,
        "utilisation": 0.5,
        "energy_pj": {"mac": 3.0, "dram": 5.0},
        "bytes": {"dram": {"read": {"A": 8, "B": 4}, "write": {"C": 2}}},
        "dram_by_class": {"weights": 8, "activations": 6, "cache": 0},
        "dram_bound": {"bound_bytes": 9, "compulsory_bytes": 7},
        "bound": {"cycles": cycles - 1},
        "footprint_bytes": 32,
        "memories": [{"by_part": {}, **memory} for memory in memories],
        "limit": {"name": "dram"},
        "chip_count": 4,
    }
    return record_of(run)


def test_energy_power_area_and_tokens_are_of_all_chips_and_rates_of_one_or_a_user() -> None:
    """470 cycles at 940 MHz, 0.5 us: a token for each of 8 users, on 4 chips of 8 pJ each."""
    decode = transformer(SMALL, phase="decode", kv_len=8, batch=8, scope="model")
    found = figures_of(base_point(decode, small_pod(4)), [_stored_record(470)])
    expected = {
        "energy_pj": 4 * 8.0,
        "power_mw": 4 * 8e-9 / 500e-9,
        "chip_power_mw": 4 * 3e-9 / 500e-9,
        "edp_js": 32e-12 * 500e-9,
        "tokens_per_second": 16e6,
        "tokens_per_second_per_chip": 4e6,
        "tokens_per_second_per_user": 2e6,
        "energy_per_token_pj": 4.0,
        "dram_bytes": 14,
        "dram_read_bytes": 12,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    row = StudyRow("flat", result={}, figures=found | {"area_mm2": 8.0}, chips=4)
    assert area_lines([row]) == ["area: 8.00 mm2 (4 chips)"]
    prefill = transformer(SMALL, phase="prefill", prompt=8, batch=8, scope="model")
    found = figures_of(base_point(prefill, small_pod(4)), [_stored_record(470)])
    row = replace(row, figures=found)
    columns = study_columns("tokens_per_second", "tokens_per_second_per_user")
    assert [column.cell(row) for column in columns] == ["128,000,000", "unknown"]


def test_a_run_of_each_place_counts_as_often_as_the_place_has_chips() -> None:
    assert chips_alike({}) == 1
    assert chips_alike({"chip_count": 4}) == 4
    assert chips_alike({"chip_count": 4, "chips_alike": 2}) == 2
    chip = load_accelerator("toy")
    assert static_figures(chip) == {"area_mm2": pytest.approx(0.07645088)}


def test_idle_chips_leak_as_those_that_work() -> None:
    """Of 7 chips 4 have a row each; a cycle of each of the 7 costs 100 pJ more."""
    energies = []
    for leakage in (0, 100):
        pod = small_pod(7)
        energy = pod.energy.model_copy(update={"leakage_pj_per_cycle": leakage})
        pod = pod.model_copy(update={"energy": energy})
        result = simulate(gemm(4, 8, 2), pod, "naive")
        assert [len(place) for place in result.pod.places] == [4]
        energies.append(run_figures(result)["energy_pj"] or 0)
    before, after = energies
    assert after == pytest.approx(before + 7 * 100 * result.run.cycles)


def test_a_decode_step_has_users_and_a_pod_the_area_of_its_chips() -> None:
    decode = transformer(SMALL, phase="decode", kv_len=8, batch=4, scope="model")
    pod = small_pod(4)
    point = Point(
        accelerator=pod,
        loads=(WeightedWorkload(decode),),
        dataflow="strips",
        options=Options(tensor_parallel=4),
    )
    row = row_with_run(point)
    assert row.chips == 4
    assert row.figures is not None
    each, every = 1 / row.run["seconds"], 4 / row.run["seconds"]
    assert row.figures["tokens_per_second_per_user"] == pytest.approx(each)
    assert row.figures["tokens_per_second"] == pytest.approx(every)
    one = static_figures(small_pod(1))["area_mm2"]
    assert one is not None
    assert static_figures(pod)["area_mm2"] == pytest.approx(4 * one)


@pytest.mark.parametrize(
    ("needed", "expected"),
    [
        ([(24, 100), (1, 100)], (True, "yes, 24%", False)),
        ([(25, 100), (1, 100)], (True, "yes, 25%", True)),
        ([(100, 100), (1, 2)], (True, "yes, 100%", True)),
        ([(1, 100), (2431, 200)], (False, "no, 1,216%", True)),
        ([(9, None)], (None, "-", False)),
    ],
)
def test_a_row_fits_if_its_fullest_memory_does(
    needed: list[tuple[int, int | None]], expected: tuple[bool | None, str, bool]
) -> None:
    memories: list[dict[str, int | None]] = [
        {"needed_bytes": n, "capacity_bytes": capacity} for n, capacity in needed
    ]
    row = StudyRow("flat", figures={"memory_share": _stored_record(1, *memories)["memory_share"]})
    assert (row.fits, fits_text(row), shows_fits([row])) == expected


def test_what_overflows_does_not_run_and_says_no() -> None:
    """A GEMM of 9 x 7 by 7 x 5 values of 2 bytes: 2 (63 + 35 + 45) = 286 bytes."""

    def point(capacity: int, options: Options) -> Point:
        chip = load_accelerator("toy", [f"dram.capacity_bytes={capacity}B"])
        loads = (WeightedWorkload(gemm(m=9, k=7, n=5)),)
        asked = Point(accelerator=chip, loads=loads, dataflow="naive", options=options)
        return asked.place_workloads()

    def row(capacity: int, options: Options) -> StudyRow:
        return row_with_run(point(capacity, options))

    rows = [row(285, Options()), row(286, Options()), row(285, Options(allow_overflow=True))]
    assert [one.fits for one in rows] == [False, True, False]
    assert [fits_text(one) for one in rows] == ["no", "yes, 100%", "no, 101%"]
    text = "gemm does not fit the DRAM of toy: weights 70 B, activations 216 B of 285 B"
    held = f"{text}; at least 2 chips hold it"
    assert rows[0].problem == f"{held}; --set allow-overflow runs it all the same"
    brief = make_record(point(285, Options()))["problem"]
    assert brief == held  # of an exploration, which has no such setting
    assert "fits" in [column.header for column in comparison_table(rows).columns]


def test_a_stage_of_a_pipeline_has_the_caches_of_all_micro_batches() -> None:
    """K and V of a layer: 2 x 8 sizes of 2 bytes, of 4 sequences after 9 tokens (8 and its own)."""
    decode = transformer(SMALL, phase="decode", kv_len=8, batch=4, scope="model")
    point = Point(
        accelerator=small_pod(4, "topology=switch"),
        loads=(WeightedWorkload(decode),),
        dataflow="strips",
        options=Options(tensor_parallel=2),
        stages=2,
        micro_batches=2,
    )
    (dram,) = row_with_run(point.place_workloads()).run["memories"]
    layers = SMALL.layers // 2
    assert dram["by_part"]["cache"] == layers * 4 * 9 * 2 * 8 * 2
    assert dram["needed_bytes"] == sum(dram["by_part"].values())


def test_what_a_search_leaves_is_collected_before_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run searches; the others recall its mapping, so that they leave as much."""
    point = replace(base_point(gemm(m=9, k=7, n=5), load_accelerator("toy")), dataflow="naive")
    left = []
    gc.disable()
    try:
        for most in (10**9, 10**9, 0):
            monkeypatch.setattr("simaccel.study.runs._MANY_BLOCKS", most)
            gc.collect()
            row_with_run(point)
            left.append(gc.collect())
    finally:
        gc.enable()
    assert left[2] < left[1] / 10
