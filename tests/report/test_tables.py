"""Tables are whole at 100 columns, even for long runs."""

from dataclasses import replace

import pytest
from rich.console import Console, RenderableType

from simaccel.experiment.check import OperatorCheck
from simaccel.experiment.run import ExperimentResult, result_json, simulate
from simaccel.importers.accelerators import load_accelerator
from simaccel.report.catalogues import whole_line
from simaccel.report.comparison import comparison_table, speedups, terms_lines
from simaccel.report.estimates import estimate_table
from simaccel.report.results import checked_table, engines_table, operators_table
from simaccel.report.titles import experiment_title
from simaccel.study.figures import run_figures
from simaccel.study.points import StudyRow
from simaccel.workload import ModelDimensions, Workload, attention, conv2d, network

SMALL = ModelDimensions(hidden=6, heads=3, head_size=5, ff_size=7)


@pytest.fixture(scope="module")
def result() -> ExperimentResult:
    """Run a block whose cycles are then taken times ten million."""
    workload = attention(SMALL, batch=1, seq_len=5)
    done = simulate(workload, load_accelerator("toy"), "flat-h")
    run = done.run
    operators = tuple(replace(one, cycles=one.cycles * 10**7) for one in run.operators)
    return replace(done, run=replace(run, cycles=run.cycles * 10**7, operators=operators))


def printed(table: RenderableType, width: int) -> list[str]:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(table)
    return [line.rstrip() for line in capture.get().splitlines() if line.strip()]


@pytest.mark.parametrize("width", [100, 140])
def test_one_line_a_row(result: ExperimentResult, width: int) -> None:
    names = [one.name for one in result.run.operators]
    assert len(printed(operators_table(result), width)) == 2 + len(names) + 1
    for table in (estimate_table(result.prediction, result.accelerator), engines_table(result)):
        lines = printed(table, width)
        assert not any("…" in line for line in lines)
        assert max(map(len, lines)) <= width


def test_the_total_is_the_runs(result: ExperimentResult) -> None:
    last = printed(operators_table(result), 100)[-1].split()
    assert last[:2] == ["total", f"{result.run.cycles:,}"]


def test_speedup_is_against_the_first_of_the_length(result: ExperimentResult) -> None:
    run, figures = result_json(result), run_figures(result)
    slow = {**run, "cycles": 2 * run["cycles"]}
    rows = [
        StudyRow("naive", 512, slow, figures=figures | {"cycles": slow["cycles"]}),
        StudyRow("flat", 512, run, figures=figures),
        StudyRow("naive", 1024, None, "does not fit", 2),
        StudyRow("flat", 1024, run, figures=figures),
    ]
    assert speedups(rows) == [1, 2, None, None]
    lines = printed(comparison_table(rows), 100)
    assert sum("does not run" in line for line in lines) == 1
    assert lines[2].split()[:2] == ["512", "naive"]


def test_what_stays_on_chip_is_said() -> None:
    lines = printed(
        checked_table([OperatorCheck("L", 0, 9, 0.0), OperatorCheck("A", 9, 9, 1e-16)]), 100
    )
    assert "stays on chip" in lines[2]
    assert "1.0e-16" in lines[3]


@pytest.mark.parametrize(
    ("workload", "title"),
    [
        (
            network("alexnet", batch=4, layer="conv2"),
            "alexnet on toy, layer conv2, batch 4, int16, dataflow ruby",
        ),
        (
            conv2d(m=1, c=2, p=3, q=4, r=5, s=6, stride=(2, 1)),
            "conv on toy, N=1, G=1, M=1, C=2, P=3, Q=4, R=5, S=6, stride 2x1, int16, dataflow ruby",
        ),
    ],
)
def test_a_title_says_which_layer_and_convolution(workload: Workload, title: str) -> None:
    assert experiment_title(workload, load_accelerator("toy"), "ruby") == title


def test_an_estimate_of_ones_own_has_the_terms_of_the_bound_and_the_waits_beside_it() -> None:
    """10 + 70 + 5 cycles that no run is below, and 15 of 100 in which the array waits."""
    bound = {
        "terms": {"fill": 10, "array": 70, "drain": 5},
        "waiting_by_cause": {"noc": 12, "dram_latency": 3},
    }
    row = StudyRow("flat", result={"cycles": 100, "bound": bound}, estimate_cycles=80.0)
    (line,) = terms_lines([row, StudyRow("flex", result={"cycles": 90})])
    assert line.startswith("flat: estimate 80; bound 85 = array 70 + fill 10 + drain 5; ")
    assert line.endswith("; waits 15 = NoC 12 + DRAM latency 3")
    still = {"terms": {"array": 7}, "waiting_by_cause": {}}
    row = StudyRow("flat", result={"cycles": 7, "bound": still}, estimate_cycles=8.0)
    assert terms_lines([row]) == ["flat: estimate 8; bound 7 = array 7; waits 0"]


@pytest.mark.parametrize(
    ("name", "biases", "share"),
    [
        ("alexnet", 96 + 256 + 384 + 384 + 256 + 4096 + 4096 + 1000, "0.0%"),
        ("mobilenet_v2", 17056 + 1000, "1.0%"),  # batch norms, classifier
        ("resnet50", 26560 + 1000, "0.2%"),
    ],
)
def test_biases_are_counted_by_outputs(name: str, biases: int, share: str) -> None:
    line = whole_line(network(name, scope="model"))
    assert line.startswith(
        f"left out: {biases:,} biases or shifts of batch norms (of 4 bytes {share}"
    )
