"""Ruby's exhibits, small: what the paper says for certain, and Timeloop's mappings in our model."""

from __future__ import annotations

import csv

import pytest

from validation.ruby.exhibits import FIG7, fig_7, fig_8, figures, layers, table_1, toys
from validation.ruby.problems import best, edp
from validation.ruby.run import HERE, problems_of, schedules
from validation.ruby.timeloop import in_our_model, results


@pytest.fixture(scope="module")
def searched() -> list[dict[str, object]]:
    return [figures(case, best(case.goal)) for case in toys()]


def test_figures_4_and_5(searched: list[dict[str, object]]) -> None:
    """100 elements on 6 PEs: 20 cycles, with remainders 17."""
    cycles = {row["mapspace"]: row["cycles"] for row in searched if row["case"] == "D=100, 6 PEs"}
    assert cycles == {"pfm": 20, "ruby-s": 17}


def test_figures_4_and_5_as_the_machine_runs_them() -> None:
    """Each element once; of 6 PEs one is idle always, or two in the last cycle."""
    perfect, ruby = (work for _, _, work in schedules())
    for found in (perfect, ruby):
        assert sorted(one.element for one in found) == list(range(100))
        assert len({(one.cycle, one.pe) for one in found}) == 100
    assert {one.pe for one in perfect} == set(range(5))
    assert max(one.cycle for one in perfect) + 1 == 20
    assert {one.pe for one in ruby if one.cycle == 16} == set(range(4))


def test_no_mapping_of_timeloop_s_is_better_in_our_model(searched: list[dict[str, object]]) -> None:
    assert len(searched) == 12
    assert problems_of(searched, []) == []
    for row in searched:
        assert row["timeloop_mapping_fits_ours"] is True
        assert (
            row["cycles"] == row["timeloop_cycles"] == row["timeloop_mapping_in_our_model_cycles"]
        )
        assert row["edp_j_cycles"] == row["timeloop_mapping_in_our_model_edp"]


def test_the_cost_models_agree_on_energy(searched: list[dict[str, object]]) -> None:
    """Within 3%: Timeloop truncates MACs with remainders and doesn't read sums on their way out."""
    for row in searched:
        assert row["energy_uj"] == pytest.approx(row["timeloop_energy_uj"], rel=0.03)


def test_a_worse_search_would_be_noticed(searched: list[dict[str, object]]) -> None:
    odd = [{**searched[0], "machine_differs": "other cycles"}]
    assert "other cycles" in problems_of(odd, [])
    worse = [row | {"edp_j_cycles": 1.1 * float(str(row["edp_j_cycles"]))} for row in searched]
    assert len(problems_of(worse, [])) == len(worse)
    counted = table_1((3,))
    counted[0]["ruby"] = 7
    assert "table I, rank 3, ruby: the two counts differ" in problems_of(searched, counted)


def test_table_i_both_ways() -> None:
    rows = table_1((3, 100, 127, 4096))
    assert problems_of([], rows) == ["figures 4 and 5: cycles [] instead of 20 and 17"]
    assert [row["pfm"] for row in rows][:2] == [3, 24]
    for row in rows:
        assert row["pfm"] <= row["ruby-s"] <= row["ruby"] <= row["equation 5, nothing pruned"]  # type: ignore[operator]


def test_fig_8_at_the_sizes_that_the_paper_names() -> None:
    by_size = {row["d"]: row for row in fig_8((113, 127, 128))}
    assert [by_size[d]["pfm cycles"] for d in (113, 127, 128)] == [113, 127, 8]
    assert [by_size[d]["ruby-s cycles"] for d in (113, 127, 128)] == [8, 8, 8]
    assert [by_size[d]["ineffectual macs"] for d in (113, 127, 128)] == [15, 1, 0]
    assert by_size[113]["padded over ruby-s"] == pytest.approx(128 / 113, rel=1e-5)
    assert by_size[128]["pfm over ruby-s"] == 1


def test_fig_7_falls_and_ends_in_order() -> None:
    rows = fig_7(repeats=2, mappings=300)
    for name in FIG7:
        curves = {}
        for strategy in ("pfm", "ruby-s"):
            chosen = [r["edp"] for r in rows if (r["case"], r["mapspace"]) == (name, strategy)]
            assert chosen == sorted(chosen, reverse=True)  # type: ignore[type-var]
            curves[strategy] = chosen


def test_timeloop_s_mappings_of_alexnet_fit() -> None:
    for case in layers():
        theirs = results()[case.timeloop]
        costs = in_our_model(case.goal, theirs["mapping"])
        assert costs.cycles == int(theirs["cycles"])
        assert costs.valid
        assert costs.macs == 83_980_800
        assert costs.energy_pj * 1e-6 == pytest.approx(float(theirs["energy_uJ"]), rel=0.05)


def test_the_committed_exhibits_are_as_they_have_to_be() -> None:
    with (HERE / "fig_9.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = {row["case"]: float(row["edp_j_cycles"]) for row in rows}
    assert found["Ruby-S (c, d)"] <= found["hand-made (a): a row of Q"] < found["PFM (b)"]
    cases = {case.name: case for case in layers()}
    assert set(cases) == set(found)
    assert edp(best(toys()[0].goal)) > 0
