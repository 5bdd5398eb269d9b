"""Figures, limits and the frontier, against sums and comparisons made by hand."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.errors import InputError
from simaccel.importers.accelerators import load_accelerator
from simaccel.study.figures import FRONTIER, figures_of, frontier, limit_of
from simaccel.study.limits import read_limit
from simaccel.study.points import Figures, WeightedWorkload
from simaccel.study.space import DesignSpace
from simaccel.workload import gemm

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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("area_mm2", "got 'area_mm2'; allowed: FIGURE<=NUMBER (or <, >=, >), as in area_mm2<=16"),
        ("aera_mm2<=1", "got 'aera_mm2'; did you mean 'area_mm2'?"),
        ("power_mw<=much", "got 'much'; allowed: a number after power_mw<="),
        ("power_mw<=nan", "got 'nan'; allowed: a number after power_mw<="),
        (
            "footprint_bytes<=1MB",
            "got '1MB'; allowed: a number, perhaps with a unit (64 KiB) after",
        ),
        ("<=4", "got '<=4'; allowed: FIGURE<=NUMBER"),
    ],
)
def test_what_is_no_limit_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read_limit(text)
    assert str(caught.value).startswith(f"command line: --where: {said}")


def test_all_signs_are_read() -> None:
    for sign, space in product(("<=", ">=", "<", ">"), ("", " ")):
        assert str(read_limit(f"cycles{space}{sign}{space}5")) == f"cycles{sign}5"
