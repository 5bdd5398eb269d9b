"""docs/trust.md: each figure stands in a CSV of `validation/`, each command can be given."""

import csv
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from validation.blame.run import spearman
from validation.bound.draws import WHOLE

REPOSITORY = Path(__file__).parents[1]
PAGE = (REPOSITORY / "docs" / "trust.md").read_text(encoding="utf-8")
Rows = list[dict[str, str]]


def _rows(name: str) -> Rows:
    with (REPOSITORY / "validation" / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _errors(rows: Rows, ours: str, reference: str) -> list[float]:
    return [abs(float(row[ours]) / float(row[reference]) - 1) for row in rows]


def _spread(errors: list[float], digits: int = 1) -> str:
    median, most = (100 * np.quantile(errors, share) for share in (0.5, 0.9))
    worst = f"worst {100 * max(errors):.0f}%"
    return f"median {median:.{digits}f}%, 90% within {most:.1f}%, {worst}"


def _rtl(rows: Rows) -> list[str]:
    gemms = {tuple(row[name] for name in ("rows", "cols", "g", "m", "k", "n")) for row in rows}
    arrays = {(row["rows"], row["cols"]) for row in rows}
    kinds = sum(name.endswith(("_full", "_used")) for name in rows[0])
    side = max(int(n) for one in arrays for n in one)
    return [
        (
            f"{len(gemms)} GEMMs on {len(arrays)} arrays of up to {side} rows and columns, "
            f"{kinds * len(rows):,} runs"
        )
    ]


def _scalesim_rtl(rows: Rows) -> list[str]:
    shapes = {tuple(row[name] for name in ("rows", "cols", "g", "m", "k", "n")) for row in rows}
    arrays = {(row["rows"], row["cols"]) for row in rows}
    folds = sum(int(row["folds"]) for row in rows)
    assert all(int(row["rtl"]) - int(row["ours"]) == int(row["reason"]) for row in rows)
    return [
        f"{len(rows)} GEMMs of {len(shapes)} shapes, {folds:,} folds on {len(arrays)} arrays",
        "without a reason 0",
    ]


def _sequences(rows: Rows) -> list[str]:
    names = [name for name in rows[0] if f"{name}_machine" in rows[0]]
    runs = [(int(row[n]), int(row[f"{n}_machine"]), n) for row in rows for n in names]
    assert all(machine == rtl for rtl, machine, name in runs if name.startswith("none"))
    later = [machine - rtl for rtl, machine, _ in runs]
    share, cycles = max((machine / rtl - 1, rtl) for rtl, machine, _ in runs)
    sequences = len(rows) // len({row["stationarity"] for row in rows})
    arrays = len({(row["rows"], row["cols"]) for row in rows})
    return [
        f"{sequences} sequences in {len(runs) // sequences} ways on {arrays} arrays",
        f"else {min(later)} to {max(later)} cycles later",
        f"{100 * share:.0f}% at most, of a sequence of {cycles} cycles",
    ]


def _scalesim(rows: Rows) -> list[str]:
    return [f"CALC mode, {sum(row['status'] == 'ok' for row in rows)} runs"]


def _silicon(rows: Rows) -> list[str]:
    machine, tool, analysis = (
        100 * np.mean(_errors(rows, name, "silicon")) for name in ("machine", "tool", "analysis")
    )
    assert all(float(row["machine"]) < float(row["silicon"]) for row in rows)
    return [
        (
            f"{machine:.1f}% in the mean, always faster than the chip; "
            f"MAESTRO's tool {tool:.1f}%, our reading of it {analysis:.1f}%"
        )
    ]


def _directives(rows: Rows) -> list[str]:
    columns = [f"{name}_machine_minus_analysis" for name in ("input", "filter", "output")]
    equal = sum(all(row[name] == "0" for name in columns) for row in rows)
    return [
        f"that analysis, {len(rows):,} runs",
        f"0 in {equal:,}; the other {len(rows) - equal} have",
    ]


def _toys(rows: Rows) -> list[str]:
    assert all(row["cycles"] == row["timeloop_cycles"] for row in rows)
    worst = max(_errors(rows, "energy_uj", "timeloop_energy_uj"))
    return [f"Timeloop, {len(rows)} toy problems", f"cycles 0; energy up to {100 * worst:.1f}%"]


def _alexnet(rows: Rows) -> list[str]:
    ours, tool = "timeloop_mapping_in_our_model_edp", "timeloop_edp_j_cycles"
    more = [100 * (float(row[ours]) / float(row[tool]) - 1) for row in rows]
    return [f"{min(more):.1f}% to {max(more):.1f}% more energy-delay here"]


def _curves(rows: Rows) -> list[str]:
    assert {row["equal"] for row in rows} == {"True"}
    return [f"{len(rows)} curves of Orojenesis' tool"]


def _throughput(rows: Rows) -> list[str]:
    held_out = sum(row["group"] == "held out" for row in rows)
    return [
        f"{len(rows):,} throughputs, {held_out} of them held out",
        _spread(_errors(rows, "efficiency", "efficiency_reference")),
    ]


def _latency(rows: Rows) -> list[str]:
    spread = _spread(_errors(rows, "latency_ns", "latency_ns_reference"))
    return [f"the same, {len(rows)} means of reads", spread]


def _tiles(rows: Rows) -> list[str]:
    return [f"the same, {len(rows)} tiles", _spread(_errors(rows, "ns", "ns_reference"))]


def _onnx(rows: Rows) -> list[str]:
    read = [row for row in rows if row["read"] == "True"]
    assert all(row["macs"] == row["macs_counted"] for row in read)
    return [f"a count by outputs, {len(read)} models of others"]


def _rates(rows: Rows) -> list[str]:
    ratios = [float(row["published_over_simulated"]) for row in rows]
    return [f"{min(ratios):.2f} to {max(ratios):.2f} times ours"]


def _gaps(rows: Rows) -> list[str]:
    alone = [row for row in rows if row["cycles"] != "0" and row["group"] != WHOLE]
    gaps = [float(row["gap"]) for row in alone]
    assert min(gaps) >= 0
    return [f"{_spread(gaps, 2)} of {len(gaps):,} groups that dataflows pick"]


def _small_gaps(rows: Rows) -> list[str]:
    gaps = [float(row["gap"]) for row in rows]
    assert min(gaps) >= 0
    return [f"{_spread(gaps)} of {len(gaps):,} small points that wait"]


def _fast_forward(rows: Rows) -> list[str]:
    assert rows[0]["different"] == "0"
    return [f"the run event by event, {int(rows[0]['cases']):,} cases"]


def _blame(rows: Rows) -> list[str]:
    booked, saved = ([float(row[key]) for row in rows] for key in ("booked", "saved"))
    programs = len({row["seed"] for row in rows})
    return [f"{programs:,} random programs", f"rank correlation {spearman(booked, saved):.2f}"]


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("rtl/cycles.csv", _rtl),
        ("rtl/sequences.csv", _sequences),
        ("rtl_scalesim/cycles.csv", _scalesim_rtl),
        ("scalesim/scalesim_v3_calc.csv", _scalesim),
        ("maestro/fig_9.csv", _silicon),
        ("maestro/machine.csv", _directives),
        ("ruby/toys.csv", _toys),
        ("ruby/fig_9.csv", _alexnet),
        ("orojenesis/reference.csv", _curves),
        ("dram/throughput.csv", _throughput),
        ("dram/latency.csv", _latency),
        ("dram/tiles.csv", _tiles),
        ("onnx/models.csv", _onnx),
        ("language_models/rates.csv", _rates),
        ("bound/points.csv", _gaps),
        ("bound/small.csv", _small_gaps),
        ("fast_forward/summary.csv", _fast_forward),
        ("blame/blame.csv", _blame),
    ],
)
def test_the_page_says_what_the_csv_says(name: str, figures: Callable[[Rows], list[str]]) -> None:
    for text in figures(_rows(name)):
        assert text in PAGE


def test_every_command_of_the_page_has_its_file() -> None:
    modules = re.findall(r"`python -m ([\w.]+)`", PAGE)
    tests = [path for found in re.findall(r"`pytest ([^`]+)`", PAGE) for path in found.split()]
    assert modules
    assert tests
    for path in [*(f"{module.replace('.', '/')}.py" for module in modules), *tests]:
        assert (REPOSITORY / path).is_file(), path
